"""Loaders of a group: one window that is handed on, whatever the order, and nothing held once they are gone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from held_epochs import (
    VALID,
    Clock,
    contents,
    expected,
    held,
    make,
    make_stores,
    released,
    replace_clock,
    threads,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

import graphzero as gz

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
