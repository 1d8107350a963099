"""Labels, splits and row pointers of files that are cut or whose disk fails: an error, never zeros taken for data."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_disk import loop_disk, needs_loop_disk

import graphzero as gz

NODES = 40_000


def make(folder: Path) -> gz.Dataset:
    """No label and no id is 0: a zero is never right."""
    ids = np.arange(1, NODES)
    return gz.Dataset.create(
        folder,
        np.stack([np.arange(NODES), np.roll(np.arange(NODES), 1)]),
        features=np.ones((NODES, 4), np.float32),
        labels=np.full(NODES, 1),
        num_classes=2,
        splits={"train": ids[::2], "valid": ids[1::2]},
    )


PARTS: dict[str, tuple[str, Callable[[gz.Dataset], Any]]] = {
    "labels": ("labels.gd", lambda ds: ds.labels),
    "label_store": ("labels.gd", lambda ds: ds.label_store.gather([NODES - 1])),
    "train": ("splits/train.gd", lambda ds: ds.splits["train"]),
    "valid": ("splits/valid.gd", lambda ds: ds.splits["valid"]),
    "verify": ("labels.gd", lambda ds: ds.nodes["node"].verify()),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("left", [-8, 8192 + 100, 4096])
def test_a_file_that_was_cut_is_an_error(tmp_path: Path, part: str, left: int) -> None:
    ds = make(tmp_path / "ds")
    file, use = PARTS[part]
    path = tmp_path / "ds" / file
    os.truncate(path, left if left > 0 else os.path.getsize(path) + left)
    with pytest.raises(gz.StorageError, match=path.name):
        use(ds)


def test_what_was_read_before_stays_right(tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    labels, train = ds.labels, ds.splits["train"]
    for file in ("labels.gd", "splits/train.gd"):
        os.truncate(tmp_path / "ds" / file, 4096)
    assert (labels == 1).all()
    assert (ds.labels == 1).all()
    assert (train > 0).all()


@needs_loop_disk
def test_a_disk_that_fails_is_an_error(tmp_path: Path) -> None:
    with loop_disk(tmp_path, 64) as disk:
        make(disk.folder / "ds")
        disk.sync()
        disk.remount()  # nothing of it is in the page cache
        ds = gz.Dataset(disk.folder / "ds")
        disk.lose_blocks_after(1)
        outcomes = []
        for _, use in PARTS.values():
            try:
                use(ds)
                outcomes.append("answered")
            except gz.StorageError:
                outcomes.append("raised")
        del ds
    assert outcomes == ["raised"] * len(PARTS)


@pytest.mark.parametrize("file", ["labels.gd", "splits/train.gd", "splits/valid.gd"])
def test_a_trainer_does_not_start_on_zeros(tmp_path: Path, file: str) -> None:
    pytest.importorskip("torch")
    from graphzero.train import Trainer, TrainOptions

    ds = make(tmp_path / "ds")
    os.truncate(tmp_path / "ds" / file, 8192)
    with pytest.raises(gz.StorageError, match=Path(file).name):
        Trainer(ds, TrainOptions(fanouts=[2], epochs=1, device="cpu", memory="64MB")).fit()


@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_inference_notices_a_graph_that_is_cut_after_its_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train import make_model

    inference = importlib.import_module("graphzero.infer.inference")

    ds = make(tmp_path / "ds")
    sums = inference.Layer._sums

    def cut(layer: Any, begin: int, end: int) -> Any:
        found = sums(layer, begin, end)
        os.truncate(tmp_path / "ds" / "graph.gl", 8192)  # the degrees come after
        return found

    monkeypatch.setattr(inference.Layer, "_sums", cut)
    torch.manual_seed(0)
    with pytest.raises(gz.StorageError, match=r"graph\.gl"):
        gz.inference(make_model(name, 4, 4, 2, num_layers=1), ds.graph, ds.features["x"], tmp_path / "out.gd")
    assert not (tmp_path / "out.gd").exists()
