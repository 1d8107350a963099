"""Which process of how many this one is, as a loader needs to know it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from . import _core
from ._ids import as_count


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


def local_world_size() -> int:
    """Return how many processes the launcher started on this host: LOCAL_WORLD_SIZE, else 1."""
    started = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(started)) if started.isdigit() else 1


def local_threads() -> int:
    """Return the threads of one rank where nothing else was asked for: its part of the processors of this host."""
    return max(1, _core.default_threads() // local_world_size())


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
