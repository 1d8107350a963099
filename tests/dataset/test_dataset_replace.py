"""Replacing a dataset: a bad argument costs nothing, nothing lingers, and who has the old one open keeps it."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.dataset import folder_lock, publish

EDGES = np.array([[0, 1, 2], [1, 2, 0]])
GOOD: dict[str, Any] = {
    "features": {"x": np.eye(3, dtype=np.float32), "old": np.arange(3)},
    "labels": [0, 1, 1],
    "splits": {"train": [0], "test": [1, 2]},
    "about": {"made": "first"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gz.Dataset.create(tmp_path / "ds", EDGES, **GOOD)
    return tmp_path / "ds"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class FailingBlocks:
    """A source that ends with an error in the middle, each time it is read."""

    def __iter__(self) -> FailingBlocks:
        return self

    def __next__(self) -> Any:
        raise RuntimeError("the source broke")


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"graph": np.array([[0, -1], [1, 2]])}, gz.InputError, "-1"),
    ({"graph": "no/such.csv"}, FileNotFoundError, "no/such.csv"),
    ({"graph": "no/such.gl"}, FileNotFoundError, "no/such.gl"),
    ({"features": np.eye(2, dtype=np.float32)}, ValueError, "num_nodes = 2.*the rows of x"),
    ({"features": {"x": "no/such.gd"}}, FileNotFoundError, "no/such.gd"),
    ({"features": {"x": FailingBlocks()}}, RuntimeError, "the source broke"),
    ({"features": {"a/b": np.eye(3)}}, ValueError, "is not a valid name"),
    ({"labels": [0, 1]}, ValueError, "2 rows, expected 3"),
    ({"labels": [0, 1, -2]}, ValueError, r"labels\[2\] is -2"),
    ({"labels": ["a", "b", "c"]}, TypeError, "labels must be numbers, found text"),
    ({"splits": {"train": [3]}}, IndexError, r"\[0\] = 3 is out of range"),
    ({"splits": {"": [0]}}, ValueError, "is not a valid name"),
    ({"splits": {"train": None}}, TypeError, "must be integers"),
    ({"name": 123}, TypeError, "name must be text, got int"),
    ({"num_classes": 0}, ValueError, "num_classes is 0"),
    ({"num_classes": 1}, ValueError, "expected less than num_classes = 1"),
    ({"num_classes": 2.0}, TypeError, "num_classes must be an integer"),
    ({"dtype": "float99"}, ValueError, "float99"),
    ({"about": {"lr": np.float32(1)}}, TypeError, r"about\['lr'\] is a float32, expected"),
    ({"about": {"a": [1, float("nan")]}}, ValueError, r"about\['a'\]\[1\] is nan"),
    ({"about": {1: 2}}, TypeError, "about has the key 1, a int"),
    ({"about": {"a": "x" * (8 << 20)}}, gz.FormatError, "size: found more than"),
    ({"memory": "much"}, ValueError, "much"),
    ({"num_threads": "two"}, TypeError, "num_threads"),
    ({"progress": 7}, TypeError, "progress"),
    ({"no_such_option": 1}, TypeError, "no_such_option"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"), BAD, ids=lambda v: next(iter(v)) if isinstance(v, dict) else ""
)
def test_a_bad_argument_leaves_the_old_dataset_as_it_was(
    folder: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = contents(folder)
    arguments = {**GOOD, "graph": EDGES, **change}
    with pytest.raises(error, match=message):
        gz.Dataset.create(folder, arguments.pop("graph"), **arguments, overwrite=True)
    assert contents(folder) == before
    arguments = {**GOOD, "graph": EDGES, **change}
    with pytest.raises(error, match=message):
        gz.Dataset.create(folder.parent / "new", arguments.pop("graph"), **arguments)
    assert os.listdir(folder.parent) == ["ds"], "and where there was none, nothing is left"


def test_old_features_and_splits_do_not_linger(folder: Path) -> None:
    for i in range(3):
        new = gz.Dataset.create(folder, EDGES, features=np.full((3, 1), i, np.float32), overwrite=True)
        assert {"dataset.json", *(os.path.relpath(p, folder) for p in new.files)} == set(contents(folder))
        assert (list(new.features), list(new.splits)) == (["x"], [])
        assert [p for p in folder.rglob("*") if p.is_dir() and not any(p.iterdir())] == [], "empty folders"


def test_files_that_are_not_the_dataset_s_stay(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "features" / "mine.gd").write_text("mine")
    (folder / "v2").mkdir()
    gz.Dataset.create(folder, EDGES, overwrite=True)
    assert (folder / "notes.txt").exists()
    assert (folder / "features" / "mine.gd").exists()
    assert (folder / "v2").exists()


def test_a_first_dataset_does_not_replace_files_that_are_there(tmp_path: Path) -> None:
    mine = tmp_path / "graph.gl"
    gz.compile_graph(np.array([[0], [0]]), mine)
    before = mine.read_bytes()
    ds = gz.Dataset.create(tmp_path, EDGES, labels=[0, 1, 2])
    assert mine.read_bytes() == before
    assert ds.graph.num_edges == 3
    assert (tmp_path / "labels.gd").exists()


def test_files_in_the_folder_itself_become_its_dataset(tmp_path: Path) -> None:
    gz.compile_graph(EDGES, tmp_path / "graph.gl")
    ds = gz.Dataset.create(tmp_path, tmp_path / "graph.gl", labels=[0, 1, 2])
    assert sorted(contents(tmp_path)) == ["dataset.json", "graph.gl", "labels.gd"]
    with pytest.raises(ValueError):
        gz.Dataset.create(tmp_path, tmp_path / "graph.gl", labels=[0], overwrite=True)
    assert ds.graph.num_edges == gz.Dataset(tmp_path).graph.num_edges == 3


def test_without_links_files_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    gz.Dataset.create(tmp_path / "a", EDGES, labels=[0, 1, 2])
    assert sorted(contents(tmp_path / "a")) == ["dataset.json", "graph.gl", "labels.gd"]
    monkeypatch.setattr(publish, "write_manifest", refuse)
    with pytest.raises(OSError, match="no links"):
        gz.Dataset.create(tmp_path / "b", EDGES, labels=[0, 1, 2])
    assert not (tmp_path / "b").exists()


def test_a_dataset_that_is_open_keeps_its_own_files(folder: Path) -> None:
    old = gz.Dataset(folder)
    gz.Dataset.create(folder, EDGES[:, :1], num_nodes=3, features={"x": np.zeros((3, 3), np.float32)}, overwrite=True)
    gz.Dataset.create(folder, EDGES[:, :2], num_nodes=3, labels=[2, 2, 2], splits={"train": [2]}, overwrite=True)
    # Nothing of it was touched before it was replaced, twice.
    assert old.graph.num_edges == 3
    assert np.array_equal(old.features["x"].gather([0, 1, 2]), np.eye(3, dtype=np.float32))
    assert old.features["old"].gather([2]).tolist() == [2]
    assert old.labels.tolist() == [0, 1, 1]
    assert {name: ids.tolist() for name, ids in old.splits.items()} == {"train": [0], "test": [1, 2]}
    assert old.info["about"] == {"made": "first"}
    assert "num_nodes=3" in repr(old)


def test_a_worker_is_told_that_the_dataset_was_replaced(folder: Path) -> None:
    data = pickle.dumps(gz.Dataset(folder))
    assert pickle.loads(data).labels.tolist() == [0, 1, 1]
    gz.Dataset.create(folder, EDGES, overwrite=True)
    with pytest.raises(gz.StorageError, match="was replaced after it was opened"):
        pickle.loads(data)


def test_readers_always_find_a_whole_dataset(folder: Path) -> None:
    stop, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not stop.is_set():
            try:
                ds = gz.Dataset(folder)
                version = ds.info["about"].get("version", "first")
                if version != "first" and not (ds.labels == version).all():
                    wrong.append((version, ds.labels))
                seen.add(version)
            except Exception as e:
                wrong.append(e)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in takewhile(lambda i: i < 25 or (len(seen) <= 2 and i < 10_000), count()):
        made = gz.Dataset.create(folder, EDGES, labels=np.full(3, i), about={"version": i}, overwrite=True)
        assert made.labels.tolist() == [i] * 3
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(seen) > 2, "readers met several versions"


def test_threads_that_write_at_once(folder: Path) -> None:
    versions = list(range(6))
    made: dict[int, gz.Dataset] = {}

    def write(i: int) -> None:
        made[i] = gz.Dataset.create(folder, EDGES, labels=np.full(3, i), name=f"n{i}", overwrite=True)

    writers = [threading.Thread(target=write, args=(i,)) for i in versions]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [(made[i].name, made[i].labels.tolist()) for i in versions] == [(f"n{i}", [i] * 3) for i in versions]
    last = gz.Dataset(folder)
    assert last.name == f"n{last.labels[0]}"
    assert len(contents(folder)) == 3, "nothing of the others is left"


def test_of_two_first_writers_one_is_refused(tmp_path: Path) -> None:
    def edges() -> Any:
        yield EDGES
        gz.Dataset.create(tmp_path / "ds", EDGES, labels=[1, 1, 1])  # somebody else, meanwhile

    with pytest.raises(FileExistsError, match="overwrite=True"):
        gz.Dataset.create(tmp_path / "ds", edges(), labels=[2, 2, 2])
    assert gz.Dataset(tmp_path / "ds").labels.tolist() == [1, 1, 1]
    assert sorted(contents(tmp_path / "ds")) == ["dataset.json", "graph.gl", "labels.gd"]


def test_a_manifest_that_cannot_be_read_can_be_replaced(folder: Path) -> None:
    (folder / "dataset.json").write_text("{")
    ds = gz.Dataset.create(folder, EDGES, labels=[2, 2, 2], overwrite=True)
    assert gz.Dataset(folder).labels.tolist() == ds.labels.tolist() == [2, 2, 2]
    ds.verify()


def test_a_system_without_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "fcntl", None)
    gz.Dataset.create(folder, EDGES, labels=[2, 2, 2], overwrite=True)
    ds = gz.Dataset.create(folder, EDGES, labels=[1, 2, 2], overwrite=True)
    assert {"dataset.json", *(os.path.relpath(p, folder) for p in ds.files)} == set(contents(folder))
    before = contents(folder)
    with pytest.raises(ValueError):
        gz.Dataset.create(folder, EDGES, labels=[1], overwrite=True)
    assert contents(folder) == before
