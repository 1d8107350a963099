"""`gz.neighbours`: the vectors nearest to some of them, exactly, by products of blocks."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_count, as_ids
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size, parse_size
from ..errors import BudgetError
from ..stores.features import FeatureStore

__all__ = ["Neighbours", "neighbours"]

METRICS = ("cosine", "dot", "euclidean")
_MOST = 1 << 30  # bytes for memory="auto": more does not make products faster
_LEAST_ROWS, _MOST_ROWS = 64, 1 << 16  # of a block
_SAMPLE = 4096  # vectors
_MOST_PRODUCT = 1e37
_LAST = np.iinfo(np.int64).max  # places that are not filled yet come after all others

Matrix = npt.NDArray[np.float32]


class Neighbours(NamedTuple):
    """The nearest of each query, in order: int64 ids of shape (queries, k), and float32 scores."""

    ids: IdArray
    scores: Matrix


def neighbours(
    vectors: Any,
    ids: Any = None,
    k: int = 10,
    *,
    metric: str = "cosine",
    exclude_self: bool = True,
    memory: int | float | str = "auto",
    progress: bool | Callback | None = None,
) -> Neighbours:
    """The k rows of `vectors` that are nearest to each of the rows `ids`, exactly.

    vectors: a float array or tensor of shape (nodes, dim), a `FeatureStore`, or the path of a `.gd` file, which is read
        block by block. The result of `gz.embed`, of `gz.inference`, or any features.
    ids: of nodes, as everywhere in GraphZero; None for all. `ds.ids.to_dense` and `ds.ids.to_original` convert the ids
        of the source.
    metric: "cosine" and "dot": larger scores are nearer. "euclidean": scores are distances, smaller ones are nearer.
    exclude_self: whether a row is not its own neighbour.
    memory: for blocks and products. What the result takes is not counted.

    Products are float32. If scores are equal, smaller ids come first.

    >>> import graphzero as gz
    >>> x = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]]
    >>> gz.neighbours(x, [0, 1], k=1).ids.tolist()
    [[2], [2]]
    """
    if metric not in METRICS:
        raise ValueError(f"metric is {metric!r}, expected {', '.join(map(repr, METRICS))}")
    rows = _as_rows(vectors)
    nodes, dim = len(rows), rows.shape[1]
    count = as_count(k, "k", least=1)
    if count > nodes - bool(exclude_self):
        raise ValueError(f"k is {count}, but there are {max(nodes - bool(exclude_self), 0)} vectors to choose from")
    queries = np.arange(nodes) if ids is None else as_ids(ids)
    if len(queries) and not (queries.min() >= 0 and queries.max() < nodes):
        bad = queries[(queries < 0) | (queries >= nodes)][0]
        raise IndexError(f"ids holds {bad}, which is out of range for {nodes} vectors")
    some, block = _block_sizes(len(queries), nodes, dim, count, _budget(memory))
    found = Neighbours(np.empty((len(queries), count), np.int64), np.empty((len(queries), count), np.float32))
    frame = _Frame(rows) if metric == "euclidean" else None
    with Reporting(progress, "products") as callback:
        for begin in range(0, len(queries), some):
            part = queries[begin : begin + some]
            best = _Best(len(part), count)
            given = _prepared(_read(rows, part), part, metric, frame)
            for first in range(0, nodes, block):
                at = np.arange(first, min(first + block, nodes))
                scores = _scores(given, _prepared(_read(rows, at), at, metric, frame), metric)
                if exclude_self:
                    own = np.flatnonzero((part >= first) & (part <= at[-1]))
                    scores[own, part[own] - first] = -np.inf
                best.add(scores, first)
                if callback is not None:
                    callback("comparing", begin * nodes + len(part) * (first + len(at)), len(queries) * nodes)
            nearest = Neighbours(best.ids, best.scores)
            if metric == "euclidean":
                nearest = _measured(rows, part, best)
            found.ids[begin : begin + some] = nearest.ids
            found.scores[begin : begin + some] = nearest.scores
    return found


class _Best:
    """The best of each query so far, in order; blocks come by ascending id."""

    def __init__(self, queries: int, k: int) -> None:
        self.scores = np.full((queries, k), -np.inf, np.float32)
        self.ids = np.full((queries, k), -1, np.int64)

    def add(self, scores: Matrix, first: int) -> None:
        queries, k = self.scores.shape
        least = self.scores[:, -1]
        if scores.shape[1] > k and not np.isfinite(least).all():  # the first block: nothing to compare with yet
            least = np.nextafter(np.partition(scores, -k, axis=1)[:, -k], np.float32(-np.inf))
        row, column = np.nonzero(scores > least[:, None])
        if len(row) == 0:
            return
        old = np.repeat(np.arange(queries), k)
        rows = np.concatenate([old, row])
        values = np.concatenate([self.scores.ravel(), scores[row, column]])
        ids = np.concatenate([self.ids.ravel(), column + first])
        order = np.lexsort((np.where(ids < 0, _LAST, ids), -values, rows))
        starts = np.searchsorted(rows[order], np.arange(queries))
        kept = order[starts[:, None] + np.arange(k)]
        self.scores, self.ids = values[kept], ids[kept]


class _Frame:
    """Moves vectors to the origin and to a size of about 1, where products in float32 lose the least.

    The place and the size are those of the first vectors; factors are powers of two, which change no digit.
    """

    def __init__(self, rows: Any) -> None:
        sample = _read(rows, np.arange(min(len(rows), _SAMPLE))).astype(np.float64)
        sample = sample[np.isfinite(sample).all(axis=1)]
        self._centre = (sample.mean(axis=0) if len(sample) else np.zeros(rows.shape[1])).astype(np.float32)
        peak = float(np.abs(sample - self._centre).max(initial=0))
        self._factor = np.float32(2.0 ** -np.clip(np.floor(np.log2(peak)), -120, 120)) if peak > 0 else np.float32(1)

    def __call__(self, block: Matrix) -> Matrix:
        moved: Matrix = (block - self._centre) * self._factor
        return moved


def _scores(given: Matrix, block: Matrix, metric: str) -> Matrix:
    """Larger is nearer."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores: Matrix = given @ block.T
        total = float(np.abs(scores).max(initial=0))
    if not total < _MOST_PRODUCT:
        raise ValueError("the vectors are too long for products in float32; divide them by a common factor")
    if metric == "euclidean":  # minus the squared distance
        scores *= 2
        scores -= np.einsum("nd,nd->n", given, given)[:, None]
        scores -= np.einsum("nd,nd->n", block, block)
    return scores


def _measured(rows: Any, queries: IdArray, best: _Best) -> Neighbours:
    """Return the best with their distances, in order; those from products are imprecise where they are small."""
    given = _read(rows, queries).astype(np.float64)
    each = [np.linalg.norm(given - _read(rows, ids), axis=1) for ids in np.ascontiguousarray(best.ids.T)]
    distances = np.stack(each, axis=1).astype(np.float32)
    order = np.lexsort((best.ids, distances), axis=1)
    return Neighbours(np.take_along_axis(best.ids, order, 1), np.take_along_axis(distances, order, 1))


def _prepared(block: Matrix, ids: IdArray, metric: str, frame: _Frame | None) -> Matrix:
    bad = ~np.isfinite(block).all(axis=1)
    if bad.any():
        raise ValueError(f"the vector of node {ids[bad][0]} is not finite")
    if metric != "cosine":
        return block if frame is None else frame(block)
    unit = np.zeros_like(block)
    largest = np.abs(block).max(axis=1, keepdims=True, initial=0)
    np.divide(block, largest, out=unit, where=largest > 0)  # first, since squares may be out of range
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    np.divide(unit, lengths, out=unit, where=lengths > 0)
    return unit


def _as_rows(vectors: Any) -> Any:
    """Return an array or a store with rows of numbers."""
    if isinstance(vectors, (str, os.PathLike)):
        vectors = FeatureStore(vectors)
    if not isinstance(vectors, FeatureStore):
        vectors = np.asarray(vectors.detach().cpu() if hasattr(vectors, "detach") else vectors)
    if len(vectors.shape) != 2:
        raise ValueError(f"vectors have shape {vectors.shape}, expected (nodes, dim)")
    if vectors.dtype.kind not in "fiu":
        raise TypeError(f"vectors have dtype {vectors.dtype}, expected numbers")
    return vectors


def _read(rows: Any, ids: IdArray) -> Matrix:
    if isinstance(rows, FeatureStore):
        found: Matrix = rows.gather(ids, dtype="float32")
        return found
    return np.asarray(rows[ids[0] : ids[-1] + 1] if _is_range(ids) else rows[ids], np.float32)


def _is_range(ids: IdArray) -> bool:
    return len(ids) > 0 and bool((np.diff(ids) == 1).all())


def _budget(memory: int | float | str) -> int:
    return min(_MOST, int(_core.available_memory() * 0.5) or _MOST) if memory == "auto" else parse_size(memory)


def _block_sizes(queries: int, nodes: int, dim: int, k: int, memory: int) -> tuple[int, int]:
    """Return how many queries, and how many rows, are compared at once."""
    each = 12 * dim + 64 * k  # of a query and its candidates, and of a row: as read, checked, and of length 1
    least = _LEAST_ROWS * 2 * each + _LEAST_ROWS * _LEAST_ROWS * 16
    if memory < least:
        message = f"memory is {format_size(memory)}, but comparing vectors of {dim} numbers needs {format_size(least)}"
        raise BudgetError(message, least)
    some = max(1, min(queries, memory // 4 // each, max(_LEAST_ROWS, memory // 4 // (16 * _LEAST_ROWS))))
    block = min(nodes, _MOST_ROWS, memory // 2 // (each + 16 * some))
    return some, max(block, 1)
