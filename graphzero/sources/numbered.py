"""Tables whose rows have no key: the row number is the key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tables import Table

__all__ = ["ROW", "NumberedTable", "WithRowNumbers"]

ROW = "(row)"  # the name of the added column


@dataclass(frozen=True)
class WithRowNumbers:
    """A source of rows that is to have row numbers once it is opened as a table."""

    source: Any


class NumberedTable:
    """A table with one more column, the number of each row."""

    def __init__(self, table: Table) -> None:
        """Take the table."""
        self._table = table
        self.name, self.names, self.num_rows = table.name, [*table.names, ROW], table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield columns of the table, and row numbers where they are wanted."""
        wanted = [column for column in columns if column != ROW] or self._table.names[:1]
        row = 0
        for batch in self._table.batches(wanted):
            found = dict(zip(wanted, batch, strict=True)) | {ROW: np.arange(row, row + len(batch[0]))}
            row += len(batch[0])
            yield [found[column] for column in columns]

    def sample(self, column: str) -> Any:
        """Return a row of a column, or none of them but its type."""
        return np.zeros(1, np.int64) if column == ROW else self._table.sample(column)

    def is_numeric(self, column: str) -> bool:
        """Whether a column holds numbers, by its type."""
        return column == ROW or self._table.is_numeric(column)
