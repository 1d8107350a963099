"""Ranks of one host as processes: what each runs, and how a test starts and hears them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from waiting import PATIENCE

import graphzero as gz

ROWS = 100_000  # of 512 bytes: two ranks with MEMORY have room for a part of them
MEMORY = "96MB"
BATCHES = 80

_RANK = """
import json, sys, time
from local_ranks import loader_of, digest
from waiting import wait_until
folder, rank, world, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
loader = loader_of(folder, rank=rank, world_size=world)
loader._ready_plan()
print("ready", flush=True)
sys.stdin.readline()
met = 0
for batch in loader:
    print(digest(batch), flush=True)
    met = max(met, loader.stats().plan["local_ranks_met"])
    time.sleep(pause)
stats = loader.stats().to_dict()
def blocks():
    with open("/proc/self/maps") as maps:
        return sum("memfd:graphzero" in line for line in maps)
if sys.stdin.readline() == "alone\\n":
    wait_until(lambda: blocks() <= 1)  # a thread notices the end of a process, and may have to wait for a processor
print(json.dumps({"met": met, "blocks": blocks(), "stats": stats}), flush=True)
"""


def make(folder: Path) -> Path:
    """A graph and features of a few segments."""
    rng = np.random.default_rng(3)
    gz.compile_graph(rng.integers(0, ROWS, (2, 600_000)), folder / "g.gl", num_nodes=ROWS, direction="in")
    gz.compile_features(rng.integers(0, 1 << 30, (ROWS, 128), dtype=np.int32), folder / "x.gd")
    return folder


def loader_of(folder: str | Path, **options: Any) -> gz.NeighborLoader:
    """The loader that all ranks have; rows are read through windows."""
    g, x = gz.Graph(Path(folder, "g.gl")), gz.FeatureStore(Path(folder, "x.gd"))
    settings: dict[str, Any] = {"batch_size": 128, "seed": 9, "memory": MEMORY, "num_threads": 1, "cache": "on"}
    settings |= {"fanouts": [4, 3], "seeds": np.arange(0, ROWS, ROWS // (128 * BATCHES))[: 128 * BATCHES]}
    return gz.NeighborLoader(g, x, **(settings | options))


def digest(batch: Any) -> str:
    """A batch as something that compares."""
    import hashlib

    total = hashlib.sha256()
    for name, value in batch:
        total.update(name.encode() + (value.numpy().tobytes() if hasattr(value, "numpy") else str(value).encode()))
    return total.hexdigest()


class Rank:
    """One process."""

    def __init__(self, spawn: Callable[..., Any], folder: Path, rank: int, world: int = 2, pause: float = 0) -> None:
        """Start it; it waits for go()."""
        tests = Path(__file__).parent
        env = {"PYTHONPATH": os.pathsep.join([str(tests.parents[1]), str(tests)])}
        env |= {"LOCAL_WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
        command = [sys.executable, "-c", _RANK, str(folder), str(rank), str(world), str(pause)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = spawn(command, env=os.environ | env, **pipes)

    def wait_until_ready(self) -> None:
        """Return when it has made its plan, and met those who are there."""
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def go(self) -> None:
        """Start its epoch."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def lines(self, count: int) -> Iterator[str]:
        """Its next batches."""
        for _ in range(count):
            yield self.process.stdout.readline().strip()

    def rest(self, alone: bool = False) -> tuple[list[str], dict[str, Any]]:
        """The batches that are left, and what it says at its end; `alone`: there is no other any more."""
        # not communicate(), which would lose the lines that readline() has buffered
        self.process.stdin.write("alone\n" if alone else "end\n")
        self.process.stdin.flush()
        hangs = threading.Timer(PATIENCE, self.process.kill)
        hangs.start()
        out, error = self.process.stdout.read(), self.process.stderr.read()
        hangs.cancel()
        assert self.process.wait() == 0, error
        *batches, last = out.splitlines()
        return batches, json.loads(last)

    def meeting_places(self) -> set[str]:
        """Return the names of the sockets at which other ranks meet this one."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        inodes = {os.readlink(fd) for fd in folder.iterdir() if fd.is_symlink()}
        return {name for name, inode in meeting_places().items() if f"socket:[{inode}]" in inodes}


def meeting_places() -> dict[str, str]:
    """Return the abstract sockets at which ranks meet, of all jobs on this machine, and their inodes."""
    with open("/proc/net/unix") as sockets:
        found = [line.split() for line in sockets if "@graphzero/" in line]
    return {name: inode for *_, inode, name in found}
