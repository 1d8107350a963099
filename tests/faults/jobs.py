"""What the children of the fork server do: publish files, rightly and, as controls, wrongly."""

from __future__ import annotations

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
