"""Degrees, in either direction of any file."""

from __future__ import annotations

import os
from typing import Any

from ..args.progress import Callback
from .call import Call, Source, as_direction

__all__ = ["degrees"]


def degrees(
    graph: Source,
    *,
    direction: str = "out",
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The number of edges at each node, as int64: those that leave it ("out"), that arrive ("in"), or both.

    A direction that the file does not have is counted by a pass over the edges. Parallel edges count each. An edge of
    an undirected graph counts once for each of its ends, in every direction.

    >>> gz.analytics.degrees(g, direction="in")  # doctest: +SKIP
    array([0, 2, 1])
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    undirected = call.graph.info["undirected"]
    with call.run() as native:
        found = native.degrees("out" if as_direction(direction) == "both" else direction)
        if direction == "both" and not undirected:
            call.graph.num_nodes  # noqa: B018 -- raises ValueError for a rectangular graph
            found += native.degrees("in")
    return call.result("degree", found)
