"""Text files of edges: which column holds what, and feeding them to the builder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import InputError
from .edge_columns import Picked, describe, is_number, pick
from .matrix_market import MatrixMarket, read_matrix_market
from .read_ahead import ahead
from .tables import is_table_file
from .text import Dialect, is_compressed, lines_at, sniff, split_line, start_of, text_blocks

# From here on, an integer in a column without a name is not exact in float32, and most likely a time.
_MOST_GUESSED = 1 << 24
_EMPTY = re.compile(r"(?<=: line )(\d+): found '', expected an integer node id")
_COLUMN = re.compile(r"\bcolumn (\d+)(?=(?: is empty)?, expected a node id)")


def text_paths(source: Any) -> list[str]:
    """Return the text files that `source` names; an empty list if it is something else."""
    many = source if isinstance(source, (list, tuple)) else [source]
    if not many or not all(isinstance(path, (str, os.PathLike)) for path in many):
        return []
    paths = [os.fspath(path) for path in many]
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if os.path.isdir(path) and not is_table_file(path):
            raise IsADirectoryError(f"{path}: is a folder, expected a file of edges")
    binary = [path for path in paths if path.endswith((".npy", ".gl"))]
    if binary and many is source:
        raise TypeError(f"{binary[0]}: not a text file; a list of sources may contain only text files")
    return [] if binary else paths


@dataclass(frozen=True)
class _File:
    path: str
    dialect: Dialect
    columns: Picked
    matrix: MatrixMarket | None


class TextReader:
    """Feeds a builder from text files, each with its own dialect."""

    unit = "B"
    has_edge_ids = False
    given_edge_ids = False

    def __init__(
        self,
        paths: list[str],
        weights: Any,
        times: Any,
        delimiter: str | None,
        header: bool | None,
        columns: Sequence[int | str] | None,
        skip: bool,
        two_sided: bool,
        memory: int,
    ) -> None:
        """Look at the first lines of each file: columns, delimiter, header."""
        self.skipped = 0
        self.examples: list[str] = []
        self._skip = skip
        self._block = max(memory // 64, 1 << 16)
        if not two_sided:
            for path in paths:
                _refuse_bipartite(path)
        self._files = [_look(path, delimiter, header, columns, weights, times) for path in paths]
        self.columns = _describe_files(self._files, two_sided)
        matrices = [file.matrix for file in self._files if file.matrix is not None]
        if matrices and len(paths) > 1:
            raise ValueError("a Matrix Market file is a whole graph; compile it alone, not in a list of files")
        self.own_nodes = matrices[0].size if matrices else None
        self.own_base = 1 if matrices else None
        self.undirected = bool(matrices) and matrices[0].symmetric
        self.says_empty = bool(matrices) and matrices[0].entries == 0
        full = [file.columns for file in self._files if file.dialect.columns] or [self._files[0].columns]
        self.weights = full[0].weight >= 0
        self.times = full[0].time >= 0
        if any((c.weight >= 0) != self.weights for c in full):
            raise ValueError("some files have weights and some have none; pass weights=False, or name the column")

    def feed(self, builder: _core.GraphBuilder) -> None:
        """Parse every file."""
        builder.expect(sum(os.path.getsize(file.path) for file in self._files))
        for file in self._files:
            options = _core.EdgeTextOptions(
                name=file.path,
                delimiter=file.dialect.delimiter,
                width=max(file.dialect.columns, 2),
                src=file.columns.src,
                dst=file.columns.dst,
                weight=file.columns.weight,
                time=file.columns.time,
                guessed_weight=file.columns.guessed_weight,
                begin=file.dialect.begin,
                lines_before=file.dialect.lines_before,
                skip_errors=self._skip,
            )
            ends = (file.columns.src, file.columns.dst)
            try:
                if is_compressed(file.path):
                    _, skipped, examples = _feed_stream(builder, file.path, options, self._block)
                else:
                    _, skipped, examples = builder.read_text(file.path, options)
            except InputError as error:
                raise InputError(*with_columns([str(error)], file.path, file.dialect, ends)) from None
            self.skipped += skipped
            shown = examples[: max(0, 8 - len(self.examples))]
            self.examples += with_columns(shown, file.path, file.dialect, ends)
            if file.matrix is not None and builder.edges_seen + skipped != file.matrix.entries:
                raise InputError(
                    f"{file.path}: found {builder.edges_seen + skipped} entries, line {file.matrix.lines_before} says "
                    f"{file.matrix.entries}: the file is truncated or damaged"
                )

    def why_empty(self) -> str:
        """Say what was there instead of edges."""
        names = ", ".join(file.path for file in self._files[:3]) + (", ..." if len(self._files) > 3 else "")
        if self.skipped:
            all_lines = f"all {self.skipped} lines were skipped, the first"
            said = all_lines if self.skipped > 1 else "the only line was skipped,"
            return f"{names}: {said} because of: {self.examples[0]}"
        return f"{names}: found no edges"


def with_columns(messages: Sequence[str], path: str, dialect: Dialect, ends: Sequence[int]) -> list[str]:
    """Return the parser's messages about ids with the names of their columns; `ends`: the numbers of those with ids.

    Lines without an id are looked up in the file, which is read once for all of them.
    """

    def name(column: int) -> str:
        known = dialect.header is not None and column < len(dialect.header)
        return repr(dialect.header[column]) if known and dialect.header else f"{column} (numbered from 0)"

    empties = [_EMPTY.search(message) if ends else None for message in messages]
    lines = lines_at(path, {int(empty[1]) for empty in empties if empty is not None})
    named = []
    for message, empty in zip(messages, empties, strict=True):
        if empty is not None:
            fields = split_line(lines.get(int(empty[1]), ""), dialect.delimiter)
            column = next((end for end in ends if end < len(fields) and not fields[end]), None)
            if column is not None:
                message = f"{message[: empty.start()]}{empty[1]}: column {column} is empty, expected a node id"
        named.append(_COLUMN.sub(lambda found: f"column {name(int(found[1]))}", message))
    return named


def _feed_stream(
    builder: _core.GraphBuilder, path: str, options: _core.EdgeTextOptions, block: int
) -> tuple[int, int, list[str]]:
    stream = builder.text_stream(options)
    for item in ahead(text_blocks(path, block)):
        stream.feed(*item)
    lines, skipped, examples = stream.finish()
    return lines, skipped, examples


def _look(
    path: str, delimiter: str | None, header: bool | None, columns: Sequence[int | str] | None, weights: Any, times: Any
) -> _File:
    """Return how one file is to be read."""
    matrix = read_matrix_market(path)
    if matrix is None:
        dialect = sniff(path, delimiter, header)
        return _File(path, dialect, _pick(path, dialect, columns, weights, times), None)
    if delimiter not in (None, " ") or header or columns is not None:
        raise ValueError(f"{path}: a Matrix Market file defines its own columns; omit delimiter, header and columns")
    if matrix.negated and matrix.values and weights is not False:
        raise ValueError(
            f"{path}: weights of a skew-symmetric matrix are negative in one direction, expected 0 or more; pass "
            "weights=False"
        )
    count = 3 if matrix.values else 2
    dialect = Dialect(" ", None, count, matrix.begin, matrix.lines_before)
    asked = 2 if weights in (None, True) and matrix.values and times in (None, False) else weights
    return _File(path, dialect, _pick(path, dialect, None, False if asked is None else asked, times), matrix)


def _refuse_bipartite(path: str) -> None:
    """KONECT's bipartite files number both sides from 1: read as one set of ids, every edge would be wrong."""
    words = start_of(path).split(b"\n", 1)[0].split()
    if words[:2] == [b"%", b"bip"] or words[:1] == [b"%bip"]:
        raise InputError(
            f"{path}: line 1: a bipartite KONECT graph, whose two sides use the same ids; pass num_nodes=(None, None) "
            "to keep sources and targets separate"
        )


def _pick(path: str, dialect: Dialect, columns: Sequence[int | str] | None, weights: Any, times: Any) -> Picked:
    """Return which columns hold what."""

    def numeric(column: int) -> bool:
        return column >= len(dialect.first) or is_number(dialect.first[column])

    picked = pick(path, dialect.header, dialect.columns, columns, weights, times, numeric)
    if picked.guessed_weight:
        _refuse_times(path, dialect, picked.weight)
    return picked


def _refuse_times(path: str, dialect: Dialect, column: int) -> None:
    """Stop before the work where the first line already shows a time; the parser looks at all the others."""
    value = dialect.first[column] if column < len(dialect.first) else ""
    if value.isascii() and value.isdigit() and int(value) >= _MOST_GUESSED:
        raise InputError(
            f"{path}: line {dialect.first_line}: found {value[:40]!r} in column {column}, too large an integer for a "
            f"float32 weight; pass times={column} if it is a time, weights={column} to round it, or weights=False to "
            "omit it"
        )


def _describe_files(files: list[_File], two_sided: bool) -> list[str]:
    """Describe how each column was interpreted, once for files that are alike."""
    notes: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        if file.dialect.columns == 0:
            continue
        lines = describe(file.dialect.header, file.dialect.columns, file.columns, two_sided)
        kind = "Matrix Market, " if file.matrix is not None else ""
        notes.setdefault((kind + lines[0], *lines[1:]), []).append(file.path)
    if len(notes) == 1:
        return list(next(iter(notes)))
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: {line}"
        for lines, paths in notes.items()
        for line in lines
    ]
