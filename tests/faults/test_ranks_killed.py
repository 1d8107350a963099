"""A rank that is killed while others of its host read with it: they go on, and nothing of it is left behind."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest
from local_ranks import BATCHES, Rank, digest, loader_of, make, meeting_places
from waiting import wait_until

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks meet on Linux only")
ROUNDS = 20 if os.environ.get("GRAPHZERO_SOAK") else 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def expected(folder):
    return [digest(batch) for batch in loader_of(folder, cache="off", memory="auto", num_threads=2)]


def started(spawn, folder):
    """Two ranks in the midst of their epochs; they take a moment over each batch."""
    ranks = [Rank(spawn, folder, rank, pause=0.005) for rank in range(2)]
    for rank in ranks:
        rank.wait_until_ready()
    for rank in ranks:
        rank.go()
    return ranks


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_killed_rank_neither_stops_nor_spoils_the_other(folder, expected, spawn, number):
    chance = random.Random(number)
    shm = set(os.listdir("/dev/shm"))
    ranks = started(spawn, folder)
    victim = number % 2
    list(ranks[victim].lines(chance.randrange(BATCHES // 2 - 5)))
    time.sleep(chance.random() / 50)  # at any moment of its work
    used = [rank.meeting_places() for rank in ranks]
    assert all(used)
    ranks[victim].process.send_signal(signal.SIGKILL)
    assert ranks[victim].process.wait() == -signal.SIGKILL
    batches, last = ranks[1 - victim].rest(alone=True)
    assert batches == expected[1 - victim :: 2]
    assert last["blocks"] == 1  # its own: the other's memory is free
    assert wait_until(lambda: not set.union(*used) & meeting_places().keys())
    assert set(os.listdir("/dev/shm")) <= shm or not any("graphzero" in name for name in os.listdir("/dev/shm"))


def test_a_stopped_rank_does_not_hang_the_other(folder, expected, spawn):
    """A debugger, or a machine that swaps: it may be away for long."""
    ranks = started(spawn, folder)
    first = list(ranks[0].lines(5))
    ranks[0].process.send_signal(signal.SIGSTOP)
    assert ranks[1].rest()[0] == expected[1::2]
    ranks[0].process.send_signal(signal.SIGCONT)
    assert first + ranks[0].rest()[0] == expected[::2]
