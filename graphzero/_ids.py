"""Ids as people have them (lists, NumPy of any integer dtype, torch) to the int64 arrays the core takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IdArray = npt.NDArray[np.int64]


def as_ids(ids: Any, name: str = "ids") -> IdArray:
    """Return `ids` as a contiguous one-dimensional int64 array, without a copy where it already is one.

    Raises TypeError for anything that is not whole numbers (floats and booleans are refused, not rounded) and
    ValueError for more than one dimension. The range is checked later, against the graph.

    >>> as_ids([3, 1]).tolist()
    [3, 1]
    """
    if hasattr(ids, "detach"):  # a torch tensor, on any device
        ids = ids.detach().cpu().numpy()
    array = np.asarray(ids)
    if array.size == 0 and array.dtype == np.float64 and not isinstance(ids, np.ndarray):
        array = array.astype(np.int64)  # an empty list has no dtype of its own
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise IndexError(f"{name} holds {int(array.max())}, which is past 2^63 - 1")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_id(value: Any, name: str = "node") -> int:
    """Return one id as a Python int; floats and booleans are refused."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    return int(value.__index__())
