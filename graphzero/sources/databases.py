"""Tables of SQLite and DuckDB files: streamed in batches, with the keys that their schemas declare."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ..errors import InputError
from .tables import require_pyarrow

__all__ = ["DatabaseTable", "database_tables", "is_database"]

_ROWS = 1 << 15
_TYPES = (("INT", "int64"), ("CHAR", "string"), ("CLOB", "string"), ("TEXT", "string"), ("REAL", "double"))
_MORE = (("FLOA", "double"), ("DOUB", "double"), ("BOOL", "bool"), ("DEC", "double"), ("NUMERIC", "double"))


@dataclass
class DatabaseTable:
    """One table of a database, and its keys."""

    table: Any  # a Table, or an object with an Arrow stream
    primary_key: str | None = None
    foreign_keys: dict[str, str] = field(default_factory=dict)


def is_database(path: str) -> bool:
    """Whether a file is a SQLite or DuckDB database, by its first bytes."""
    return _kind(path) is not None


def _kind(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        start = file.read(16)
    return "sqlite" if start == b"SQLite format 3\0" else "duckdb" if start[8:12] == b"DUCK" else None


def database_tables(path: str) -> dict[str, DatabaseTable]:
    """Return the tables of a database by name. Keys of several columns are not taken: such tables get row numbers."""
    return _sqlite_tables(path) if _kind(path) == "sqlite" else _duckdb_tables(path)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)


def _sqlite_tables(path: str) -> dict[str, DatabaseTable]:
    found = {}
    try:
        with closing(_connect(path)) as file:
            query = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by rowid"
            names = [name for (name,) in file.execute(query)]
            for name in names:
                info = list(file.execute(f"pragma table_info({_quoted(name)})"))
                keys = [column[1] for column in info if column[5]]
                links = list(file.execute(f"pragma foreign_key_list({_quoted(name)})"))
                single = [link for link in links if sum(link[0] == other[0] for other in links) == 1]
                table = SqliteTable(path, name, {column[1]: str(column[2]).upper() for column in info})
                foreign = {link[3]: link[2] for link in single}
                found[name] = DatabaseTable(table, keys[0] if len(keys) == 1 else None, foreign)
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read as SQLite: {error}") from error
    return found


class SqliteTable:
    """A table of a SQLite file; its columns have the types that the schema declares."""

    def __init__(self, path: str, table: str, types: dict[str, str]) -> None:
        """Take the columns and their declared types."""
        self.name, self._path, self._table = f"{path}: {table}", path, table
        self.names = list(types)
        self._types = {column: _arrow_type(declared) for column, declared in types.items()}
        with closing(_connect(path)) as file:
            self.num_rows: int | None = int(file.execute(f"select count(*) from {_quoted(table)}").fetchone()[0])
            self._order = _order(file, table, self.names)

    def batches(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield columns as Arrow arrays."""
        arrow = require_pyarrow(self.name)
        with closing(_connect(self._path)) as file:
            chosen = ", ".join(map(_quoted, columns))
            cursor = file.execute(f"select {chosen} from {_quoted(self._table)} order by {self._order}")
            row = 0
            while rows := cursor.fetchmany(_ROWS):
                yield [self._array(arrow, c, v, row) for c, v in zip(columns, zip(*rows, strict=True), strict=True)]
                row += len(rows)

    def _array(self, arrow: Any, column: str, values: Sequence[Any], row: int) -> Any:
        kind = self._types[column]
        if kind == "bool":
            values = [None if value is None else bool(value) for value in values]
        try:
            return arrow.array(values, kind and arrow.type_for_alias(kind))
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"{self.name}: column {column!r}: from row {row} on, values differ: {why}") from None

    def sample(self, column: str) -> Any:
        """Return the first value of a column."""
        return next(self.batches([column]), [require_pyarrow(self.name).nulls(0)])[0][:1]

    def is_numeric(self, column: str) -> bool:
        """Whether a column holds numbers, by its declared type."""
        return self._types[column] in ("int64", "double", "bool")


def _order(file: sqlite3.Connection, table: str, names: Sequence[str]) -> str:
    """Return what to order the rows of a table by, so that all of its columns have them in one order.

    Without it, SQLite may read some columns from an index, whose order is that of its values.
    """
    taken = {name.lower() for name in names}
    for rowid in ("rowid", "_rowid_", "oid"):
        if rowid not in taken:
            with suppress(sqlite3.OperationalError):  # a table without rowid
                file.execute(f"select {rowid} from {_quoted(table)} limit 0")
                return rowid
    info = list(file.execute(f"pragma table_info({_quoted(table)})"))
    keys = [column[1] for column in sorted(info, key=lambda column: int(column[5])) if column[5]]
    return ", ".join(map(_quoted, keys or names))


def _arrow_type(declared: str) -> str | None:
    """Return the Arrow type of a declared type by SQLite's rules of affinity; None: as the values are."""
    return next((kind for part, kind in (*_TYPES, *_MORE) if part in declared), None)


def _duckdb_tables(path: str) -> dict[str, DatabaseTable]:
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(f"{path}: duckdb is needed to read this; pip install duckdb") from error
    with duckdb.connect(path, read_only=True) as file:
        names = [name for (name,) in file.execute("select table_name from duckdb_tables() order by 1").fetchall()]
        query = (
            "select table_name, constraint_type, constraint_column_names, referenced_table from duckdb_constraints() "
            "where constraint_type in ('PRIMARY KEY', 'FOREIGN KEY')"
        )
        keys = file.execute(query).fetchall()
    found = {name: DatabaseTable(_DuckTable(path, name)) for name in names}
    for table, kind, columns, other in keys:
        if len(columns) == 1 and kind == "PRIMARY KEY":
            found[table].primary_key = columns[0]
        elif len(columns) == 1:
            found[table].foreign_keys[columns[0]] = other
    return found


class _DuckTable:
    """A table of a DuckDB file as an Arrow stream, which can be read repeatedly."""

    def __init__(self, path: str, table: str) -> None:
        self._path, self._table = path, table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        import duckdb

        self._file = duckdb.connect(self._path, read_only=True)
        return self._file.sql(f"select * from {_quoted(self._table)}").__arrow_c_stream__(schema)
