"""Columns of text as codes: encoded batch by batch, so that only the different values are held as strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .tables import Table

__all__ = ["codes_of", "encoded"]


def encoded(column: Any) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return a code for each value of a batch and the values they stand for; -1 for what is missing or empty."""
    if hasattr(column, "type") and hasattr(column, "cast"):
        column = column if hasattr(column, "dictionary") else column.dictionary_encode()
        names = column.dictionary.to_pylist()
        codes = np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    else:
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        place: dict[Any, int] = {}
        listed = [None if _is_missing(value) else value for value in values.tolist()]
        codes = np.array([-1 if v is None else place.setdefault(v, len(place)) for v in listed], np.int64)
        names = list(place)
    empty = [i for i, name in enumerate(names) if name is None or name == ""]
    if empty:
        codes[np.isin(codes, empty)] = -1
    return codes, names


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def codes_of(table: Table, column: str) -> tuple[npt.NDArray[Any], list[str] | None]:
    """Return a whole column: numbers as they are, text as codes (-1: missing) with the values in order."""
    parts: list[npt.NDArray[Any]] = []
    place: dict[str, int] = {}
    numeric = True
    for (batch,) in table.batches([column]):
        values = _numbers(batch)
        if values is not None:
            parts.append(values)
            continue
        numeric = False
        codes, names = encoded(batch)
        known = np.array([place.setdefault(str(name), len(place)) if name not in (None, "") else -1 for name in names])
        parts.append(np.where(codes < 0, -1, np.append(known, -1)[codes]).astype(np.int64))
    if numeric:
        return np.concatenate(parts) if parts else np.empty(0, np.int64), None
    ordered = sorted(place)
    rank = np.empty(len(place) + 1, np.int64)
    rank[-1] = -1
    for code, name in enumerate(ordered):
        rank[place[name]] = code
    return rank[np.concatenate(parts)], ordered


def _numbers(column: Any) -> npt.NDArray[Any] | None:
    """Return a batch of numbers, with NaN for what is missing; None for anything else."""
    if isinstance(column, np.ndarray):
        return column if column.dtype.kind in "iufb" else None
    kind = str(getattr(column, "type", getattr(column, "dtype", ""))).lower()
    if kind.startswith("dictionary") or not kind.startswith(("int", "uint", "float", "double", "half", "bool")):
        return None
    values = np.asarray(column.to_numpy(zero_copy_only=False) if hasattr(column, "cast") else column.to_numpy())
    return values.astype(np.float64) if values.dtype.kind == "O" else values
