"""Edges out of tables: batches of columns -> blocks of edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources import Block, as_id_column, as_times, as_weights
from .columns import EdgeColumns
from .decoding import decoded
from .tables import Table

__all__ = ["TableEdges"]


class TableEdges:
    """A source of edges for `compile_graph`: columns of a table."""

    def __init__(self, table: Table, columns: EdgeColumns, first_row: int = 0) -> None:
        """Take the table and the names of the columns that matter; messages count its rows from `first_row`."""
        self._first_row = first_row
        self.name, self.num_edges = table.name, table.num_rows
        self.table, self.columns = table, columns

    def edge_blocks(self) -> Iterator[Block]:
        """Yield blocks of edges whose ids are integers."""
        row = self._first_row
        for src, dst, weights, times in self.raw_blocks():
            ids = [self._ids(column, name, row) for column, name in ((src, self.columns.src), (dst, self.columns.dst))]
            yield Block(ids[0], ids[1], weights, times)
            row += len(ids[0])

    def raw_blocks(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Yield columns of ids as they are, weights and times checked and converted."""
        row = self._first_row
        for batch in self.table.batches(self.columns.all()):
            rest = iter(batch[2:])
            weights = None if self.columns.weight is None else next(rest)
            times = None if self.columns.time is None else next(rest)
            yield (
                batch[0],
                batch[1],
                None if weights is None else as_weights(self._numbers(weights, self.columns.weight, row)),
                None if times is None else as_times(self._numbers(times, self.columns.time, row)),
            )
            row += len(batch[0])

    def _ids(self, column: Any, name: str, row: int) -> npt.NDArray[Any]:
        values = self._numbers(column, name, row)
        if values.dtype.kind not in "iu":
            raise InputError(
                f"{self.name}: column {name!r} holds {values.dtype if values.dtype.kind != 'O' else 'text'}, expected "
                "integer node ids; ids='map' maps others to 0, 1, 2, ..."
            )
        return as_id_column(values, name)

    def _numbers(self, column: Any, name: Any, row: int) -> npt.NDArray[Any]:
        return numbers(column, f"{self.name}: column {name!r}", row)


def numbers(column: Any, where: str, row: int = 0) -> npt.NDArray[Any]:
    """Return a column without nulls as a NumPy array; dates and times as datetime64 or their ticks."""
    if isinstance(column, np.ndarray):
        return column
    arrow = hasattr(column, "null_count")
    if arrow:
        column = decoded(column)
    missing = np.asarray(column.is_null() if arrow else column.isna())
    if missing.any():
        raise InputError(f"{where} has no value in row {row + int(np.argmax(missing))}, expected one in every row")
    if not arrow:
        if getattr(column.dtype, "tz", None) is not None:  # pandas: the same instants, in UTC
            return np.asarray(column, f"datetime64[{column.dtype.unit}]")
        return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    import pyarrow.types as types

    kind = column.type
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_date64(kind) or types.is_duration(kind):
        column = column.cast("int64")
    elif types.is_date32(kind) or types.is_time32(kind):
        column = column.cast("int32")
    elif types.is_decimal(kind):
        column = column.cast("float64")
    return np.asarray(column.to_numpy(zero_copy_only=False))
