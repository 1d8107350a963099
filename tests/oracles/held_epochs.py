"""Loaders whose next epoch is made ahead, over one small graph: its files, a clock that tests turn, what is held."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import wait_until

import graphzero as gz
from graphzero import _core
from graphzero.load import handoff

NODES, BATCHES = 6_000, 12
VALID: dict[str, Any] = {"seeds": np.arange(3000, 3100), "shuffle": False}


def make_stores(folder: Path) -> dict[str, Any]:
    """Write a graph and two feature files, one that needs a window and a small one, and open them."""
    rng = np.random.default_rng(0)
    gz.compile_graph(rng.integers(0, NODES, (2, 8 * NODES)), folder / "g.gl", num_nodes=NODES, direction="in")
    gz.compile_features(rng.standard_normal((NODES, 1000), dtype=np.float32), folder / "x.gd")
    gz.compile_features(rng.standard_normal((NODES, 3), dtype=np.float32), folder / "y.gd")
    return {
        "graph": gz.Graph(folder / "g.gl"),
        "x": gz.FeatureStore(folder / "x.gd"),
        "y": gz.FeatureStore(folder / "y.gd"),
    }


def make(stores: dict[str, Any], rows: str = "x", **options: Any) -> gz.NeighborLoader:
    """Return a loader whose rows are read by a window: a whole copy takes 24 MB, and some 20 are left for it."""
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


def replace_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let a clock decide when what is held expires."""
    made = Clock()
    monkeypatch.setattr(handoff, "monotonic", made.monotonic)
    monkeypatch.setattr(handoff, "Timer", made.timer)
    return made


def released() -> Callable[[], bool]:
    """Return whether memory and threads become what they are now.

    A batch or two may be in the process's pool, and a thread that has ended is listed for a moment longer.
    """
    gc.collect()
    before = threads(), held()
    return lambda: wait_until(lambda: held() <= before[1] + 2_000_000 and threads() <= before[0])
