"""`graphzero train --nproc 2` as people run it: Ctrl-C, a rank that is killed, a rank that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

torch = pytest.importorskip("torch")
pytest.importorskip("typer")
if not torch.distributed.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)

from typer.testing import CliRunner  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.cli import launch  # noqa: E402
from graphzero.cli.app import app  # noqa: E402
from graphzero.train import load_checkpoint  # noqa: E402

ROOT = Path(__file__).parents[2]
SMALL = ["--hidden", "8", "--fanouts", "3,2", "--batch-size", "64", "--memory", "128MB", "--device", "cpu"]
FOREVER = ["--nproc", "2", "--epochs", "1000000"]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("launch") / "data"
    gz.synthesize(path, nodes=1000, edges=5000, dim=8, classes=3, splits={"train": 0.4, "valid": 0.1, "test": 0.1})
    return path


@pytest.fixture
def start(spawn: Start, folder: Path) -> Start:
    """Start a run and read its output up to the first epoch, where there is one."""

    def run(*arguments: object, data: Path = folder) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "graphzero", "train", str(data), *SMALL, *map(str, arguments)]
        return spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    return run


def first_epoch(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stdout.readline().startswith("400 training seeds")
    assert process.stdout.readline().startswith("inputs: x (8 x float32)")
    return process.stdout.readline()


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_ctrl_c_saves_once_and_another_number_of_processes_goes_on(start: Start, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "c.npz"
    process = start("--checkpoint", saved, *FOREVER)
    assert first_epoch(process).startswith("epoch   1")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert errors.count("To continue:") == 1
    assert "--nproc 2 --epochs 1000000 --resume" in errors
    assert out.count("Training stopped: interrupted") == 1
    epochs = len(load_checkpoint(saved).note["records"])
    again = ["train", folder, *SMALL, "--checkpoint", saved, "--epochs", epochs + 1, "--resume", "--json"]
    done = CliRunner().invoke(app, list(map(str, again)))
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [e["seeds"] for e in result["epochs"]] == [400] * (epochs + 1)
    assert result["data"]["ranks"] == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the ranks in /proc")
def test_a_rank_that_is_killed_ends_the_run(start: Start) -> None:
    process = start(*FOREVER)
    assert first_epoch(process).startswith("epoch   1")
    ranks = [pid for pid in children(process) if b"graphzero" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.strip() == (
        "graphzero: error: rank 1 of 2: killed by SIGKILL, possibly out of memory; try a lower --memory or --nproc"
    )
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)


def test_an_error_of_the_ranks_is_printed_once(start: Start, tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 400, (2, 2000))
    splits = {"train": np.arange(300), "valid": np.arange(300, 400), "test": np.arange(300, 400)}
    rows = np.full((400, 8), np.nan, np.float32)
    gz.Dataset.create(tmp_path / "nan", edges, features=rows, labels=np.arange(400) % 3, splits=splits, direction="in")
    process = start("--nproc", 2, data=tmp_path / "nan")
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors
    assert "graphzero: error: rank " in errors
    assert "of 2: the loss is nan" in errors
    note, error = errors.strip().splitlines()
    assert note == "note: splits 'valid' and 'test' share 100 nodes, so scores of 'test' are too high"
    assert error.startswith("graphzero: error: rank ")
    assert "epoch" not in out.partition("\n")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nproc", "0"], "greater than or equal to 1"),
        (["--nproc", "2", "--model", "gat"], "expected one of 'sage', 'gcn'"),
        (["--nproc", "2", "--checkpoint", str(ROOT / "docs")], "docs is a folder"),
    ],
)
def test_mistakes_are_found_before_processes_are_started(
    folder: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(nproc: int) -> None:
        raise AssertionError(nproc)

    monkeypatch.setattr(launch, "launch", never)
    done = CliRunner().invoke(app, ["train", str(folder), *SMALL, *arguments])
    assert done.exit_code in (1, 2)
    assert message in " ".join(done.output.replace("│", " ").split())


def failure(code: int, text: str | None = None, time: float = 0.0, follows: bool = False) -> Any:
    note = {"message": {"message": text, "extraInfo": {"timestamp": "1", "time": time, "follows": follows}}}
    return SimpleNamespace(exitcode=code, error_file_data=note if text is not None else {"message": "<NONE>"})


@pytest.mark.parametrize(
    ("failures", "cause"),
    [
        ({0: failure(1, "late", 9.0), 1: failure(2, "early", 8.0)}, (1, "early", 2)),
        ({0: failure(1, "peer is gone", 8.0, follows=True), 1: failure(1, "loss", 9.0)}, (1, "loss", 1)),
        ({0: failure(1, "peer is gone", 8.0, follows=True), 1: failure(-11)}, (1, "killed by SIGSEGV", 1)),
        ({0: failure(-15), 1: failure(1, "loss", 9.0)}, (1, "loss", 1)),
        ({0: failure(-15), 1: failure(130)}, (1, "ended with exit code 130", 130)),
    ],
)
def test_the_first_failure_is_reported(failures: dict[int, Any], cause: tuple[int, str, int]) -> None:
    assert launch.first_cause(failures) == cause
