"""One epoch goes on into the next: the same batches, whatever comes instead, and nothing held for too long."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

import graphzero as gz
from graphzero import _core
from graphzero.load import handoff

torch = pytest.importorskip("torch")
NODES, BATCHES = 6_000, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("handoff")
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
    return contents(loader)


VALID = {"seeds": np.arange(3000, 3100), "shuffle": False}


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def held() -> int:
    _core.drop_idle_readers()  # of the process, for any loader
    return _core.bytes_held()["total"]


class Clock:
    """The time that passes between epochs; what is held expires when a test says so, however slow the machine is."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Clock.Timer] = []

    def monotonic(self) -> float:
        return self.now

    def timer(self, seconds: float, call: Callable[..., None], arguments: tuple[Any, ...]) -> Clock.Timer:
        self.timers.append(Clock.Timer(self.now + seconds, call, arguments))
        return self.timers[-1]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.waits and timer.due <= self.now]:
            timer.cancel()
            timer.call(*timer.arguments)

    class Timer:
        def __init__(self, due: float, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
            self.due, self.call, self.arguments, self.waits = due, call, arguments, False

        def start(self) -> None:
            self.waits = True

        def cancel(self) -> None:
            self.waits = False


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(handoff, "monotonic", made.monotonic)
    monkeypatch.setattr(handoff, "Timer", made.timer)
    return made


@pytest.fixture
def nothing_held() -> Callable[[], bool]:
    """Whether memory and threads become what they were when the test began.

    A batch or two may be in the process's pool, and a thread that has ended is listed for a moment longer.
    """
    gc.collect()
    before = threads(), held()
    return lambda: wait_until(lambda: held() <= before[1] + 2_000_000 and threads() <= before[0])


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


# -- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"batch_size": 32}, {"fanouts": [4, 2]}, {"rows": "y"}, {"io": "uring"}, {"memory": "60MB"}], ids=str)  # fmt: skip # noqa: E501
@pytest.mark.parametrize("repeat", [False, True])
def test_loaders_of_a_group_hand_on_one_window(stores, options, repeat):
    """Where they deliver rows of the same files within one budget; others take turns."""
    train, valid = make(stores), make(stores, **VALID, **options)
    alone = make(stores, **VALID, **(options | {"memory": "1GB"}))
    plain = [contents(alone) for _ in range(3)]
    alike = not options.keys() & {"rows", "io", "memory"}
    before = held()
    with gz.LoaderGroup(train, valid, repeat=[valid] if repeat else []):
        for epoch in range(3):
            assert train.epoch == epoch
            assert train.stats().next_epoch == (epoch if alike and epoch else None)
            assert contents(train) == expected(stores, epoch)
            assert valid.stats().next_epoch == ((0 if repeat else epoch) if alike else None)
            assert contents(valid) == plain[0 if repeat else epoch]
            assert valid.stats().batches == len(valid)
            assert held() - before < 60_000_000
        assert train.stats().plan["ways"] == {"x": "window"}
    assert wait_until(lambda: held() - before < 2_000_000)


def test_a_group_that_is_not_a_group_is_refused(stores):
    train, valid = make(stores), make(stores, **VALID)
    for wrong, match in [((), "at least one"), ((train, train), "duplicate loader"), (([train],), "got list")]:
        with pytest.raises((ValueError, TypeError), match=match):
            gz.LoaderGroup(*wrong)
    with pytest.raises(ValueError, match="not in the group"):
        gz.LoaderGroup(train, repeat=[valid])
    with pytest.raises(ValueError, match="hold_seconds is -1"):
        gz.LoaderGroup(train, hold_seconds=-1)
    assert [*gz.LoaderGroup(train, valid)] == [train, valid]


@pytest.mark.parametrize("drop", [0, 1])
def test_dropping_a_loader_of_a_group_ends_what_was_made_ahead(stores, nothing_held, drop):
    loaders = [make(stores), make(stores, **VALID)]
    gz.LoaderGroup(*loaders)
    for _ in range(2):
        for loader in loaders:
            contents(loader)
    del loader
    count = threads()
    kept = loaders[1 - drop]
    del loaders
    assert wait_until(lambda: threads() < count)
    assert contents(kept) == expected(stores, 2, **({} if drop else VALID))
    kept.close()
    assert nothing_held()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2]),
        st.sampled_from(["whole", "whole", "whole", "whole", "part", "set", "anew", "two", "group", "close"]),
    ),
    min_size=4,
    max_size=14,
)
KINDS: list[dict[str, Any]] = [{}, VALID, {"seeds": np.arange(100, 160), "shuffle": False, "batch_size": 12}]
PLAIN: dict[int, dict[tuple[int, int], Any]] = {}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        elif action == "group":
            gz.LoaderGroup(*(loaders[kind:] + loaders[:kind]))
        elif action == "close":
            loader.close()
        else:
            other = loaders[(kind + 1) % 3]
            at = other.epoch
            pairs = list(zip(loader, other, strict=False))
            check(kind, epoch, contents(a for a, _ in pairs))
            check((kind + 1) % 3, at, contents(b for _, b in pairs))
    for loader in loaders:
        loader.close()
