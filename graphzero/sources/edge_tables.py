"""Edges out of tables: batches of columns -> blocks of edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from ..errors import InputError
from .dates import as_time_column
from .decoding import kind_of, numbers, shown
from .edge_blocks import Block, as_id_column, as_weights
from .edge_columns import EdgeColumns, Picked, describe, pick
from .tables import Table

__all__ = ["TableEdges", "pick_columns"]


def pick_columns(table: Table, columns: Any, weights: Any, times: Any) -> Picked:
    """Return which columns of a table hold what."""
    names = table.names
    return pick(table.name, names, len(names), columns, weights, times, lambda column: table.is_numeric(names[column]))


class TableEdges:
    """A source of edges for `compile_graph`: columns of a table."""

    def __init__(self, table: Table, columns: EdgeColumns, first_row: int = 0, described: Sequence[str] = ()) -> None:
        """Take the table and the names of the columns that matter; messages count its rows from `first_row`."""
        self._first_row, self.described = first_row, list(described)
        self.name, self.num_edges = table.name, table.num_rows
        self.table, self.columns = table, columns

    @classmethod
    def of(cls, table: Table, columns: Any, weights: Any, times: Any) -> TableEdges:
        """Select the requested columns, or those with known names."""
        at, names = pick_columns(table, columns, weights, times), table.names
        return cls(table, EdgeColumns.of(names, at), described=describe(names, len(names), at))

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
            weight, time = (f"{self.name}: column {c!r}" for c in (self.columns.weight, self.columns.time))
            yield (
                batch[0],
                batch[1],
                None if weights is None else as_weights(numbers(weights, weight, row)),
                None if times is None else as_time_column(times, time, row, None),
            )
            row += len(batch[0])

    def _ids(self, column: Any, name: str, row: int) -> npt.NDArray[Any]:
        where, kind = f"{self.name}: column {name!r}", kind_of(column)
        if kind != "number":
            hint = "; ids='map' maps others to 0, 1, 2, ..." if kind == "text" else ""
            raise InputError(f"{where} holds {shown(kind)}, expected integer node ids{hint}")
        values = numbers(column, where, row)
        if values.dtype.kind not in "iu":
            raise InputError(f"{where} holds {values.dtype}, expected integer node ids")
        return as_id_column(values, name)
