"""Tables of the new nodes and edges of an append: ids, columns as the dataset stores them, labels and splits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.dtypes import numpy_dtype
from ..errors import InputError
from ..sources.categories import codes_of, encoded, with_nan
from ..sources.dates import times_or_missing
from ..sources.decoding import numbers
from ..sources.edge_columns import known_column
from ..sources.keys import check_keys
from ..sources.tables import Table
from .appended_nodes import NewNodes
from .columns import OTHER, Column
from .edge_data import EdgeData
from .node_data import NodeData

__all__ = ["NodeTable", "edge_table_features", "read_table"]


@dataclass
class NodeTable:
    """What a table says about the new nodes; without a table, `ids` is what was given."""

    ids: Any = None
    features: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    labels: npt.NDArray[Any] | None = None
    splits: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_table(nodes: Any, node: NewNodes, classes: Any) -> NodeTable:
    """Read `nodes` if it is a table or the path of one; `classes` are the names of labels that were text."""
    from ..importing.node_tables import IDS, LABELS, SPLITS, node_table, whole_column  # imports this package

    if not _is_table(nodes):
        return NodeTable(nodes)
    what = f"nodes{node.where}"
    table = node_table(nodes)
    id_column = known_column(table.names, IDS)
    if node.is_text and isinstance(nodes, (str, os.PathLike)) and id_column is not None:
        table = node_table(nodes, [id_column])  # ids of digits are text too
    found = NodeTable()
    if node.data.ids.mapped:
        if id_column is None:
            raise InputError(f"{table.name}: no column of ids, expected one named like {', '.join(map(repr, IDS))}")
        found.ids = whole_column(table, id_column)
        check_keys(table, {id_column: found.ids}, 0)
        rows = len(found.ids)
    else:
        rows = len(whole_column(table, id_column or table.names[0]))
        if id_column is not None:
            _check_next(np.asarray(whole_column(table, id_column)), node, f"{table.name}: column {id_column!r}")
        found.ids = rows
    found.features, found.notes = table_features(table, node.data, rows, what)
    label, split = known_column(table.names, LABELS), known_column(table.names, SPLITS)
    if label is not None and node.data.label_kind is not None and label not in node.data.columns:
        found.labels = _labels(table, label, classes)
    if split is not None and node.data.splits and split not in node.data.columns:
        codes, names = codes_of(table, split)
        found.splits = {one: codes == i for i, one in enumerate(names or []) if one}
    return found


def _is_table(nodes: Any) -> bool:
    if isinstance(nodes, (Mapping, str, os.PathLike)):
        return True
    dtype = getattr(nodes, "dtype", None)
    return hasattr(nodes, "columns") or hasattr(nodes, "schema") or getattr(dtype, "names", None) is not None


def _check_next(ids: npt.NDArray[Any], node: NewNodes, where: str) -> None:
    expected = np.arange(node.before, node.before + len(ids))
    if not np.array_equal(ids, expected):
        at = int(np.argmax(ids != expected)) if ids.shape == expected.shape else 0
        raise InputError(
            f"{where}: row {at} is {ids[at]}, expected {expected[at]}: new nodes get the next ids, in order"
        )


def edge_table_features(source: Any, data: EdgeData, rows: int, what: str) -> tuple[dict[str, Any], list[str]]:
    """Return the features of edges that come as a table, and notes; nothing if `source` is not a table."""
    from ..importing.node_tables import node_table  # imports this package

    if not data.features or not _is_table(source):
        return {}, []
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith((".npy", ".gl")):
        return {}, []
    return table_features(node_table(source), data, rows, what)


def table_features(
    table: Table, data: NodeData | EdgeData, rows: int, what: str
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return the features that a table has, as they are stored, and notes about values that do not fit."""
    found: dict[str, npt.NDArray[Any]] = {}
    notes = []
    for name, column in data.columns.items():
        if name not in table.names:
            known = ", ".join(map(repr, table.names))
            raise InputError(f"{what}: no column {name!r}, which the dataset has; the table has {known}")
        store = data.features[column.array]
        if column.array not in found:
            found[column.array] = np.zeros((rows, store.feature_dim), numpy_dtype(store.dtype_name))
        unknown = _put(found[column.array], column, table)
        if unknown:
            fate = f"stored as {OTHER}" if OTHER in column.names else "stored as missing"
            notes.append(f"column {name!r}: {unknown:,} values that the dataset has no category for, {fate}")
    for name, store in data.features.items():
        if name in table.names and name not in found:
            where = f"{table.name}: column {name!r}"
            parts = [numbers(part, where, 0, lists=True) for (part,) in table.batches([name])]
            found[name] = np.concatenate(parts) if parts else np.empty((0, *store.shape[1:]))
    return found, notes


def _put(out: npt.NDArray[Any], column: Column, table: Table) -> int:
    """Put the values of one column in the array that holds it; return how many are unknown categories."""
    where = f"{table.name}: column {column.name!r}"
    if column.kind == "multicategory":
        raise InputError(f"{where} holds lists of categories; pass their codes in features={{{column.array!r}: ...}}")
    at = unknown = 0
    for (part,) in table.batches([column.name]):
        values, odd = _stored(part, column, where, at)
        place = out[at : at + len(values)]
        if column.kind == "embedding":
            place[:] = values
        else:
            place[:, column.column] = values
        at, unknown = at + len(values), unknown + odd
    return unknown


def _stored(part: Any, column: Column, where: str, row: int) -> tuple[npt.NDArray[Any], int]:
    """Return the values of a batch as they are stored, and how many of them are unknown categories."""
    if column.kind == "category":
        codes, names = encoded(part, where)
        known = {name: code for code, name in enumerate(column.names)}
        other = known.get(OTHER, -1)
        places = np.array([*(known.get(str(name), other) for name in names), -1], np.int32)
        odd = np.array([*(str(name) not in known and name not in (None, "") for name in names), False])
        return places[codes], int(odd[codes].sum())
    if column.kind == "time":
        return times_or_missing(part, where, row, "s"), 0
    if column.kind == "embedding":
        return numbers(part, where, row, lists=True), 0
    return with_nan(part, where, row).astype(np.float32), 0


def _labels(table: Table, label: str, classes: Any) -> npt.NDArray[Any]:
    values, names = codes_of(table, label)
    if names is None:
        return values
    known = {name: code for code, name in enumerate(classes)} if isinstance(classes, list) else {}
    lost = next((name for name in names if name not in known and name), None)
    if lost is not None:
        listed = ", ".join(map(repr, known)) or "numbers"
        raise InputError(f"{table.name}: column {label!r}: {lost!r} is not a class of the dataset, which has {listed}")
    return np.array([*(known.get(name, -1) for name in names), -1])[values.astype(np.int64)]
