"""Rewrites a `.gd` file of a dataset whose nodes get new ids: rows are permuted, splits renumbered, others copied."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray
from ..args.progress import Callback
from ..errors import FormatError
from ..stores.features import FeatureStore
from .permute_rows import permuted_rows, row_bytes

_STEP = 1 << 20  # ids per block
_RANGES = 4096


@dataclass(frozen=True)
class Renamed:
    """Old ids by new id and new ids by old id, both views of `store`'s file."""

    store: FeatureStore
    to_old: npt.NDArray[Any]
    to_new: npt.NDArray[Any]

    def check(self) -> None:
        """Raise StorageError if a page of the file could not be read."""
        self.store._open().check()


def remake_file(
    store: FeatureStore,
    out: str,
    renamed: Renamed,
    *,
    splits: set[str],
    ends: set[str],
    kept: set[str],
    by_node: bool,
    budget: int,
    threads: int,
    scratch: str,
    progress: Callback | None,
    consume: bool = False,
) -> None:
    """Write the file of `store` to `out`: arrays in `splits` and `ends` with new ids, those in `kept` unchanged.

    Ids of `splits` are sorted again; those of `ends`, such as pairs and the nodes of a task, stay in their rows.

    With `by_node`, the others have one row per node and are permuted; factors of int8 columns are copied.
    With `consume`, rows are deleted from the store's file as they are written to `out`.
    """
    path = store.path
    arrays = [(str(a["name"]), str(a["dtype"]), [int(n) for n in a["shape"]]) for a in store.info["arrays"]]
    moved = {name for name in store.names if by_node and name not in splits | ends | kept}
    writer = _core.FeatureWriter(out, store.num_nodes, arrays, progress, reserve=not consume)
    counter = _Counter(progress, sum(2 * store.num_nodes * row_bytes(store[name]) for name in moved))
    with contextlib.ExitStack() as open_files:
        open_files.callback(writer.discard)
        source = open_files.enter_context(open(path, "r+b", buffering=0)) if consume else None
        for index, array in enumerate(store.info["arrays"]):
            name = str(array["name"])
            if name in moved:
                one = store[name]
                report = counter.rows_of(row_bytes(one))
                rows = permuted_rows(one, renamed.to_old, renamed.to_new, budget, scratch, report, source)
                for block in rows:
                    writer.append(index, np.ascontiguousarray(block))
            elif name in splits:
                for ids in renamed_split(store[name].get_tensor(), renamed.to_new, budget, f"{path}: {name!r}"):
                    writer.append(index, ids)
            elif name in ends:
                values = store[name].get_tensor()
                for ids in _looked_up(values.reshape(-1), renamed.to_new, f"{path}: {name!r}", _STEP):
                    writer.append(index, ids.reshape(-1, *values.shape[1:]))
            elif store.deltas:
                whole = store[name].get_tensor() if name in store.names else store[name.removesuffix(".scale")].scale
                writer.append(index, np.ascontiguousarray(whole))
            else:
                writer.append_file(index, path, int(array["offset"]), int(array["bytes"]))
        store._open().check()
        renamed.check()
        writer.finish(threads)


def renamed_split(
    ids: IdArray, to_new: npt.NDArray[Any], budget: int, where: str, step: int = _STEP
) -> Iterator[IdArray]:
    """Yield the new ids of a split, ascending; a split too large for the budget is read once per range of ids."""
    most = max(step, budget // 64)
    width = max(1, math.ceil(len(to_new) / _RANGES))
    counts = np.zeros(_RANGES, np.int64)
    for new in _looked_up(ids, to_new, where, step):
        counts += np.bincount(new // width, minlength=_RANGES)
    begin = 0
    while begin < _RANGES:
        fit = int(np.searchsorted(np.cumsum(counts[begin:]), most, side="right"))
        end = begin + max(1, fit)
        low, high = begin * width, end * width
        chosen = [new[(new >= low) & (new < high)] for new in _looked_up(ids, to_new, where, step)]
        yield np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)
        begin = end


def _looked_up(ids: IdArray, to_new: npt.NDArray[Any], where: str, step: int) -> Iterator[IdArray]:
    for at in range(0, len(ids), step):
        part = ids[at : at + step]
        bad = np.flatnonzero((part < 0) | (part >= len(to_new)))
        if bad.size:
            found = f"{where}[{at + int(bad[0])}] = {part[bad[0]]}"
            raise FormatError(f"{found}, expected a node id from 0 to {len(to_new) - 1}")
        yield to_new[part].astype(np.int64)


class _Counter:
    """Reports rows as bytes to a progress callback."""

    def __init__(self, progress: Callback | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total

    def rows_of(self, width: int) -> Any:
        def add(rows: int) -> None:
            self._done += rows * width
            if self._progress is not None:
                self._progress("reordering", self._done, self._total)

        return add
