"""Tables as streams of columns: DataFrames, Arrow and DuckDB objects, structured arrays, Parquet and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import InputError

__all__ = ["ArrowTable", "NumpyTable", "Table", "as_table", "is_table_file", "require_pyarrow"]

_BATCH = 1 << 20
_PARQUET = (".parquet", ".pq", ".parq")
_IPC = (".arrow", ".feather", ".ipc", ".arrows")


class Table(Protocol):
    """Named columns and their rows in batches. A column is a NumPy array or an Arrow array."""

    name: str
    names: list[str]
    num_rows: int | None

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the given columns, some rows at a time, in order."""
        ...


class NumpyTable:
    """Columns that lie in memory: a DataFrame of pandas, a structured array, a dict of arrays."""

    def __init__(self, name: str, columns: Mapping[str, Any], rows: int) -> None:
        """Take columns of `rows` values each; slices of them are what batches hold."""
        self.name, self._columns = name, columns
        self.num_rows: int | None = rows
        self.names = list(columns)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield slices of the columns."""
        for at in range(0, self.num_rows or 0, _BATCH):
            yield [_values(self._columns[column][at : at + _BATCH]) for column in columns]


class ArrowTable:
    """A stream of record batches, from anything with `__arrow_c_stream__`, or from files."""

    def __init__(self, name: str, source: Any) -> None:
        """Take an object with an Arrow stream, or a dataset of files."""
        self.name, self._source = name, source
        self.num_rows = _row_count(source)
        self._reader: Any = None
        if _is_dataset(source):
            self.names = list(source.schema.names)
        else:
            self._reader = require_pyarrow(name).RecordBatchReader.from_stream(source)
            self.names = list(self._reader.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the columns of each record batch."""
        for batch in self._record_batches(list(columns)):
            for at in range(0, batch.num_rows, _BATCH):
                part = batch.slice(at, _BATCH)
                yield [part.column(part.schema.get_field_index(column)) for column in columns]

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        if _is_dataset(self._source):
            arrow = require_pyarrow(self.name)
            try:  # little readahead: a row group of each of many files would exceed any budget
                yield from self._source.to_batches(
                    columns=list(dict.fromkeys(columns)), batch_size=_BATCH, batch_readahead=4, fragment_readahead=1
                )
            except arrow.ArrowInvalid as error:
                raise InputError(f"{self.name}: cannot be read: {' '.join(str(error).split())}") from error
            return
        reader = self._reader
        if reader is None:
            reader = require_pyarrow(self.name).RecordBatchReader.from_stream(self._source)
        self._reader = None  # a second pass asks the object for another stream
        yield from reader


def as_table(source: Any) -> Table | None:
    """Return `source` as a table, None where it is none: arrays, tensors, sparse matrices, text files."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return _file_table(path) if is_table_file(path) else None
    if hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas: no need of pyarrow
        names = [str(column) for column in source.columns]
        columns = {name: source.iloc[:, i] for i, name in enumerate(names)}
        if len(columns) != len(names):
            raise InputError(f"DataFrame: two columns have the same name, among {', '.join(map(repr, names[:12]))}")
        return NumpyTable("DataFrame", columns, len(source))
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            return None
        return NumpyTable("structured array", {n: source[n] for n in source.dtype.names}, len(source))
    if isinstance(source, dict) and source and all(isinstance(key, str) for key in source):
        lengths = {len(column) for column in source.values()}
        if len(lengths) > 1:
            raise InputError(f"dict: columns of {sorted(lengths)} values, expected as many in each")
        return NumpyTable("dict", {k: np.asarray(v) for k, v in source.items()}, lengths.pop())
    if type(source).__name__ == "LazyFrame" and hasattr(source, "collect"):
        source = source.collect()
    if hasattr(source, "__arrow_c_stream__"):
        return ArrowTable(type(source).__name__, source)
    if type(source).__module__.split(".")[0].endswith("duckdb") and hasattr(source, "fetch_arrow_reader"):
        return ArrowTable(type(source).__name__, source.fetch_arrow_reader(_BATCH))
    return None


def is_table_file(path: str) -> bool:
    """Whether a path is a Parquet or Arrow IPC file, or a folder with Parquet files in it."""
    if os.path.isdir(path):
        return any(name.endswith(_PARQUET) for _, _, names in os.walk(path) for name in names)
    return path.lower().endswith(_PARQUET + _IPC)


def _file_table(path: str) -> ArrowTable:
    arrow = require_pyarrow(path)
    import pyarrow.dataset as files

    kind = "ipc" if path.lower().endswith(_IPC) else "parquet"
    try:
        return ArrowTable(path, files.dataset(path, format=kind, exclude_invalid_files=False))
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{path}: no such file") from None
        raise InputError(f"{path}: not a readable {kind} file or folder: {' '.join(str(error).split())}") from error


def require_pyarrow(what: str) -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise ImportError(f"{what}: pyarrow is needed to read this; pip install 'graphzero[import]'") from error
    return pyarrow


def _is_dataset(source: Any) -> bool:
    return hasattr(source, "to_batches") and hasattr(source, "get_fragments")


def _row_count(source: Any) -> int | None:
    if _is_dataset(source):
        return int(source.count_rows())  # the files' footers say
    for attribute in ("num_rows", "height"):
        value = getattr(source, attribute, None)
        if isinstance(value, int):
            return value
    return None


def _values(column: Any) -> Any:
    return column if isinstance(column, np.ndarray) else getattr(column, "array", column)
