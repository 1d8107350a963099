"""Columns of times: whole numbers as they are, dates and timestamps as whole units since 1970."""

from __future__ import annotations

import contextlib
import datetime
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .decoding import check_complete, decimals, decoded, is_arrow, kind_of, missing_rows, numbers, shown, without_rows

__all__ = ["FORMAT_FIX", "as_time_column", "times_or_missing"]

FORMAT_FIX = "; a description of tables may set the format of a column"

_OFFSET = re.compile(r"\d\d:\d\d.*[+-]\d\d:?\d\d$")  # of a time zone, such as +02:00


def as_time_column(column: Any, where: str, row: int, unit: str | None, fix: str = "") -> npt.NDArray[np.int64]:
    """Return times as int64. Dates, timestamps and ISO text become whole `unit`s since 1970 (UTC).

    Durations and times of day become whole `unit`s too. None: the unit of the column's own type. fix: what the message
    about text that is no date ends with.
    """
    kind = kind_of(column)
    if kind not in ("number", "date", "text"):
        raise InputError(f"{where} holds {shown(kind)}, expected whole numbers, dates or timestamps")
    if is_arrow(column):
        column = decoded(column)
        check_complete(column, where, row)
        column = _ticks(column)
    elif not isinstance(column, np.ndarray):
        check_complete(column, where, row)
        if getattr(column.dtype, "tz", None) is not None:  # pandas: the same instants, in UTC
            column = np.asarray(column, f"datetime64[{column.dtype.unit}]")
        else:
            column = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if column.dtype.kind in "Mm":
        if np.isnat(column).any():
            raise InputError(f"{where} has no value in row {row + int(np.argmax(np.isnat(column)))}, expected a time")
        whole = column if unit is None else column.astype(f"{column.dtype.name.split('[')[0]}[{unit}]")
        return np.asarray(whole.astype(np.int64))
    if column.dtype.kind == "O":
        check_complete(column, where, row)
    if kind in ("text", "date"):
        return _parsed(column.tolist(), where, row, unit or "s", fix)
    values = numbers(column, where, row) if column.dtype.kind == "O" else column
    if values.dtype == np.uint64 or values.dtype.kind == "f":
        large = values[np.abs(values) >= (np.uint64(2**63) if values.dtype == np.uint64 else np.float64(2**63))]
        if large.size:
            raise InputError(f"{where} holds {large[0]}, expected times below 2^63")
    integral = values.dtype.kind == "f" and np.array_equal(values, np.floor(values))
    if values.dtype.kind not in "iu" and not integral:
        raise InputError(f"{where} holds {values.dtype}, expected whole numbers, dates or timestamps")
    return values.astype(np.int64)


def times_or_missing(column: Any, where: str, row: int, unit: str | None, fix: str = "") -> npt.NDArray[np.int64]:
    """Return times as `as_time_column` does, with the least int64 for what is missing."""
    missing = missing_rows(column)
    out = np.full(len(missing), np.iinfo(np.int64).min)
    if not missing.all():
        out[~missing] = as_time_column(without_rows(column, missing), where, row, unit, fix)
    return out


def _ticks(column: Any) -> npt.NDArray[Any]:
    """Return an Arrow column as NumPy has it; times of day as durations since midnight."""
    from pyarrow import types

    kind = column.type
    if types.is_decimal(kind):
        return decimals(column, whole=True)
    if types.is_date64(kind):
        column = column.cast("timestamp[ms]")
    elif types.is_date32(kind):
        return np.asarray(column.cast("int32").to_numpy(zero_copy_only=False)).astype("datetime64[D]")
    elif types.is_time(kind):
        column = column.cast("int32" if types.is_time32(kind) else "int64")
        return np.asarray(column.to_numpy(zero_copy_only=False)).astype(f"timedelta64[{kind.unit}]")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _in_utc(text: Any) -> Any:
    """Return a date as NumPy reads it, which does not support time zones."""
    if isinstance(text, datetime.datetime) and text.tzinfo is not None:
        return text.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    if isinstance(text, str) and _OFFSET.search(text):
        with contextlib.suppress(ValueError):
            return datetime.datetime.fromisoformat(text).astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return text[:-1] if isinstance(text, str) and text.endswith("Z") else text


def _parsed(texts: list[Any], where: str, row: int, unit: str, fix: str) -> npt.NDArray[np.int64]:
    texts = [_in_utc(text) for text in texts]
    try:
        whole = np.array(texts, dtype="datetime64[us]").astype(f"datetime64[{unit}]")
        return np.asarray(whole.astype(np.int64))
    except (ValueError, TypeError):
        for at, text in enumerate(texts):
            try:
                np.datetime64(text, "us")
            except (ValueError, TypeError):
                raise InputError(
                    f"{where}: row {row + at}: found {text!r}, expected a date such as 2024-05-31{fix}"
                ) from None
        raise
