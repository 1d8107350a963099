"""Node tables: one row per node with its id, columns, label and split -> the parts of a dataset."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.dtypes import NAMES
from ..args.shares import is_shares
from ..dataset.writer import kind_of_labels
from ..errors import InputError
from ..sources.categories import codes_of, missing_note
from ..sources.csv_tables import csv_table
from ..sources.databases import SqliteTable
from ..sources.date_formats import in_format
from ..sources.dates import FORMAT_FIX, as_time_column, times_or_missing
from ..sources.decoding import kind_of, numbers, shown
from ..sources.edge_columns import known_column, named
from ..sources.keys import check_keys
from ..sources.numbered import NumberedTable, WithRowNumbers
from ..sources.rows import Rows
from ..sources.tables import Table, as_table, place_of
from .column_rules import ColumnRules, check_columns
from .parts import label_rows, named_splits, splits_of_codes
from .plan import NodePlan, Plan
from .spec import check_features, check_known, rules_of
from .table_columns import columns_of, training_rows

__all__ = ["add_labels", "add_node_table", "features_of", "node_table", "pick", "times_of", "whole_column"]

IDS = ("id", "node_id", "node", "name", "key")
LABELS = ("label", "y", "class", "target")
SPLITS = ("split", "set", "fold")
_MOST_CATEGORIES = 4096  # names that the manifest holds


def add_node_table(
    plan: Plan, nodes: Any, columns: dict[str, Any], memory: int | None = None, splits: Any = None
) -> npt.NDArray[Any] | list[Any]:
    """Fill in columns, labels and splits from a table, and return the ids of its rows.

    columns: which ones are "id", "label", "split" and "time", and a list of "features"; what is not given is found by
    its name. Without "features", all other columns are kept by their kinds; "columns" has rules for them.
    splits: as given to the import, in place of those of the table.
    """
    check_known(columns, (*_ROLES, "time", "features", *_RULES), "node_columns")
    rules = rules_of(columns, "node_columns")
    table = node_table(nodes, rules.formatted, memory)
    check_columns(rules.named, table.names, "node_columns['columns']")
    picked = {what: pick(table, columns.get(what), known) for what, known in _ROLES.items()}
    ids = picked["id"] or table.names[0]
    rest = [name for name in table.names if name not in (ids, picked["label"], picked["split"])]
    check_features(columns.get("features"), "node_columns['features']")
    plan.found.append(f"nodes: {table.name}, {table.num_rows} rows, ids in {ids!r}")
    plan.one.num_nodes = None
    if columns.get("features") is not None:
        _add_features(plan, table, [named(table.name, table.names, column) for column in columns["features"]])
    add_labels(plan, plan.one, table, picked["label"], picked["split"])
    values = whole_column(table, ids)
    check_keys(table, {ids: values}, 0)
    plan.one.id_place = lambda row: f"{table.name}: column {ids!r}: {place_of(table, row)}"
    if columns.get("time") is not None:
        time = named(table.name, table.names, columns["time"])
        formats = rules.of(time).format
        plan.one.features["time"] = _times(table, time, "time", "s", missing=True, formats=formats)
        if formats or not table.is_numeric(time):
            plan.about["dates"] = ["time"]
    if columns.get("features") is None:
        _add_columns(plan, table, rest, rules, len(values), splits)
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "iu" else values.tolist()


def add_labels(
    plan: Plan, node: NodePlan, table: Table, label: str | None, split: str | None, name: str = "", keep: Any = None
) -> None:
    """Add the labels and splits of a table, from the rows to `keep`; `name` is that of the type, if it has one."""
    of = f" {name}" if name else ""
    if label is not None:
        values, classes = codes_of(table, label)
        values = values if keep is None else values[keep]
        if classes is None and kind_of_labels(values) == "classification" and (values < -1).any():
            at = int(np.argmax(values < -1))
            raise InputError(
                f"{table.name}: column {label!r}: node {at} has label {values[at]:g}, expected classes 0, 1, 2, ..., "
                "with -1 for none; labels with fractions, or of text, may be any"
            )
        node.labels = label_rows(values)
        if classes is not None:
            plan.about |= {"classes": {**plan.about.get("classes", {}), name: classes} if name else classes}
            node.num_classes = len(classes)
        plan.found.append(f"labels{of}: column {label!r}{missing_note(values)}")
    if split is not None:
        codes, names = codes_of(table, split)
        codes = codes if keep is None else codes[keep]
        if names is None:
            raise InputError(f"{table.name}: column {split!r} holds numbers, expected names such as 'train'")
        node.splits = dict(splits_of_codes(codes, names))
        plan.found.append(f"splits{of}: column {split!r}, {', '.join(node.splits)}{missing_note(codes)}")


def _add_columns(plan: Plan, table: Table, names: Sequence[str], rules: ColumnRules, count: int, splits: Any) -> None:
    own = {} if is_shares(splits) else plan.one.splits if splits is None else named_splits(splits)
    node = NodePlan(count, {k: v for k, v in plan.one.features.items() if k == "time"}, plan.one.labels, own)
    train, how = training_rows(node, splits if is_shares(splits) else None, count, None, tempfile.gettempdir())
    found = columns_of(table, names, rules, train=train)
    plan.one.features |= found.rows
    plan.one.columns = found.columns
    plan.found += [note if note.startswith("left out") else f"column {note}" for note in found.notes]
    if found.columns and how:
        plan.found.append(f"columns: statistics of {how}")


_RULES = ("columns", "missing_values", "min_count", "max_categories")
_ROLES = {"id": IDS, "label": LABELS, "split": SPLITS}


def pick(table: Table, asked: Any, known: Sequence[str], others: Sequence[str] = ()) -> str | None:
    """Return the requested column, or one with a known name that is not one of `others`."""
    names = [name for name in table.names if name not in others]
    return known_column(names, known) if asked is None else named(table.name, table.names, asked)


def node_table(nodes: Any, text: Sequence[str] = (), memory: int | None = None) -> Table:
    """Return a table of nodes or edges: what `as_table` knows, or a CSV file whose columns `text` hold strings.

    memory: what its batches may take, in bytes.
    """
    if isinstance(nodes, (str, os.PathLike)) and not os.path.exists(nodes):
        raise FileNotFoundError(f"{os.fspath(nodes)}: no such file")
    if isinstance(nodes, WithRowNumbers):
        return NumberedTable(node_table(nodes.source, text, memory))
    if isinstance(nodes, SqliteTable):
        return nodes
    table = as_table(nodes, memory)
    if table is None and isinstance(nodes, (str, os.PathLike)):
        return csv_table(os.fspath(nodes), text)
    if table is None:
        raise TypeError(f"found a {type(nodes).__name__}, expected a table: a DataFrame, Parquet, CSV, ...")
    return table


def whole_column(table: Table, column: str) -> Any:
    """Return a column as one array: numbers, or objects with None for missing values."""
    parts = []
    for (batch,) in table.batches([column]):
        if isinstance(batch, np.ndarray):
            parts.append(batch)
            continue
        values = batch.dictionary_decode() if hasattr(batch, "dictionary_decode") else batch
        parts.append(np.asarray(values.to_numpy(zero_copy_only=False) if hasattr(values, "null_count") else values))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _add_features(plan: Plan, table: Table, columns: Sequence[str]) -> None:
    found = features_of(table, columns)
    plan.one.features |= found.rows
    plan.found += found.notes
    if found.categories:
        plan.about.setdefault("categories", {}).update(found.categories)


@dataclass
class TableFeatures:
    """Rows by name, the names of codes, and lines for the report."""

    rows: dict[str, Any] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def features_of(table: Table, columns: Sequence[str] | Mapping[str, Any], unit: str = "s") -> TableFeatures:
    """Return columns as features: a dict names the columns of each feature; of a list, numbers become one matrix x.

    A matrix is float32; a column alone in a dict is a vector of its own type. Lists are a matrix each, text a vector of
    codes, dates whole units since 1970.
    """
    found = TableFeatures()
    if isinstance(columns, Mapping):
        for name, wanted in columns.items():
            alone = isinstance(wanted, (str, int))
            picked = [named(table.name, table.names, column) for column in ([wanted] if alone else wanted)]
            _add_column(found, table, picked, str(name), unit, alone)
        return found
    first = next(iter(table.batches(columns)), None) if columns else None
    plain: list[str] = []
    for name, column in zip(columns, first or [], strict=bool(first)):
        if kind_of(column) == "number":
            plain.append(name)
        else:
            _add_column(found, table, [name], name, unit)
    if plain:
        _add_column(found, table, plain, "x", unit)
    return found


def _add_column(
    found: TableFeatures, table: Table, columns: list[str], name: str, unit: str, alone: bool = False
) -> None:
    first = next(iter(table.batches(columns)), None)
    if first is None:
        found.notes.append(f"left out: features {name}, of a table without rows")
        return
    kinds = {kind_of(column) for column in first}
    odd = next((i for i, c in enumerate(first) if kind_of(c) not in ("number", "date", "text", "list", "null")), None)
    if odd is not None:
        raise InputError(
            f"{table.name}: column {columns[odd]!r} holds {shown(kind_of(first[odd]))}, expected numbers, text, dates "
            "or lists of numbers; list the columns to import, without this one, as features"
        )
    if "null" in kinds:
        found.notes.append(f"left out: column {columns[0]!r}, which holds no values")
    elif kinds == {"date"} and len(columns) == 1:
        found.rows[name] = _times(table, columns[0], name, unit)
        found.notes.append(f"features {name}: dates, in units of {unit} since 1970")
    elif alone and kinds == {"number"}:
        found.rows[name] = _vector(table, columns[0], name, first[0])
        found.notes.append(f"features {name}: column {columns[0]!r}")
    elif "text" not in kinds and "date" not in kinds:
        found.rows[name] = _matrix(table, columns, name)
        what = "a column of lists" if kinds == {"list"} else f"columns {', '.join(columns[:8])}"
        found.notes.append(f"features {name}: {what}{', ...' if len(columns) > 8 else ''}")
    elif len(columns) > 1:
        raise InputError(
            f"{table.name}: columns {columns} of features {name!r} are not all numbers; make them separate features"
        )
    else:
        codes, names = codes_of(table, columns[0])
        if names is None or len(names) > _MOST_CATEGORIES:
            found.notes.append(f"left out: column {columns[0]!r}, text with more than {_MOST_CATEGORIES} values")
            return
        found.rows[name] = codes.astype(np.int32)
        found.categories[name] = names
        found.notes.append(f"features {name}: codes of {len(names)} categories{missing_note(codes)}")


def _vector(table: Table, column: str, name: str, first: Any) -> Rows:
    where = f"{table.name}: column {column!r}"
    dtype = numbers(first, where).dtype
    kept = dtype.name if dtype.name in NAMES else "int32" if dtype.itemsize < 4 else "int64"

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for (batch,) in table.batches([column]):
            values = numbers(batch, where, at)
            if kept == "int64" and values.dtype.kind in "uf":
                fits = values < 2**63 if values.dtype.kind == "u" else (values % 1 == 0) & (np.abs(values) < 2**53)
                if not fits.all():
                    bad = int(np.argmin(fits))
                    raise InputError(f"{where}: row {at + bad}: found {values[bad]}, expected integers below 2^63")
            values = values.astype(kept, copy=False)
            at += len(values)
            for begin in range(0, len(values), step):
                yield values[begin : begin + step]

    return Rows(name, kept, None, table.num_rows, blocks)


def _times(table: Table, column: str, name: str, unit: str, missing: bool = False, formats: Sequence[str] = ()) -> Rows:
    """Return times; if they may be `missing`, missing ones are the least int64. formats: of text that is not ISO."""

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for (batch,) in table.batches([column]):
            where = f"{table.name}: column {column!r}"
            batch = in_format(batch, formats, where, at) if formats else batch
            if missing:
                values = times_or_missing(batch, where, at, unit, FORMAT_FIX)
            else:  # of features and tasks, whose columns have no format
                values = as_time_column(batch, where, at, unit)
            at += len(values)
            for begin in range(0, len(values), step):
                yield values[begin : begin + step]

    return Rows(name, "int64", None, table.num_rows, blocks)


def times_of(table: Table, column: str, unit: str) -> Iterator[npt.NDArray[Any]]:
    """Yield a column of times in blocks, in whole units since 1970."""
    return _times(table, column, column, unit).blocks(1 << 20)


def _matrix(table: Table, columns: list[str], name: str) -> Rows:
    def rows(batch: list[Any], at: int) -> npt.NDArray[np.float32]:
        where = f"{table.name}: column"
        values = [numbers(c, f"{where} {n!r}", at, lists=True) for c, n in zip(batch, columns, strict=True)]
        return np.ascontiguousarray(values[0] if values[0].ndim == 2 else np.column_stack(values), dtype=np.float32)

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for batch in table.batches(columns):
            block = rows(batch, at)
            for begin in range(0, len(block), step):
                yield block[begin : begin + step]
            at += len(block)

    width = rows(next(iter(table.batches(columns))), 0).shape[1]
    return Rows(name, "float32", width, table.num_rows, blocks)
