"""Columns of times: whole numbers as they are, dates and timestamps as whole units since 1970."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .edge_tables import numbers

__all__ = ["as_time_column", "is_date"]


def is_date(column: Any) -> bool:
    """Whether a column holds dates or timestamps by its type."""
    if isinstance(column, np.ndarray):
        return bool(column.dtype.kind == "M")
    kind = str(getattr(column, "type", getattr(column, "dtype", "")))
    return kind.startswith(("timestamp", "date", "datetime"))


def as_time_column(column: Any, where: str, row: int, unit: str) -> npt.NDArray[np.int64]:
    """Return times as int64; dates, timestamps and ISO text become whole `unit`s since 1970 (UTC)."""
    if hasattr(column, "type") and hasattr(column, "cast"):
        import pyarrow.types as types

        if column.null_count:
            numbers(column, where, row)  # says which row
        kind = column.type
        if types.is_dictionary(kind):
            column, kind = column.dictionary_decode(), kind.value_type
        if types.is_timestamp(kind) or types.is_date(kind):
            return _whole(np.asarray(column.cast("timestamp[ns]").to_numpy(zero_copy_only=False)), unit)
        if types.is_string(kind) or types.is_large_string(kind):
            return _parsed(column.to_pylist(), where, row, unit)
    values = numbers(column, where, row)
    if values.dtype.kind == "M":
        return _whole(values, unit)
    if values.dtype.kind in "OUS":
        return _parsed(values.tolist(), where, row, unit)
    if values.dtype.kind == "f" and np.array_equal(values, np.floor(values)):
        return values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise InputError(f"{where}: found {values.dtype}, expected whole numbers, dates or timestamps")
    return values.astype(np.int64)


def _whole(values: npt.NDArray[Any], unit: str) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = values.astype(f"datetime64[{unit}]").astype(np.int64)
    return found


def _parsed(texts: list[Any], where: str, row: int, unit: str) -> npt.NDArray[np.int64]:
    try:
        return _whole(np.array(texts, dtype="datetime64[us]"), unit)
    except ValueError:
        for at, text in enumerate(texts):
            try:
                np.datetime64(text, "us")
            except ValueError:
                raise InputError(
                    f"{where}: row {row + at}: found {text!r}, expected a date such as 2024-05-31"
                ) from None
        raise
