"""Tables as streams of columns: DataFrames, Arrow and DuckDB objects, structured arrays, Parquet and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..args.sizes import format_size
from ..errors import BudgetError, InputError
from .read_ahead import ahead

__all__ = ["ArrowTable", "NumpyTable", "Table", "as_table", "is_table_file", "place_of", "require_pyarrow"]

_BATCH = 1 << 20
_ROWS = 1 << 17  # of Parquet at a time: larger batches are no faster (benchmarks/importing) and hold more
_READ = 1 << 20  # bytes of a column at a time: a row group may be larger than the budget
_PROBE = 256  # rows that are read to see what a row takes
_KEPT = 64 << 20  # of freed buffers, about what Arrow's allocator keeps for strings: too much for smaller budgets
_COPIES = 4  # of a batch: it, the next one ahead, its pages and its NumPy arrays
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

    def sample(self, column: str) -> Any:
        """Return a row of a column, or none of them but its type: nothing of a stream is lost."""
        ...

    def is_numeric(self, column: str) -> bool:
        """Whether a column holds numbers, by its type."""
        ...


def place_of(table: Table, row: int) -> str:
    """Return where a row of a table is, for messages: its line if the table is a text file, else its number."""
    line_of = getattr(table, "line_of", None)
    return f"row {row}" if line_of is None else f"line {line_of(row)}"


class NumpyTable:
    """Columns in memory: a DataFrame of pandas, a structured array, a dict of arrays."""

    def __init__(self, name: str, columns: Mapping[str, Any], rows: int) -> None:
        """Take columns of `rows` values each; slices of them are what batches hold."""
        self.name, self._columns = name, columns
        self.num_rows: int | None = rows
        self.names = list(columns)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield slices of the columns."""
        for at in range(0, self.num_rows or 0, _BATCH):
            yield [_values(self._columns[column][at : at + _BATCH]) for column in columns]

    def sample(self, column: str) -> Any:
        """Return the first value of a column, as an array."""
        return _values(self._columns[column][:1])

    def is_numeric(self, column: str) -> bool:
        """Whether a column holds numbers, by its type."""
        return str(getattr(self._columns[column].dtype, "kind", "f")) in "iufb"


class ArrowTable:
    """A stream of record batches, from anything with `__arrow_c_stream__`, or from files."""

    def __init__(self, name: str, source: Any, memory: int | None = None) -> None:
        """Take an object with an Arrow stream, or a dataset of files; `memory` bounds the batches of Parquet files."""
        self.name, self._source, self._memory = name, source, memory
        self.num_rows = _row_count(source)
        self._reader: Any = None
        if _is_dataset(source):
            self._schema = source.schema
        else:
            arrow = require_pyarrow(name)
            try:
                self._reader = arrow.RecordBatchReader.from_stream(source)
            except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
                why = " ".join(str(error).split())
                raise InputError(f"{name}: expected a table of types that Arrow has: {why}") from error
            self._schema = self._reader.schema
        self.names = list(self._schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the columns of each record batch."""
        arrow = require_pyarrow(self.name)
        for batch in ahead(self._record_batches(list(columns))):
            for at in range(0, batch.num_rows, _BATCH):
                part = batch.slice(at, _BATCH)
                yield [part.column(part.schema.get_field_index(column)) for column in columns]
            if self._memory is not None and self._memory < _KEPT:
                batch = part = None
                arrow.default_memory_pool().release_unused()

    def sample(self, column: str) -> Any:
        """Return an empty array of the column's type."""
        return require_pyarrow(self.name).nulls(0, self._schema.field(column).type)

    def is_numeric(self, column: str) -> bool:
        """Whether a column holds numbers, by its type."""
        from pyarrow import types

        kind = self._schema.field(column).type
        return bool(
            types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
        )

    def _record_batches(self, columns: list[str]) -> Iterator[Any]:
        if _is_dataset(self._source):
            arrow = require_pyarrow(self.name)
            wanted = list(dict.fromkeys(columns))
            for fragment in self._source.get_fragments():
                try:
                    _check_columns(fragment, wanted)
                    yield from _file_batches(fragment, self._source.schema, wanted, self._memory)
                except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, OSError) as error:
                    name = getattr(fragment, "path", None) or self.name
                    raise InputError(f"{name}: cannot be read: {' '.join(str(error).split())}") from error
            return
        reader = self._reader
        if reader is None:
            if hasattr(self._source, "read_next_batch"):
                raise InputError(f"{self.name}: is a stream that was read already; pass a table, or a new stream")
            reader = require_pyarrow(self.name).RecordBatchReader.from_stream(self._source)
        self._reader = None  # a second pass asks the object for another stream
        yield from reader


def _check_columns(fragment: Any, columns: list[str]) -> None:
    """Refuse a file of a folder that lacks a column: its rows would have no values."""
    path, names = getattr(fragment, "path", None), fragment.physical_schema.names
    missing = next((column for column in columns if column not in names), None)
    if path and missing is not None:
        shown = ", ".join(map(repr, names[:12]))
        raise InputError(f"{path}: no column {missing!r}, which other files of the folder have; found {shown}")


def _file_batches(fragment: Any, schema: Any, columns: list[str], memory: int | None) -> Iterator[Any]:
    """Yield the columns of one file, with the types of `schema`, holding little more than a batch of them.

    A dataset's scanner reads whole row groups, and several ahead: a gigabyte for strings, where this holds 25 MB.
    """
    if fragment.format.default_extname == "parquet":
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        read = _READ if memory is None else max(1 << 16, min(_READ, memory // (16 * max(1, len(columns)))))
        with parquet.ParquetFile(fragment.open(), pre_buffer=False, buffer_size=read) as file:
            if set(columns) <= set(file.schema_arrow.names):
                types = arrow.schema([schema.field(column) for column in columns])
                groups = [group.id for group in fragment.row_groups]  # a fragment may be some of them
                rows = _rows_at_once(file, fragment.path, groups, columns, memory)
                for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=columns):
                    batch = batch.select(columns)
                    yield batch if batch.schema.equals(types) else batch.cast(types)
                return
    yield from fragment.to_batches(
        schema=schema, columns=columns, batch_size=_ROWS, batch_readahead=1, fragment_readahead=1
    )


def _rows_at_once(file: Any, path: str, groups: list[int], columns: list[str], memory: int | None) -> int:
    """Return how many rows of a Parquet file a batch may have, by what its first rows take and its footer says."""
    if memory is None or not groups:
        return _ROWS
    first = next(file.iter_batches(batch_size=_PROBE, row_groups=groups[:1], columns=columns), None)
    each = 0 if first is None or not first.num_rows else first.nbytes // first.num_rows + 1
    for at in groups:
        group = file.metadata.row_group(at)
        parts = (group.column(i) for i in range(group.num_columns))
        size = sum(p.total_uncompressed_size for p in parts if p.path_in_schema.split(".")[0] in columns)
        each = max(each, size // max(1, group.num_rows))
    if each * _COPIES > memory:
        least = format_size(each * _COPIES * 4)  # batches get a quarter of the budget
        raise BudgetError(
            f"{path}: a row takes about {format_size(each)}, and {_COPIES} must fit in a quarter of the budget; pass "
            f"memory={least!r} or more",
            each * _COPIES * 4,
        )
    return max(1, min(_ROWS, memory // (_COPIES * max(1, each))))


def as_table(source: Any, memory: int | None = None) -> Table | None:
    """Return `source` as a table, None where it is not one: arrays, tensors, sparse matrices, text files.

    memory: what its batches may take, in bytes, where they are read from files.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return _file_table(path, memory) if is_table_file(path) else None
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
            raise InputError(f"dict: columns of {sorted(lengths)} values, expected columns of one length")
        return NumpyTable("dict", {k: np.asarray(v) for k, v in source.items()}, lengths.pop())
    if type(source).__name__ == "LazyFrame" and hasattr(source, "collect"):
        source = source.collect()
    if hasattr(source, "__arrow_c_stream__"):
        return ArrowTable(type(source).__name__, source)
    if type(source).__module__.split(".")[0].endswith("duckdb"):
        if hasattr(source, "execute"):  # its result can be read only once, and the query is unknown
            raise InputError("DuckDB: found a connection, expected a relation: con.sql(query), not con.execute(query)")
        if hasattr(source, "fetch_arrow_reader"):
            return ArrowTable(type(source).__name__, source.fetch_arrow_reader(_BATCH))
    return None


def is_table_file(path: str) -> bool:
    """Whether a path is a Parquet or Arrow IPC file, or a folder with such files in it."""
    return _kind_of(path) is not None


_KINDS = {"parquet": _PARQUET, "ipc": _IPC}


def _kind_of(path: str) -> str | None:
    names = _files_in(path) if os.path.isdir(path) else [path]
    return next((kind for kind, ends in _KINDS.items() if any(name.lower().endswith(ends) for name in names)), None)


def _files_in(folder: str) -> list[str]:
    """Return the files of a folder and the folders in it, in order, without those that start with '.' or '_'."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        found += [os.path.join(at, name) for name in sorted(names) if name[0] not in "._"]
    return found


def _file_table(path: str, memory: int | None) -> ArrowTable:
    arrow = require_pyarrow(path)
    kind = _kind_of(path)
    try:
        if kind == "ipc" and os.path.isfile(path) and _is_stream(path):
            return ArrowTable(path, _StreamFile(path))
        return ArrowTable(path, dataset_of([path], str(kind)), memory)
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{path}: no such file") from None
        raise InputError(f"{path}: not a readable {kind} file or folder: {' '.join(str(error).split())}") from error


def dataset_of(paths: Sequence[str], kind: str) -> Any:
    """Return files, and the files in folders, as one pyarrow dataset; its rows are in the order of the files."""
    import pyarrow.dataset as files

    inside = {path: _files_in(path) if os.path.isdir(path) else [path] for path in paths}
    parts = [name for path in paths for name in inside[path] if name == path or name.lower().endswith(_KINDS[kind])]
    return files.dataset(parts, format=kind, schema=_common_schema(files.dataset(parts, format=kind)))


def _common_schema(dataset: Any) -> Any:
    """Return the columns of the first file, with types that hold the values of all files."""
    import pyarrow as arrow

    schema = dataset.schema.remove_metadata()
    for fragment in dataset.get_fragments():
        own = arrow.schema([field for field in fragment.physical_schema if field.name in schema.names])
        try:
            schema = arrow.unify_schemas([schema, own], promote_options="permissive")
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"{fragment.path}: its columns differ from those of the files before: {why}") from error
    return schema


def _is_stream(path: str) -> bool:
    """Whether an Arrow file is a stream: it has no footer and starts with the length of its schema."""
    with open(path, "rb") as file:
        start = file.read(6)
    return start[:4] == b"\xff\xff\xff\xff"


class _StreamFile:
    """An Arrow stream in a file, which can be read repeatedly."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __arrow_c_stream__(self, schema: object = None) -> object:
        import pyarrow as arrow

        return arrow.ipc.open_stream(arrow.OSFile(self._path)).__arrow_c_stream__(schema)


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
    if isinstance(column, np.ndarray):
        return column
    if type(column.dtype).__name__ == "ArrowDtype":  # pandas over Arrow: the array itself, with its nulls
        return column.array.__arrow_array__().combine_chunks()
    return getattr(column, "array", column)
