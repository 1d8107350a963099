"""Matrix Market files (`.mtx`): the banner and the size line; the entries are lines like those of any edge list."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .text import content_lines, start_of

_BANNER = b"%%MatrixMarket"


@dataclass(frozen=True)
class MatrixMarket:
    """What the head of a Matrix Market file says. Ids count from 1."""

    size: int  # rows, and as many columns
    entries: int
    values: bool  # a third column: real or integer; a pattern has none
    symmetric: bool  # an entry (i, j) implies (j, i)
    negated: bool  # skew-symmetric: with the opposite sign
    begin: int  # the byte where entries start
    lines_before: int


def read_matrix_market(path: str) -> MatrixMarket | None:
    """Return what the head of `path` says, None for other text; matrices that are not graphs are rejected."""
    head = start_of(path)
    if head[: len(_BANNER)].lower() != _BANNER.lower():
        return None
    words = head.split(b"\n", 1)[0].decode("utf-8", "replace").split()
    kinds = [word.lower() for word in words[1:]]
    if len(kinds) != 4 or kinds[0] != "matrix":
        raise InputError(f"{path}: line 1: found {' '.join(words)!r}, expected '%%MatrixMarket matrix coordinate ...'")
    _, layout, field, symmetry = kinds
    if layout != "coordinate":
        raise InputError(f"{path}: line 1: found a dense matrix ({layout!r}), expected 'coordinate': a list of entries")
    if field not in ("pattern", "real", "integer", "double"):
        raise InputError(f"{path}: line 1: found values of type {field!r}, expected 'pattern', 'real' or 'integer'")
    if symmetry not in ("general", "symmetric", "skew-symmetric"):
        raise InputError(
            f"{path}: line 1: found symmetry {symmetry!r}, expected 'general', 'symmetric' or 'skew-symmetric'"
        )
    line = next(content_lines(path), None)
    if line is None:
        raise InputError(f"{path}: no size line, expected one 'rows columns entries' after the comments")
    try:
        rows, columns, entries = (int(word) for word in line.text.split())
    except ValueError:
        raise InputError(
            f"{path}: line {line.number}: found {line.text.strip()[:40]!r}, expected 'rows columns entries'"
        ) from None
    if rows != columns:
        raise InputError(
            f"{path}: line {line.number}: found a matrix of {rows} rows and {columns} columns, expected a square one: "
            "rows and columns are the same nodes"
        )
    if rows < 0 or entries < 0:
        raise InputError(f"{path}: line {line.number}: found {line.text.strip()[:40]!r}, expected numbers from 0 on")
    return MatrixMarket(
        rows, entries, field != "pattern", symmetry != "general", symmetry == "skew-symmetric", line.after, line.number
    )
