"""Columns of tables as values: what kind a column is by its type, and its numbers.

| type | is |
|---|---|
| bool, integers, floats, decimals | numbers |
| durations, times of day | numbers of seconds |
| dates, timestamps | dates: whole units since 1970 (`dates.as_time_column`) |
| strings, bytes of UTF-8, dictionaries of strings | text: codes by `categories.codes_of`, -1 for what is missing |
| lists of numbers, of one length | lists: rows of a matrix |
| null | nothing |
| structs, maps, unions, lists of anything else | refused, with the name of the file and the column |
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = [
    "check_complete",
    "decimals",
    "decoded",
    "is_arrow",
    "is_missing",
    "is_text_type",
    "kind_of",
    "kind_of_type",
    "missing_rows",
    "numbers",
    "shown",
    "without_rows",
]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def is_arrow(column: Any) -> bool:
    """Whether a column is an Arrow array."""
    return hasattr(column, "type") and hasattr(column, "cast")


def decoded(column: Any) -> Any:
    """Return an Arrow column as one array of plain values. Nulls may be in the dictionary: they are nulls of it."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):  # such as DuckDB's UUIDs
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if not pa.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if is_text_type(values.type):  # Arrow takes no rows of views, which Polars' dictionaries hold
        values = values.cast(pa.large_string() if _is_string(values.type) else pa.large_binary())
    return values.take(column.indices)


def _is_string(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_text_type(kind: Any) -> bool:
    """Whether values of an Arrow type are strings or bytes."""
    from pyarrow import types

    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return _is_string(kind) or any(is_kind(kind) for is_kind in binary)


def kind_of(column: Any) -> str:
    """Return "number", "date", "text", "list", "null", or the name of a type that is none of these."""
    if is_arrow(column):
        return kind_of_type(column.type)
    dtype = column.dtype
    if getattr(column, "ndim", 1) == 2:
        return "list" if dtype.kind in "iufb" else str(dtype)
    kind = {"M": "date", "m": "number", "U": "text", "S": "text"}.get(dtype.kind, "number")
    if dtype.kind in "iufbMmUS":
        return kind
    if dtype.kind in "cV":
        return str(dtype)
    first = next((value for value in column[:100] if not is_missing(value)), None)
    if isinstance(first, (decimal.Decimal, int, float, np.number)):  # with None among them, NumPy has objects
        return "number"
    if isinstance(first, (datetime.date, np.datetime64)):
        return "date"
    if isinstance(first, (list, tuple, np.ndarray)):
        return "list"
    return type(first).__name__ if isinstance(first, (dict, set)) else "text"


def is_missing(value: Any) -> bool:
    """Whether one value of a column of Python objects is missing: None, NaN, NA or NaT."""
    no_number = isinstance(value, float) and value != value
    return value is None or no_number or type(value).__name__ in ("NAType", "NaTType")


def shown(kind: str) -> str:
    """Return a kind for a message."""
    return {"date": "dates", "list": "lists", "null": "no values"}.get(kind, kind)


def kind_of_type(kind: Any) -> str:
    """Return the same for an Arrow type."""
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return kind_of_type(kind.value_type)
    if hasattr(kind, "storage_type"):
        return kind_of_type(kind.storage_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list" if kind_of_type(kind.value_type) == "number" else str(kind)
    number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_duration, types.is_time)
    if any(is_kind(kind) for is_kind in number):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "date"
    if types.is_null(kind):
        return "null"
    return "text" if is_text_type(kind) else str(kind)


def numbers(column: Any, where: str, row: int = 0, lists: bool = False) -> npt.NDArray[Any]:
    """Return a column of numbers without missing values; where `lists` may be, as rows of a matrix."""
    kind = kind_of(column)
    if kind not in ("number", "null") and not (lists and kind == "list"):
        raise InputError(f"{where} holds {shown(kind)}, expected numbers")
    if not is_arrow(column):
        return _of_numpy(column, where, row)
    import pyarrow as pa

    column = decoded(column)
    check_complete(column, where, row)
    if kind != "list":
        return _of_arrow(column)
    lengths = np.unique(pa.compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise InputError(f"{where} has lists of {lengths[0]} to {lengths[-1]} values, expected one length")
    flat = column.flatten()
    if flat.null_count:
        raise InputError(f"{where} has a list with a missing value from row {row} on, expected numbers")
    return _of_arrow(flat).reshape(len(column), -1)


def check_complete(column: Any, where: str, row: int) -> None:
    """Refuse a column with missing values, and say where the first is."""
    missing = np.asarray(column.is_null()) if is_arrow(column) else missing_rows(column)
    if missing.any():
        raise InputError(f"{where} has no value in row {row + int(np.argmax(missing))}, expected one in every row")


def missing_rows(column: Any) -> npt.NDArray[np.bool_]:
    """Return which values of a column are missing: nulls, None, NaN and NaT."""
    if is_arrow(column):
        return np.asarray(decoded(column).is_null(nan_is_null=False))
    if hasattr(column, "isna"):
        return np.asarray(column.isna())
    if column.dtype.kind == "M":
        return np.asarray(np.isnat(column))
    if column.dtype.kind == "f" and column.ndim == 1:
        return np.asarray(np.isnan(column))
    if column.dtype.kind == "O" and column.ndim == 1:
        return np.array([is_missing(value) for value in column], bool)
    return np.zeros(len(column), bool)


def without_rows(column: Any, missing: npt.NDArray[np.bool_]) -> Any:
    """Return the rows of a column that are not `missing`."""
    if not missing.any():
        return column
    if not is_arrow(column):
        return column[~missing]
    import pyarrow as pa

    return decoded(column).filter(pa.array(~missing))


def _of_arrow(column: Any) -> npt.NDArray[Any]:
    from pyarrow import types

    kind = column.type
    if types.is_decimal(kind):
        return decimals(column, whole=kind.scale <= 0)
    if types.is_duration(kind) or types.is_time(kind):
        ticks = column.cast("int32" if types.is_time32(kind) else "int64")
        return np.asarray(ticks.to_numpy(zero_copy_only=False)) / _UNITS[kind.unit]
    return np.asarray(column.to_numpy(zero_copy_only=False))


def decimals(column: Any, whole: bool) -> npt.NDArray[Any]:
    """Return Arrow decimals as float64, or as int64 where they should be `whole` numbers and are ones that fit."""
    import pyarrow as pa

    if whole:
        try:
            return np.asarray(column.cast("int64").to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            pass
    return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False))


def _of_numpy(column: Any, where: str, row: int) -> npt.NDArray[Any]:
    if not isinstance(column, np.ndarray):
        check_complete(column, where, row)
        column = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if column.dtype.kind == "m":
        return np.asarray(column / np.timedelta64(1, "s"))
    if column.dtype.kind != "O":
        return np.asarray(column)
    check_complete(column, where, row)
    lengths = {np.size(value) for value in column}
    if len(lengths) > 1:
        raise InputError(f"{where} has lists of {min(lengths)} to {max(lengths)} values, expected one length")
    try:
        if all(type(value) is int for value in column) and (whole := np.array(column.tolist())).dtype.kind in "iu":
            return whole
        return np.array(column.tolist(), np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{where} holds values that are not numbers from row {row} on, expected numbers") from None
