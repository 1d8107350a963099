"""Checkpoints: what goes in comes out, nothing is unpickled, a fault leaves the old one."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import graphzero as gz
from graphzero.cli.train import interrupted_run
from graphzero.train import Checkpoint, GraphSAGE, Trainer, TrainOptions, load_checkpoint, load_model, save_checkpoint
from graphzero.train.checkpoint import is_in_use, lock_of_run


def sample(value: float = 1.0) -> Checkpoint:
    return Checkpoint({"model.w": np.full((2, 3), value, np.float32), "random.cpu": np.arange(4)}, {"epoch": 2})


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "deep" / "c.npz", sample())
    back = load_checkpoint(tmp_path / "deep" / "c.npz")
    assert back.note["epoch"] == 2
    np.testing.assert_array_equal(back.under("model")["w"], sample().arrays["model.w"])
    assert os.listdir(tmp_path / "deep") == ["c.npz"]


def test_a_failed_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.npz"
    save_checkpoint(path, sample(1))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(path, sample(2))
    monkeypatch.undo()
    assert load_checkpoint(path).arrays["model.w"][0, 0] == 1
    assert os.listdir(tmp_path) == ["c.npz"]


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "c.npz"
    save_checkpoint(path, sample())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(gz.FormatError, match="damaged, or not a checkpoint"):
        load_checkpoint(path)


@pytest.fixture
def saved(tmp_path: Path) -> bytes:
    """A small checkpoint that `load_model` takes."""
    model = GraphSAGE(3, 2, 2, num_layers=2)
    arrays = {f"model.{name}": value.numpy() for name, value in model.state_dict().items()}
    note = {"options": {"model": "sage"}, "model_class": "graphzero.train.models.GraphSAGE"}
    save_checkpoint(tmp_path / "whole.npz", Checkpoint(arrays, note))
    assert isinstance(load_model(tmp_path / "whole.npz"), GraphSAGE)
    return (tmp_path / "whole.npz").read_bytes()


def test_any_damage_is_our_error_and_names_the_file(tmp_path: Path, saved: bytes) -> None:
    path, random = tmp_path / "damaged.npz", np.random.default_rng(0)
    damaged = [saved[:size] for size in range(0, len(saved), 64)]
    for flips in (1, 8) * 150:
        data = np.frombuffer(saved, np.uint8).copy()
        data[random.integers(len(data), size=flips)] ^= random.integers(1, 256, size=flips, dtype=np.uint8)
        damaged.append(data.tobytes())
    refused = []
    for data in damaged:
        path.write_bytes(data)
        try:
            load_model(path)  # a field that is not read may differ
        except gz.FormatError as error:
            refused.append(str(error))
    assert len(refused) > 0.9 * len(damaged)
    assert all(str(path) in message for message in refused)


@pytest.mark.parametrize(
    ("arrays", "note"),
    [
        ({"model.neighbours.0.weight": np.array(["a"])}, {"options": {"model": "sage"}}),
        ({"model.neighbours.0.weight": np.zeros(3)}, {"options": {"model": "sage"}}),
        ({}, {"model_arguments": {"hidden": 10**18}}),
        ({}, {"model_arguments": [1, 2]}),
        ({}, {"options": [1, 2]}),
        ({}, {"version": [2]}),
    ],
)
def test_contents_that_make_no_model_are_our_error(tmp_path: Path, arrays: Any, note: Any) -> None:
    save_checkpoint(tmp_path / "c.npz", Checkpoint(arrays, note))
    with pytest.raises(gz.FormatError, match=r"c\.npz: "):
        load_model(tmp_path / "c.npz")


class Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, ("touch hacked",))


def test_pickles_are_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = tmp_path / "plain.npz"
    plain.write_bytes(pickle.dumps(Attack()))
    inside = tmp_path / "inside.npz"
    with inside.open("wb") as file:
        np.savez(file, **{"graphzero.json": np.array([Attack()], dtype=object)})
    for path in (plain, inside):
        with pytest.raises(gz.FormatError, match="damaged, or not a checkpoint"):
            load_checkpoint(path)
    assert not (tmp_path / "hacked").exists()


def test_other_archives_and_versions_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    with pytest.raises(gz.FormatError, match=r"graphzero\.json is missing"):
        load_checkpoint(tmp_path / "other.npz")
    save_checkpoint(tmp_path / "new.npz", Checkpoint({}, {"version": 99}))
    with pytest.raises(gz.FormatError, match="version 99, expected 1"):
        load_checkpoint(tmp_path / "new.npz")


def test_a_missing_file_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none.npz")


@pytest.mark.parametrize("kind", ["torch", "npz", "text", "zip"])
def test_a_file_that_is_no_checkpoint_is_never_replaced(tmp_path: Path, kind: str) -> None:
    import torch

    path = tmp_path / "model.pt"
    if kind == "torch":
        torch.save({"w": torch.zeros(3)}, path)  # a zip file, as a checkpoint is
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, w=np.zeros(3))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "a")
    else:
        path.write_text("mine")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="exists and is not a checkpoint"):
        save_checkpoint(path, sample())
    ds = gz.synthesize(tmp_path / "ds", nodes=50, edges=100, dim=2, classes=2)
    with pytest.raises(FileExistsError, match="exists and is not a checkpoint"):
        Trainer(ds, TrainOptions(device="cpu"), checkpoint=path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["ds", "model.pt"]


def test_two_processes_do_not_train_with_one_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "1.npz"
    with lock_of_run(path):
        assert is_in_use(path)
        with (
            pytest.raises(gz.GraphZeroError, match="another process is training with this checkpoint"),
            lock_of_run(path),
        ):
            raise AssertionError
        with lock_of_run(tmp_path / "runs" / "2.npz"), lock_of_run(None):
            pass
    assert not is_in_use(path)
    assert os.listdir(tmp_path / "runs") == []
    (tmp_path / "runs" / ".1.npz.lock").touch()  # of a process that was killed
    assert not is_in_use(path)
    with lock_of_run(path):
        assert is_in_use(path)


def test_the_newest_interrupted_run_is_not_one_that_is_training(tmp_path: Path) -> None:
    splits = {"train": 0.5, "valid": 0.25, "test": 0.25}
    data = gz.synthesize(tmp_path / "data", nodes=300, edges=2000, dim=4, classes=3, seed=0, splits=splits)
    options = TrainOptions(fanouts=[2], hidden=4, epochs=1, memory="64MB", device="cpu")
    runs = [tmp_path / "data" / "runs" / f"{number}.npz" for number in (1, 2)]
    for path in runs:
        Trainer(data, options, checkpoint=path).fit()
        saved = load_checkpoint(path)
        saved.note["result"] = None  # as after a crash
        save_checkpoint(path, saved)
    (tmp_path / "data" / "runs" / "3.npz").symlink_to("nowhere")
    assert interrupted_run(data.path).name == "2.npz"
    with lock_of_run(runs[1]):
        assert interrupted_run(data.path).name == "1.npz"
