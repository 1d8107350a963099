"""Signals reach Python while a long native call runs, and what a handler raises ends the call."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from glfile import write_graph

import graphzero as gz

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")

DEGREE = 10_000


class Stopped(Exception):
    """Not a KeyboardInterrupt: what the handler raised must come through as it is."""


@pytest.fixture
def fifth_tick():
    """A handler that raises when it is called for the fifth time.

    Ticks that come while nobody looks are one tick: a call that is deaf to signals sees one or two, before it begins
    and when it is over, and the test then finds that nothing was raised. The calls below take a second or more if they
    are not stopped.
    """
    ticks = []

    def tick(*_):
        ticks.append(None)
        if len(ticks) == 5:
            raise Stopped

    before = signal.signal(signal.SIGALRM, tick)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Node 0 has an edge to each of 10,000 nodes, so that few rows are much work."""
    path = tmp_path_factory.mktemp("hub") / "g.gl"
    dst = np.arange(1, DEGREE + 1)
    return gz.Graph(write_graph(path, DEGREE + 1, np.zeros(DEGREE, np.int64), dst, weights=np.ones(DEGREE)))


def run(call, graph, threads):
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    call(graph, threads)
    signal.setitimer(signal.ITIMER_REAL, 0)  # a call that returned receives no more


CALLS = {
    "sample": lambda g, n: g.sample(np.zeros(200_000, np.int64), [1], method="labor", seed=1, num_threads=n),
    "fanout": lambda g, n: g.batch_random_fanout(np.zeros(60_000, np.int64), 200, weighted=True, seed=1, num_threads=n),
    "pairs": lambda g, n: gz.walk_pairs(
        np.arange(4_000_000).reshape(-1, 100), window=5, shuffle=True, seed=1, num_threads=n
    ),
    "walks": lambda g, n: g.batch_random_walk(
        np.zeros(50_000, np.int64), 800, p=0.5, weighted=True, restart=0.5, seed=1, num_threads=n
    ),
    "one long walk": lambda g, n: g.batch_random_walk_uniform([0], 60_000_000, restart=0.5, seed=1, num_threads=n),
    "negatives": lambda g, n: g.negative_edges(8_000_000, method="degree", exclude_edges=False, seed=1, num_threads=n),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.usefixtures("fifth_tick")
def test_a_long_call_hears_signals(hub, call, threads):
    with pytest.raises(Stopped):
        run(CALLS[call], hub, threads)
