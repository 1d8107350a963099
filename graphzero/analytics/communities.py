"""Communities by label propagation."""

from __future__ import annotations

import os
from typing import Any

from ..args.ids import as_count
from ..args.progress import Callback
from ..sample.subgraph import resolve_seed
from .call import Call, Source, as_direction

__all__ = ["label_propagation"]


def label_propagation(
    graph: Source,
    *,
    iterations: int = 30,
    direction: str = "both",
    seed: Any = 0,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """A community for each node, as int32, numbered by their first nodes.

    Every node starts with a label of its own and takes the one that most of its neighbours have: those at the other
    ends of its edges in `direction`. In each iteration a random half of the nodes that prefer another label change.
    It ends when none does, or after `iterations`. The result depends on `seed`, and on nothing else.

    8 bytes per node are held in RAM, and each iteration is a pass over the edges. A file without the rows that are
    needed is first compiled with them, into a temporary file next to it; for "both", as an undirected graph.

    >>> np.bincount(gz.analytics.label_propagation(g)).max()  # doctest: +SKIP
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    rounds, key = as_count(iterations, "iterations", least=1), resolve_seed(seed)
    if as_direction(direction) == "both":
        with call.symmetric() as rows, call.run(rows) as native:
            labels, *_ = native.propagate_labels(None, rounds, key)
    else:
        with call.with_rows(direction) as (rows, side), call.run(rows) as native:
            labels, *_ = native.propagate_labels(side, rounds, key)
    return call.result("community", labels)
