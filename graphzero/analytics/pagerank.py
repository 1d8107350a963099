"""PageRank."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import as_count, as_ids
from ..args.progress import Callback
from .call import Call, Source

__all__ = ["pagerank"]

_Weights = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


def pagerank(
    graph: Source,
    *,
    damping: float = 0.85,
    iterations: int = 100,
    tolerance: float = 1e-6,
    weighted: bool = False,
    personalization: Any = None,
    dangling: Any = None,
    start: Any = None,
    direction: str = "out",
    dtype: Any = "float32",
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The PageRank of each node; ranks sum to 1.

    Rank flows along edges (`direction="out"`), or against them ("in"), in equal parts or by the file's weights
    (`weighted`). Parallel edges count each.

    iterations, tolerance: it ends when ranks change by less than `tolerance` in total, or after `iterations`, with a
        RuntimeWarning. `tolerance=0` runs all iterations.
    personalization: where a random walk starts again: a dict of weights by node, or an array with one per node.
    dangling: where it goes from a node without edges; `personalization` if None.
    start: the ranks before the first iteration, in the same form.
    dtype: of the ranks: "float32" or "float64". Sums are in double precision either way.

    Three numbers per node are held in RAM. Rows by target ("in", or any of an undirected graph) are best. With rows by
    source only, ranks are added up as integers with 62 binary places, which takes 8 more bytes per node and 2.6 times
    the time (benchmarks/analytics.py). The result does not depend on `num_threads`, `memory` and `io`, bit for bit.

    >>> gz.analytics.pagerank(g, personalization={0: 1.0})  # doctest: +SKIP
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    wanted = np.dtype(dtype)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype is {wanted.name!r}, expected 'float32' or 'float64'")
    if direction not in ("out", "in"):
        raise ValueError(f"direction is {direction!r}, expected 'out' or 'in'")
    if not 0 <= damping <= 1:
        raise ValueError(f"damping is {damping}, expected 0 to 1")
    nodes = call.graph.num_nodes
    with call.run() as native:
        power = native.pagerank32 if wanted == np.float32 else native.pagerank64
        ranks, done, change = power(
            direction,
            float(damping),
            as_count(iterations, "iterations", least=1),
            float(tolerance),
            bool(weighted),
            _as_weights(personalization, nodes, "personalization"),
            _as_weights(dangling, nodes, "dangling"),
            _as_weights(start, nodes, "start"),
        )
    if tolerance > 0 and change >= tolerance:
        message = f"PageRank changed by {change:.3g} in iteration {done}, more than tolerance={tolerance:g}"
        warnings.warn(f"{message}; raise iterations or tolerance", RuntimeWarning, stacklevel=2)
    return call.result("pagerank", ranks)


def _as_weights(given: Any, nodes: int, name: str) -> _Weights | None:
    """Return nodes and their weights."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        ids, weights = as_ids(list(given), name), np.array(list(given.values()), np.float64)
    else:
        weights = np.ascontiguousarray(given, np.float64)
        if weights.shape != (nodes,):
            raise ValueError(f"{name} has shape {weights.shape}, expected ({nodes},), one number per node, or a dict")
        ids = np.flatnonzero(weights)
        weights = weights[ids]
    if len(weights) == 0 or not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise ValueError(f"{name} must have weights that are finite, not negative, and not all 0")
    return ids, weights
