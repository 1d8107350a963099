"""Arrays with a value per row of a table, in temporary files: the kernel keeps of them what fits in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["spilled", "spilled_blocks", "value_at"]

STEP = 1 << 20
_BITS = 18  # of a value, which one pass over all values settles


def spilled(folder: str, dtype: Any, count: int) -> npt.NDArray[Any]:
    """Return zeros in a file of `folder` that has no name, so that it is removed when the array is."""
    kind = np.dtype(dtype)
    if not count:
        return np.zeros(0, kind)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(count * kind.itemsize)
        return np.memmap(file, kind, "r+", shape=(count,))


def spilled_blocks(folder: str, dtype: Any, count: int, blocks: Iterator[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the blocks as one array of `count` values."""
    out, at = spilled(folder, dtype, count), 0
    for block in blocks:
        out[at : at + len(block)] = block
        at += len(block)
    return out


def value_at(values: npt.NDArray[np.int64], share: float, missing: int) -> int | None:
    """Return the last of the smallest `share` of the values that are not `missing`; None if all are.

    Nothing is sorted: each pass counts the values by their next bits, within those that the passes before have found.
    """
    low, high, known = 0, 0, 0
    for part in _known(values, missing):
        least, most = int(part.min()), int(part.max())
        low, high = (min(low, least), max(high, most)) if known else (least, most)
        known += len(part)
    if not known:
        return None
    left = max(0, int(share * known) - 1)
    while low < high:
        shift = max(0, (high - low).bit_length() - _BITS)
        counts = np.zeros((high - low >> shift) + 1, np.int64)
        for part in _known(values, missing):
            inside = part[(part >= low) & (part <= high)]
            buckets = (inside.astype(np.uint64) - np.uint64(low % 2**64)) >> np.uint64(shift)
            counts += np.bincount(buckets.astype(np.int64), minlength=len(counts))
        bucket = int(np.searchsorted(np.cumsum(counts), left, side="right"))
        left -= int(counts[:bucket].sum())
        low, high = low + (bucket << shift), min(high, low + (bucket + 1 << shift) - 1)
    return low


def _known(values: npt.NDArray[np.int64], missing: int) -> Iterator[npt.NDArray[np.int64]]:
    for at in range(0, len(values), STEP):
        part = np.asarray(values[at : at + STEP])
        part = part[part != missing]
        if part.size:
            yield part
