"""The edges of an append, from any source that `compile_graph` takes, as arrays in the order of the source."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray
from ..args.times import as_times
from ..compile.graph import compile_graph
from ..errors import InputError
from ..sources.edge_blocks import GraphFileSource, as_weights, load_npy, to_numpy
from ..stores.idmap import IdMap

__all__ = ["EdgeRequest", "Edges", "read_edges"]


@dataclass(frozen=True)
class Edges:
    """Columns of edges. Ends are as the source has them: an int64 array, or a list of strings."""

    src: Any
    dst: Any
    weights: npt.NDArray[np.float32] | None = None
    times: IdArray | None = None

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.src)


@dataclass(frozen=True)
class EdgeRequest:
    """One edge type's arguments of `append`; `what` names them in messages."""

    source: Any
    what: str
    weighted: bool  # whether the graph has weights, so that edges need them
    timed: bool
    weights: Any = None
    times: Any = None
    columns: Any = None
    text: bool = False  # the ids of either end are strings in the source
    sparse: bool = False  # or integers that are mapped
    limits: tuple[int | None, int | None] = (None, None)  # one more than the largest source and target, if known
    time_unit: str = "s"
    memory: int | float | str = "1GB"
    num_threads: int | None = None


def read_edges(asked: EdgeRequest) -> Edges:
    """Read the edges of one type; raise unless they carry weights and times exactly where the graph has them."""
    found = _direct(asked)
    if found is None:
        found = _compiled(asked)
    for name, values, has in (("weights", found.weights, asked.weighted), ("times", found.times, asked.timed)):
        if values is None and has and len(found):
            given = "(src, dst, weights)" if name == "weights" else "(src, dst, weights, times)"
            raise ValueError(f"{asked.what} have no {name}, but the graph has; pass {name}=, or edges as {given}")
        if values is not None and not has:
            raise ValueError(f"{asked.what} have {name}, but the graph has none; {name}=False ignores them")
        if values is not None and len(values) != len(found):
            raise ValueError(f"{name} of {asked.what} has {len(values)} values, expected {len(found)}, one per edge")
    if found.weights is not None and not (np.isfinite(found.weights) & (found.weights >= 0)).all():
        at = int(np.argmin(np.isfinite(found.weights) & (found.weights >= 0)))
        raise ValueError(f"weights[{at}] of {asked.what} is {found.weights[at]}, expected a finite number, at least 0")
    return found


def _direct(asked: EdgeRequest) -> Edges | None:
    """Return edges that are in arrays or lists; None for anything else."""
    source, rest = asked.source, [None, None]
    if isinstance(source, (str, os.PathLike)):
        if not os.fspath(source).endswith(".npy"):
            return None
        source = load_npy(os.fspath(source))
    if isinstance(source, tuple) and len(source) in (2, 3, 4) and not _is_pair(source[0]):
        src, dst, *more = source
        rest[: len(more)] = more
        src, dst = _column(src, f"{asked.what}[0]"), _column(dst, f"{asked.what}[1]")
    elif isinstance(source, (list, tuple)) and all(map(_is_pair, source)):
        src, dst = (_column([pair[side] for pair in source], asked.what) for side in (0, 1))
    elif hasattr(source, "detach") or (isinstance(source, (np.ndarray, list)) and _dtype(source).names is None):
        array = to_numpy(source)
        if array.size == 0:
            array = np.empty((2, 0), np.int64)
        if array.ndim != 2 or 2 not in array.shape:
            raise ValueError(f"{asked.what} has shape {array.shape}, expected (2, E) or (E, 2)")
        ends = (array[0], array[1]) if array.shape[0] == 2 else (array[:, 0], array[:, 1])
        src, dst = (_column(end, asked.what) for end in ends)
    else:
        return None
    if len(src) != len(dst):
        raise ValueError(f"{asked.what} has {len(src)} sources and {len(dst)} targets; lengths must match")
    weights, times = (
        given if given is not None and not isinstance(given, (bool, str, int)) else None if given is False else own
        for given, own in ((asked.weights, rest[0]), (asked.times, rest[1]))
    )
    for name, given in (("weights", asked.weights), ("times", asked.times)):
        if isinstance(given, (str, int)) and not isinstance(given, bool):
            raise TypeError(f"{name}={given!r} names a column, but {asked.what} are arrays; pass an array")
    return Edges(
        src,
        dst,
        None if weights is None else as_weights(weights),
        None if times is None else as_times(times, f"times of {asked.what}", unit=asked.time_unit),
    )


def _is_pair(row: Any) -> bool:
    return isinstance(row, (list, tuple)) and len(row) == 2 and not any(isinstance(e, (list, tuple)) for e in row)


def _dtype(source: Any) -> np.dtype[Any]:
    return source.dtype if isinstance(source, np.ndarray) else np.dtype(np.int64)


def _column(values: Any, what: str) -> Any:
    """Return one end of the edges: int64, or a list of strings."""
    if type(values).__module__.partition(".")[0] == "pyarrow":
        values = values.to_pylist()
    array = to_numpy(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.ndim != 1:
        raise ValueError(f"{what} must have one dimension, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind in "OUS":
        texts = array.tolist()
        bad = next((at for at, text in enumerate(texts) if not isinstance(text, (str, bytes))), None)
        if bad is not None:
            raise TypeError(f"{what}: found {texts[bad]!r} in row {bad}, expected ids of one kind, integers or strings")
        return texts
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers or strings, got dtype {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) >= 2**63:
        raise InputError(f"{what} hold {int(array.max())}, expected ids below 2^63")
    return np.ascontiguousarray(array, dtype=np.int64)


def _compiled(asked: EdgeRequest) -> Edges:
    """Read edges of text, tables, graph objects and files: compiled to a temporary file, then put in source order."""
    weights, times = asked.weights, asked.times
    if weights is None and not asked.weighted:
        weights = False  # a third column is not read
    if times is None and asked.timed:
        times = True
    ids = "text" if asked.text else "integers" if asked.sparse else None
    with tempfile.TemporaryDirectory(prefix="graphzero-append-") as folder:
        path = os.path.join(folder, "edges.gl")
        options: dict[str, Any] = {"columns": asked.columns, "memory": asked.memory, "num_threads": asked.num_threads}
        options |= {} if ids else {"num_nodes": asked.limits}
        try:
            compile_graph(
                asked.source,
                path,
                directed=True,
                weights=weights,
                times=times,
                edge_ids=True,
                ids=ids,
                allow_empty=True,
                progress=False,
                **options,
            )
        except InputError as error:
            past = re.search(r"expected below num_\w+ = (\d+)", str(error))
            if past is None:
                raise
            fix = f"expected a node from 0 to {int(past[1]) - 1}; pass nodes= and features= for more"
            raise InputError(f"{str(error)[: past.start()]}{fix}") from None
        blocks = list(GraphFileSource(path).edge_blocks())
        order = np.argsort(np.concatenate([b.edge_ids for b in blocks]) if blocks else [], kind="stable")

        def joined(column: str) -> Any:
            parts = [getattr(block, column) for block in blocks]
            if not parts:
                return np.empty(0, np.int64) if column in ("src", "dst") else None
            return None if parts[0] is None else np.concatenate(parts)[order]

        ends: list[Any] = [np.ascontiguousarray(joined(end), dtype=np.int64) for end in ("src", "dst")]
        if ids is not None and len(ends[0]):
            known = IdMap(path.removesuffix(".gl") + ".ids.gd")
            ends = [known.to_original(end) for end in ends]
        return Edges(ends[0], ends[1], joined("weights"), joined("times"))
