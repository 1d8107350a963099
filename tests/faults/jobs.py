"""What the children of the fork server do: publish files, rightly and, as controls, wrongly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

import graphzero as gz

NODES = 2000


def edges(seed: int, count: int = 20_000) -> np.ndarray:
    """Random edges, the same for the same seed."""
    return np.random.default_rng(seed).integers(0, NODES, (2, count))


def compile_graph(target: str, seed: str, memory: str = "1GB", spill: str = "") -> None:
    """The engine's own way."""
    gz.compile_graph(edges(int(seed)), target, num_nodes=NODES, memory=memory, num_threads=1, spill_dir=spill or None)


def compile_features(target: str, seed: str) -> None:
    """The engine's own way, for rows."""
    rows = np.random.default_rng(int(seed)).standard_normal((NODES, 64)).astype(np.float32)
    gz.compile_features(rows, target, num_threads=1)


def create_dataset(folder: str, version: str) -> None:
    """A dataset whose every part tells its version, over whatever is in the folder; odd ones have no split "test"."""
    v = int(version)
    splits = {"train": [v], "test": [v + 1]} if v % 2 == 0 else {"train": [v]}
    gz.Dataset.create(
        folder,
        np.array([[v], [v + 1]]),
        num_nodes=40,
        features={"x": np.full((40, 2), v, np.float32), f"only{v}": np.full(40, v, np.float32)},
        labels=np.full(40, v),
        splits=splits,
        about={"version": v},
        num_threads=1,
        overwrite=True,
    )


_WRITES = ("author", "writes", "paper")


def create_typed(folder: str, version: str) -> None:
    """A dataset of two node types whose every part tells its version, over whatever is in the folder."""
    v = int(version)
    gz.Dataset.create(
        folder,
        graphs={_WRITES: np.array([[v], [v + 1]])},
        num_nodes={"author": 30, "paper": 40},
        features={"paper": {"x": np.full(40, v, np.float32)}, "author": {f"only{v}": np.full(30, v)}},
        labels={"paper": np.full(40, v)},
        splits={"paper": {"train": [v]}},
        edge_features={_WRITES: np.full((1, 2), v)},
        edge_splits={_WRITES: {"held": [[v, v]]}},
        reverse=True,
        about={"version": v},
        num_threads=1,
        overwrite=True,
    )


def typed_version(folder: str) -> int:
    """The version of the typed dataset in the folder; AssertionError when its parts do not agree."""
    ds = gz.Dataset(folder)
    ds.verify()
    v = int(ds.info["about"]["version"])
    assert ds.graphs[_WRITES].get_neighbours(v + 1).tolist() == [v]
    assert ds.graphs["paper__rev_writes__author"].get_neighbours(v).tolist() == [v + 1]
    assert (ds.nodes["paper"].features["x"].get_tensor() == v).all()
    assert (ds.nodes["author"].features[f"only{v}"].get_tensor() == v).all()
    assert set(ds.nodes["paper"].labels.tolist()) == {v}
    assert ds.edges[_WRITES].features["edge_attr"].get_tensor().tolist() == [[v, v]]
    assert ds.edges[_WRITES].splits["held"].tolist() == [[v, v]]
    return v


def create_growing(folder: str) -> None:
    """A dataset of 40 nodes that `append_one` adds to, over whatever is in the folder."""
    gz.Dataset.create(
        folder,
        np.array([[0], [1]]),
        num_nodes=40,
        features=np.arange(40.0).reshape(40, 1),
        labels=np.zeros(40, np.int64),
        num_classes=2,
        splits={"train": [0]},
        edge_features=np.zeros(1),
        num_threads=1,
        overwrite=True,
    )


def append_one(folder: str) -> None:
    """A node whose every part tells its number, and an edge to it."""
    ds = gz.Dataset(folder)
    n = ds.num_nodes
    ds.append(
        edges=np.array([[0], [n]]), features=[[float(n)]], labels=[1], splits="train", edge_features=[float(n)],
        num_threads=1,
    )  # fmt: skip


def append_as_nobody(folder: str) -> None:
    """The same as a user who may not write to the folder."""
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    append_one(folder)


def compact(folder: str) -> None:
    """Fold what was appended."""
    gz.Dataset(folder).compact(num_threads=1)


def appended(folder: str) -> int:
    """How many nodes were appended; AssertionError when the parts of the dataset do not agree."""
    ds = gz.Dataset(folder)
    ds.verify()
    n = ds.num_nodes
    assert ds.graph.get_neighbours(0).tolist() == [1, *range(40, n)]
    assert ds.features["x"].gather(np.arange(n)).reshape(-1).tolist() == list(range(n))
    assert ds.labels.tolist() == [0] * 40 + [1] * (n - 40)
    assert ds.splits["train"].tolist() == [0, *range(40, n)]
    assert ds.edge_features["edge_attr"].gather(np.arange(n - 39)).tolist() == [0.0, *range(40, n)]
    return n - 40


def append_in_place(folder: str) -> None:
    """The control of the kill tests of appends: the manifest is written before the files that it names."""
    manifest = Path(folder, "dataset.json")
    new = json.loads(manifest.read_text()) | {"version": "2.0", "deltas": {"graph.gl": ["late.gl"]}}
    manifest.with_suffix(".tmp").write_text(json.dumps(new))
    os.rename(manifest.with_suffix(".tmp"), manifest)
    os.rename(manifest.with_name("missing"), manifest.with_name("late.gl"))


def import_arrays(source: str, out: str) -> None:
    """Import a folder of arrays, in files that a later run resumes with."""
    gz.import_dataset(source, out, num_threads=1)


def dataset_version(folder: str) -> int:
    """The version of the dataset in the folder; AssertionError when its parts do not agree."""
    ds = gz.Dataset(folder)
    ds.verify()
    v = int(ds.info["about"]["version"])
    assert ds.graph.get_neighbours(v).tolist() == [v + 1]
    assert ds.graph.num_edges == 1
    assert list(ds.features) == ["x", f"only{v}"]
    assert all((store.gather(np.arange(40)) == v).all() for store in ds.features.values())
    assert (ds.labels == v).all()
    assert {name: ids.tolist() for name, ids in ds.splits.items()} == (
        {"train": [v], "test": [v + 1]} if v % 2 == 0 else {"train": [v]}
    )
    return v


def replace_without_a_manifest(folder: str, version: str) -> None:
    """The control of the dataset's kill tests: the old manifest is removed before the new one is there."""
    manifest = Path(folder, "dataset.json")
    manifest.unlink()
    create_dataset(folder, version)


def write_in_place(target: str, source: str) -> None:
    """The control of kill tests: the target is overwritten where it stands, bit by bit."""
    data = Path(source).read_bytes()
    fd = os.open(target, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, len(data))
    step = -(-len(data) // 8)
    for at in range(0, len(data), step):
        os.pwrite(fd, data[at : at + step], at)
    os.fsync(fd)
    os.close(fd)


def publish_without_sync(target: str, source: str) -> None:
    """The control of power-cut tests: a temporary and a rename, but the bytes were never made durable."""
    data = Path(source).read_bytes()
    temporary = target + ".tmp"
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, data, 0)
    os.close(fd)
    os.rename(temporary, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def publish_and_leak(target: str, source: str) -> None:
    """The control of the tests that count descriptors."""
    os.open(source, os.O_RDONLY)
    publish_without_sync(target, source)


def compile_large(target: str, memory: str, spill: str = "", first: str = "0") -> None:
    """A graph that does not fit the budget, and a file large enough to be written past the page cache."""
    seeds = range(int(first), int(first) + 14)
    blocks = (np.random.default_rng(i).integers(0, 1_000_000, (2, 500_000)) for i in seeds)
    gz.compile_graph(blocks, target, num_nodes=1_000_000, memory=memory, num_threads=1, spill_dir=spill or None)


def read_everything(graph: str, features: str) -> None:
    """Every explicit read path, against the mapping."""
    g, store = gz.Graph(graph), gz.FeatureStore(features)
    ids = np.random.default_rng(0).integers(0, NODES, 500)
    expected = np.asarray(store.get_tensor())[ids]
    for io in ("mmap", "pread", "uring", "auto"):
        try:
            rows = store.gather(ids, io=io)
        except gz.StorageError:
            if io != "uring":  # rings may be refused here
                raise
            continue
        assert (rows == expected).all(), io
    g.sample(ids, [5, 5], seed=1)


def read_once(path: str) -> None:
    """The control of partial transfers: one pread, believed."""
    import ctypes

    libc = ctypes.CDLL(None)
    fd = os.open(path, os.O_RDONLY)
    buffer = ctypes.create_string_buffer(4096)
    assert libc.pread(fd, buffer, 4096, ctypes.c_long(0)) == 4096
