"""Which process of how many this one is, as a loader needs to know it: of the job, and of this host."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..args.ids import as_count


def as_rank(rank: Any, world_size: Any) -> tuple[int, int] | None:
    """Return what the user said, checked; None when nothing was said and torch.distributed decides."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ValueError(f"{given} was given without {missing}: pass both, or neither to use torch.distributed")
    world = as_count(world_size, "world_size", least=1)
    number = as_count(rank, "rank", least=0)
    if number >= world:
        raise ValueError(f"rank is {number}, expected less than world_size = {world}")
    return number, world


def current_rank(asked: tuple[int, int] | None) -> tuple[int, int]:
    """Return (rank, world size): what was asked for, else the process group's, else (0, 1).

    torch.distributed is looked at but never imported: whoever initialised it has imported it.
    """
    if asked is not None:
        return asked
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


# What launchers call the number of processes of this host, and this one's place among them.
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_THIS_HOST = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class LocalRank:
    """This process among those of its host that load together: they divide `memory` and share what they read."""

    rank: int
    world_size: int
    group: str  # the same for all of them, and for no others


def current_local_rank(asked: int | None, asked_rank: tuple[int, int] | None) -> LocalRank:
    """Return what was asked for, else what the launcher says, else that this process is alone on its host."""
    rank, world_size = current_rank(asked_rank)
    size = asked if asked is not None else _number(_LOCAL_SIZES)
    if size is None and asked_rank is None and os.environ.get("MASTER_ADDR") in _THIS_HOST:
        size = world_size  # all ranks are where rank 0 is, as multiprocessing starts them
    size = size or 1
    place = _number(_LOCAL_RANKS)
    place = rank % size if place is None or place >= size else place
    return LocalRank(place, size, _job() if size > 1 else "")


def _number(names: tuple[str, ...]) -> int | None:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdigit()), None)


def _job() -> str:
    """Name the job that this process belongs to: ranks meet at one port, or are children of one process."""
    port = os.environ.get("MASTER_PORT")
    return f"{os.environ.get('MASTER_ADDR')}:{port}" if port else f"child of {os.getppid()}"


def local_threads(asked: int | None = None, feeds_gpu: bool = False) -> int:
    """Return the threads of one rank where nothing else was asked for: its part of the processors of this host.

    Where a GPU is fed, one of several processors is left to the thread that tells it what to do. On 16 processors with
    an H200, 15 threads loaded as fast as 16, and training was a twentieth faster on one machine, as fast on another.
    """
    part = max(1, _core.default_threads() // current_local_rank(asked, (0, 1)).world_size)
    return part - 1 if feeds_gpu and part > 4 else part


def warn_if_alone(asked: tuple[int, int] | None, world_size: int) -> None:
    """Warn when the launcher started several processes and this one is about to load everything by itself."""
    if asked is not None or world_size != 1 or "RANK" not in os.environ:
        return
    started = os.environ.get("WORLD_SIZE", "")
    if started.isdigit() and int(started) > 1:
        warnings.warn(
            f"WORLD_SIZE is {started} but torch.distributed is not initialised, so this process loads every batch: "
            "call torch.distributed.init_process_group() first, or pass rank= and world_size=",
            stacklevel=3,
        )
