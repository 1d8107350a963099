"""Keys that tables seem to have: proposed by names and by values that tables share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..sources.databases import database_tables, is_database
from ..sources.edge_columns import WEIGHTS, known_column
from ..sources.keys import present_keys
from ..sources.tables import Table
from .column_kinds import reader_of
from .column_readers import LeftOut
from .column_rules import ColumnRule
from .keyed import table_files
from .node_tables import LABELS, SPLITS, node_table

__all__ = ["Proposal", "ProposedTable", "propose"]

_SAMPLE = 20_000  # rows that are read to find kinds and foreign keys
_KEYS = 2_000_000  # values of a primary key that are held for comparison
_SHARED = 0.5  # of the values of a foreign key with a fitting name that a table must have
_SURE = 0.95  # without one
_CLASSES = 20  # a column with more values is not taken for a label
_LIKELY = ("label", "class", "target", "churn", "fraud", "outcome", "topic", "subject", "category", "segment", "status")
_TIMES = ("time", "timestamp", "created_at", "created", "date", "datetime", "ts", "at", "signup", "joined")


@dataclass
class ProposedTable:
    """What one table seems to be."""

    file: str | None
    rows: int | None
    kinds: dict[str, str]
    primary_key: str | None = None
    foreign_keys: dict[str, str] = field(default_factory=dict)
    time: str | None = None
    label: str | None = None
    split: str | None = None
    label_like: list[str] = field(default_factory=list)  # columns of few values, the likeliest label first
    why: list[str] = field(default_factory=list)


@dataclass
class Proposal:
    """Tables by name, and lines that explain them."""

    tables: dict[str, ProposedTable]
    declared: bool = False  # keys come from the schema of a database

    def label(self) -> tuple[str, str] | None:
        """Return the table and column that seem to hold labels; None where no column does."""
        named = [(name, table.label) for name, table in self.tables.items() if table.label]
        guessed = [(name, column) for name, table in self.tables.items() for column in table.label_like]
        guessed.sort(key=lambda one: _unlikely(one[1]))
        return next(((name, column) for name, column in [*named, *guessed] if column), None)

    def plain(self) -> tuple[str, str] | None:
        """Return the tables of edges and of nodes, if there are these two and edges have nothing else to keep."""
        for name, table in self.tables.items():
            others = set(table.foreign_keys.values())
            rest = {c for c in table.kinds if c not in table.foreign_keys} - {table.time}
            if len(self.tables) == 2 and len(table.foreign_keys) == 2 and len(others) == 1 and others != {name}:
                known = rest <= {known_column([*rest], WEIGHTS)} and table.file is not None and not table.primary_key
                nodes = self.tables[next(iter(others))]
                return (name, next(iter(others))) if known and not nodes.foreign_keys else None
        return None

    def to_dict(self, folder: str) -> dict[str, Any]:
        """Return the proposal as the contents of a keys file in `folder`."""
        out: dict[str, Any] = {}
        for name, table in self.tables.items():
            entry: dict[str, Any] = {} if table.file is None else {"file": os.path.relpath(table.file, folder)}
            for what in ("primary_key", "foreign_keys", "time", "label", "split"):
                if getattr(table, what):
                    entry[what] = getattr(table, what)
            out[name] = entry
        return {"tables": out}

    def lines(self) -> Iterator[str]:
        """Explain the proposal to people."""
        for name, table in self.tables.items():
            rows = "" if table.rows is None else f"{table.rows:,} rows, "
            key = f"primary key {table.primary_key!r}" if table.primary_key else "no primary key: rows are numbered"
            roles = [f"{what} {getattr(table, what)!r}" for what in ("time", "label", "split") if getattr(table, what)]
            yield f"{name}: {', '.join([rows + key, *roles])}"
            used = {table.primary_key, table.label, table.split, *table.foreign_keys}
            kinds = [f"{column} ({kind})" for column, kind in table.kinds.items() if column not in used]
            if kinds:
                yield f"  columns: {', '.join(kinds)}"
            yield from (f"  {line}" for line in table.why)


def propose(source: str) -> Proposal:
    """Look at a folder of tables, a table or a database, and propose its keys, times and labels."""
    tables: dict[str, Table] = {}
    found: dict[str, ProposedTable] = {}
    if is_database(source):
        for name, stored in database_tables(source).items():
            tables[name] = node_table(stored.table)
            found[name] = _look(tables[name], None)
            found[name].primary_key, found[name].foreign_keys = stored.primary_key, dict(stored.foreign_keys)
            found[name].why += [f"{column} -> {other}, as declared" for column, other in stored.foreign_keys.items()]
    else:
        files = table_files(source) if os.path.isdir(source) else {os.path.basename(source).split(".")[0]: source}
        if not files:
            raise InputError(f"{source}: found no tables; expected .parquet, .csv, .tsv or .arrow files")
        for name, path in files.items():
            tables[name] = node_table(path)
            found[name] = _look(tables[name], path)
            found[name].primary_key = _primary_key(name, tables[name])
    declared = any(one.foreign_keys for one in found.values())
    keys = {n: _values(tables[n], one.primary_key, _KEYS) for n, one in found.items() if one.primary_key}
    for name, one in found.items():
        if not declared:
            _foreign_keys(name, one, tables[name], found, keys)
        one.label_like = [c for c in one.label_like if c != one.primary_key and c not in one.foreign_keys]
    return Proposal(found, declared)


def _look(table: Table, file: str | None) -> ProposedTable:
    kinds, why = {}, list[str]()
    for column in table.names:
        batch = next(iter(table.batches([column])), [None])[0]
        try:
            if batch is None:
                raise LeftOut("empty")
            reader = reader_of(batch[:_SAMPLE], column, ColumnRule())
            reader.scan(batch[:_SAMPLE], 0, None)
            reader.finish()
            kinds[column] = reader.kind
            said = [note for note in reader.notes if "looks like dates" in note]
        except LeftOut as reason:
            kinds[column] = "left out"
            said = [str(reason)] if "looks like dates" in str(reason) else []
        why += [f"{column}: {note}" for note in said]
    one = ProposedTable(file, table.num_rows, kinds, why=why)
    times = [column for column, kind in kinds.items() if kind == "time"]
    one.time = next((c for known in _TIMES for c in times if c.lower() == known), times[0] if times else None)
    one.label, one.split = known_column(table.names, LABELS), known_column(table.names, SPLITS)
    for column, kind in kinds.items():
        few = kind in ("bool", "category") or (kind == "number" and _unlikely(column) is False)
        if few and column != one.split and (kind == "bool" or 2 <= len(_values(table, column, _SAMPLE)) <= _CLASSES):
            one.label_like.append(column)
    one.label_like.sort(key=_unlikely)
    return one


def _unlikely(column: str) -> bool:
    """Whether the name of a column does not say that it is a label."""
    return not any(word in column.lower() for word in _LIKELY)


def _singular(name: str) -> str:
    name = name.lower()
    for end, put in (("ies", "y"), ("ses", "s"), ("s", "")):
        if name.endswith(end) and len(name) > len(end) + 1:
            return name[: -len(end)] + put
    return name


def _stem(column: str) -> str:
    name = column.lower()
    return next((name[: -len(end)] for end in ("_id", "_key", "_fk", "_no", "id") if name.endswith(end)), name)


def _primary_key(name: str, table: Table) -> str | None:
    """Return the column that identifies rows: named like a key of this table, unique, without missing values."""
    words = ("id", f"{name}_id", f"{_singular(name)}_id", f"{_singular(name)}id", "key", "uuid", "sku", _singular(name))
    lower = {column.lower(): column for column in reversed(table.names)}
    for word in words:
        if word.lower() in lower and _is_unique(table, lower[word.lower()]):
            return lower[word.lower()]
    return None


def _is_unique(table: Table, column: str) -> bool:
    values, missing = _read(table, column, _KEYS)
    return bool(values) and not missing and len(set(values)) == len(values)


def _values(table: Table, column: str | None, most: int) -> set[Any]:
    return set() if column is None else set(_read(table, column, most)[0])


def _read(table: Table, column: str, most: int) -> tuple[list[Any], int]:
    """Return the values of a column that are there, up to about `most`, and how many are missing."""
    out: list[Any] = []
    missing = 0
    for (batch,) in table.batches([column]):
        present, values = present_keys(batch)
        plain = values.to_pylist() if hasattr(values, "to_pylist") else np.asarray(values).tolist()
        out += [value for value, there in zip(plain, present, strict=True) if there]
        missing += int(len(present) - present.sum())
        if len(out) >= most:
            break
    return [value for value in out if isinstance(value, (int, str)) and not isinstance(value, bool)], missing


def _foreign_keys(
    name: str, one: ProposedTable, table: Table, found: dict[str, ProposedTable], keys: dict[str, set[Any]]
) -> None:
    for column, kind in one.kinds.items():
        if column == one.primary_key or column in (one.label, one.split) or kind in ("time", "embedding", "bool"):
            continue
        values = _values(table, column, _SAMPLE)
        best: tuple[bool, float, str] | None = None
        for other, known in keys.items():
            if not values or not known:
                continue
            share = len(values & known) / len(values)
            key = found[other].primary_key or ""
            fits = _stem(column) in (other.lower(), _singular(other)) or (column == key and key.lower() != "id")
            text = isinstance(next(iter(values)), str)
            if share >= (_SHARED if fits else _SURE) and (fits or (text and other != name and len(values) > 1)):
                best = max(best or (False, 0.0, ""), (fits, share, other))
        if best is not None:
            one.foreign_keys[column] = best[2]
            where = f"{best[2]}.{found[best[2]].primary_key}"
            one.why.append(f"{column} -> {where}: {best[1]:.0%} of its values match")
