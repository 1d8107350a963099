"""Edges of any source, as one stream of blocks.

Anything with a method `edge_blocks()` is a source for `compile_graph`. It returns an iterator of blocks; a block is

- an integer array of shape (2, B) or (B, 2), or
- a tuple `(src, dst)`, `(src, dst, weights)` or `(src, dst, weights, times)` of arrays of one length,

NumPy or torch. These attributes are used if they exist: `num_edges` (for progress and to plan memory),
`num_nodes` (one number or two, as in the argument of that name), `has_weights` and `has_times` (so that a source
without a single edge keeps its columns; otherwise the first block decides), `name` (for messages). Another format
needs nothing else:

>>> class Pairs:
...     def edge_blocks(self):
...         yield np.array([0, 1]), np.array([1, 2])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..errors import InputError

if TYPE_CHECKING:
    from ..stores.graph import Graph

__all__ = ["ArraySource", "Block", "BlockSource", "EdgeSource", "GraphFileSource", "as_source"]

_BLOCK_EDGES = 1 << 22  # edges of a large array that are handed over at once
_NATIVE_IDS = (np.dtype("int64"), np.dtype("int32"), np.dtype("uint32"), np.dtype("uint64"))


@dataclass(frozen=True)
class Block:
    """Some edges: ids of any integer dtype, weights float32 or None, times and edge ids int64 or None.

    Edges have the ids that come with them, or else their places in the source.
    """

    src: npt.NDArray[Any]
    dst: npt.NDArray[Any]
    weights: npt.NDArray[np.float32] | None = None
    times: npt.NDArray[np.int64] | None = None
    edge_ids: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.src)

    def part(self, chosen: Any) -> Block:
        """Return some of the edges, by anything that indexes an array."""
        columns = (self.src, self.dst, self.weights, self.times, self.edge_ids)
        return Block(*(None if column is None else column[chosen] for column in columns))  # type: ignore[arg-type]


@runtime_checkable
class EdgeSource(Protocol):
    """What other formats provide: see the module's text."""

    def edge_blocks(self) -> Iterable[Any]:
        """Yield blocks of edges, in source order."""
        ...


def to_numpy(values: Any) -> npt.NDArray[Any]:
    """Return a NumPy view of an array or tensor, a copy of anything else."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def load_npy(path: str) -> npt.NDArray[Any]:
    """Map a `.npy` file of numbers; Python objects in it are never unpickled."""
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a .npy file of numbers ({error})") from error
    return array


def as_id_column(values: Any, what: str) -> npt.NDArray[Any]:
    """Return ids as a one-dimensional array of a dtype the core reads; floats and booleans are refused."""
    ids = to_numpy(values)
    if ids.size == 0 and not isinstance(values, np.ndarray):
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {ids.dtype}")
    if ids.ndim != 1:
        raise ValueError(f"{what} must have one dimension, got shape {ids.shape}")
    if ids.dtype == np.uint64 and ids.size and int(ids.max()) >= 2**62:
        first = int(np.argmax(ids >= 2**62))
        raise InputError(f"{what}[{first}] is {ids[first]}, expected node ids below 2^62; ids='map' maps others")
    if ids.dtype not in _NATIVE_IDS or ids.strides[0] % ids.itemsize or not ids.flags.aligned:
        ids = ids.astype(np.uint64 if ids.dtype.kind == "u" else np.int64)
    return ids


def as_weights(values: Any) -> npt.NDArray[np.float32]:
    """Return weights as contiguous float32."""
    weights = to_numpy(values)
    if weights.dtype.kind not in "fiub" or weights.ndim != 1:
        raise TypeError(f"weights must be a vector of numbers, got dtype {weights.dtype}, shape {weights.shape}")
    with np.errstate(over="ignore"):  # the core rejects values that are not finite, with their position
        return np.ascontiguousarray(weights, dtype=np.float32)


def as_times(values: Any) -> npt.NDArray[np.int64]:
    """Return times as contiguous int64; datetime64 as its own ticks."""
    times = to_numpy(values)
    if times.dtype.kind in "mM":
        if np.isnat(times).any():
            raise InputError(f"times[{int(np.argmax(np.isnat(times)))}] is NaT, expected a time for every edge")
        times = times.astype(np.int64)
    if times.dtype == np.uint64 and times.size and int(times.max()) >= 2**63:
        raise InputError(f"times hold {int(times.max())}, expected less than 2^63")
    if times.dtype.kind not in "iu" or times.ndim != 1:
        raise TypeError(f"times must be a vector of integers, got dtype {times.dtype}, shape {times.shape}")
    return np.ascontiguousarray(times, dtype=np.int64)


def as_block(block: Any) -> Block:
    """Return what an iterator or plug-in yields as a Block."""
    if isinstance(block, Block):
        return block
    if isinstance(block, (tuple, list)) and len(block) in (2, 3, 4) and not _is_matrix(block):
        src, dst, *rest = block
        weights = as_weights(rest[0]) if rest and rest[0] is not None else None
        times = as_times(rest[1]) if len(rest) > 1 and rest[1] is not None else None
        return Block(as_id_column(src, "src"), as_id_column(dst, "dst"), weights, times)
    src, dst = _columns(to_numpy(block), "a block of edges")
    return Block(src, dst)


def _is_matrix(block: Any) -> bool:
    return isinstance(block, list) and all(isinstance(row, (list, tuple)) and len(row) == 2 for row in block)


def _is_flat(row: Any) -> bool:
    return all(isinstance(value, (int, float, np.number)) for value in row)


def _as_matrix(rows: list[Any]) -> npt.NDArray[Any]:
    if len({len(row) for row in rows}) > 1:
        raise InputError("edges: rows of different lengths, expected pairs (source, target)")
    if len(rows[0]) == 3 and len(rows) != 2:
        raise TypeError("edges: found lists of three numbers, expected pairs; pass (src, dst, weights)")
    return np.asarray(rows)


def _columns(array: npt.NDArray[Any], what: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must hold integers, got dtype {array.dtype}")
    if array.ndim == 2 and array.shape[0] == 2:
        return as_id_column(array[0], "src"), as_id_column(array[1], "dst")
    if array.ndim == 2 and array.shape[1] == 2:
        return as_id_column(array[:, 0], "src"), as_id_column(array[:, 1], "dst")
    if array.size == 0:
        empty = np.empty(0, np.int64)
        return empty, empty
    raise ValueError(f"{what} must have shape (2, E) or (E, 2), got {array.shape}")


class ArraySource:
    """Edges in arrays, in memory or memory-mapped: cut into views, never copied whole."""

    def __init__(self, src: Any, dst: Any, weights: Any = None, times: Any = None, name: str = "edges") -> None:
        """Take columns of one length."""
        self.name = name
        self._src, self._dst = src, dst
        self._weights, self._times = weights, times
        self.num_edges = len(src)
        self.has_weights, self.has_times = weights is not None, times is not None
        for what, column in (("dst", dst), ("weights", weights), ("times", times)):
            if column is not None and len(column) != self.num_edges:
                raise InputError(
                    f"{name}: src has {self.num_edges} elements, {what} has {len(column)}; lengths must match"
                )

    @classmethod
    def of(cls, array: Any, weights: Any = None, times: Any = None, name: str = "edges") -> ArraySource:
        """Take an edge array of shape (2, E) or (E, 2); when E is 2 it is read as (2, E)."""
        array = to_numpy(array)
        if array.ndim != 2 or 2 not in array.shape:
            if array.size:
                raise ValueError(f"{name}: an edge array has shape (2, E) or (E, 2), got {array.shape}")
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), weights, times, name)
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"{name}: an edge array holds integers, got dtype {array.dtype}")
        src, dst = (array[0], array[1]) if array.shape[0] == 2 else (array[:, 0], array[:, 1])
        return cls(src, dst, weights, times, name)

    def part(self, first: int, count: int) -> ArraySource:
        """Return some consecutive edges, as views."""
        src, dst, weights, times = (
            None if column is None else column[first : first + count]
            for column in (self._src, self._dst, self._weights, self._times)
        )
        return ArraySource(src, dst, weights, times, self.name)

    def edge_blocks(self) -> Iterator[Block]:
        """Yield views of the arrays."""
        for at in range(0, self.num_edges, _BLOCK_EDGES):
            part = slice(at, at + _BLOCK_EDGES)
            yield Block(
                as_id_column(self._src[part], "src"),
                as_id_column(self._dst[part], "dst"),
                None if self._weights is None else as_weights(self._weights[part]),
                None if self._times is None else as_times(self._times[part]),
            )


class BlockSource:
    """An iterator of blocks, used once."""

    def __init__(self, blocks: Iterable[Any], name: str = "edges") -> None:
        """Take the iterator; nothing is drawn yet."""
        self.name = name
        self._blocks = blocks

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the blocks as they come."""
        for block in self._blocks:
            yield as_block(block)


class GraphFileSource:
    """An existing `.gl` file, of this version or of GraphZero 0.1/0.2: how such files are converted.

    Edges keep their ids. An undirected file holds each of its edges twice; with `once`, each comes once.
    """

    def __init__(self, source: str | Graph, once: bool = False) -> None:
        """Mount a file, or take a graph that is mounted: with what was appended to it."""
        from ..stores.graph import Graph

        self._graph = source if isinstance(source, Graph) else Graph(source)
        self.name = self._graph.path
        self._stored = self._graph.num_edges
        rows, columns = self._graph.shape
        self.num_nodes: int | tuple[int, int] = rows if rows == columns else (rows, columns)
        side = "in" if self._graph.direction == "in" else "out"
        arrays = {a["name"] for a in self._graph.info["arrays"]}
        self._side = side
        self._rows = rows if side == "out" else columns
        self.undirected = bool(self._graph.info["undirected"])
        self.legacy = bool(self._graph.info["legacy"])
        self._once = once and self.undirected
        self.num_edges = 0 if self._once else self._stored  # unknown: half of them, plus half of the self-loops
        self.has_edge_ids = f"{side}.edge_ids" in arrays
        self.has_weights = f"{side}.weights" in arrays
        self.has_times = f"{side}.times" in arrays

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges row by row."""
        from ..stores.edge_column import edge_column

        file, side = self._graph._open(), self._side
        indptr = file.array(f"{side}.indptr")
        has = {"weights": self.has_weights, "times": self.has_times, "edge_ids": self.has_edge_ids}
        names = ["indices", *(name for name, there in has.items() if there)]
        whole = {name: edge_column(self._graph, side, name) for name in names}
        row = 0
        while row < self._rows:
            begin = int(indptr[row])
            end_row = int(np.searchsorted(indptr, begin + _BLOCK_EDGES, side="right")) - 1
            end_row = min(max(end_row, row + 1), self._rows)
            ends = indptr[row : end_row + 1].astype(np.int64)
            if np.any(np.diff(ends) < 0) or ends[-1] > self._stored:
                raise InputError(f"{self.name}: rows {row} to {end_row} are damaged, see graphzero verify")
            rows = np.repeat(np.arange(row, end_row, dtype=np.int64), np.diff(ends))
            place = slice(int(ends[0]), int(ends[-1]))
            part = {name: column[place] for name, column in whole.items()}
            neighbours = as_id_column(part["indices"], "indices")
            src, dst = (rows, neighbours) if side == "out" else (neighbours, rows)
            keep = rows <= neighbours if self._once else slice(None)  # (v, u) says what (u, v) said
            yield Block(
                src[keep],
                dst[keep],
                as_weights(part["weights"][keep]) if "weights" in part else None,
                as_times(part["times"][keep]) if "times" in part else None,
                part["edge_ids"][keep].astype(np.int64) if "edge_ids" in part else None,
            )
            row = end_row
        file.check()


def as_source(source: Any, weights: Any = None, times: Any = None, once: bool = False) -> EdgeSource:
    """Return an edge source for everything but text files, which the core reads itself.

    Arrays given as `weights` or `times` take the place of the source's own; sources that are not arrays in memory or in
    a `.npy` file refuse them. `once`: an undirected graph file gives each of its edges once.
    """
    extra_w = None if weights is None or isinstance(weights, (bool, str, int)) else weights
    extra_t = None if times is None or isinstance(times, (bool, str, int)) else times
    found = _array_source(source, extra_w, extra_t)
    if found is not None:
        return found
    for name, extra in (("weights", extra_w), ("times", extra_t)):
        if extra is not None:
            raise TypeError(
                f"an array of {name} can be combined only with edges in arrays, not with "
                f"{_what(source)}; pass (src, dst, weights, times)"
            )
    if isinstance(source, (str, os.PathLike)):
        return GraphFileSource(os.fspath(source), once)
    if isinstance(source, EdgeSource):
        return source
    if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
        return BlockSource(source)
    raise TypeError(
        f"cannot read edges from {type(source).__name__}: expected a path, an array of shape (2, E), (src, dst), an "
        "iterator of blocks, or an object with edge_blocks()"
    )


def _what(source: Any) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else f"a source of type {type(source).__name__}"


def _array_source(source: Any, extra_w: Any, extra_t: Any) -> ArraySource | None:
    """Return edges that are in arrays or lists, None for anything else."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if path.endswith(".npy"):
            return ArraySource.of(load_npy(path), extra_w, extra_t, path)
        return None
    if isinstance(source, EdgeSource):
        return None
    if isinstance(source, np.ndarray) or hasattr(source, "detach"):
        return ArraySource.of(source, extra_w, extra_t)
    if isinstance(source, tuple) and len(source) in (2, 3, 4):
        src, dst, *rest = source
        w = extra_w if extra_w is not None else rest[0] if rest else None
        t = extra_t if extra_t is not None else rest[1] if len(rest) > 1 else None
        return ArraySource(
            as_id_column(src, "src"),
            as_id_column(dst, "dst"),
            None if w is None else as_weights(w),
            None if t is None else as_times(t),
        )
    if isinstance(source, list) and (not source or _is_matrix(source)):
        src, dst = ([pair[i] for pair in source] for i in (0, 1))
        return ArraySource(as_id_column(src, "src"), as_id_column(dst, "dst"), extra_w, extra_t)
    if isinstance(source, list) and all(isinstance(row, (list, tuple)) and _is_flat(row) for row in source):
        return ArraySource.of(_as_matrix(source), extra_w, extra_t)
    return None
