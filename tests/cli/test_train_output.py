"""What `graphzero train` prints: what the model sees, some of the epochs, and the result at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app
from graphzero.train import TrainOptions
from graphzero.train.progress import ShownProgress
from graphzero.train.records import EpochRecord

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = ["--hidden", "8", "--fanouts", "3,2", "--memory", "64MB"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ids = np.arange(60)
    parts: dict[str, Any] = {
        "features": {"x": np.ones((60, 4), np.float16)},
        "labels": ids % 3,
        "splits": {"train": ids[:40], "valid": ids[40:50], "test": ids[50:]},
    }
    gz.Dataset.create("data", np.stack([ids, (ids + 1) % 60]), direction="in", **parts)


def train(*words: str) -> str:
    done = CliRunner().invoke(app, ["train", "data", *SMALL, *words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("task", "learned"),
    [
        ("nodes", "labels: 3 classes | seeds: train 40, valid 10, test 10"),
        ("links", "links | seeds: train 54, valid 3, test 3"),
    ],
)
def test_what_the_model_sees_is_said_before_the_first_epoch(data: None, task: str, learned: str) -> None:
    before, _, _ = train("--epochs", "1", "--task", task).partition("epoch   1")
    assert f"inputs: x (4 x float16) | {learned}" in before
    assert "| fanouts 3,2 | memory 64MB" in before


def record(epoch: int) -> EpochRecord:
    counts = ("loss", "batches", "seeds", "eval_seconds", "bytes_read", "bytes_useful", "hit_rate")
    zeros: Any = dict.fromkeys(counts, 0)
    return EpochRecord(
        epoch=epoch, train_accuracy=0.5, val_accuracy=0.5, seconds=1, stages={}, bottleneck="nothing yet", **zeros
    )


def printed(epochs: int, best: int, capsys: pytest.CaptureFixture[str], until: int | None = None) -> list[str]:
    shown = ShownProgress()
    shown.begin(TrainOptions(epochs=epochs), "what the model sees")
    for epoch in range(until or epochs):
        shown.epoch(record(epoch), best=epoch == best)
    shown.close()
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "what the model sees"
    return [line.split()[1] + "*" * ("*" in line) for line in lines]


def test_of_many_epochs_the_first_every_nth_the_best_and_the_last_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(30, 7, capsys) == [f"{n}{'*' * (n == 8)}" for n in range(1, 31)]
    tens = list(map(str, range(10, 100, 10)))
    assert printed(150, 56, capsys, until=97) == ["1", *tens[:5], "57*", *tens[5:], "97"]
    assert len(printed(100_000, 3, capsys)) <= 23


def test_the_output_ends_with_the_result_and_the_next_commands(data: None) -> None:
    lines = train("--epochs", "40").splitlines()
    assert sum(line.startswith("epoch ") for line in lines) < 35
    after = lines[lines.index("Training stopped: all epochs done") + 1 :]
    names = [line.split("  ")[1] for line in after if line.startswith("  ")]
    assert names[:3] == ["epochs", "took", "peak memory"]
    assert names[4:6] + names[-1:] == ["validation accuracy", "test accuracy", "checkpoint"]
    assert "next: graphzero predict data --checkpoint data/runs/1.npz --out predictions.csv" in lines[-2:]
    assert len(json.loads(train("--epochs", "40", "--json"))["epochs"]) == 40
