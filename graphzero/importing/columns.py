"""Which columns of a table of edges are sources, targets, weights and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._column_names import SOURCES, TARGETS, TIMES, WEIGHTS, is_index, known_column, refuse_repeated
from ..errors import InputError

__all__ = ["EdgeColumns", "pick"]


@dataclass(frozen=True)
class EdgeColumns:
    """Names of columns; None: there is none."""

    src: str
    dst: str
    weight: str | None = None
    time: str | None = None

    def all(self) -> list[str]:
        """Return the names in use, in order."""
        return [name for name in (self.src, self.dst, self.weight, self.time) if name is not None]


def pick(
    table: str,
    names: Sequence[str],
    columns: Any,
    weights: Any,
    times: Any,
    numeric: Callable[[str], bool] = lambda name: True,
) -> EdgeColumns:
    """Return the columns by what was asked for, else by their names, else the first two.

    The third of three columns is taken for weights where `numeric(its name)`.
    """
    if columns is not None:
        if not isinstance(columns, (list, tuple)) or len(columns) != 2:
            raise ValueError(f"columns is {columns!r}, expected two names or numbers: (source, target)")
        src, dst = (_named(table, names, column) for column in columns)
    else:
        if len(names) < 2:
            raise InputError(f"{table}: columns {_list(names)}, expected at least two: source and target")
        found = known_column(names, SOURCES), known_column(names, TARGETS)
        src, dst = found if None not in found else (names[0], names[1])  # type: ignore[assignment]
    if src == dst:
        raise ValueError(f"columns is {columns!r}, expected two different ones: (source, target)")
    taken = {src, dst}
    time = None if times is None or times is False else _asked(table, names, times, TIMES, "time")
    weight = None
    if weights is None:
        rest = [name for name in names if name not in taken and name != time]
        weight = known_column(rest, WEIGHTS)
        guessed = len(names) == 3 and rest and rest[0].lower() not in TIMES and not is_index(rest[0])
        if weight is None and guessed and numeric(rest[0]):
            weight = rest[0]
    elif weights is not False:
        weight = _asked(table, names, weights, WEIGHTS, "weight")
    refuse_repeated(table, names, (src, dst, weight, time))
    return EdgeColumns(src, dst, weight, time)


def _asked(table: str, names: Sequence[str], column: Any, known: Sequence[str], what: str) -> str:
    if column is not True:
        return _named(table, names, column)
    found = known_column(names, known)
    if found is None:
        raise ValueError(f"{table}: no column is called a {what}: name it, one of {_list(names)}")
    return found


def _named(table: str, names: Sequence[str], column: Any) -> str:
    if isinstance(column, bool) or not (isinstance(column, str) or hasattr(column, "__index__")):
        raise TypeError(f"a column of {table} is a name or a number, got {type(column).__name__}")
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"{table}: no column {column!r}, expected one of {_list(names)}")
        return str(column)
    if not 0 <= column < len(names):
        raise ValueError(f"{table}: no column {column}, it has {len(names)}")
    return names[int(column)]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return shown + ", ..." if len(names) > 12 else shown or "none"
