"""Which columns of a table or text of edges are sources, targets, weights and times, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..args.suggest import did_you_mean
from ..errors import InputError

__all__ = ["TIMES", "WEIGHTS", "EdgeColumns", "Picked", "describe", "is_number", "known_column", "named", "pick"]

SOURCES = ("src", "source", "from", "u", "head", "subject", "start", "node1", "follower", "citing")
TARGETS = ("dst", "target", "to", "v", "tail", "object", "end", "node2", "followee", "cited")
WEIGHTS = ("weight", "weights", "w", "edge_weight")
TIMES = ("time", "times", "timestamp", "timestamps", "t", "ts", "edge_time", "date", "year")
_ENDINGS = ("", "_id", "id", "_node", "_node_id", "_idx")
_MOST_SHOWN = 16


@dataclass(frozen=True)
class Picked:
    """Numbers of columns, from 0; -1: there is none."""

    src: int
    dst: int
    weight: int = -1
    time: int = -1
    guessed_weight: bool = False  # taken because it is the third of three columns


@dataclass(frozen=True)
class EdgeColumns:
    """Names of columns; None: there is none."""

    src: str
    dst: str
    weight: str | None = None
    time: str | None = None

    @classmethod
    def of(cls, names: Sequence[str], at: Picked) -> EdgeColumns:
        """Return the names of the columns that were picked."""
        weight, time = (None if i < 0 else names[i] for i in (at.weight, at.time))
        return cls(names[at.src], names[at.dst], weight, time)

    def all(self) -> list[str]:
        """Return the names in use, in order."""
        return [name for name in (self.src, self.dst, self.weight, self.time) if name is not None]


def known_column(names: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the first of `names` that is one of `known`, in any case and with endings such as `_id`."""
    lower = {name.lower(): name for name in reversed(list(names))}
    return next((lower[k + end] for k in known for end in _ENDINGS if k + end in lower), None)


def is_number(field: str) -> bool:
    """Whether a field of a text is a number, as a weight would be."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def pick(
    where: str,
    names: Sequence[str] | None,
    count: int,
    columns: Any,
    weights: Any,
    times: Any,
    numeric: Callable[[int], bool] = lambda column: True,
) -> Picked:
    """Return the requested columns, else those with known names (None: a text without a header), else the first two.

    The third of three columns is taken for weights where `numeric(its number)`.
    """
    if columns is not None and (not isinstance(columns, (list, tuple)) or len(columns) != 2):
        raise ValueError(f"columns is {columns!r}, expected two names or numbers: (source, target)")
    if columns is None:
        if count < 2 and names is not None:
            raise InputError(f"{where}: columns {_list(names)}, expected at least two: source and target")
        found = [known_column(names or [], known) for known in (SOURCES, TARGETS)]
        columns = (0, 1) if None in found else found
    src, dst = (_column(where, names, count and max(count, 2), column) for column in columns)
    if src == dst:
        raise ValueError(f"columns is {columns!r}, expected two different ones: (source, target)")
    time = -1
    if times is True:
        time = _called(where, names, TIMES, "time")
    elif times is not None and times is not False:
        time = _column(where, names, count, times)
    rest = [i for i in range(count) if i not in (src, dst, time)]
    if weights is None:
        known = known_column([(names or [])[i] for i in rest if names is not None], WEIGHTS)
        if known is not None:
            return Picked(src, dst, _column(where, names, count, known), time)
        name = names[rest[0]] if names is not None and rest else None
        if count != 3 or len(rest) != 1 or (name is not None and (name.lower() in TIMES or is_index(name))):
            return Picked(src, dst, -1, time)
        return Picked(src, dst, rest[0], time, True) if numeric(rest[0]) else Picked(src, dst, -1, time)
    if weights is False:
        return Picked(src, dst, -1, time)
    if weights is True and rest and (names is None or count == 3):  # no name says which
        return Picked(src, dst, rest[0], time)
    weight = _called(where, names, WEIGHTS, "weight") if weights is True else _column(where, names, count, weights)
    return Picked(src, dst, weight, time)


def describe(names: Sequence[str] | None, count: int, at: Picked, two_sided: bool = False) -> list[str]:
    """Describe how each column was interpreted, which were omitted, and what that means for ids."""
    weight = "weight (the third of three columns)" if at.guessed_weight else "weight"
    roles = {at.weight: weight, at.time: "time", at.src: "source", at.dst: "target"}
    shown = [f"{i} {names[i]!r}" if names is not None and i < len(names) else str(i) for i in range(count)]
    parts = [f"{shown[i]} {roles.get(i, 'not read')}" for i in range(min(count, _MOST_SHOWN))]
    lines = ["columns: " + ", ".join(parts + ["..."] * (count > _MOST_SHOWN))]
    left = [repr(names[i]) if names is not None and i < len(names) else str(i) for i in range(count) if i not in roles]
    if left:
        more = f" and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
        lines.append(
            f"not imported: column{'s' * (len(left) > 1)} {', '.join(left[:_MOST_SHOWN])}{more}; edge_features= or a "
            "description of tables keeps them"
        )
    if names is not None and not two_sided and max(at.src, at.dst) < len(names):
        ends = names[at.src], names[at.dst]
        if known_column(ends[:1], SOURCES) is None or known_column(ends[1:], TARGETS) is None:
            lines.append(
                f"source and target columns {ends[0]!r}, {ends[1]!r} share one id space; use a typed description to "
                "keep them separate"
            )
    return lines


def is_index(name: str) -> bool:
    """Whether a column is the index of a DataFrame, which pandas writes next to the others: not a weight."""
    return name == "" or name.lower() in ("index", "unnamed: 0") or name.startswith("__index_level_")


def named(where: str, names: Sequence[str], column: Any) -> str:
    """Return the name of a column that is given by name or number."""
    return names[_column(where, names, len(names), column)]


def _called(where: str, names: Sequence[str] | None, known: Sequence[str], what: str) -> int:
    found = known_column(names or [], known)
    if found is None:
        raise ValueError(f"{where}: no column is named like a {what}; pass its name, one of {_list(names or [])}")
    return _column(where, names, 0, found)


def _column(where: str, names: Sequence[str] | None, count: int, column: Any) -> int:
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"{where}: cannot select column {column!r} by name: the file has no header")
        if column not in names:
            raise ValueError(
                f"{where}: no column {column!r}, expected one of {_list(names)}{did_you_mean(column, names)}"
            )
        if (often := list(names).count(column)) > 1:
            raise InputError(f"{where}: {often} columns are called {column!r}, expected different names")
        return list(names).index(column)
    if isinstance(column, bool) or not hasattr(column, "__index__"):
        raise TypeError(f"{where}: a column is given by name or number, got {type(column).__name__}")
    index = int(column.__index__())
    if index < 0:
        raise ValueError(f"{where}: invalid column {index}; columns are numbered from 0")
    if count and index >= count:  # of a file without a line nothing is known
        raise ValueError(f"{where}: no column {index}; it has {count}, numbered from 0")
    return index


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return shown + ", ..." if len(names) > 12 else shown or "none"
