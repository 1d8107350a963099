"""CSV files as tables, read by Arrow with the delimiter and header that other readers of text would find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InputError
from .tables import ArrowTable, require_pyarrow
from .text import Dialect, content_lines, sniff, split_line

__all__ = ["csv_table"]


def csv_table(path: str, text: Sequence[str] = ()) -> ArrowTable:
    """Return the table of a CSV file with a header; columns `text` hold strings. Quoted fields may hold line breaks."""
    arrow = require_pyarrow(path)
    from pyarrow import csv
    from pyarrow import dataset as files

    dialect = sniff(path, None, True)
    if dialect.delimiter == " " and dialect.columns > 1:
        raise InputError(f"{path}: columns are separated by blanks, expected one of ',', tab, ';' and '|'")
    layout = files.CsvFileFormat(
        parse_options=csv.ParseOptions(
            delimiter="," if dialect.delimiter == " " else dialect.delimiter, newlines_in_values=True
        ),
        read_options=csv.ReadOptions(skip_rows=dialect.lines_before, column_names=_names(path, dialect)),
        convert_options=csv.ConvertOptions(column_types={column: arrow.string() for column in text}),
    )
    try:
        return _CsvTable(path, files.dataset(path, format=layout), dialect)
    except arrow.ArrowInvalid as error:
        _refuse_width(path, dialect)
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error


def _names(path: str, dialect: Dialect) -> list[str]:
    """Return the names of all columns: a delimiter at the end of the header makes one more, which is empty."""
    line = next(content_lines(path), None)
    return [] if line is None else split_line(line.text, dialect.delimiter)


class _CsvTable(ArrowTable):
    """A table that says in which line of the file something is wrong."""

    def __init__(self, path: str, source: Any, dialect: Dialect) -> None:
        super().__init__(path, source)
        self._dialect = dialect
        self.names = list(dialect.header or [])

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        try:
            yield from super()._record_batches(columns)
        except InputError:
            _refuse_width(self.name, self._dialect)
            raise


def _refuse_width(path: str, dialect: Dialect) -> None:
    """Raise for the first line that has more or fewer fields than the header: Arrow does not say which it is."""
    for line in content_lines(path):
        if line.number <= dialect.lines_before:
            continue
        try:
            found = len(split_line(line.text, dialect.delimiter))
        except InputError:
            return  # a line break in quotes: lines are not rows
        if found != dialect.columns:
            many = f"{found} column{'s' * (found != 1)}"
            raise InputError(f"{path}: line {line.number}: found {many}, expected {dialect.columns} as in the header")
