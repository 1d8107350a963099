"""Core numbers."""

from __future__ import annotations

import os
from typing import Any

from ..args.progress import Callback
from .call import Call, Source

__all__ = ["core_numbers"]


def core_numbers(
    graph: Source,
    *,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The core number of each node, as int32: the largest k for which it is in the k-core.

    The k-core is the largest subgraph in which every node has at least k neighbours; `core_numbers(g) >= k` selects it.
    Directions are ignored, parallel edges count once, and self-loops do not count. A directed graph is first compiled
    as an undirected one, into a temporary file next to it. If the file does not fit into `memory`, 4 bytes per node
    are held in RAM and passes repeat until no number changes.

    >>> gz.analytics.core_numbers(g) >= 3  # doctest: +SKIP
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    with call.symmetric() as rows, call.run(rows) as native:
        found = native.core_numbers()
    return call.result("core", found)
