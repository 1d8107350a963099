"""Columns of text as codes: encoded batch by batch, so that only the different values are held as strings.

Code -1 means that the value is missing: null, NaN or an empty string. It is not a category: labels of -1 are not
learned from, and an embedding has no row for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .decoding import decoded, is_arrow, is_text_type, kind_of, missing_rows, numbers, shown, without_rows
from .tables import Table

__all__ = ["codes_of", "encoded", "missing_note", "with_nan"]


def encoded(column: Any, where: str) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return a code for each value of a batch and the values they stand for; -1 for what is missing or empty."""
    kind = kind_of(column)
    if kind not in ("text", "number", "date", "null"):
        raise InputError(f"{where} holds {shown(kind)}, expected text")
    if is_arrow(column):
        column = _encoded_arrow(column, where)
        names = column.dictionary.to_pylist()
        codes = np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    else:
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        missing = np.asarray(column.isna()) if hasattr(column, "isna") else np.zeros(len(values), bool)
        place: dict[Any, int] = {}
        codes = np.full(len(values), -1, np.int64)
        for i, value in enumerate(values.tolist()):
            if value is not None and not missing[i] and value == value:  # not NaN
                codes[i] = place.setdefault(value, len(place))
        names = list(place)
    empty = [i for i, name in enumerate(names) if name is None or name == ""]
    if empty:
        codes[np.isin(codes, empty)] = -1
    return codes, names


def _encoded_arrow(column: Any, where: str) -> Any:
    import pyarrow as pa

    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        return column
    column = decoded(column)
    if is_text_type(column.type):
        try:
            column = column.cast(pa.large_string())
        except pa.ArrowInvalid:
            raise InputError(f"{where} holds bytes that are not UTF-8 text, expected text") from None
    return column.dictionary_encode()


def codes_of(table: Table, column: str) -> tuple[npt.NDArray[Any], list[str] | None]:
    """Return a whole column: numbers (NaN: missing), or text as codes (-1: missing) and its values in order."""
    parts: list[npt.NDArray[Any]] = []
    place: dict[str, int] = {}
    where, numeric, row = f"{table.name}: column {column!r}", True, 0
    for (batch,) in table.batches([column]):
        kind = kind_of(batch)
        if kind not in ("number", "text", "null"):
            raise InputError(f"{where} holds {shown(kind)}, expected whole numbers or text")
        if kind != "text":
            parts.append(with_nan(batch, where, row))
            if (large := parts[-1][np.abs(parts[-1]) >= np.float64(2**63)]).size and large.dtype.kind == "f":
                raise InputError(f"{where} holds {large[0]:g}, expected whole numbers below 2^63 or text")
        else:
            numeric = False
            codes, names = encoded(batch, where)
            known = [place.setdefault(str(name), len(place)) if name not in (None, "") else -1 for name in names]
            parts.append(np.where(codes < 0, -1, np.append(np.array(known, np.int64), -1)[codes]).astype(np.int64))
        row += len(batch)
    if numeric:
        return np.concatenate(parts) if parts else np.empty(0, np.int64), None
    ordered = sorted(place)
    rank = np.empty(len(place) + 1, np.int64)
    rank[-1] = -1
    for code, name in enumerate(ordered):
        rank[place[name]] = code
    return rank[np.concatenate(parts)], ordered


def missing_note(values: npt.NDArray[Any]) -> str:
    """Return what a report says of missing values among codes or labels; nothing where there are none."""
    count = int(np.count_nonzero(np.isnan(values) if values.dtype.kind == "f" else values == -1))
    return f", {count:,} missing (-1)" if count else ""


def with_nan(column: Any, where: str, row: int) -> npt.NDArray[Any]:
    """Return a batch of numbers, with NaN for what is missing."""
    missing = missing_rows(column)
    if not missing.any():
        found = numbers(column, where, row)
        large = found.dtype == np.uint64 and found.size and int(found.max()) >= 2**63
        return found.astype(np.float64 if large else np.int64) if found.dtype.kind in "bu" else found
    out = np.full(len(column), np.nan)
    kept = without_rows(column, missing)
    if len(kept):
        out[~missing] = numbers(kept, where, row)
    return out
