"""Topologies that are not in RAM: the same answers as warm and plain, few bytes read, hardly a fault that waits."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from walk_files import write_legacy

import graphzero as gz
from graphzero import _core

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to empty the page cache of a file")

NODES, HUB, HUB_DEGREE = 300_000, 150_000, 60_000
FEW, MANY = 40, 3000  # nodes of a call that touches few of the pages, and of one that touches most


def pages_in_ram(path: Path) -> int:
    """Asked of mincore: a read that must not wait would start readahead."""
    with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as view:
        bytes_ = np.frombuffer(view, np.uint8)
        pages = np.zeros(-(-len(bytes_) // mmap.PAGESIZE), np.uint8)
        done = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(bytes_.ctypes.data), ctypes.c_size_t(len(bytes_)), ctypes.c_void_p(pages.ctypes.data)
        )
        del bytes_
    assert done == 0
    return int((pages & 1).sum())


def empty_cache(path: Path) -> None:
    """Drop the file's pages; skip where that cannot be done, as on a file system in RAM."""
    with path.open("rb") as f:
        os.fsync(f.fileno())
        for _ in range(20):  # pages that are on their way in cannot be dropped yet
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if pages_in_ram(path) == 0:
                return
            time.sleep(0.01)
    pytest.skip("pages of this file system stay in RAM")


def edges() -> Any:
    """Four a node on average, and one row of many pages."""
    r = np.random.default_rng(0)
    source = np.concatenate([r.integers(0, NODES, 4 * NODES), np.full(HUB_DEGREE, HUB)])
    return np.stack([source, r.integers(0, NODES, len(source))])


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cold") / "large.gl"
    made = edges()
    weights = np.random.default_rng(1).integers(0, 4, made.shape[1]).astype(np.float32)
    gz.compile_graph(made, path, num_nodes=NODES, weights=weights, direction="both")
    return path


@pytest.fixture(scope="module")
def legacy(tmp_path_factory) -> Path:
    """As 0.2 wrote them: wide ids, rows in no order, weights without running sums."""
    made = edges()
    path = tmp_path_factory.mktemp("cold") / "legacy.gl"
    return Path(write_legacy(path, NODES, made.T, np.random.default_rng(1).random(made.shape[1])))


def nodes(count: int) -> Any:
    found = np.random.default_rng(2).integers(0, NODES, count)
    found[::10] = HUB
    return found


Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "fanout": lambda f, n, **o: _core.fanout(f, nodes(n), 15, **o),
    "fanout, padded": lambda f, n, **o: _core.fanout(f, nodes(n), 15, -1, **o),
    "fanout, weighted": lambda f, n, **o: _core.fanout(f, nodes(n), 15, weighted=True, **o),
    "uniform": lambda f, n, **o: _core.walk(f, nodes(n), 8, **o),
    "restart": lambda f, n, **o: _core.walk(f, nodes(n), 8, restart=0.3, **o),
    "weighted": lambda f, n, **o: _core.walk(f, nodes(n), 8, weighted=True, **o),
    "node2vec": lambda f, n, **o: _core.walk(f, nodes(n), 8, 4.0, 0.5, **o),
    "node2vec, refusing": lambda f, n, **o: _core.walk(f, nodes(n), 4, 1e-9, 1.0, **o),
    "node2vec, weighted": lambda f, n, **o: _core.walk(f, nodes(n), 8, 0.5, 2.0, weighted=True, restart=0.1, **o),
    "negatives": lambda f, n, **o: _core.negative_edges(f, n, **o),
    "negatives, of sources": lambda f, n, **o: _core.negative_edges(f, 2, nodes(n), **o),
    "negatives, degree": lambda f, n, **o: _core.negative_edges(f, n, None, True, **o),
    "negatives, any pair": lambda f, n, **o: _core.negative_edges(f, n, None, True, 1.0, False, **o),
}


def check_every_way(path: Path, call: Call, count: int, threads: int) -> None:
    empty_cache(path)
    file = gz.Graph(path)._open()
    cold = call(file, count, seed=5, threads=threads)
    np.testing.assert_array_equal(cold, call(file, count, seed=5, threads=threads))
    np.testing.assert_array_equal(cold, call(file, count, seed=5, threads=threads, io="mmap"))
    np.testing.assert_array_equal(cold, call(file, count, seed=5, threads=1, plain=True))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [1, FEW, MANY])
@pytest.mark.parametrize("name", CALLS)
def test_a_file_that_is_not_in_ram_gives_the_same(large, name, count, threads):
    check_every_way(large, CALLS[name], count, threads)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("name", ["fanout, weighted", "node2vec", "node2vec, weighted", "negatives"])
def test_so_does_one_of_0_2(legacy, name, count):
    check_every_way(legacy, CALLS[name], count, 2)


def test_so_does_one_node(large):
    rng = np.random.default_rng(3)
    for node in [HUB, *rng.integers(0, NODES, 5).tolist()]:
        for weighted in (False, True):
            empty_cache(large)
            g = gz.Graph(large)
            cold = g.sample_neighbours(node, 7, weighted=weighted, seed=node)
            np.testing.assert_array_equal(cold, g.sample_neighbours(node, 7, weighted=weighted, seed=node))
            row = _core.fanout(g._open(), np.array([node]), 7, -1, weighted=weighted, seed=node, plain=True)[0]
            np.testing.assert_array_equal(cold, row[row >= 0])
            del g  # pages that are mapped stay in RAM


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


# Without look-ahead a small readahead means a fault a page, which waits for the disk; a large one reads nearly all.
@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="the system does not count what is read")
@pytest.mark.parametrize("name", [name for name in CALLS if name != "node2vec, refusing"])  # which enumerates rows
def test_pages_are_asked_for_before_they_are_touched(large, name):
    empty_cache(large)
    file = gz.Graph(large)._open()
    read, faults = bytes_read(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    CALLS[name](file, FEW, seed=5, threads=2)
    read, faults = bytes_read() - read, resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults
    assert 0 < read < large.stat().st_size / 4
    assert faults <= FEW


def test_a_call_that_touches_most_pages_reads_each_once(large):
    empty_cache(large)
    file = gz.Graph(large)._open()
    read, faults = bytes_read(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    _core.walk(file, nodes(MANY), 8, seed=5)
    assert bytes_read() - read <= large.stat().st_size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults <= FEW
