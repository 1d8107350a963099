"""One epoch continues into the next: the same batches, whatever comes instead, and nothing held for too long."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from held_epochs import (
    BATCHES,
    NODES,
    Clock,
    contents,
    expected,
    held,
    make,
    make_stores,
    released,
    replace_clock,
)
from waiting import wait_until

import graphzero as gz
from graphzero import _core
from graphzero.load import handoff

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return make_stores(tmp_path_factory.mktemp("handoff"))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return replace_clock(monkeypatch)


@pytest.fixture
def nothing_held() -> Callable[[], bool]:
    return released()


def test_epochs_follow_each_other_and_are_those_of_a_plain_loader(stores):
    with make(stores) as loader:
        for epoch in range(6):
            assert contents(loader) == expected(stores, epoch)
            stats = loader.stats()
            assert stats.plan["ways"] == {"x": "window"}
            assert stats.batches == BATCHES
            assert stats.next_epoch == epoch + 1
            assert 1_000_000 < stats.held_bytes < 50_000_000


def test_a_loader_that_does_not_shuffle_holds_nothing_for_another_epoch(stores, nothing_held):
    loader = make(stores, shuffle=False)
    for epoch in range(2):
        assert contents(loader) == expected(stores, epoch, shuffle=False)
        assert loader.stats().next_epoch is None
    loader.close()
    assert nothing_held()
    with gz.LoaderGroup(loader):  # unless one says so
        assert contents(loader) == expected(stores, 2, shuffle=False)
        assert loader.stats().next_epoch == 3
        assert contents(loader) == expected(stores, 3, shuffle=False)


def test_what_was_not_expected_begins_anew(stores):
    with make(stores) as loader:
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
    with make(stores) as loader:
        for _ in range(2):
            contents(loader)
        first, second = iter(loader), iter(loader)
        pairs = list(zip(first, second, strict=True))
        assert contents(a for a, _ in pairs) == expected(stores, 2)
        assert contents(b for _, b in pairs) == expected(stores, 3)
        assert contents(loader) == expected(stores, 4)


def test_statistics_are_those_of_the_epoch_that_ended(stores):
    with make(stores) as loader:
        for _ in range(3):
            contents(loader)
        once = loader.stats()
        time.sleep(0.05)  # the next one is being made
        again = loader.stats()
    assert (again.batches, again.sample_seconds, again.bytes_read) == (BATCHES, once.sample_seconds, once.bytes_read)
    assert loader.stats().batches == BATCHES  # of a closed loader too
    assert loader.stats().held_bytes == 0
    assert loader.stats().next_epoch is None


@pytest.mark.parametrize("memory", ["50MB", "1GB"], ids=["window", "whole"])
def test_memory_and_threads_are_given_back_by_close_with_and_del(stores, nothing_held, memory):
    loader = make(stores, memory=memory)
    contents(loader)
    assert held() > 10_000_000
    loader.close()
    assert nothing_held()
    assert contents(loader) == expected(stores, 1)  # it starts afresh
    with loader:
        assert held() > 10_000_000
    assert nothing_held()
    next(iter(loader))
    del loader
    assert nothing_held()
    assert len(contents(make(stores, memory=memory))) == BATCHES
    assert nothing_held()


def test_an_iterator_of_a_closed_loader_says_so(stores, nothing_held):
    loader = make(stores)
    iterator, done = iter(loader), iter(make(stores))
    next(iterator)
    list(done)
    loader.close()
    assert nothing_held()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"the loader was closed; call iter\(loader\)"):
            next(iterator)
    with pytest.raises(StopIteration):
        next(done)


def test_what_is_not_taken_up_is_released_after_a_while(stores, nothing_held, clock):
    loader = make(stores)
    group = gz.LoaderGroup(loader, hold_seconds=2)
    contents(loader)
    clock.sleep(1.9)
    assert loader.stats().next_epoch == 1
    clock.sleep(0.2)
    assert nothing_held()
    assert loader.stats().next_epoch is None
    assert loader.stats().held_bytes < 1_000_000
    assert contents(loader) == expected(stores, 1)
    group.close()


def test_a_pause_as_long_as_the_one_before_is_waited_for(stores, clock):
    loader = make(stores)
    with gz.LoaderGroup(loader, hold_seconds=3):
        contents(loader)
        clock.sleep(6)
        assert loader.stats().next_epoch is None
        for epoch in (1, 2):
            assert contents(loader) == expected(stores, epoch)
            clock.sleep(8.9)  # longer than hold_seconds, shorter than the first pause and that
            assert loader.stats().next_epoch == epoch + 1
        clock.sleep(3.1)  # the longest pause so far was 8.9
        assert loader.stats().next_epoch is None


def test_a_timer_releases_what_is_held(stores, monkeypatch):
    monkeypatch.setattr(handoff, "Timer", threading.Timer)
    loader = make(stores)
    with gz.LoaderGroup(loader, hold_seconds=0.01):
        contents(loader)
        assert wait_until(lambda: loader.stats().next_epoch is None)


def test_a_loader_that_chooses_its_memory_gets_what_another_held(stores):
    first = make(stores, memory="auto", cache="on", io="pread")
    contents(first)
    second = make(stores, seeds=np.arange(50), memory="auto", io="mmap", cache="off")
    contents(second)
    assert first.stats().next_epoch is None
    with make(stores) as fixed:  # the user set its budget: it will be taken again
        contents(fixed)
        contents(second)
        assert fixed.stats().next_epoch == 1


def test_work_that_needs_the_memory_gets_it(stores, tmp_path, monkeypatch):
    work = [
        lambda: gz.compile_graph(np.zeros((2, 10), np.int64), tmp_path / "g.gl", memory="60MB"),
        lambda: gz.compile_features(np.zeros((10, 2), np.float32), tmp_path / "x.gd", memory="60MB"),
        lambda: stores["x"].gather(np.arange(NODES)),
    ]
    for something in work:
        with make(stores) as loader:
            contents(loader)
            something()
            assert loader.stats().next_epoch == 1
            monkeypatch.setattr(_core, "available_memory", lambda: 40_000_000)
            something()
            assert loader.stats().next_epoch is None
            monkeypatch.undo()
            assert contents(loader) == expected(stores, 1)


def test_a_budget_that_does_not_fit_is_tried_again_without_what_is_held(stores):
    with make(stores) as other, make(stores, memory="1MB", shuffle=False) as small:
        contents(other)
        small.set_epoch(3, first_batch=5)
        with pytest.raises(gz.BudgetError):
            iter(small)
        assert other.stats().next_epoch is None
        assert (small.epoch, len(small)) == (3, BATCHES - 5)  # as if it had not been tried


def test_a_loader_without_a_window_holds_no_threads(stores):
    with make(stores, memory="1GB", cache="auto") as loader:
        for epoch in range(3):
            assert contents(loader) == expected(stores, epoch)
            assert loader.stats().next_epoch is None


def test_an_error_of_a_coming_epoch_is_raised_when_its_batch_is_asked_for(tmp_path, stores):
    rng = np.random.default_rng(0)
    gz.compile_features(rng.standard_normal((NODES, 1000), dtype=np.float32), tmp_path / "cut.gd")
    cut = {"graph": stores["graph"], "x": gz.FeatureStore(tmp_path / "cut.gd")}
    with make(cut) as loader:
        for _ in range(2):
            contents(loader)
        with open(tmp_path / "cut.gd", "r+b") as file:
            file.truncate(4096 * 16)
        with pytest.raises((gz.StorageError, gz.GraphZeroError)):
            [contents(loader) for _ in range(100)]  # some epochs may have been read before the file was cut


def test_a_forked_child_makes_its_own(stores):
    with make(stores) as loader:
        for _ in range(2):
            contents(loader)
        child = os.fork()
        if child == 0:
            good = contents(loader) == expected(stores, 2)
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert contents(loader) == expected(stores, 2)


def test_threads_that_share_an_iterator_end_it_once(stores):
    with make(stores) as loader:
        for _ in range(3):
            iterator, seen = iter(loader), []
            workers = [threading.Thread(target=lambda i=iterator, s=seen: s.extend(contents(i))) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert len(seen) == BATCHES
        assert contents(loader) == expected(stores, 3)
