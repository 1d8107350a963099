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
from hypothesis import given, settings
from hypothesis import strategies as st

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
    options = {
        "seeds": np.arange(BATCHES * 16), "shuffle": True, "memory": "50MB", "cache": "on",
        "fanouts": [3, 2], "batch_size": 16,
    } | options  # fmt: skip
    return gz.NeighborLoader(stores["graph"], stores[rows], seed=1, num_threads=2, **options)


def contents(batches: Any) -> list[tuple[bytes, ...]]:
    return [tuple(t.numpy().tobytes() for t in (b.n_id, b.edge_index, b.x, b.input_id)) for b in batches]


def expected(stores: dict[str, Any], epoch: int, **options: Any) -> list[tuple[bytes, ...]]:
    loader = make(stores, **({"memory": "1GB", "cache": "off", "io": "mmap"} | options))
    loader.set_epoch(epoch)
    loader._followers = []  # it is no part of the order that is learned
    return contents(loader)


def test_epochs_follow_each_other_and_are_those_of_a_plain_loader(stores):
    loader = make(stores)
    for epoch in range(6):
        assert contents(loader) == expected(stores, epoch)
        assert loader.stats().plan["ways"] == {"x": "window"}
        assert loader.stats().batches == BATCHES
        assert loader._relay.rests


def test_without_an_order_of_its_own_the_second_epoch_is_the_first_to_look_ahead(stores):
    loader = make(stores, shuffle=False)
    for epoch in range(3):
        assert contents(loader) == expected(stores, epoch, shuffle=False)
        assert loader._relay.rests == (epoch >= 1)


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


VALID = {"seeds": np.arange(3000, 3100), "shuffle": False}


def test_a_loop_of_training_and_validation_is_learned(stores):
    train, valid = make(stores), make(stores, **VALID)
    for epoch in range(4):
        assert contents(train) == expected(stores, epoch)
        assert valid._goes_on() == (epoch >= 1)  # it was seen to follow
        assert contents(valid) == expected(stores, epoch, **VALID)
        assert valid.stats().batches == 7
        assert train._goes_on() == (epoch >= 1)
        if epoch >= 1:
            assert valid._plan is None  # its batches are made within the budget of the other
            assert valid._relay is train._relay


def test_an_exception_is_not_learned(stores):
    train, valid, test = make(stores), make(stores, **VALID), make(stores, seeds=np.arange(50), shuffle=False)
    for epoch in range(3):
        contents(train)
        contents(valid)
        if epoch == 1:
            contents(test)
    assert train._goes_on()
    assert contents(train) == expected(stores, 3)
    assert valid._goes_on()


def test_a_new_loader_for_each_validation_joins_nothing(stores):
    train = make(stores)
    for epoch in range(3):
        assert contents(train) == expected(stores, epoch)
        assert contents(make(stores, **VALID)) == expected(stores, 0, **VALID)


@pytest.mark.parametrize("options", [{"memory": "60MB"}, {"fanouts": [3, 1]}], ids=str)
def test_batches_that_may_not_fit_are_made_by_their_own_loader(stores, options):
    train, valid = make(stores), make(stores, **VALID, **options)
    plain = [
        expected(stores, epoch, **VALID, **({"memory": "1GB"} if "memory" in options else options))
        for epoch in (0, 1, 2)
    ]
    for epoch in range(3):
        assert contents(train) == expected(stores, epoch)
        assert contents(valid) == plain[epoch]
        assert valid._relay is not train._relay


def test_the_loader_of_larger_batches_makes_the_smaller_ones(stores):
    train, valid = make(stores), make(stores, **VALID, batch_size=32)
    for epoch in range(4):
        assert contents(train) == expected(stores, epoch)
        assert contents(valid) == expected(stores, epoch, **VALID, batch_size=32)
    assert train._plan is None
    assert train._goes_on()


def test_a_small_validation_leaves_the_other_its_rows(stores):
    train, valid = make(stores), make(stores, seeds=np.arange(10), shuffle=False, fanouts=[3, 1])
    for epoch in range(3):
        assert contents(train) == expected(stores, epoch)
        contents(valid)
    assert train._goes_on()


def test_dropping_either_loader_of_a_run_ends_what_it_made_ahead(stores):
    for drop in (0, 1):
        gc.collect()
        before = len(os.listdir("/proc/self/task"))
        loaders = [make(stores), make(stores, **VALID)]
        for _ in range(3):
            for loader in loaders:
                contents(loader)
        del loader
        assert len(os.listdir("/proc/self/task")) > before
        kept = loaders[1 - drop]
        epoch = kept.epoch
        del loaders
        gc.collect()
        if drop == 0:  # the budget was that of the one for training
            assert len(os.listdir("/proc/self/task")) <= before
        assert contents(kept) == expected(stores, epoch, **({} if drop else VALID))
        del kept


def test_rows_that_are_given_up_are_held_again(stores):
    loader = make(stores, cache="auto", io="uring")
    held = []
    for epoch in (0, 0, 1, 1, 5):  # the first is not divided anew, but for what was given up
        loader.set_epoch(epoch)
        assert contents(loader) == expected(stores, epoch)
        assert loader.stats().plan["ways"] == {"x": "window"}
        loader._relay.stop()
        held.append(_core.bytes_held()["total"])
        loader._plan.rest()
        assert _core.bytes_held()["total"] < held[-1] - 10_000_000
    iterator = iter(loader)
    next(iterator)
    loader._plan.rest()  # an epoch is in flight: nothing happens
    assert len(contents(iterator)) == BATCHES - 1


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2]),
        st.sampled_from(["whole", "whole", "whole", "whole", "part", "set", "anew", "two"]),
    ),
    min_size=4,
    max_size=14,
)
KINDS: list[dict[str, Any]] = [{}, VALID, {"seeds": np.arange(100, 160), "shuffle": False, "batch_size": 12}]


@settings(max_examples=25)
@given(ACTIONS)
def test_whatever_the_order_the_batches_are_those_of_a_plain_loader(stores, actions):
    plain: dict[tuple[int, int], Any] = PLAIN.setdefault(id(stores), {})

    def check(kind: int, epoch: int, found: list[tuple[bytes, ...]], first: int = 0) -> None:
        if (kind, epoch) not in plain:
            plain[kind, epoch] = expected(stores, epoch, **KINDS[kind])
        assert found == plain[kind, epoch][first : first + len(found)]

    loaders = [make(stores, **kind) for kind in KINDS]
    for kind, action in actions:
        loader = loaders[kind]
        epoch = loader.epoch
        if action == "whole":
            found = contents(loader)
            assert len(found) == len(loader)
            check(kind, epoch, found)
        elif action == "part":
            check(kind, epoch, contents(itertools.islice(loader, 3)))
        elif action == "set":
            loader.set_epoch(epoch // 2, first_batch=2)
            check(kind, epoch // 2, contents(loader), first=2)
        elif action == "anew":
            loaders[kind] = make(stores, **KINDS[kind])
        else:
            other = loaders[(kind + 1) % 3]
            at = other.epoch
            pairs = list(zip(loader, other, strict=False))
            check(kind, epoch, contents(a for a, _ in pairs))
            check((kind + 1) % 3, at, contents(b for _, b in pairs))


PLAIN: dict[int, dict[tuple[int, int], Any]] = {}
