"""The rank of this process in the job and on this host, as loaders use it."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..args.ids import as_count


def as_rank(rank: Any, world_size: Any) -> tuple[int, int] | None:
    """Return the given rank and world size, checked; None if neither is given, so that torch.distributed decides."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ValueError(f"{given} was given without {missing}; pass both, or neither to use torch.distributed")
    world = as_count(world_size, "world_size", least=1)
    number = as_count(rank, "rank", least=0)
    if number >= world:
        raise ValueError(f"rank is {number}, expected less than world_size = {world}")
    return number, world


def current_rank(asked: tuple[int, int] | None) -> tuple[int, int]:
    """Return (rank, world size): as requested, else of the process group, else (0, 1).

    torch.distributed is never imported here: a program that initialised it has imported it.
    """
    if asked is not None:
        return asked
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


# Environment variables in which launchers pass the number of processes on this host, and the local rank.
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_THIS_HOST = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class LocalRank:
    """The local rank of this process. The ranks of a host divide `memory` and share what they read."""

    rank: int
    world_size: int
    group: str  # identifies the ranks of one job on this host


def current_local_rank(asked: int | None, asked_rank: tuple[int, int] | None) -> LocalRank:
    """Return the requested local rank, else that of the launcher, else rank 0 of 1."""
    rank, world_size = current_rank(asked_rank)
    size = asked if asked is not None else _number(_LOCAL_SIZES)
    if size is None and asked_rank is None and os.environ.get("MASTER_ADDR") in _THIS_HOST:
        size = world_size  # rank 0 is on this host, so all are, as multiprocessing starts them
    size = size or 1
    place = _number(_LOCAL_RANKS)
    place = rank % size if place is None or place >= size else place
    return LocalRank(place, size, _job() if size > 1 else "")


def _number(names: tuple[str, ...]) -> int | None:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdigit()), None)


def _job() -> str:
    """Return a name for the job of this process: its ranks share a master port, or a parent process."""
    port = os.environ.get("MASTER_PORT")
    return f"{os.environ.get('MASTER_ADDR')}:{port}" if port else f"child of {os.getppid()}"


def local_threads(asked: int | None = None, feeds_gpu: bool = False, plans_rows: bool = False) -> int:
    """Return the default number of threads of one rank: its share of the processors of this host.

    If a GPU is fed, one of several processors is left to the thread that launches its kernels, and of 8 or more none of
    the loader's threads runs there (`leave_processors` in `core/base/threads.h`). If rows are planned for its cache,
    threads of their own do so (`core/device/`), one for every three of these.
    """
    part = max(1, _core.default_threads() // current_local_rank(asked, (0, 1)).world_size)
    if part <= 4:
        return part - part // 5 if plans_rows else part
    if plans_rows:
        return part - 1 - max(1, (part + 1) // 4)
    return part - 1 if feeds_gpu else part


def warn_if_alone(asked: tuple[int, int] | None, world_size: int) -> None:
    """Warn if the launcher started several processes but this one is about to load every batch."""
    if asked is not None or world_size != 1 or "RANK" not in os.environ:
        return
    started = os.environ.get("WORLD_SIZE", "")
    if started.isdigit() and int(started) > 1:
        warnings.warn(
            f"WORLD_SIZE is {started} but torch.distributed is not initialised, so this process loads every batch; "
            "call torch.distributed.init_process_group() first, or pass rank= and world_size=",
            stacklevel=3,
        )
