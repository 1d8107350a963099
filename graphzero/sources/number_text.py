"""Text files of plain numbers, one row per line, without ids, as OGB has them. Streamed in blocks of lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .rows import Rows
from .text import sniff, text_blocks

__all__ = ["NumberText"]

_BYTES = 1 << 22


class NumberText:
    """A text file of numbers, perhaps compressed, as float32, float64 or int64. An empty field is NaN.

    blank_is_missing: in a file of one column, a line without anything is a row too.
    """

    def __init__(self, path: str, dtype: str = "float32", blank_is_missing: bool = False) -> None:
        """Look at the first line."""
        self.path, self.dtype = path, dtype
        self._dialect = sniff(path, None, None)
        self.columns = max(1, self._dialect.columns)
        self._blank_is_missing = blank_is_missing and self.columns == 1
        self._begin, self._lines_before = self._dialect.begin, self._dialect.lines_before
        if self._blank_is_missing and self._dialect.header is None and self._lines_before:
            self._begin = self._lines_before = 0  # blank lines before the first number are rows

    def tables(self, step: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the numbers, at most `step` rows at a time."""
        kinds: dict[str, Any] = {
            "float32": _core.NumberTextFloat32,
            "float64": _core.NumberTextFloat64,
            "int64": _core.NumberTextInt64,
        }
        parser = kinds[self.dtype](
            name=self.path,
            delimiter=self._dialect.delimiter,
            columns=self.columns,
            lines_before=self._lines_before,
            blank_is_missing=self._blank_is_missing,
        )
        for block, _ in itertools.chain(text_blocks(self.path, _BYTES, self._begin), [(b"", 0)]):
            table = parser.feed(block, not block).reshape(-1, self.columns)
            for at in range(0, len(table), step):
                yield table[at : at + step]

    def table(self) -> npt.NDArray[Any]:
        """Return all numbers: for small files."""
        return np.concatenate([np.empty((0, self.columns), self.dtype), *self.tables(1 << 20)])

    def rows(self, name: str, count: int | None) -> Rows:
        """Return the numbers as rows of features."""
        return Rows(name, self.dtype, self.columns if self.columns > 1 else None, count, self._blocks)

    def _blocks(self, step: int) -> Iterator[npt.NDArray[Any]]:
        for table in self.tables(step):
            yield table if self.columns > 1 else table[:, 0]
