"""CSV files as tables, read by Arrow with the delimiter and header that other readers of text would find."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import InputError
from .tables import ArrowTable, require_pyarrow
from .text import Dialect, content_lines, sniff, split_line, text_blocks

__all__ = ["csv_table"]

_LONGEST_LINE = 1 << 26  # Arrow refuses far shorter ones
_QUOTED = rb'"[^"]*(?:""[^"]*)*'  # a field without its closing quote
_POSSESSIVE = b"+" if sys.version_info >= (3, 11) else b""  # takes no memory for a way back, which no field needs


def csv_table(path: str, text: Sequence[str] = (), header: bool | None = True) -> ArrowTable:
    """Return the table of a CSV file; columns `text` hold strings. Quoted fields may hold line breaks.

    header: whether the first line has the names of the columns (None: detected); else they are "0", "1", ...
    Blanks around fields are not part of them, as for the other readers of text. Arrow does not say which values were
    quoted, so all values are kept as they are if blanks are within the quotes of any. Empty text is missing.
    """
    arrow = require_pyarrow(path)
    from pyarrow import csv
    from pyarrow import dataset as files

    dialect = sniff(path, None, header)
    if dialect.delimiter == " " and dialect.columns > 1:
        raise InputError(f"{path}: columns are separated by blanks, expected one of ',', tab, ';' and '|'")
    delimiter = "," if dialect.delimiter == " " else dialect.delimiter
    stat = os.stat(path)
    padded = _check_quotes(path, delimiter, dialect.begin, dialect.lines_before, (stat.st_size, stat.st_mtime_ns))
    layout = files.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        read_options=csv.ReadOptions(skip_rows=dialect.lines_before, column_names=_names(path, dialect)),
        convert_options=csv.ConvertOptions(column_types={column: arrow.string() for column in text}),
    )
    try:
        return _CsvTable(path, files.dataset(path, format=layout), dialect, trims=not padded)
    except arrow.ArrowInvalid as error:
        _refuse_width(path, dialect)
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error


@functools.lru_cache(maxsize=64)
def _check_quotes(path: str, delimiter: str, begin: int, lines_before: int, version: tuple[int, int]) -> bool:
    """Refuse a quoted field that does not end, and text after one: Arrow would read the rest of the file as the field.

    Return whether a quoted field starts or ends with a blank.
    version: the size and time of the file, which is read once for this.
    """
    end = re.escape(delimiter.encode()) + rb"\r\n"
    whole, unclosed = _line_patterns(delimiter)
    same = re.compile(_QUOTED)
    blanks = re.compile(rb'(?:[%b]|^)"[ \t]|[ \t]"(?:[%b]|$)' % (end, end), re.MULTILINE)
    early = re.compile(rb'(?:[%b]|^)[%b]+"' % (end, _blanks(delimiter)))
    number, opened, rest, padded = lines_before, 0, b"", False
    for block, _ in itertools.chain(text_blocks(path, begin=begin), [(b"\n", 0)]):
        part, newline, after = block.rpartition(b"\n")
        part, rest = (rest + part, after) if newline else (b"", rest + after)
        if len(rest) > _LONGEST_LINE:
            return padded
        if not newline:
            continue
        padded = padded or (b'"' in part and blanks.search(part) is not None)
        if not opened and (b'"' not in part or whole.fullmatch(part)):
            number += part.count(b"\n") + 1
            continue
        for line in part.split(b"\n"):
            number += 1
            if not opened and b'"' not in line:
                continue
            line = b'"' + line if opened else line  # the field goes on
            if whole.fullmatch(line):
                opened = 0
            elif unclosed.fullmatch(line):
                opened = opened if opened and same.fullmatch(line) else number
            elif not opened and early.search(line):
                raise InputError(
                    f"{path}: line {number}: found a blank before a quote, expected the quote right after the "
                    "delimiter; remove the blank"
                )
            else:
                since = f" of a field that starts in line {opened}" if opened and opened != number else ""
                raise InputError(
                    f"{path}: line {number}: found text after a closing quote{since}, expected a delimiter; a quote "
                    'within a quoted field is written ""'
                )
    if opened:
        raise InputError(f"{path}: line {opened}: a quoted field does not end before the end of the file")
    return padded


def _blanks(delimiter: str) -> bytes:
    return b" " if delimiter == "\t" else rb" \t"


def _line_patterns(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return what matches a line whose quoted fields all end in it, and one whose last field goes on."""
    end, blank = re.escape(delimiter.encode()) + rb"\r\n", _blanks(delimiter)
    # Arrow takes a quote after a blank for a part of the value.
    field = rb'(?:%b"[ \t]*(?=[%b]|$)|(?![%b]+")[^"%b][^%b]*|)' % (_QUOTED, end, blank, end, end)
    fields = rb"(?:%b[%b])*%b" % (field, end, _POSSESSIVE)
    return re.compile(fields + field), re.compile(fields + _QUOTED)


def _names(path: str, dialect: Dialect) -> list[str]:
    """Return the names of all columns: a delimiter at the end of the header makes one more, which is empty."""
    if dialect.header is None:
        return [str(number) for number in range(dialect.columns)]
    line = next(content_lines(path), None)
    return [] if line is None else split_line(line.text, dialect.delimiter)


class _CsvTable(ArrowTable):
    """A table that trims text, has nulls for empty fields, and says in which line of the file something is wrong."""

    def __init__(self, path: str, source: Any, dialect: Dialect, trims: bool) -> None:
        super().__init__(path, source)
        self._dialect, self._trims = dialect, trims
        self.names = list(dialect.header or _names(path, dialect))

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        try:
            for batch in super()._record_batches(columns):
                yield _with_nulls(batch, self._trims)
        except InputError:
            _refuse_width(self.name, self._dialect)
            raise

    def line_of(self, row: int) -> int:
        """Return the number of the line in which a row starts: a row may have several, and empty lines are none."""
        _, unclosed = _line_patterns("," if self._dialect.delimiter == " " else self._dialect.delimiter)
        number, start, opened, rest = self._dialect.lines_before, 0, False, b""
        for block, _ in itertools.chain(text_blocks(self.name, begin=self._dialect.begin), [(b"\n", 0)]):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                number += 1
                start = start or number
                if opened or b'"' in line:  # quotes count only in fields that start with one
                    opened = unclosed.fullmatch(b'"' + line if opened else line) is not None
                if opened:
                    continue
                if line.strip(b"\r") or start < number:
                    if not row:
                        return start
                    row -= 1
                start = 0
        return number


def _with_nulls(batch: Any, trims: bool) -> Any:
    """Return a batch whose empty texts are nulls, and whose texts are trimmed."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    def filled(column: Any) -> Any:
        if not arrow.types.is_string(column.type):
            return column
        column = compute.utf8_trim(column, " \t") if trims else column
        empty = compute.equal(column, "")
        if not compute.any(empty).as_py():
            return column
        return compute.if_else(empty, arrow.scalar(None, arrow.string()), column)

    return arrow.record_batch([filled(column) for column in batch.columns], schema=batch.schema)


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
