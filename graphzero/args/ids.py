"""Converts ids and counts (lists, NumPy of any integer dtype, torch) to what the core takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

IdArray = npt.NDArray[np.int64]


def as_ids(ids: Any, name: str = "ids") -> IdArray:
    """Return `ids` as a contiguous one-dimensional int64 array, without a copy where it already is one.

    Raises TypeError for anything that is not whole numbers (floats and booleans are rejected, not rounded) and
    ValueError for more than one dimension. The range is checked later, against the graph.

    >>> as_ids([3, 1]).tolist()
    [3, 1]
    """
    if hasattr(ids, "detach"):  # a torch tensor, on any device
        ids = ids.detach().cpu().numpy()
    try:
        array = np.asarray(ids)
    except ValueError:
        raise ValueError(f"{name} must have one dimension, got rows of different lengths") from None
    if array.size == 0 and array.dtype == np.float64 and not isinstance(ids, np.ndarray):
        array = array.astype(np.int64)  # NumPy makes an empty list float64
    if array.dtype.kind not in "iu":
        found = f"dtype {array.dtype}" if array.dtype != object else _named(ids)
        mask = "; np.flatnonzero(mask) converts a mask to ids" if array.dtype == np.bool_ else ""
        raise TypeError(f"{name} must be integers, got {found}{mask}")
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise IndexError(f"{name} holds {int(array.max())}, which is past 2^63 - 1")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_edges(edges: Any, name: str) -> tuple[IdArray, IdArray]:
    """Return the sources and the targets of `edges`: an array of shape (2, M) or a pair of arrays.

    >>> as_edges([[0, 1], [2, 3]], "edges")[1].tolist()
    [2, 3]
    """
    if hasattr(edges, "detach"):
        edges = edges.detach().cpu().numpy()
    if len(edges) != 2 or (hasattr(edges, "ndim") and edges.ndim != 2):
        found = f"shape {tuple(edges.shape)}" if hasattr(edges, "shape") else f"{len(edges)} rows"
        raise ValueError(f"{name} must have the shape (2, M), sources in the first row, got {found}")
    source, target = as_ids(edges[0], f"{name}[0]"), as_ids(edges[1], f"{name}[1]")
    if len(source) != len(target):
        raise ValueError(f"{name} has {len(source)} sources and {len(target)} targets; lengths must match")
    return source, target


def as_id(value: Any, name: str = "node") -> int:
    """Return one id as a Python int; floats and booleans are rejected."""
    number = as_count(value, name)
    if not -(2**63) <= number < 2**63:
        raise IndexError(f"{name} is {number}, which is past 2^63 - 1")
    return number


def as_count(value: Any, name: str, least: int | None = None) -> int:
    """Return a whole number, at least `least` if given; floats, text and booleans are rejected."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    number = int(value.__index__())
    if least is not None and not least <= number < 2**63:
        raise ValueError(f"{name} is {number}, expected {f'at least {least}' if number < least else 'less than 2^63'}")
    return number


def as_threads(num_threads: Any) -> int:
    """Return what the core takes for `num_threads`: 0 for None, which means one per processor."""
    # The core checks the upper bound.
    return 0 if num_threads is None else max(-(2**20), min(as_count(num_threads, "num_threads"), 2**20))


def as_fanouts(fanouts: Any) -> list[int]:
    """Return `fanouts` as a list of whole numbers, one per hop; the core checks their range."""
    if isinstance(fanouts, (str, bytes)) or not isinstance(fanouts, Iterable):
        one = f"; one hop is [{fanouts}]" if isinstance(fanouts, int) else ""
        raise TypeError(f"fanouts must be one number per hop, as in [15, 10, 5], got {fanouts!r}{one}")
    return [as_id(fanout, f"fanouts[{hop}]") for hop, fanout in enumerate(fanouts)]


def _named(ids: Any) -> str:
    if isinstance(ids, (list, tuple)):
        others = [i for i in ids if isinstance(i, bool) or not isinstance(i, (int, np.integer))]
        return f"{others[0]!r} among them" if others else f"{max(ids, key=abs)}, which is past 2^63 - 1"
    return f"a {type(ids).__name__}" if ids is not None else "None"
