"""Triangles and clustering, exact or estimated."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from ..args.progress import Callback
from ..sample.subgraph import resolve_seed
from .call import Call, Source

__all__ = ["Estimate", "average_clustering", "clustering", "transitivity", "triangles"]


class Estimate(NamedTuple):
    """A number with its error: the exact value is within `error` of it, with probability `confidence` or more."""

    value: float
    error: float
    confidence: float
    samples: int

    def __float__(self) -> float:
        """Return the value."""
        return self.value


def triangles(
    graph: Source,
    *,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The number of triangles that each node is part of, as int64; their sum is three times the number of triangles.

    Directions are ignored, parallel edges count once, and self-loops do not count. A directed graph is first compiled
    as an undirected one, into a temporary file next to it. 16 bytes per node and half of the edges are held in RAM; if
    the edges do not fit into `memory`, a part of them at a time, with two passes over the file for each part.

    >>> gz.analytics.triangles(g).sum() // 3  # doctest: +SKIP
    1630
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    with call.symmetric() as rows, call.run(rows) as native:
        found, _ = native.triangles()
    return call.result("triangles", found)


def clustering(
    graph: Source,
    *,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
    out: str | os.PathLike[str] | None = None,
) -> Any:
    """The clustering coefficient of each node, as float64: the share of pairs of its neighbours that are connected.

    0 for a node with fewer than two neighbours. See `triangles` for how edges are counted and what is held in RAM.

    >>> gz.analytics.clustering(g).mean()  # doctest: +SKIP
    0.2407
    """
    call = Call(graph, memory, num_threads, progress, io, out)
    with call.symmetric() as rows, call.run(rows) as native:
        found, degree = native.triangles()
    return call.result("clustering", 2 * found / np.maximum(_pairs(degree), 1))


def average_clustering(
    graph: Source,
    *,
    error: float | None = None,
    confidence: float = 0.99,
    seed: Any = 0,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
) -> Estimate:
    """The mean of `clustering`, exact, or within `error` with probability `confidence`.

    With `error`, random pairs of neighbours of random nodes are looked up: ln(2 / (1 - confidence)) / (2 error^2) of
    them, 26,492 for an error of 0.01, whatever the size of the graph. Only their rows are read.

    >>> gz.analytics.average_clustering(g, error=0.01)  # doctest: +SKIP
    Estimate(value=0.2411, error=0.01, confidence=0.99, samples=26492)
    """
    call = Call(graph, memory, num_threads, progress, io)
    with call.symmetric() as rows, call.run(rows) as native:
        if error is not None:
            return _sampled(native, "nodes", error, confidence, seed)
        found, degree = native.triangles()
    mean = float((2 * found / np.maximum(_pairs(degree), 1)).mean()) if len(found) else 0.0
    return Estimate(mean, 0.0, 1.0, len(found))


def transitivity(
    graph: Source,
    *,
    error: float | None = None,
    confidence: float = 0.99,
    seed: Any = 0,
    memory: int | float | str = "auto",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    io: str = "auto",
) -> Estimate:
    """The share of all pairs of neighbours of a node that are connected, exact or estimated.

    `error` and `confidence` are those of `average_clustering`; here pairs are drawn from all nodes together, which
    takes 8 bytes per node.
    """
    call = Call(graph, memory, num_threads, progress, io)
    with call.symmetric() as rows, call.run(rows) as native:
        if error is not None:
            return _sampled(native, "wedges", error, confidence, seed)
        found, degree = native.triangles()
    pairs = int(_pairs(degree).sum())
    return Estimate(2 * int(found.sum()) / pairs if pairs else 0.0, 0.0, 1.0, len(found))


def _pairs(degree: Any) -> Any:
    wide = degree.astype(np.int64)
    return wide * (wide - 1)


def _sampled(native: Any, mean: str, error: float, confidence: float, seed: Any) -> Estimate:
    if not 1e-6 <= error < 1 or not 0 < confidence < 1:
        raise ValueError(f"error is {error} and confidence {confidence}, expected 1e-6 to 1, and 0 to 1")
    samples = math.ceil(math.log(2 / (1 - confidence)) / (2 * error**2))  # Hoeffding's inequality
    return Estimate(native.sample_wedges(mean, samples, resolve_seed(seed)), error, confidence, samples)
