"""Columns of a table as inputs of models: one pass for their kinds and statistics, then blocks of stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.columns import CATEGORY, MISSING_TIME, NUMBER, TIME, Column
from ..sources.decoding import without_rows
from ..sources.rows import Rows
from ..sources.tables import Table
from .column_kinds import reader_of
from .column_readers import ColumnReader, LeftOut
from .column_rules import SKIP, ColumnRules
from .parts import drawn_splits, labelled_nodes, safe_name
from .plan import NodePlan
from .spilled import STEP, spilled, spilled_blocks, value_at

__all__ = ["TableColumns", "columns_of", "training_rows"]

_SHARED = {"number": NUMBER, "bool": NUMBER, "category": CATEGORY, "time": TIME}
_TRAIN_SHARE = 0.7
_SHOWN = 12  # categories that a report names


@dataclass
class TableColumns:
    """The arrays that hold columns, their descriptions, and lines for the report."""

    rows: dict[str, Rows] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def columns_of(
    table: Table,
    names: Sequence[str],
    rules: ColumnRules,
    *,
    keep: npt.NDArray[np.bool_] | None = None,
    train: npt.NDArray[np.bool_] | None = None,
    pad_to: int | None = None,
    repeat: int = 1,
) -> TableColumns:
    """Return columns `names` of a table by kind, as `Dataset.create(table_columns=...)` takes them.

    keep, train: by row of the table, which rows are stored and which ones statistics are computed from (None: all).
    pad_to: rows of missing values are added up to this number. repeat: how often each row is stored.
    """
    found = TableColumns()
    readers = _scanned(table, names, rules, keep, train, found.notes)
    arrays: dict[str, list[str]] = {}
    for name, reader in readers.items():
        array = _SHARED.get(reader.kind) or _own_array(name, arrays)
        members = arrays.setdefault(array, [])
        found.columns.append(Column(name, reader.kind, array, len(members), reader.stats))
        found.notes.append(f"{name!r}: {_said(reader)}")
        members.append(name)
    count = int(np.count_nonzero(keep)) if keep is not None else table.num_rows
    count = pad_to if pad_to is not None else count
    for array, members in arrays.items():
        own = [readers[name] for name in members]
        stream = _Stream(table, members, own, keep, pad_to, repeat)
        width = own[0].width if array not in _SHARED.values() else len(members)
        found.rows[array] = Rows(array, own[0].dtype, width, None if count is None else count * repeat, stream.blocks)
    return found


def training_rows(
    node: NodePlan, shares: str | None, rows: int, keep: npt.NDArray[np.bool_] | None, folder: str
) -> tuple[npt.NDArray[np.bool_] | None, str]:
    """Return which rows of a node table are trained on, and how that is known; None if it is not.

    A split says it, or shares of the labelled nodes, or else a time: the oldest 70 % of the rows, as splits by time
    are cut by default. Arrays with a value per row are in temporary files of `folder`.
    """
    nodes, how = node.splits.get("train"), "the split 'train'"
    count = rows if keep is None else int(np.count_nonzero(keep))
    if nodes is None and shares is not None and node.labels is not None:
        nodes = drawn_splits(shares, labelled_nodes(node.labels)).get("train")
    trained = None
    if nodes is not None:
        ids = np.asarray(nodes)
        trained = spilled(folder, np.bool_, count)
        trained[ids[:count] if ids.dtype == np.bool_ else ids[ids < count]] = True
    elif "time" in node.features:
        size = node.num_nodes if node.num_nodes is not None else count
        times = spilled_blocks(folder, np.int64, size, node.features["time"].blocks(STEP))[:count]
        last = value_at(times, _TRAIN_SHARE, MISSING_TIME)
        if last is not None:
            old = ((t != MISSING_TIME) & (t <= last) for t in (times[at : at + STEP] for at in range(0, count, STEP)))
            trained, how = spilled_blocks(folder, np.bool_, count, old), f"the oldest {_TRAIN_SHARE:.0%} by time"
    if trained is None or keep is None:
        return trained, how if trained is not None else ""
    out, at = spilled(folder, np.bool_, rows), 0
    for row in range(0, rows, STEP):
        part = np.asarray(keep[row : row + STEP])
        there = int(part.sum())
        out[row : row + STEP][part] = trained[at : at + there]
        at += there
    return out, how


def _scanned(
    table: Table,
    names: Sequence[str],
    rules: ColumnRules,
    keep: npt.NDArray[np.bool_] | None,
    train: npt.NDArray[np.bool_] | None,
    notes: list[str],
) -> dict[str, ColumnReader]:
    """Return a reader for each column, after a pass over the table; columns that are not imported are noted."""
    readers: dict[str, ColumnReader] = {}
    left: dict[str, str] = {name: "skipped" for name in names if rules.of(name).kind == SKIP}
    wanted = [name for name in names if name not in left]
    row = 0
    for batch in table.batches(wanted) if wanted else ():
        rows = slice(row, row + len(batch[0]))
        for name, column in zip(wanted, batch, strict=True):
            if name in left:
                continue
            part = column if keep is None else without_rows(column, ~keep[rows])
            seen = None if train is None else train[rows] if keep is None else train[rows][keep[rows]]
            try:
                if name not in readers:
                    readers[name] = reader_of(column, f"{table.name}: column {name!r}", rules.of(name))
                readers[name].scan(part, row, seen)
            except LeftOut as reason:
                left[name] = str(reason)
        row = rows.stop
    for name in wanted:
        if name not in readers:
            left.setdefault(name, "belongs to a table without rows")
        elif name not in left:
            try:
                readers[name].finish()
            except LeftOut as reason:
                left[name] = str(reason)
    notes += [f"left out: column {name!r}, {reason}" for name, reason in left.items()]
    return {name: readers[name] for name in wanted if name not in left}


def _own_array(name: str, taken: dict[str, list[str]]) -> str:
    array = safe_name(name)
    while array in taken or array in _SHARED.values() or array in ("time", "reverse"):
        array += "_"
    return array


def _said(reader: ColumnReader) -> str:
    stats, what = reader.stats, reader.kind
    if "names" in stats:
        names = stats["names"]
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        what = (
            f"{reader.kind} of {len(names)} ({shown})"
            if sum(map(len, names[:_SHOWN])) < 100
            else (f"{reader.kind} of {len(names)}")
        )
    elif reader.kind == "embedding":
        what = f"embedding of {reader.width} numbers"
    parts = [what, *([f"{stats['missing']:,} missing"] if stats.get("missing") else []), *reader.notes]
    return ", ".join(parts)


@dataclass
class _Stream:
    """Stored rows of the columns of one array, read from the table in each pass."""

    table: Table
    names: list[str]
    readers: list[ColumnReader]
    keep: npt.NDArray[np.bool_] | None
    pad_to: int | None
    repeat: int

    def blocks(self, step: int) -> Iterator[npt.NDArray[Any]]:
        """Yield at most `step` rows at a time."""
        step = max(1, step // self.repeat)
        row = done = 0
        for batch in self.table.batches(self.names):
            count = len(batch[0])
            for at in range(0, count, step):
                part = slice(at, min(at + step, count))
                block = self._block([column[part] for column in batch], row + at)
                if self.keep is not None:
                    block = block[self.keep[row + part.start : row + part.stop]]
                done += len(block)
                yield np.repeat(block, self.repeat, axis=0) if self.repeat > 1 else block
            row += count
        while self.pad_to is not None and done < self.pad_to:
            more = min(step, self.pad_to - done)
            width = self.readers[0].width or len(self.readers)
            yield np.full((more, width), self.readers[0].fill, self.readers[0].dtype)
            done += more

    def _block(self, batch: list[Any], row: int) -> npt.NDArray[Any]:
        values = [reader.values(column, row) for reader, column in zip(self.readers, batch, strict=True)]
        return np.ascontiguousarray(values[0] if values[0].ndim == 2 else np.stack(values, axis=1))
