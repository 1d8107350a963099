"""Nodes or edges that are in two splits: scores of the later split are then too high."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import as_ids

__all__ = ["overlap_notes"]


def overlap_notes(task: Any) -> Iterator[str]:
    """Yield a note for each two splits of a task that share seeds.

    Takes a byte per node. Rows of a task table with times are not compared: a node may be a seed at several times. Nor
    are edges that are given by their ends.
    """
    if getattr(task, "table", None) is not None and any(seeds.times is not None for seeds in task.splits.values()):
        return
    found = {name: getattr(seeds, "ids", seeds) for name, seeds in task.splits.items()}
    ids = {name: as_ids(of, name) for name, of in found.items() if of is not None and np.ndim(of) == 1 and len(of)}
    what = "edges" if task.options.task == "links" else "nodes"
    for (one, other), shared in _shared(ids):
        yield f"splits {one!r} and {other!r} share {shared:,} {what}, so scores of {other!r} are too high"


def _shared(ids: dict[str, npt.NDArray[np.int64]]) -> Iterator[tuple[tuple[str, str], int]]:
    order: list[str] = [name for name in ("train", "valid", "test") if name in ids]
    seen = np.zeros(max((int(ids[name].max()) + 1 for name in order), default=0), np.uint8)  # a bit per split
    for bit, name in enumerate(order):
        seen[ids[name]] |= 1 << bit
    for (first, one), (second, other) in combinations(enumerate(order), 2):
        both = 1 << first | 1 << second
        if count := int(np.count_nonzero(seen & both == both)):
            yield (one, other), count
