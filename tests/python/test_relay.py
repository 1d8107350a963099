"""One epoch goes on into the next: the same batches, whatever comes instead of what was expected."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero._relay import Relay

torch = pytest.importorskip("torch")
NODES, BATCHES = 6_000, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("relay")
    rng = np.random.default_rng(0)
    gz.compile_graph(rng.integers(0, NODES, (2, 8 * NODES)), path / "g.gl", num_nodes=NODES, direction="in")
    gz.compile_features(rng.standard_normal((NODES, 1000), dtype=np.float32), path / "x.gd")
    gz.compile_features(rng.standard_normal((NODES, 3), dtype=np.float32), path / "y.gd")
    return path


@pytest.fixture(scope="module")
def stores(folder: Path) -> dict[str, Any]:
    return {
        "graph": gz.Graph(folder / "g.gl"),
        "x": gz.FeatureStore(folder / "x.gd"),
        "y": gz.FeatureStore(folder / "y.gd"),
    }


def make(stores: dict[str, Any], rows: str = "x", **options: Any) -> gz.NeighborLoader:
    """A loader whose rows are read by a window: a whole copy takes 24 MB, and some 20 are left for it."""
    options = {"seeds": np.arange(BATCHES * 16), "shuffle": True, "memory": "50MB", "cache": "on"} | options
    return gz.NeighborLoader(
        stores["graph"], stores[rows], fanouts=[3, 2], batch_size=16, seed=1, num_threads=2, **options
    )


def contents(batches: Any) -> list[tuple[bytes, ...]]:
    return [tuple(t.numpy().tobytes() for t in (b.n_id, b.edge_index, b.x, b.input_id)) for b in batches]


def expected(stores: dict[str, Any], epoch: int, **options: Any) -> list[tuple[bytes, ...]]:
    loader = make(stores, **({"memory": "1GB", "cache": "off", "io": "mmap"} | options))
    loader.set_epoch(epoch)
    return contents(loader)


def test_epochs_follow_each_other_and_are_those_of_a_plain_loader(stores):
    loader = make(stores)
    for epoch in range(6):
        assert contents(loader) == expected(stores, epoch)
        assert loader.stats().plan["ways"] == {"x": "window"}
        assert loader.stats().batches == BATCHES
        assert (loader._relay._epoch is not None) == (epoch >= 1)  # from the second on it is known that they do


def test_a_following_epoch_is_there_at_once(stores):
    loader = make(stores)
    for _ in range(2):
        contents(loader)
    assert loader._last.looks_ahead
    assert loader._goes_on()
    iterator = iter(loader)
    next(iterator)
    assert loader._last is iterator._epoch
    assert loader.stats().batches == 1
    iterator.close()
    assert contents(loader) == expected(stores, 3)


def test_what_was_not_expected_begins_anew(stores):
    loader = make(stores)
    for _ in range(2):
        contents(loader)
    loader.set_epoch(7)
    assert contents(loader) == expected(stores, 7)
    loader.set_epoch(8, first_batch=5)
    assert contents(loader) == expected(stores, 8)[5:]
    assert contents(loader) == expected(stores, 9)
    for _ in itertools.islice(loader, 4):  # left in the middle
        pass
    assert contents(loader) == expected(stores, 11)


def test_two_iterators_at_once(stores):
    loader = make(stores)
    for _ in range(2):
        contents(loader)
    first, second = iter(loader), iter(loader)
    pairs = list(zip(first, second, strict=True))
    assert contents(a for a, _ in pairs) == expected(stores, 2)
    assert contents(b for _, b in pairs) == expected(stores, 3)
    assert contents(loader) == expected(stores, 4)


def test_statistics_are_those_of_the_epoch_that_ended(stores):
    loader = make(stores)
    for _ in range(3):
        contents(loader)
    once = loader.stats()
    while loader._last.stats["sample_seconds"] == 0:
        pass
    assert loader.stats() == once
    assert once.batches == BATCHES


def test_a_loader_that_is_dropped_ends_its_threads(stores):
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    loader = make(stores)
    for _ in range(3):
        contents(loader)
    assert len(os.listdir("/proc/self/task")) > before
    del loader
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= before


def relay_of(first: gz.NeighborLoader, *others: gz.NeighborLoader) -> Relay:
    for other in others:
        other._relay = first._relay
    return first._relay


def test_loaders_over_the_same_files_share_a_window(stores):
    train, valid = make(stores), make(stores, seeds=np.arange(3000, 3100), shuffle=False)
    relay = relay_of(train, valid)
    held = []
    for epoch in range(3):
        train._followers = [(valid, 0), (train, epoch + 1)]
        valid._followers = [(train, epoch + 1), (valid, 0)]
        valid.set_epoch(0)
        assert contents(train) == expected(stores, epoch)
        assert valid._goes_on()
        assert contents(valid) == expected(stores, 0, seeds=np.arange(3000, 3100), shuffle=False)
        assert valid.stats().batches == 7
        assert valid.stats().plan["ways"] == {"x": "window"}
        assert valid._plan is None  # its batches are made within the budget of the other
        held.append(_core.bytes_held()["total"])
    relay.stop()
    assert max(held) < 50_000_000 + _core.bytes_held()["total"]


@pytest.mark.parametrize("other", [{"rows": "y"}, {"io": "uring"}, {"edge_order": "file"}], ids=str)
def test_loaders_that_deliver_otherwise_do_not_follow(stores, other):
    train, valid = make(stores), make(stores, **other)
    relay_of(train, valid)
    train._followers = [(valid, 0), (train, 1)]
    contents(train)
    assert not train._last.looks_ahead
    assert not valid._goes_on()


def test_a_loader_without_a_window_looks_no_further(stores):
    loader = make(stores, memory="1GB", cache="auto")
    for epoch in range(3):
        assert contents(loader) == expected(stores, epoch)
        assert not loader._last.looks_ahead


def test_an_error_of_a_coming_epoch_is_told_when_its_batch_is_asked_for(tmp_path, stores):
    rng = np.random.default_rng(0)
    gz.compile_features(rng.standard_normal((NODES, 1000), dtype=np.float32), tmp_path / "cut.gd")
    cut = {"graph": stores["graph"], "x": gz.FeatureStore(tmp_path / "cut.gd")}
    loader = make(cut)
    for _ in range(2):
        contents(loader)
    with open(tmp_path / "cut.gd", "r+b") as file:
        file.truncate(4096 * 16)
    with pytest.raises((gz.StorageError, gz.GraphZeroError)):
        [contents(loader) for _ in range(2)]


def test_a_forked_child_makes_its_own(stores):
    loader = make(stores)
    for _ in range(2):
        contents(loader)
    child = os.fork()
    if child == 0:
        good = contents(loader) == expected(stores, 2)
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert contents(loader) == expected(stores, 2)


def test_threads_that_share_an_iterator_end_it_once(stores):
    loader = make(stores)
    for _ in range(3):
        iterator, seen = iter(loader), []
        threads = [threading.Thread(target=lambda i=iterator, s=seen: s.extend(contents(i))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == BATCHES
    assert contents(loader) == expected(stores, 3)
