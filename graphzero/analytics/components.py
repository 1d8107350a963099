"""Connected components."""

from __future__ import annotations

import os
from typing import Any

from ..args.progress import Callback
from .call import Call, Source

__all__ = ["connected_components"]


def connected_components(
    graph: Source,
    *,
    connection: str = "weak",
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The component of each node, as int32: 0 is that of node 0, and numbers ascend by the first node of each.

    `connection="weak"` ignores the direction of edges; it needs one pass over a file with rows in any direction, and 4
    bytes per node. For a rectangular graph, the components of source nodes come first and then those of target nodes.
    `"strong"` connects nodes that reach each other; it needs up to 32 bytes per node if the file fits into `memory`,
    and otherwise 9 bytes and several passes.

    >>> labels = gz.analytics.connected_components(g)  # doctest: +SKIP
    >>> sizes = np.bincount(labels)  # doctest: +SKIP
    """
    if connection not in ("weak", "strong"):
        raise ValueError(f"connection is {connection!r}, expected 'weak' or 'strong'")
    call = Call(graph, memory, num_threads, progress, io, out)
    with call.run() as native:
        labels, _ = native.weak_components() if connection == "weak" else native.strong_components()
    return call.result("component", labels)
