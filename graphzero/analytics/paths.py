"""Breadth-first search: hops from one or many nodes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import as_count, as_ids
from ..args.progress import Callback
from .call import Call, Source, as_direction

__all__ = ["bfs", "hop_counts"]


def bfs(
    graph: Source,
    sources: Any,
    *,
    direction: str = "out",
    limit: int | None = None,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The number of hops from the nearest of `sources` to each node, as int32; -1 if there is no path.

    Edges are followed from source to target ("out"), backwards ("in"), or both ways, up to `limit` hops. A file with
    rows in both directions, or an undirected one, is searched from whichever end is less work. If rows of `direction`
    are missing, each level looks at all nodes that were not reached yet. If the file does not fit into `memory`, each
    level is a pass over all edges, with 4 bytes per node in RAM.

    >>> gz.analytics.bfs(g, 0)  # doctest: +SKIP
    array([0, 1, 1, 2, -1], dtype=int32)
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    with call.run() as native:
        found = native.levels(as_ids(sources, "sources"), as_direction(direction), _as_limit(limit))
    return call.result("hops", found)


def hop_counts(
    graph: Source,
    sources: Any,
    *,
    direction: str = "out",
    limit: int | None = None,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
) -> npt.NDArray[np.int32]:
    """The number of hops from each of `sources` to each node, of shape (len(sources), num_nodes); -1 without a path.

    64 sources are searched at a time, which share the passes over the edges. Besides the result, 24 bytes per node are
    held in RAM. `direction` and `limit` are those of `bfs`.

    >>> gz.analytics.hop_counts(g, [0, 7]).shape  # doctest: +SKIP
    (2, 2708)
    """
    call = Call(graph, memory, num_threads, progress, io)
    with call.run() as native:
        found: npt.NDArray[np.int32] = native.hops(
            as_ids(sources, "sources"), as_direction(direction), _as_limit(limit)
        )
    return found


def _as_limit(limit: int | None) -> int:
    return -1 if limit is None else min(as_count(limit, "limit", least=0), 2**31)
