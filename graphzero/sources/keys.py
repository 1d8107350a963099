"""Original ids as the native map takes them: strings as bytes and offsets, or 64-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .decoding import decoded, is_arrow, is_text_type, kind_of, missing_rows
from .edge_blocks import to_numpy
from .tables import Table, place_of

__all__ = ["Keys", "check_keys", "check_present", "is_text", "keys_of", "present_keys"]

Keys = tuple["npt.NDArray[np.uint8] | None", npt.NDArray[np.int64]]  # (bytes, offsets), or (None, numbers)


def keys_of(values: Any, where: str = "ids", row: int = 0) -> Keys:
    """Return a column of strings or integers. Missing values are refused; floats and other types are not ids."""
    if type(values).__module__.split(".")[0] == "pyarrow":
        return _of_arrow(values, where, row)
    if isinstance(values, (list, tuple)):
        return _of_list(values, where, row)
    if not isinstance(values, np.ndarray) and not hasattr(values, "detach"):  # columns of pandas and their like
        if hasattr(values, "__arrow_array__"):
            import pyarrow

            return _of_arrow(pyarrow.array(values), where, row)
        values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    array = to_numpy(values)
    if array.ndim != 1:
        raise ValueError(f"{where} must have one dimension, got shape {array.shape}")
    if array.dtype.kind in "iu":
        return None, _int64(array, where, row)
    if array.dtype.kind in "OUS":
        return _of_list(array.tolist(), where, row)
    hint = "; pandas makes floats of integers where some are missing" if array.dtype.kind == "f" else ""
    raise InputError(f"{where}: found {array.dtype}, expected strings or integers{hint}")


def check_keys(table: Table, columns: Mapping[str, Any], row: int, fix: str = "", among: Any = True) -> None:
    """Raise InputError at the first row of a batch that has no id in one of the columns.

    row: the number of the batch's first row. among: which rows of the batch matter.
    """
    missing = {name: _missing(column) & among for name, column in columns.items()}
    first = {name: int(np.argmax(found)) for name, found in missing.items() if found.any()}
    if first:
        name = min(first, key=first.__getitem__)
        where = f"{table.name}: column {name!r} has no value in {place_of(table, row + first[name])}"
        raise InputError(f"{where}, expected an id in every row{fix}")


def present_keys(values: Any) -> tuple[npt.NDArray[np.bool_], Any]:
    """Return which keys of a column are there, and the column; whole floats, as pandas makes them, become integers."""
    missing = _missing(values)
    if is_arrow(values):
        import pyarrow as pa

        plain = decoded(values)
        if not pa.types.is_floating(plain.type):
            return ~missing, values
        values = plain.to_numpy(zero_copy_only=False)
        missing = np.isnan(values)
    array = values if isinstance(values, np.ndarray) else np.asarray(values) if _is_float(values) else None
    if array is None or array.dtype.kind != "f" or not np.array_equal(array[~missing], np.floor(array[~missing])):
        return ~missing, values
    return ~missing, np.where(missing, 0, array).astype(np.int64)


def check_present(keys: Keys, where: str, row: int = 0) -> None:
    """Raise InputError at the first id that is an empty string, which means missing, as in CSV files."""
    empty = np.diff(keys[1]) == 0 if keys[0] is not None else np.zeros(0, bool)
    if empty.any():
        raise InputError(f"{where} has no value in row {row + int(np.argmax(empty))}, expected an id in every row")


def _missing(column: Any) -> npt.NDArray[np.bool_]:
    """Return which ids of a column are missing: nulls and empty strings, as in CSV files."""
    missing = missing_rows(column)
    if kind_of(column) != "text":
        return missing
    if is_arrow(column):
        import pyarrow as pa
        import pyarrow.compute as compute

        plain = decoded(column)
        plain = plain.cast(pa.large_string() if pa.types.is_string_view(plain.type) else pa.large_binary())
        lengths = compute.binary_length(plain)
        empty = np.asarray(compute.fill_null(compute.equal(lengths, 0), False))
    else:
        values = np.asarray(column)
        if values.dtype.kind in "US":
            empty = values == values.dtype.type()
        else:
            empty = np.array([isinstance(value, (str, bytes)) and not value for value in values.tolist()], bool)
    found: npt.NDArray[np.bool_] = missing | empty
    return found


def _is_float(values: Any) -> bool:
    return getattr(getattr(values, "dtype", None), "kind", "") == "f"


def is_text(values: Any) -> bool:
    """Whether a column holds strings."""
    return keys_of(values[:1])[0] is not None


def _int64(array: npt.NDArray[Any], where: str, row: int) -> npt.NDArray[np.int64]:
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        at = int(np.argmax(array >= 2**63))
        raise InputError(f"{where}: row {row + at}: found {array[at]}, expected an integer id below 2^63")
    return np.ascontiguousarray(array, dtype=np.int64)


def _of_list(values: Any, where: str, row: int) -> Keys:
    if all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values) and len(values):
        return None, _int64(np.array(values, dtype=object).astype(np.int64), where, row)
    encoded = []
    for at, value in enumerate(values):
        if isinstance(value, str):
            value = value.encode()
        elif not isinstance(value, bytes):
            raise InputError(
                f"{where}: row {row + at}: found {value!r}, expected strings or integers, one kind in all rows"
            )
        encoded.append(value)
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(key) for key in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def _of_arrow(column: Any, where: str, row: int) -> Keys:
    import pyarrow as pa

    column = decoded(column)
    if column.null_count:
        at = row + int(np.argmax(np.asarray(column.is_null())))
        raise InputError(f"{where} has no value in row {at}, expected an id in every row")
    if pa.types.is_integer(column.type):
        return None, _int64(column.to_numpy(zero_copy_only=False), where, row)
    if not is_text_type(column.type):
        raise InputError(f"{where}: found {column.type}, expected strings or integers")
    column = column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8), ends
