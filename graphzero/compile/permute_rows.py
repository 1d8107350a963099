"""Rows of a `.gd` file in another order, within a memory budget, by sequential reads and writes."""

from __future__ import annotations

import ctypes
import errno
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray
from ..errors import StorageError
from ..stores.features import FeatureStore

Rows = npt.NDArray[Any]
Report = Callable[[int], None]  # takes the number of rows just processed

_MOST_BLOCK = 64 << 20  # bytes of rows per block
_PAGE = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of fallocate


def permuted_rows(
    store: FeatureStore,
    to_old: IdArray | npt.NDArray[np.int32],
    to_new: IdArray | npt.NDArray[np.int32],
    budget: int,
    scratch: str,
    report: Report,
    source: IO[bytes] | None = None,
) -> Iterator[Rows]:
    """Yield the rows of `store` in the order `to_old[0], to_old[1], ...`, in blocks; `report` counts every row twice.

    Random reads would fetch a page for every row. Instead rows are read sequentially and distributed over ranges of new
    ids, each small enough for RAM, in one scratch file; then each range is read back and sorted. A single range needs
    no scratch file.

    With `source`, the store's file open for writing, rows are deleted from the file as they are distributed, and so
    from the scratch file: the rows then take their space on disk once instead of three times (on Linux).
    """
    width = max(1, row_bytes(store))
    rows = store.num_nodes
    span = max(1, budget // 2 // (width + 24))  # in addition to a row: its old id, its rank, an index
    block = max(1, min(_MOST_BLOCK, budget // 8) // width)
    if rows <= span:
        everything = _all_rows(store, block, report)
        for at in range(0, rows, block):
            part = everything[to_old[at : at + block]]
            report(len(part))
            yield part
        return
    with tempfile.TemporaryFile(buffering=0, dir=scratch) as spill:
        _distribute(store, to_new, span, max(1, budget // 4 // (width + 24)), spill, report, source)
        for begin in range(0, rows, span):
            old = np.asarray(to_old[begin : begin + span])
            unsorted = np.empty((len(old), *store.shape[1:]), store.dtype)
            _read(spill, begin * width, unsorted)
            if source is not None:
                _release(spill, begin * width, len(old) * width)
            places = np.empty(len(old), np.int64)  # rows of a range were written by ascending old id
            places[np.argsort(old, kind="stable")] = np.arange(len(old))
            for at in range(0, len(old), block):
                part = unsorted[places[at : at + block]]
                report(len(part))
                yield part


def row_bytes(store: FeatureStore) -> int:
    """Return the bytes of one row."""
    return store.feature_dim * store.dtype.itemsize


def _all_rows(store: FeatureStore, block: int, report: Report) -> Rows:
    everything = np.empty(store.shape, store.dtype)
    for at in range(0, len(everything), block):
        part = everything[at : at + block]
        store.gather(np.arange(at, at + len(part)), out=part)
        report(len(part))
    return everything


def _distribute(
    store: FeatureStore,
    to_new: Rows,
    span: int,
    block: int,
    spill: IO[bytes],
    report: Report,
    source: IO[bytes] | None,
) -> None:
    """Write each row to the part of the scratch file for its range of `span` new ids."""
    width, rows = row_bytes(store), store.num_nodes
    places = {array["name"]: array["offset"] for array in store.info["arrays"]}  # None in several files
    ranges = -(-rows // span)
    ends = np.arange(ranges, dtype=np.int64) * span  # the next row of each range
    for at in range(0, rows, block):
        part = np.arange(at, min(at + block, rows))
        values = store.gather(part)
        target = np.asarray(to_new[at : at + block]) // span
        order = np.argsort(target, kind="stable")
        cuts = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=ranges))])
        for index in np.flatnonzero(np.diff(cuts)):
            chosen = values[order[cuts[index] : cuts[index + 1]]]
            _write(spill, int(ends[index]) * width, chosen)
            ends[index] += len(chosen)
        if source is not None:
            _release(source, int(places[store.name]) + at * width, len(part) * width)
        report(len(part))


def _release(file: IO[bytes], offset: int, size: int) -> None:
    """Give the disk space of a part of `file` back, as far as the system can; the part is not read again."""
    if not sys.platform.startswith("linux"):
        return
    begin = -(-offset // _PAGE) * _PAGE
    size = (offset + size) // _PAGE * _PAGE - begin
    if size > 0:
        call = ctypes.CDLL(None).fallocate
        call(file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(begin), ctypes.c_int64(size))


def _write(file: IO[bytes], offset: int, rows: Rows) -> None:
    left = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    file.seek(offset)
    while left:
        left = left[file.write(left) :]


def _read(file: IO[bytes], offset: int, rows: Rows) -> None:
    left = rows.reshape(-1).view(np.uint8).data
    file.seek(offset)
    while left:
        done = file.readinto(left)  # type: ignore[attr-defined]  # a raw file has it
        if not done:
            raise StorageError(errno.EIO, "the scratch file is truncated")
        left = left[done:]
