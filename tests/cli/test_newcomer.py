"""The first hour with the command line: what a command says to do next works, and mistakes say what is missing."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.cli.app import app  # noqa: E402
from graphzero.train import Trainer, TrainOptions  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = TrainOptions(hidden=8, fanouts=[3, 2], batch_size=16, epochs=1, device="cpu", memory="64MB")
SPLITS = ["train", "train", "train", "valid", "test"]


def run(command: str) -> Any:
    program, *words = shlex.split(command)
    assert program == "graphzero"
    return CliRunner().invoke(app, words)


def run_next(output: str) -> Any:
    (line,) = [line for line in output.splitlines() if line.startswith("next: ")]
    return run(line.removeprefix("next: "))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Users with classes buy items: no edges end at users."""
    monkeypatch.chdir(tmp_path)
    users = [f"u{i},{i % 7},{i % 2},{SPLITS[i % 5]}" for i in range(40)]
    Path("users.csv").write_text("\n".join(["id,age,churn,split", *users]) + "\n")
    Path("items.csv").write_text("\n".join(["id,price", *(f"i{i},{i}.5" for i in range(20))]) + "\n")
    Path("orders.csv").write_text("\n".join(["user,item", *(f"u{i % 40},i{i % 20}" for i in range(80))]) + "\n")
    nodes = {"user": {"table": "users.csv", "label": "churn"}, "item": {"table": "items.csv"}}
    orders = {"type": ["user", "bought", "item"], "table": "orders.csv", "source": "user", "target": "item"}
    Path("shop.json").write_text(json.dumps({"nodes": nodes, "edges": [orders]}))
    return tmp_path


def test_what_import_says_to_do_next_works(shop: Path) -> None:
    made = run("graphzero import shop.json 'my shop' --reverse")
    assert made.exit_code == 0, made.output
    done = run_next(made.output)
    assert done.exit_code == 0, done.output
    predicted = run_next(done.output)
    assert predicted.exit_code == 0, predicted.output
    assert Path("predictions.csv").read_text().startswith("id,prediction,")


def test_an_import_that_cannot_be_trained_says_why_and_so_does_train(shop: Path) -> None:
    made = run("graphzero import shop.json shop")
    assert "next:" not in made.output
    expected = "no edges end at 'user', the node type to learn"
    for output in (made.output, run("graphzero train shop").output):
        assert expected in output
        assert "import with --reverse" in output


def test_splits_may_be_drawn_where_there_are_several_types(shop: Path) -> None:
    made = run("graphzero import shop.json shop --reverse --splits 50/25/25")
    assert made.exit_code == 0, made.output
    splits = gz.Dataset("shop").nodes["user"].splits
    assert {name: len(ids) for name, ids in splits.items()} == {"train": 20, "valid": 10, "test": 10}
    Path("shop.json").write_text(Path("shop.json").read_text().replace(', "label": "churn"', ""))
    refused = run("graphzero import shop.json other --splits 50/25/25").output
    assert "--splits is '50/25/25', drawn from nodes that have labels; no node type has labels" in refused


def plain(path: Path, **changes: Any) -> gz.Dataset:
    ids, rng = np.arange(60), np.random.default_rng(1)
    parts: dict[str, Any] = {
        "features": {"x": rng.standard_normal((60, 4)).astype(np.float32)},
        "labels": ids % 3,
        "splits": {"train": ids[:40], "valid": ids[40:50], "test": ids[50:]},
    }
    edges = np.stack([ids, (ids + 1) % 60])
    return gz.Dataset.create(path, edges, direction="in", **(parts | changes))


def test_names_of_splits_are_matched_or_listed(tmp_path: Path) -> None:
    ids = np.arange(60)
    data = plain(tmp_path / "a", splits={"training": ids[:40], "val": ids[40:50], "Testing": ids[50:]})
    assert Trainer(data, SMALL).fit().test_accuracy is not None
    data = plain(tmp_path / "b", splits={"first": ids[:40], "testing": ids[50:]})
    with pytest.raises(ValueError, match=r"no 'train' split, .* found: 'first' \(40\), 'test' \(10\)\. Name"):
        Trainer(data, SMALL)


def test_a_run_that_is_not_saved_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain(tmp_path / "data")
    assert "the model was not saved (--no-save)" in run("graphzero train data --epochs 1 --no-save").output


def test_a_dataset_without_features_trains_and_another_name_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain(tmp_path / "data", features={})
    assert run("graphzero train data --epochs 1").exit_code == 0
    plain(tmp_path / "other", features={"emb": np.ones((60, 4), np.float32)})
    assert "it has 'emb'; choose one with --feature" in run("graphzero train other").output


def test_a_loss_of_nan_names_the_rows_that_cause_it(tmp_path: Path) -> None:
    x = np.ones((60, 4), np.float32)
    x[7, 2] = np.nan
    x[9, 0] = np.inf
    data = plain(tmp_path / "data", features={"x": x})
    expected = r"feature 'x' has NaN or infinite values in 2 of \d+ rows of the batch, nodes (7, 9|9, 7)$"
    with pytest.raises(gz.GraphZeroError, match=expected):
        Trainer(data, dataclasses.replace(SMALL, batch_size=40, fanouts=[-1, -1])).fit()


def test_the_report_says_out_of_core_only_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = Trainer(plain(tmp_path / "data"), SMALL).fit()
    result.write_report(tmp_path / "in_ram.html")
    assert "out of core" not in (tmp_path / "in_ram.html").read_text()
    result.epochs[0] = dataclasses.replace(result.epochs[0], topology_bytes_read=5_000_000)
    result.write_report(tmp_path / "read.html")
    assert "out of core: 5 MB read from disk" in (tmp_path / "read.html").read_text()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict data --checkpoint run.npz --out pred.txt", "expected a name that ends in .csv, .parquet or .gd"),
        ("train data --checkpoint run.pt", "run.pt: the output is a .npz file; name it run.npz"),
        ("train data --report run.pdf", "run.pdf: the output is a .html file; name it run.html"),
        ("export data out.parquet", "out.parquet: the output is a folder, but .parquet is a file extension"),
        ("synth made.gl --nodes 100 --edges 200", "made.gl: the output is a folder, but .gl is a file extension"),
        ("import edges.csv made.gd", "made.gd: the output is a folder, but .gd is a file extension"),
        ("reorder data made.gl", "made.gl: the output is a folder"),
        ("compile edges.csv graph.csv", "ends in neither .gl (edges) nor .gd (rows)"),
    ],
)
def test_a_name_that_promises_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = plain(tmp_path / "data")
    Path("edges.csv").write_text("0,1\n1,2\n")
    if command.startswith("predict"):
        Trainer(data, SMALL, checkpoint="run.npz").fit()
    before = sorted(path.name for path in tmp_path.iterdir())
    done = run(f"graphzero {command}")
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_python_refuses_such_names_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"g\.npy: the output is a \.gl file; name it .*g\.gl"):
        gz.compile_graph([(0, 1)], tmp_path / "g.npy")
    with pytest.raises(ValueError, match=r"x\.npy: the output is a \.gd file; name it .*x\.gd"):
        gz.compile_features(np.ones((2, 2)), tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_split_with_missing_labels_is_reported_instead_of_a_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text("id,label,split,v\n0,x,train,1\n1,,train,2\n2,y,valid,3\n3,x,test,4\n")
    Path("edges.csv").write_text("src,dst\n0,1\n1,2\n2,3\n3,0\n")
    made = run("graphzero import edges.csv data --nodes nodes.csv")
    assert "next:" not in made.output
    assert "split 'train' has 1 nodes without a label" in made.output
