"""Columns of tables in a dataset: the kind, location and statistics of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

__all__ = ["CATEGORY", "KINDS", "MISSING_TIME", "NUMBER", "OTHER", "TIME", "Column", "pack_columns"]

KINDS = ("number", "category", "time", "bool", "embedding", "multicategory")
NUMBER, CATEGORY, TIME = "columns_number", "columns_category", "columns_time"  # the arrays that columns share
OTHER = "(other)"  # the category that replaces all rare ones
MISSING_TIME = int(np.iinfo(np.int64).min)
_SHARED = {"number": NUMBER, "bool": NUMBER, "category": CATEGORY, "time": TIME}
_NEEDED = {"number": ("mean", "std"), "time": ("min", "max"), "category": ("names",), "multicategory": ("names",)}
_KNOWN = ("mean", "std", "min", "max", "missing", "rows", "of", "names", "counts")


@dataclass(frozen=True)
class Column:
    """One column of a table: column `column` of the feature `array` of its type.

    Numbers and bools of a type share the float32 matrix `columns_number` (NaN: missing), categories the int32 matrix
    `columns_category` (a code, -1: missing), times the int64 matrix `columns_time` (seconds since 1970; missing is the
    smallest int64). An embedding is a separate matrix; so is a multicategory: int32 codes, rows padded with -1.

    >>> Column("age", "number", "columns_number", 0, {"mean": 41.0, "std": 12.5}).kind
    'number'
    """

    name: str
    kind: str
    array: str
    column: int = 0
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the categories by code; empty for other kinds."""
        return list(self.stats.get("names", ()))

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON values, as in the manifest."""
        return {
            "name": self.name,
            "kind": self.kind,
            "array": self.array,
            "column": self.column,
            "stats": dict(self.stats),
        }


def read_columns(
    value: Any, where: str, features: Iterable[str], fail: Callable[[str, str, str], NoReturn], lenient: bool = False
) -> tuple[Column, ...]:
    """Check the columns of a type, parsed from JSON; `fail(field, found, expected)` raises at the first fault."""
    if not isinstance(value, list):
        fail(where, _shown(value), "a list of columns")
    known, seen, columns = list(features), set(), []
    for at, entry in enumerate(value):
        here = f"{where}[{at}]"
        column = _read_column(entry, here, fail, lenient)
        if column.name in seen:
            fail(f"{here}.name", repr(column.name), "a unique column name")
        if column.array not in known:
            fail(f"{here}.array", repr(column.array), f"a feature of the type: {', '.join(known) or 'it has none'}")
        seen.add(column.name)
        columns.append(column)
    return tuple(columns)


def _read_column(entry: Any, where: str, fail: Callable[[str, str, str], NoReturn], lenient: bool) -> Column:
    if not isinstance(entry, dict):
        fail(where, _shown(entry), "an object")
    fields = ("name", "kind", "array", "column", "stats")
    for key in entry:
        if key not in fields and not lenient:
            fail(f"{where}.{key}", "an unknown field", f"one of {', '.join(fields)}")
    for key in ("name", "array"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            fail(f"{where}.{key}", _shown(entry.get(key)), "text")
    kind, column, stats = entry.get("kind"), entry.get("column", 0), entry.get("stats", {})
    if kind not in KINDS:
        fail(f"{where}.kind", _shown(kind), f"one of {', '.join(KINDS)}")
    if isinstance(column, bool) or not isinstance(column, int) or not 0 <= column < 2**31:
        fail(f"{where}.column", _shown(column), "a whole number of at least 0")
    if not isinstance(stats, dict):
        fail(f"{where}.stats", _shown(stats), "an object")
    for key in _NEEDED.get(kind, ()):
        if key not in stats:
            fail(f"{where}.stats.{key}", "nothing", f"a value, which is required for kind {kind}")
    for key, found in stats.items():
        if key not in _KNOWN and not lenient:
            fail(f"{where}.stats.{key}", "an unknown field", f"one of {', '.join(_KNOWN)}")
        _check_stat(key, found, f"{where}.stats.{key}", kind, fail)
    if "counts" in stats and len(stats["counts"]) != len(stats.get("names", ())):
        fail(f"{where}.stats.counts", f"{len(stats['counts'])} numbers", f"one per name: {len(stats.get('names', ()))}")
    return Column(entry["name"], kind, entry["array"], column, stats)


def _check_stat(key: str, value: Any, where: str, kind: str, fail: Callable[[str, str, str], NoReturn]) -> None:
    if key == "names":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            fail(where, _shown(value), "a list of names")
    elif key == "counts":
        if not isinstance(value, list) or not all(_is_whole(count) and count >= 0 for count in value):
            fail(where, _shown(value), "a list of whole numbers of at least 0")
    elif key == "of":
        if value not in ("train", "all"):
            fail(where, _shown(value), "'train' or 'all'")
    elif key in ("missing", "rows"):
        if not _is_whole(value) or value < 0:
            fail(where, _shown(value), "a whole number of at least 0")
    elif kind == "time" and key in ("min", "max"):
        if not _is_whole(value) or not -(2**63) <= value < 2**63:
            fail(where, _shown(value), "a whole number of seconds")
    elif key in ("mean", "std", "min", "max"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or (key == "std" and value < 0):
            fail(where, _shown(value), "a number" if key != "std" else "a number of at least 0")


def pack_columns(
    table: Mapping[str, Any], *, train: Any = None, most_categories: int = 1000
) -> tuple[dict[str, npt.NDArray[Any]], list[Column]]:
    """Convert named columns to arrays and their description, both for `Dataset.create`.

    Accepts numbers, bools, datetime64, text (and anything else, by its str) and matrices of floats; None and NaN are
    missing values. Beyond `most_categories`, the rarest categories become one, "(other)". `train`: the rows from which
    means and deviations are computed (default: all).

    >>> arrays, columns = pack_columns({"age": [41, None, 23], "country": ["FR", "DE", "FR"]})
    >>> arrays["columns_number"].tolist(), columns[1].names
    ([[41.0], [nan], [23.0]], ['FR', 'DE'])
    """
    shared: dict[str, list[npt.NDArray[Any]]] = {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    columns = []
    for name, given in table.items():
        kind, values, stats = _packed(given, train, most_categories)
        if kind == "embedding":
            arrays[name] = values
            columns.append(Column(name, kind, name))
            continue
        members = shared.setdefault(_SHARED[kind], [])
        columns.append(Column(name, kind, _SHARED[kind], len(members), stats))
        members.append(values)
    return {array: np.stack(members, axis=1) for array, members in shared.items()} | arrays, columns


def _packed(given: Any, train: Any, most: int) -> tuple[str, npt.NDArray[Any], dict[str, Any]]:
    """Return the kind of a column, its values as stored, and its statistics."""
    values = given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)
    if values.dtype == object and all(v is None or isinstance(v, (bool, int, float)) for v in values):
        values = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    if values.ndim == 2:
        return "embedding", values.astype(np.float32, copy=False), {}
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[s]").astype(np.int64)  # NaT is the smallest int64: missing
        known = seconds[seconds != MISSING_TIME]
        least, largest = (int(known.min()), int(known.max())) if known.size else (0, 0)
        return "time", seconds, {"min": least, "max": largest, "missing": int(len(seconds) - len(known))}
    if values.dtype.kind in "biuf":
        return ("bool" if values.dtype.kind == "b" else "number"), values.astype(np.float32), _moments(values, train)
    missing = np.array([v is None or v != v for v in values], dtype=bool)
    names, codes, counts = np.unique(values[~missing].astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    kept, tally = [str(name) for name in names[order]], [int(count) for count in counts[order]]
    if len(kept) > most:
        kept, tally = [*kept[: most - 1], OTHER], [*tally[: most - 1], sum(tally[most - 1 :])]
    packed = np.full(len(values), -1, np.int32)
    packed[~missing] = np.minimum(place[codes], most - 1)
    return "category", packed, {"names": kept, "counts": tally, "missing": int(missing.sum())}


def _moments(values: npt.NDArray[Any], train: Any) -> dict[str, Any]:
    whole = values.astype(np.float64)
    seen = whole if train is None else whole[np.asarray(train)]
    known = seen[np.isfinite(seen)]
    found = [float(f(known)) if known.size else 0.0 for f in (np.mean, np.std, np.min, np.max)]
    of = "all" if train is None else "train"
    return dict(zip(("mean", "std", "min", "max"), found, strict=True)) | {
        "missing": int(np.isnan(whole).sum()),
        "rows": len(seen),
        "of": of,
    }


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:80]
