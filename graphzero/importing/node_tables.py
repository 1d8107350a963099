"""Node tables: a row a node with its id, features, label and split -> the parts of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .._column_names import known_column
from .._dtypes import NAMES
from ..errors import InputError
from ..row_sources import Rows
from .categories import codes_of
from .columns import _named
from .dates import as_time_column, is_date
from .edge_tables import numbers
from .parts import split_name
from .plan import Plan
from .tables import ArrowTable, Table, as_table, require_pyarrow

__all__ = ["add_node_table", "features_of", "node_table"]

IDS = ("id", "node_id", "node", "name", "key")
LABELS = ("label", "y", "class", "target")
SPLITS = ("split", "set", "fold")
_MOST_CATEGORIES = 4096  # names that the manifest holds


def add_node_table(plan: Plan, nodes: Any, columns: dict[str, Any]) -> npt.NDArray[Any] | list[Any]:
    """Fill in features, labels and splits from a table, and return the ids of its rows.

    columns: which ones are "id", "label" and "split", and a list of "features"; what is not given is told by its name.
    Numbers become one matrix x, lists a matrix each, and text a vector of codes whose names are kept in the manifest.
    """
    table = node_table(nodes)
    picked = {what: _pick(table, columns.get(what), known) for what, known in _ROLES.items()}
    ids = picked["id"] or table.names[0]
    rest = [name for name in table.names if name not in (ids, picked["label"], picked["split"])]
    if columns.get("features") is not None:
        rest = [_named(table.name, table.names, column) for column in columns["features"]]
    plan.found.append(f"nodes: {table.name}, {table.num_rows} rows, ids in {ids!r}")
    plan.num_nodes = None
    _add_features(plan, table, rest)
    if picked["label"] is not None:
        labels, categories = codes_of(table, picked["label"])
        plan.labels = labels
        if categories is not None:
            plan.about["classes"] = categories
            plan.num_classes = len(categories)
        plan.found.append(f"labels: column {picked['label']!r}")
    if picked["split"] is not None:
        codes, names = codes_of(table, picked["split"])
        if names is None:
            raise InputError(f"{table.name}: column {picked['split']!r} holds numbers, expected names such as 'train'")
        plan.splits = {split_name(name): np.flatnonzero(codes == i) for i, name in enumerate(names) if name}
        plan.found.append(f"splits: column {picked['split']!r}, {', '.join(plan.splits)}")
    values = _whole(table, ids)
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "iu" else values.tolist()


_ROLES = {"id": IDS, "label": LABELS, "split": SPLITS}


def _pick(table: Table, asked: Any, known: Sequence[str]) -> str | None:
    return known_column(table.names, known) if asked is None else _named(table.name, table.names, asked)


def node_table(nodes: Any, text: Sequence[str] = ()) -> Table:
    """Return a table of nodes or edges: what `as_table` knows, or a CSV file whose columns `text` hold strings."""
    if isinstance(nodes, (str, os.PathLike)) and not os.path.exists(nodes):
        raise FileNotFoundError(f"{os.fspath(nodes)}: no such file")
    table = as_table(nodes)
    if table is None and isinstance(nodes, (str, os.PathLike)):
        path = os.fspath(nodes)
        arrow = require_pyarrow(path)
        import pyarrow.csv as csv
        import pyarrow.dataset as files

        convert = csv.ConvertOptions(column_types={column: arrow.string() for column in text})
        return ArrowTable(path, files.dataset(path, format=files.CsvFileFormat(convert_options=convert)))
    if table is None:
        raise TypeError(f"found a {type(nodes).__name__}, expected a table: a DataFrame, Parquet, CSV, ...")
    return table


def _whole(table: Table, column: str) -> Any:
    """Return a column as one array: numbers, or objects with None for what is missing."""
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
    plan.features |= found.rows
    plan.found += found.notes
    if found.categories:
        plan.about.setdefault("categories", {}).update(found.categories)


@dataclass
class TableFeatures:
    """Rows by name, the names of codes, and what is to be said about them."""

    rows: dict[str, Any] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def features_of(table: Table, columns: Sequence[str] | Mapping[str, Any], unit: str = "s") -> TableFeatures:
    """Return columns as features: a dict says which columns make which; of a list, numbers become one matrix x.

    A matrix is float32; a column alone in a dict is a vector of its own type. Lists are a matrix each, text a vector of
    codes, dates whole units since 1970.
    """
    found = TableFeatures()
    if isinstance(columns, Mapping):
        for name, wanted in columns.items():
            alone = isinstance(wanted, (str, int))
            picked = [_named(table.name, table.names, column) for column in ([wanted] if alone else wanted)]
            _add_column(found, table, picked, str(name), unit, alone)
        return found
    first = next(iter(table.batches(columns)), None) if columns else None
    plain: list[str] = []
    for name, column in zip(columns, first or [], strict=bool(first)):
        if _kind(column) == "number":
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
    kinds = {_kind(column) for column in first}
    if kinds == {"date"} and len(columns) == 1:
        found.rows[name] = _times(table, columns[0], name, unit)
        found.notes.append(f"features {name}: dates, in units of {unit} since 1970")
    elif alone and kinds == {"number"}:
        found.rows[name] = _vector(table, columns[0], name, first[0])
        found.notes.append(f"features {name}: column {columns[0]!r}")
    elif "text" not in kinds and "date" not in kinds:
        found.rows[name] = _matrix(table, columns, name)
        shown = "a column of lists" if kinds == {"list"} else f"columns {', '.join(columns[:8])}"
        found.notes.append(f"features {name}: {shown}{', ...' if len(columns) > 8 else ''}")
    elif len(columns) > 1:
        raise InputError(f"{table.name}: columns {columns} of features {name!r} are not all numbers: name them apart")
    else:
        codes, names = codes_of(table, columns[0])
        if names is None or len(names) > _MOST_CATEGORIES:
            found.notes.append(f"left out: column {columns[0]!r}, text with more than {_MOST_CATEGORIES} values")
            return
        found.rows[name] = codes.astype(np.int32)
        found.categories[name] = names
        found.notes.append(f"features {name}: codes of {len(names)} categories")


def _vector(table: Table, column: str, name: str, first: Any) -> Rows:
    dtype = numbers(first, f"{table.name}: column {column!r}").dtype
    kept = dtype.name if dtype.name in NAMES else "int32" if dtype.itemsize < 4 else "int64"

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for (batch,) in table.batches([column]):
            values = numbers(batch, f"{table.name}: column {column!r}", at).astype(kept, copy=False)
            at += len(values)
            for begin in range(0, len(values), step):
                yield values[begin : begin + step]

    return Rows(name, kept, None, table.num_rows, blocks)


def _times(table: Table, column: str, name: str, unit: str) -> Rows:
    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for (batch,) in table.batches([column]):
            values = as_time_column(batch, f"{table.name}: column {column!r}", at, unit)
            at += len(values)
            for begin in range(0, len(values), step):
                yield values[begin : begin + step]

    return Rows(name, "int64", None, table.num_rows, blocks)


def _kind(column: Any) -> str:
    if is_date(column):
        return "date"
    if isinstance(column, np.ndarray):
        return "list" if column.ndim == 2 else "number" if column.dtype.kind in "iufb" else "text"
    kind = str(getattr(column, "type", getattr(column, "dtype", "")))
    if "list" in kind:
        return "list"
    return "number" if any(word in kind.lower() for word in ("int", "float", "double", "bool")) else "text"


def _matrix(table: Table, columns: list[str], name: str) -> Rows:
    def rows(batch: list[Any], at: int) -> npt.NDArray[np.float32]:
        values = [_numbers(column, f"{table.name}: column {n!r}", at) for column, n in zip(batch, columns, strict=True)]
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


def _numbers(column: Any, where: str, row: int) -> npt.NDArray[Any]:
    if _kind(column) != "list" or isinstance(column, np.ndarray):
        return numbers(column, where, row)
    if column.null_count:
        raise InputError(f"{where} has no value in some rows from {row} on, expected a list in every row")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if len(flat) % max(len(column), 1) or len(np.unique(np.diff(getattr(column, "offsets", [0, 1])))) > 1:
        raise InputError(f"{where} has lists of different lengths, expected one length")
    return np.asarray(flat).reshape(len(column), -1)
