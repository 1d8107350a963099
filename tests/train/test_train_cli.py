"""`graphzero train` and `graphzero demo` as people run them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

torch = pytest.importorskip("torch")
pytest.importorskip("typer")

from typer.testing import CliRunner  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.cli.app import app  # noqa: E402
from graphzero.train import load_checkpoint, save_checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

ROOT = Path(__file__).parents[2]
SMALL = ["--hidden", "8", "--fanouts", "3,2", "--batch-size", "64", "--memory", "128MB", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "data"
    gz.synthesize(path, nodes=1000, edges=5000, dim=8, classes=3, splits={"train": 0.4, "valid": 0.1, "test": 0.1})
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_it_trains_writes_a_report_and_prints_json(folder: Path, tmp_path: Path) -> None:
    report, saved = tmp_path / "r.html", tmp_path / "c.npz"
    done = run("train", folder, *SMALL, "--epochs", 2, "--report", report, "--checkpoint", saved, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert len(figures["epochs"]) == 2
    assert 0 <= figures["test_accuracy"] <= 1
    assert figures["stopped"] == "finished"
    assert "<svg" in report.read_text()
    assert saved.exists()


def test_ctrl_c_saves_and_says_how_to_go_on(spawn, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "c.npz"
    command = ["train", folder, *SMALL, "--checkpoint", saved]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = spawn(
        [sys.executable, "-m", "graphzero", *map(str, command), "--epochs", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("400 training seeds")
    assert process.stdout.readline().startswith("inputs: x (8 x float32)")
    assert process.stdout.readline().startswith("epoch   1")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"--checkpoint {saved} --epochs 100000 --resume" in errors
    epochs = len(load_checkpoint(saved).note["records"])
    done = run(*command, "--epochs", epochs + 1, "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["epochs"]) == epochs + 1


def test_a_saved_run_is_not_replaced_unless_asked(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "c.npz"
    command = ["train", folder, *SMALL, "--checkpoint", saved]
    assert run(*command, "--epochs", 2, "--json").exit_code == 0
    before = saved.read_bytes()
    refused = run(*command, "--epochs", 1)
    assert refused.exit_code != 0
    assert "--resume" in refused.output
    assert "--overwrite" in refused.output
    assert saved.read_bytes() == before
    assert run(*command, "--epochs", 1, "--overwrite", "--json").exit_code == 0
    assert len(load_checkpoint(saved).note["records"]) == 1


def test_resume_without_a_checkpoint_continues_the_newest_interrupted_run(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    splits = {"train": 0.4, "valid": 0.1, "test": 0.1}
    gz.synthesize(folder, nodes=500, edges=2000, dim=4, classes=3, splits=splits)
    for _ in range(2):
        assert run("train", folder, *SMALL, "--epochs", 1).exit_code == 0
    stopped = load_checkpoint(folder / "runs" / "1.npz")
    del stopped.note["result"]  # as after a kill
    save_checkpoint(folder / "runs" / "1.npz", stopped)
    done = run("train", folder, *SMALL, "--epochs", 3, "--resume")
    assert done.exit_code == 0, done.output
    assert "runs/1.npz, the newest interrupted run" in done.output
    assert len(load_checkpoint(folder / "runs" / "1.npz").note["records"]) == 3
    assert run("train", folder, *SMALL, "--resume").exit_code == 2  # all runs have ended
    assert not (folder / "runs" / "3.npz").exists()


def test_a_read_only_dataset_says_why_nothing_was_saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    done = run("train", folder, *SMALL, "--epochs", 1)
    assert done.exit_code == 0, done.output
    assert "the model was not saved, since the dataset is read-only (--checkpoint PATH)" in done.stdout
    assert "--no-save" not in done.output


def test_the_baseline_is_printed_next_to_the_scores(folder: Path) -> None:
    done = run("train", folder, *SMALL, "--epochs", 1, "--no-save")
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stdout.splitlines() if "test baseline" in line]
    labels, splits = (np.asarray(part) for part in (gz.Dataset(folder).labels, gz.Dataset(folder).splits["test"]))
    largest = np.bincount(labels[np.asarray(gz.Dataset(folder).splits["train"])]).argmax()
    assert f"accuracy {np.mean(labels[splits] == largest):.2%}: always the largest class of the training split" in line
    assert "--no-save" in done.stdout


def test_direction_chooses_the_edges_to_follow(tmp_path: Path) -> None:
    # Only what node 2k points to tells its class: with in-edges there is nothing to hear.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    seeds, tellers = np.arange(0, 400), np.arange(400, 800)
    x = np.concatenate([np.zeros(400), 2.0 * y - 1]).astype(np.float32).reshape(-1, 1)
    gz.Dataset.create(
        tmp_path / "ds",
        np.stack([seeds, tellers]),
        direction="both",
        features=x,
        labels=np.concatenate([y, np.full(400, -1)]),
        splits={"train": seeds[:200], "valid": seeds[200:]},
    )
    accuracy = {}
    for direction in ("in", "out"):
        done = run("train", tmp_path / "ds", *SMALL, "--epochs", 8, "--lr", 0.05, "--direction", direction, "--json")
        assert done.exit_code == 0, done.output
        accuracy[direction] = json.loads(done.stdout)["val_accuracy"]
    assert accuracy["out"] > 0.95
    assert accuracy["in"] < 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume"], "no interrupted run in"),
        (["--metric", "acc"], "did you mean 'accuracy'?"),
        (["--checkpoint", "c.npz", "--resume", "--overwrite"], "cannot be combined with --resume"),
        (["--direction", "both"], "expected in or out"),
        (["--direction", "out"], "direction 'out' is not in the file"),
        (["--fanouts", "3;2"], "such as 15,10"),
        (["--layers", "3"], "--fanouts has 2 numbers"),
        (["--model", "gat"], "expected one of 'sage', 'gcn'"),
        (["--memory", "50KB"], "raise --memory"),
        (["--device", "gpu"], "device is 'gpu', expected one such as 'cpu' or 'cuda'"),
        (["--checkpoint", str(ROOT / "README.md")], "README.md exists and is not a checkpoint"),
        (["--checkpoint", str(ROOT / "docs")], "docs is a folder, expected a file name for the checkpoint"),
        (["--report", str(ROOT / "docs")], "docs is a folder"),
    ],
)
def test_mistakes_take_one_line(folder: Path, arguments: list[str], message: str) -> None:
    done = run("train", folder, *SMALL, *arguments)
    assert done.exit_code in (1, 2)
    assert message in " ".join(done.output.replace("│", " ").split())
    assert "Traceback" not in done.output


def test_unexpected_errors_take_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr("graphzero.cli.info.is_dataset", fail)
    done = run("info", folder)
    assert done.exit_code == 1
    assert done.stderr.startswith("graphzero: error: out of luck (RuntimeError; graphzero --debug shows the traceback")


def test_the_demo_runs_small_and_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the runs it starts
    done = run("demo", "here", "--nodes", 20_000, "--epochs", 1, "--memory", "200MB")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("| memory 200MB") == 1
    assert done.stdout.count("| everything in RAM, no limit") == 1
    for word in ("test accuracy", "peak memory", "everything in RAM", "What next", "rm -r here"):
        assert word in done.stdout
    assert (tmp_path / "here" / "report.html").exists()
    Path("edges.csv").write_text("0,1\n1,2\n")
    lines = [line.split("  ")[1] for line in done.stdout.splitlines() if line.startswith("  graphzero ")]
    assert len(lines) == 4
    for line in lines:  # what it says to do next works, in the same folder
        after = run(*shlex.split(line)[1:])
        assert after.exit_code == 0, (line, after.output)


def test_a_demo_that_cleans_up_takes_only_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "thesis.txt").write_text("years of work")
    done = run("demo", tmp_path, "--nodes", 5_000, "--epochs", 1, "--memory", "100MB", "--clean")
    assert done.exit_code == 0, done.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_demo_leaves_other_datasets_alone(tmp_path: Path) -> None:
    gz.Dataset.create(tmp_path / "data", [(0, 1), (1, 0)])
    done = run("demo", tmp_path, "--nodes", 5_000)
    assert done.exit_code == 1
    assert "this dataset was not made by the demo; choose another folder" in done.stderr
    assert gz.Dataset(tmp_path / "data").num_nodes == 2
