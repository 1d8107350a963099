"""Text files of plain numbers, a row a line and no ids: OGB's and others. Streamed in blocks of lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._textfile import open_text, sniff
from ..errors import InputError
from ..row_sources import Rows

__all__ = ["NumberText"]

_BYTES = 1 << 23


class NumberText:
    """A CSV (perhaps compressed) of numbers without a header; `integers`: int64, else float32. Empty fields are NaN."""

    def __init__(self, path: str, integers: bool = False) -> None:
        """Look at the first line."""
        self.path = path
        self._dialect = sniff(path, None, None)
        self.columns = max(1, self._dialect.columns)
        self.dtype = "int64" if integers else "float32"

    def tables(self, step: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the numbers, at most `step` rows at a time."""
        row = self._dialect.lines_before
        for lines in self._lines():
            table = self._parse(lines, row)
            for at in range(0, len(table), step):
                yield table[at : at + step]
            row += len(table)

    def table(self) -> npt.NDArray[Any]:
        """Return all numbers: for small files."""
        return np.concatenate([np.empty((0, self.columns), self.dtype), *self.tables(1 << 20)])

    def rows(self, name: str, count: int | None) -> Rows:
        """Return the numbers as rows of features."""
        return Rows(name, self.dtype, self.columns if self.columns > 1 else None, count, self._blocks)

    def _blocks(self, step: int) -> Iterator[npt.NDArray[Any]]:
        for table in self.tables(step):
            yield table if self.columns > 1 else table[:, 0]

    def _lines(self) -> Iterator[bytes]:
        with open_text(self.path) as file:
            file.read(self._dialect.begin)
            rest = b""
            while block := file.read(_BYTES):
                block = rest + block
                end = block.rfind(b"\n") + 1
                rest = block[end:]
                if end:
                    yield block[:end]
            if rest.strip():
                yield rest

    def _parse(self, lines: bytes, row: int) -> npt.NDArray[Any]:
        separator = None if self._dialect.delimiter == " " else self._dialect.delimiter
        try:
            table: npt.NDArray[Any] = _parsed(lines, separator, self.columns, self.dtype)
        except ValueError as error:
            raise InputError(f"{self.path}: after line {row}: {error}: expected numbers") from None
        if table.shape[1] != self.columns:
            raise InputError(f"{self.path}: after line {row}: found {table.shape[1]} columns, expected {self.columns}")
        return table


def _parsed(lines: bytes, separator: str | None, columns: int, dtype: str) -> npt.NDArray[Any]:
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        pa = None
    if pa is None or separator is None:
        return np.loadtxt(io.BytesIO(lines), dtype=dtype, delimiter=separator, ndmin=2)
    names = [str(i) for i in range(columns)]
    kind = {name: pa.int64() if dtype == "int64" else pa.float32() for name in names}
    try:
        table = csv.read_csv(
            io.BytesIO(lines),
            read_options=csv.ReadOptions(column_names=names, block_size=len(lines) + 1),
            parse_options=csv.ParseOptions(delimiter=separator, ignore_empty_lines=columns > 1),
            convert_options=csv.ConvertOptions(column_types=kind, null_values=["", "nan", "NaN", "NA", "null"]),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(" ".join(str(error).split())) from None
    out = np.empty((table.num_rows, columns), dtype)
    for i, column in enumerate(table.columns):
        if column.null_count and dtype == "int64":
            raise ValueError(f"column {i} has no value in a row")
        out[:, i] = column.to_numpy() if not column.null_count else column.to_numpy(zero_copy_only=False)
    return out
