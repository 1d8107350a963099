"""From a newcomer's files to a trained model: each command says what comes next, and what it says works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")
pytest.importorskip("yaml")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.args.progress import Lines
from graphzero.cli.app import app
from graphzero.train import predict

pytestmark = pytest.mark.usefixtures("one_torch_thread")

TRAIN = "--epochs 1 --hidden 8 --fanouts 3,2 --memory 64MB"


def run(command: str) -> Any:
    program, *words = shlex.split(command)
    assert program == "graphzero"
    return CliRunner().invoke(app, words)


def steps(output: str) -> list[str]:
    """Return the commands that an output says to run."""
    return [line[6:] for line in output.splitlines() if line.startswith(("next: ", "then: "))]


def run_steps(output: str) -> Any:
    """Run the commands that an output says to run; training is kept short."""
    done = None
    for command in steps(output):
        done = run(f"{command} {TRAIN}" if " train " in command else command)
        assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an edge list and a table of people, whose ids are strings."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "club"
    folder.mkdir()
    knows = [f"p{i},p{(i * 7 + 3) % 60}" for i in range(60)] + [f"p{i},p{(i + 1) % 60}" for i in range(60)]
    (folder / "knows.csv").write_text("\n".join(["src,dst", *knows]) + "\n")
    rows = [f"p{i},{20 + i % 50},{['Bern', 'Oslo', 'Rome'][i % 3]},{['no', 'yes'][i % 2]}" for i in range(60)]
    (folder / "people.csv").write_text("\n".join(["id,age,city,churned", *rows]) + "\n")
    return folder


def test_an_edge_list_and_its_nodes_lead_to_a_plain_dataset_with_labels(people: Path) -> None:
    found = run("graphzero inspect club").output
    assert "label: people.churned is a guess; --label chooses the column to learn; others: people.city" in found
    run_steps(found)
    data = gz.Dataset("club-dataset")
    assert not data.is_typed
    assert data.info["about"]["classes"] == ["no", "yes"]


def test_edges_with_columns_of_their_own_lead_to_a_typed_dataset_with_labels(people: Path) -> None:
    lines = (people / "knows.csv").read_text().splitlines()
    (people / "knows.csv").write_text("\n".join([f"{lines[0]},calls", *(f"{line},3" for line in lines[1:])]) + "\n")
    run_steps(run("graphzero inspect club").output)
    assert gz.Dataset("club-dataset").nodes["people"].num_classes == 2


@pytest.mark.parametrize("calls", [False, True])
def test_tables_without_a_label_lead_to_links(people: Path, calls: bool) -> None:
    (people / "people.csv").write_text("id,age\n" + "".join(f"p{i},{20 + i % 50}\n" for i in range(60)))
    if calls:
        lines = (people / "knows.csv").read_text().splitlines()
        (people / "knows.csv").write_text("\n".join([f"{lines[0]},calls", *(f"{line},3" for line in lines[1:])]) + "\n")
    found = run("graphzero inspect club").output
    assert "no column looks like a label; the links can be learned (--task links)" in found
    run_steps(found)


def test_the_label_may_be_any_column_of_the_node_table(people: Path) -> None:
    made = run("graphzero import club/knows.csv out --nodes club/people.csv --label city --splits 60/20/20")
    assert made.exit_code == 0, made.output
    assert gz.Dataset("out").info["about"]["classes"] == ["Bern", "Oslo", "Rome"]
    run_steps(made.output)
    missing = run("graphzero import club/knows.csv other --nodes club/people.csv --label town").output
    assert "no column 'town'" in missing
    assert "pass the table as --nodes" in run("graphzero import club/knows.csv other --label city").output


@pytest.mark.parametrize(
    "text",
    [
        "id,label\n" + "".join(f"p{i},{i % 3}\n" for i in range(0, 60, 2)),
        "".join(f"p{i},{'abc'[i % 3]}\n" for i in range(0, 60, 2)),
        "name;age;class\n" + "".join(f"p{i};7;{'abc'[i % 3]}\n" for i in range(0, 60, 2)),
    ],
)
def test_labels_by_original_id(people: Path, text: str) -> None:
    Path("y.csv").write_text(text)
    for nodes in ("", " --nodes club/people.csv"):
        made = run(f"graphzero import club/knows.csv out --labels y.csv --splits 60/20/20 --overwrite{nodes}")
        assert made.exit_code == 0, made.output
        data = gz.Dataset("out")
        assert data.num_nodes == 60
        labels = dict(zip(data.ids.to_original(range(60)), data.labels.tolist(), strict=True))
        assert labels == {f"p{i}": i % 3 if i % 2 == 0 else -1 for i in range(60)}


def test_labels_by_integer_id_may_leave_nodes_out_and_name_classes(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    (tmp_path / "y.csv").write_text("0,cat\n2,dog\n")
    data = gz.import_dataset(tmp_path / "e.csv", tmp_path / "a", labels=tmp_path / "y.csv").dataset
    assert data.labels.tolist() == [0, -1, 1, -1]
    (tmp_path / "y.csv").write_text("0,1\n5,0\n")
    data = gz.import_dataset(tmp_path / "e.csv", tmp_path / "b", labels=tmp_path / "y.csv").dataset
    assert data.labels.tolist() == [1, -1, -1, -1, -1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\np0,1\np0,2\n", "node p0 has two labels"),
        ("id,a,b\np0,1,2\n", "expected one column of labels next to 'id', found 'a', 'b'; set label="),
        ("id,label\np0,1\nnobody,2\n", "1 ids are not in the graph, such as 'nobody'"),
    ],
)
def test_label_tables_that_do_not_fit_are_refused(people: Path, text: str, message: str) -> None:
    Path("y.csv").write_text(text)
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset("club/knows.csv", "out", nodes="club/people.csv", labels="y.csv")


def test_what_is_missing_is_said_at_once_and_links_are_suggested(people: Path) -> None:
    made = run("graphzero import club/knows.csv out").output
    parts = ("no labels (import with --labels, or --nodes and --label COLUMN)", "no splits", "no features (optional")
    for output in (made, run("graphzero train out").output):
        assert all(part in output for part in parts)
        assert "--task links" in output
    run_steps(made)


def test_predictions_have_dates_where_the_table_has_them(people: Path) -> None:
    rows = [f"p{i},2024-01-{1 + i % 28:02},{i % 2}" for i in range(60)]
    (people / "people.csv").write_text("\n".join(["id,joined,label", *rows]) + "\n")
    lines = (people / "knows.csv").read_text().splitlines()
    (people / "knows.csv").write_text("\n".join([f"{lines[0]},calls", *(f"{line},3" for line in lines[1:])]) + "\n")
    for command in steps(run("graphzero inspect club").output)[:2]:
        assert run(command).exit_code == 0
    assert run(f"graphzero train club-dataset --time time {TRAIN}").exit_code == 0
    predicted = run("graphzero predict club-dataset --out p.csv")
    assert predicted.exit_code == 0, predicted.output
    head, *found = [line.split(",") for line in Path("p.csv").read_text().splitlines()]
    assert head[:2] == ["id", "time"]
    assert {row[0]: row[1] for row in found} == {row.split(",")[0]: row.split(",")[1] for row in rows}


def test_predict_shows_progress(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run("graphzero import club/knows.csv out --nodes club/people.csv --label churned --splits 60/20/20")
    assert run(f"{steps(made.output)[0]} {TRAIN}").exit_code == 0
    phases: dict[str, list[tuple[int, int]]] = {}
    data = gz.Dataset("out")
    predict(data, "out/runs/1.npz", "p.csv", progress=lambda phase, *at: phases.setdefault(phase, []).append(at))
    assert {phase: of[-1] for phase, of in phases.items()} == dict.fromkeys(["layer 1", "layer 2", "writing"], (60, 60))
    monkeypatch.setattr("graphzero.cli.terminal.renderer", lambda stream: Lines("", stream, every=0))
    assert "layer 1: 100% of 60" in run("graphzero predict out --out p.csv").output
