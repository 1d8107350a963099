"""Tables with keys -> a description of a dataset: rows are nodes, foreign keys are edges both ways."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..args.suggest import did_you_mean
from ..errors import InputError
from ..sources.databases import database_tables, is_database
from ..sources.numbered import ROW, WithRowNumbers
from .column_rules import check_columns
from .node_tables import node_table
from .parts import is_path, safe_name
from .spec import (
    DUPLICATES,
    UNITS,
    EdgeSpec,
    NodeSpec,
    TableSpec,
    TaskSpec,
    check_known,
    one_of,
    parsed_file,
    read_tasks,
    rules_of,
)

__all__ = ["KEYS_FILES", "TABLE_FILES", "KeyedTable", "keyed_spec", "read_keyed", "table_files", "type_name"]

KEYS_FILES = ("keys.yaml", "keys.yml", "keys.json")
TABLE_FILES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".arrow", ".feather")
_SAVED = (b"pkey_col", b"fkey_col_to_pkey_table", b"time_col")
_TOP = ("tables", "tasks", "name", "time_unit")
_OPTIONS = ("label", "split", "ids", "duplicates", "columns", "missing_values", "min_count", "max_categories")
_FIELDS = ("file", "primary_key", "foreign_keys", "time", *_OPTIONS)


@dataclass
class KeyedTable:
    """One table: where it is, its keys, and what is said about its columns."""

    source: Any
    primary_key: str | None = None
    foreign_keys: dict[str, str] = field(default_factory=dict)
    time: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


def read_keyed(source: Any) -> TableSpec | None:
    """Return the description of tables with keys; None where the source is something else.

    It is a keys file, a folder with one, a folder of Parquet files saved by RelBench, a SQLite or DuckDB file, an
    object with a `table_dict` as RelBench has it, or a dict with `tables`.
    """
    # Not hasattr: PyG's HeteroData makes up attributes that end in _dict.
    if "table_dict" in getattr(source, "__dict__", {}) or hasattr(type(source), "table_dict"):
        tables = {
            name: KeyedTable(table.df, table.pkey_col, dict(table.fkey_col_to_pkey_table or {}), table.time_col)
            for name, table in source.table_dict.items()
        }
        return keyed_spec(tables, "database")
    if not is_path(source):
        return _described(source, "keys", "") if isinstance(source, Mapping) and _is_keys(source) else None
    path = os.fspath(source)
    if os.path.isdir(path):
        keys = next((name for name in KEYS_FILES if os.path.exists(os.path.join(path, name))), None)
        if keys is not None:
            return _from_file(os.path.join(path, keys))
        saved = _relbench_folder(path)
        return None if saved is None else keyed_spec(saved, path, os.path.basename(os.path.abspath(path)))
    if path.endswith((".yaml", ".yml", ".json")):
        return _from_file(path) if _is_keys(parsed_file(path)) else None
    if is_database(path):
        found = {n: KeyedTable(t.table, t.primary_key, t.foreign_keys) for n, t in database_tables(path).items()}
        return keyed_spec(found, path, os.path.basename(path).split(".")[0])
    return None


def type_name(text: str) -> str:
    """Return the name of the type that a table or a foreign key becomes."""
    return safe_name(text).replace("__", "_")


def table_files(folder: str) -> dict[str, str]:
    """Return the files of tables in a folder by the name of the table."""
    found = {}
    for name in sorted(os.listdir(folder)):
        end = next((end for end in sorted(TABLE_FILES, key=len, reverse=True) if name.lower().endswith(end)), None)
        if end is not None and name[0] not in "._":
            found[name[: -len(end)]] = os.path.join(folder, name)
    return found


def _is_keys(value: Any) -> bool:
    if not isinstance(value, Mapping) or "edges" in value or not value:
        return False
    if "tables" in value:
        return isinstance(value["tables"], Mapping)
    tables = [entry for key, entry in value.items() if key not in _TOP]
    return bool(tables) and all(isinstance(entry, Mapping) and set(entry) & set(_FIELDS) for entry in tables)


def _from_file(path: str) -> TableSpec:
    value = parsed_file(path)
    if not _is_keys(value):
        raise InputError(f"{path}: found no tables; expected tables by name, each with primary_key or foreign_keys")
    return _described(value, path, os.path.dirname(os.path.abspath(path)))


def _described(value: Mapping[str, Any], where: str, folder: str) -> TableSpec:
    entries = value["tables"] if "tables" in value else {k: v for k, v in value.items() if k not in _TOP}
    if "tables" in value:
        check_known(value, _TOP, where)
    files = table_files(folder) if folder else {}
    tables = {}
    for name, given in entries.items():
        entry, at = (given, f"{where}: {name}") if isinstance(given, Mapping) else ({}, f"{where}: {name}")
        check_known(entry, _FIELDS, at)
        source = entry.get("file", files.get(str(name)))
        if source is None:
            known = ", ".join(map(repr, files)) or "none"
            raise InputError(f"{at}: no file of this table in {folder or 'the description'}; found {known}; set file:")
        if is_path(source) and folder:
            source = os.path.join(folder, os.fspath(source))
        keys = entry.get("foreign_keys") or {}
        if not isinstance(keys, Mapping):
            raise InputError(f"{at}.foreign_keys: found {keys!r}, expected tables by column, {{user_id: users}}")
        options = {key: entry[key] for key in _OPTIONS if key in entry}
        for column in (entry.get("primary_key"), *keys):
            if isinstance(column, (list, tuple)):
                raise InputError(
                    f"{at}: found a key of several columns, {', '.join(map(str, column))}; expected one column; join "
                    "them into one in the table, or omit the primary_key, and rows are numbered"
                )
        foreign = {str(column): str(table) for column, table in keys.items()}
        tables[str(name)] = KeyedTable(source, entry.get("primary_key"), foreign, entry.get("time"), options)
    unit = value.get("time_unit", "s")
    one_of(unit, UNITS, f"{where}: time_unit")
    return keyed_spec(tables, where, value.get("name"), unit, read_tasks(value.get("tasks"), f"{where}: tasks", folder))


def keyed_spec(
    tables: Mapping[str, KeyedTable], where: str, name: str | None = None, unit: str = "s", tasks: Any = ()
) -> TableSpec:
    """Return the description in which each row is a node, and each foreign key an edge with its reverse."""
    called: dict[str, str] = {}
    for table in tables:
        name_of_type = type_name(table)
        other = next((one for one, known in called.items() if known == name_of_type), None)
        if other is not None:
            both = f"tables {other!r} and {table!r} would both be node type {name_of_type!r}"
            raise InputError(f"{where}: {both}; rename one of them")
        called[table] = name_of_type
    nodes: dict[str, NodeSpec] = {}
    edges: list[EdgeSpec] = []
    for table, one in tables.items():
        at = f"{where}: {table}"
        source = one.source if one.primary_key else WithRowNumbers(one.source)
        key = one.primary_key or ROW
        one_of(one.options.get("duplicates", "error"), DUPLICATES, f"{at}.duplicates")
        rules = rules_of(one.options, at)
        _check_columns(one, at)
        rest = {k: v for k, v in one.options.items() if k in ("label", "split", "ids", "duplicates")}
        nodes[called[table]] = NodeSpec(
            table=source,
            id=key,
            time=one.time,
            missing="drop",
            rules=rules,
            not_columns=tuple(one.foreign_keys),
            **rest,
        )
        for column, other in one.foreign_keys.items():
            if other not in called:
                known = f"{', '.join(map(repr, called))}{did_you_mean(other, called)}"
                raise InputError(f"{at}: foreign key {column!r} refers to table {other!r}, expected one of {known}")
            kind = (called[table], type_name(column), called[other])
            time = False if one.time is None else one.time
            edges.append(EdgeSpec(source, kind, key, column, False, time, features=[], nulls="drop", rules=rules))
    if not edges:
        raise InputError(f"{where}: no foreign keys, so there are no edges; `graphzero inspect` proposes some")
    found: list[TaskSpec] = [*tasks]
    for task in found:
        if task.entity not in called:
            raise InputError(f"{where}: tasks.{task.name}.entity: found {task.entity!r}, expected a table")
        task.entity = called[task.entity]
    return TableSpec(nodes, edges, name, unit, where, reverse=True, tasks=found, kind="tables with keys")


def _check_columns(one: KeyedTable, where: str) -> None:
    """Refuse keys, roles and rules that name no column of the table."""
    roles = {"primary_key": one.primary_key, "time": one.time, **{r: one.options.get(r) for r in ("label", "split")}}
    named = [(role, column) for role, column in roles.items() if column is not None]
    names = node_table(one.source).names
    rules = [("columns", str(column)) for column in one.options.get("columns") or ()]
    for role, column in [*named, *(("foreign_keys", column) for column in one.foreign_keys), *rules]:
        if isinstance(column, str):
            check_columns([column], names, f"{where}.{role}")


def _relbench_folder(folder: str) -> dict[str, KeyedTable] | None:
    """Return the tables of a folder that RelBench saved: Parquet files with keys in their metadata."""
    files = {name: path for name, path in table_files(folder).items() if path.endswith(".parquet")}
    if not files:
        return None
    from pyarrow import ArrowInvalid, parquet

    tables = {}
    for name, path in files.items():
        try:
            notes = parquet.read_schema(path).metadata or {}
        except ArrowInvalid:
            return None
        if b"fkey_col_to_pkey_table" not in notes:
            return None
        key, foreign, time = (json.loads(notes.get(field, b"null")) for field in _SAVED)
        tables[name] = KeyedTable(path, key, foreign or {}, time)
    return tables
