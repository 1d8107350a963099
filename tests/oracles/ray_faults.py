"""Splits and parts that die or wait inside a Ray task, once: what test_ray.py sends to the workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from graphzero.ray._compile_tasks import Part


def first_time(marker: str) -> bool:
    """Whether nobody asked before: the file is made by the first who does."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class DyingSplit:
    """Kills its worker in the middle of its edges, the first time that it is read."""

    split: Any
    marker: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.split, name)

    def edge_blocks(self) -> Iterator[Any]:
        for block in self.split.edge_blocks():
            yield block
            if first_time(self.marker):  # the builder has the block, and wants the next
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class WaitingSplit(DyingSplit):
    """Waits before its edges, where it is read first, until the file `marker` is there; says on which node."""

    def edge_blocks(self) -> Iterator[Any]:
        import ray

        if first_time(f"{self.marker}-{self.first_edge}"):
            Path(f"{self.marker}-on-{ray.get_runtime_context().get_node_id()}").touch()
            while not os.path.exists(self.marker):
                time.sleep(0.02)
        yield from self.split.edge_blocks()


@dataclass(frozen=True)
class EndlessSplit(DyingSplit):
    """Gives the first of its edges again and again."""

    marker: str = ""

    def edge_blocks(self) -> Iterator[Any]:
        block = next(iter(self.split.edge_blocks()))
        while True:
            yield block
            time.sleep(0.01)


@dataclass(frozen=True)
class DyingPart(Part):
    """Kills its worker while its rows are written, or right after, the first time."""

    marker: str = ""

    @classmethod
    def of(cls, part: Part, marker: str) -> DyingPart:
        return cls(**{f.name: getattr(part, f.name) for f in fields(part)}, marker=marker)

    def range(self) -> Any:
        found = super().range()
        return _Dying(found) if first_time(self.marker) else found


class _Dying:
    def __init__(self, found: Any) -> None:
        self._found = found

    def write(self, **arguments: Any) -> None:
        threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()
        self._found.write(**arguments)
        os.kill(os.getpid(), signal.SIGKILL)
