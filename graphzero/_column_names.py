"""What people call the columns of a table of edges."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InputError

__all__ = ["SOURCES", "TARGETS", "TIMES", "WEIGHTS", "is_index", "is_number", "known_column", "refuse_repeated"]

SOURCES = ("src", "source", "from", "u", "head", "subject", "start", "node1", "follower", "citing")
TARGETS = ("dst", "target", "to", "v", "tail", "object", "end", "node2", "followee", "cited")
WEIGHTS = ("weight", "weights", "w", "edge_weight")
TIMES = ("time", "times", "timestamp", "timestamps", "t", "ts", "edge_time", "date", "year")
_ENDINGS = ("", "_id", "id", "_node", "_node_id", "_idx")


def known_column(names: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the first of `names` that is one of `known`, in any case and with endings such as `_id`."""
    lower = {name.lower(): name for name in reversed(list(names))}
    return next((lower[k + end] for k in known for end in _ENDINGS if k + end in lower), None)


def is_index(name: str) -> bool:
    """Whether a column is the index of a DataFrame, which pandas writes beside the others: no weight."""
    return name == "" or name.lower() in ("index", "unnamed: 0") or name.startswith("__index_level_")


def refuse_repeated(table: str, names: Sequence[str], picked: Sequence[str | None]) -> None:
    """Refuse a column whose name another one has too."""
    for name in picked:
        count = list(names).count(name) if name is not None else 0
        if count > 1:
            raise InputError(f"{table}: {count} columns are called {name!r}, expected different names")


def is_number(field: str) -> bool:
    """Whether a field of a text is a number, as a weight would be."""
    try:
        float(field)
    except ValueError:
        return False
    return True
