"""Reordering that is asked for wrongly, fails or is killed: the old dataset stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reorder_source import assert_same, make

import graphzero as gz


def test_verify_finds_ids_that_disagree(tmp_path: Path) -> None:
    new = gz.reorder(make(tmp_path, 20, 60), tmp_path / "out", by="degree")
    arrays = {"original": np.arange(20), "new": np.roll(np.arange(20), 1)}
    (file,) = [file for file in new.files if file.endswith("ids.gd")]
    gz.compile_features(arrays, file, dtype="int32")
    with pytest.raises(gz.FormatError, match=r"new\[original\[0\]\] = 19, expected 0"):
        gz.Dataset(new.path).verify()


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"by": "heat"}, ValueError, "by is 'heat', expected one of degree, presample, bfs, community"),
    ({"by": "presample", "split": "training"}, ValueError, "split is 'training', the dataset has 'train', 'none'"),
    ({"by": "presample", "split": "none"}, ValueError, "split 'none' has no nodes"),
    ({"by": "presample", "fanouts": [-2]}, ValueError, "fanout"),
    ({"by": "presample", "epochs": 0}, ValueError, "epochs is 0"),
    ({"by": "presample", "memory": "50KB"}, gz.BudgetError, "memory"),
    ({"by": "degree", "memory": "1KB"}, gz.BudgetError, "memory is 1 KB, but ordering 20 nodes by degree needs 2 MB"),
    ({"by": "degree", "direction": "in"}, ValueError, "direction"),
    ({"by": "degree", "memory": "much"}, ValueError, "memory is 'much'"),
    ({"by": "degree", "num_threads": -1}, ValueError, "thread"),
]


@pytest.mark.parametrize(("wrong", "error", "text"), MISTAKES)
def test_mistakes_are_told_before_any_work(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception], text: str
) -> None:
    old = make(tmp_path, 20, 60)
    with pytest.raises(error, match=text):
        gz.reorder(old, tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_the_target_is_not_the_source_and_is_not_overwritten_unasked(tmp_path: Path) -> None:
    old = make(tmp_path, 20, 60)
    with pytest.raises(ValueError, match="is the folder of the dataset itself"):
        gz.reorder(old, old.path, overwrite=True)
    first = gz.reorder(old, tmp_path / "out", by="degree")
    with pytest.raises(FileExistsError):
        gz.reorder(old, tmp_path / "out", by="bfs")
    assert gz.Dataset(first.path).info["about"]["reordered"]["by"] == "degree"
    second = gz.reorder(old, tmp_path / "out", by="bfs", overwrite=True)
    assert second.info["about"]["reordered"]["by"] == "bfs"
    assert_same(old, second)


def test_a_failure_in_the_middle_keeps_the_old_dataset(tmp_path: Path) -> None:
    old = make(tmp_path, 20, 60)
    kept = gz.reorder(old, tmp_path / "out", by="degree")

    def stop(phase: str, done: int, total: int) -> None:
        if phase.startswith("labels.gd"):
            raise KeyboardInterrupt

    for target, overwrite in ((tmp_path / "out", True), (tmp_path / "fresh", False)):
        with pytest.raises(KeyboardInterrupt):
            gz.reorder(old, target, by="bfs", overwrite=overwrite, progress=stop)
    assert not (tmp_path / "fresh").exists()
    assert_same(old, gz.Dataset(kept.path))
    assert gz.Dataset(kept.path).info["about"]["reordered"]["by"] == "degree"


KILLED = """
import os, signal, sys
import graphzero as gz

def strike(phase, done, total):
    if phase.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

gz.reorder(sys.argv[1], sys.argv[2], by="bfs", overwrite=True, progress=strike)
"""


@pytest.mark.parametrize("phase", ["graph.gl: ", "labels.gd: "])
def test_a_kill_in_the_middle_leaves_the_old_dataset_or_none(tmp_path: Path, phase: str) -> None:
    old = make(tmp_path, 40, 200)
    kept = gz.reorder(old, tmp_path / "kept", by="degree")
    for target in ("kept", "fresh"):
        words = [sys.executable, "-c", KILLED, old.path, str(tmp_path / target), phase]
        assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert_same(old, gz.Dataset(kept.path))
    assert gz.Dataset(kept.path).info["about"]["reordered"]["by"] == "degree"
    assert not (tmp_path / "fresh" / "dataset.json").exists()
    assert_same(old, gz.reorder(old, tmp_path / "fresh", by="bfs"))
    left = [name for name in os.listdir(tmp_path / "fresh") if name.startswith(("v", "."))]
    assert left == []  # what the killed one left is gone
