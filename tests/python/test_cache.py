"""RowCache: the bytes of the file whatever it holds, a budget that is kept, figures that add up."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from container_spec import features, topology
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphzero as gz
from graphzero import _core


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[gz.FeatureStore, np.ndarray]:
    x = np.random.default_rng(0).random((1000, 24)).astype(np.float16)
    path = tmp_path_factory.mktemp("cache") / "x.gd"
    path.write_bytes(features(x=x, label=np.arange(1000)))
    return gz.FeatureStore(path), x


IDS = hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 999))


@given(
    batches=st.lists(IDS, max_size=8),
    budget=st.integers(4096, 100_000),
    pins=IDS,
    announce=st.booleans(),
    dtype=st.sampled_from([None, "float32"]),
    io=st.sampled_from(["auto", "mmap", "pread"]),
)
def test_a_cache_is_invisible_but_for_its_figures(
    store: tuple[gz.FeatureStore, np.ndarray],
    batches: list[np.ndarray],
    budget: int,
    pins: np.ndarray,
    announce: bool,
    dtype: str | None,
    io: str,
) -> None:
    fs, x = store
    cache = fs.cached(budget, pin=pins)
    assert cache.stats()["held_bytes"] <= budget
    for number, ids in enumerate(batches):
        if announce:
            cache.announce(number, ids)
    rows = 0
    for number, ids in enumerate(batches):
        found = cache.gather(ids, dtype=dtype, io=io, number=number if announce else None)
        np.testing.assert_array_equal(found, x[ids].astype(dtype or x.dtype))
        rows += len(ids)
    stats = cache.stats()
    assert stats["hits"] + stats["misses"] == rows
    assert stats["resident"] <= stats["capacity"]
    assert stats["inserted"] == stats["resident"] + stats["evicted"]
    assert stats["announced_bytes"] == 0


@given(st.lists(st.integers(0, 999), max_size=300))
def test_with_room_for_all_it_is_a_dictionary(store: tuple[gz.FeatureStore, np.ndarray], ids: list[int]) -> None:
    fs, _ = store
    cache = fs.cached("1MB")
    model: set[int] = set()
    hits = 0
    for i in ids:
        cache.gather([i])
        hits += i in model
        model.add(i)
    stats = cache.stats()
    assert (stats["hits"], stats["resident"], stats["evicted"]) == (hits, len(model), 0)


def test_pinned_rows_stay(store: tuple[gz.FeatureStore, np.ndarray]) -> None:
    fs, _ = store
    cache = fs.cached(8192, pin=[7, 8, 7], pin_share=0.5)
    assert cache.stats()["pinned"] == 2
    for start in range(0, 900, 50):
        cache.gather(np.arange(start, start + 50))
    before = cache.stats()
    cache.gather([7, 8, 8])
    after = cache.stats()
    assert after["hits"] - before["hits"] == 3
    cache.clear()
    assert cache.stats()["resident"] == 2
    full = fs.cached(8192)
    assert full.pin(np.arange(1000), 0.5) == full.stats()["capacity"] // 2


def test_hot_rows_by_degree(store: tuple[gz.FeatureStore, np.ndarray], tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    rows = [sorted(random.integers(0, 1000, int(random.pareto(1.0)) % 90).tolist()) for _ in range(1000)]
    path = tmp_path / "g.gl"
    path.write_bytes(topology(rows))
    graph = gz.Graph(path)
    degrees = np.array([len(r) for r in rows])
    expected = np.lexsort((np.arange(1000), -degrees))
    for most in (0, 1, 10, 500, 999, 1000, 5000):
        assert _core.nodes_by_degree(graph._topology, most).tolist() == expected[:most].tolist()
    fs, _ = store
    cache = fs.cached(20_000, pin=graph, pin_share=0.5)
    pinned = cache.stats()["pinned"]
    cache.gather(expected[:pinned])
    assert cache.stats()["hits"] == pinned > 0


def test_vectors_and_names(store: tuple[gz.FeatureStore, np.ndarray]) -> None:
    fs, _ = store
    cache = fs.cached("64KB", name="label")
    assert cache.gather([5, 1, 5]).tolist() == [5, 1, 5]
    assert "label" in repr(cache)


def test_mistakes_are_told(store: tuple[gz.FeatureStore, np.ndarray]) -> None:
    fs, _ = store
    with pytest.raises(gz.BudgetError, match="give at least"):
        fs.cached(10)
    cache = fs.cached("64KB")
    with pytest.raises(IndexError):
        cache.gather([1000])
    with pytest.raises(IndexError):
        cache.pin([-1])
    with pytest.raises(ValueError, match="0 to 1"):
        cache.pin([1], 1.5)
    cache.announce(5, [1])
    with pytest.raises(ValueError, match="at most 64"):
        cache.announce(5 + 64, [1])
    with pytest.raises(ValueError, match="ascend"):
        cache.announce(4, [1])
    cache.forget_announced()
    cache.announce(4, [1])


def test_a_pickled_cache_starts_with_its_pins(store: tuple[gz.FeatureStore, np.ndarray]) -> None:
    fs, x = store
    cache = fs.cached("64KB", pin=[1, 2, 3])
    cache.gather(np.arange(50))
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.stats()["resident"] == copy.stats()["pinned"] == 3
    np.testing.assert_array_equal(copy.gather([3, 4]), x[[3, 4]])


def test_misses_leave_nothing_in_the_page_cache(tmp_path: Path) -> None:
    """The cache's copy of a row is the only one, where the file system can read past the page cache."""
    path = tmp_path / "big.gd"
    x = np.random.default_rng(0).random((4000, 512)).astype(np.float32)
    path.write_bytes(features(x=x))
    fs = gz.FeatureStore(path)
    with open(path, "rb") as file:
        import os

        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def cached() -> int:
        return next(c for p, _, _, c in _core.mounted_files() if p == str(path))

    before = cached()
    if before > x.nbytes // 2:
        pytest.skip("this file system keeps its pages")
    cache = fs.cached("2MB")
    ids = np.random.default_rng(1).integers(0, 4000, 2000)
    np.testing.assert_array_equal(cache.gather(ids), x[ids])
    assert cached() - before < x.nbytes // 10
