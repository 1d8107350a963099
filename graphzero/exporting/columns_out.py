"""Columns of tables as they were before they became inputs of models: values, names of categories, times, nulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..dataset.columns import MISSING_TIME, OTHER, Column
from ..stores.features import FeatureStore

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset
    from ..dataset.edge_data import EdgeData
    from ..dataset.node_data import NodeData

__all__ = ["column_arrays", "flat_lists", "joined_notes", "plain_features"]

_STEP = 1 << 20


def plain_features(features: Mapping[str, FeatureStore], columns: Mapping[str, Column]) -> dict[str, FeatureStore]:
    """Return the features that do not hold columns of a table."""
    taken = {column.array for column in columns.values()}
    return {name: features[name] for name in features if name not in taken}


def column_arrays(
    pa: Any, features: Mapping[str, FeatureStore], columns: Mapping[str, Column], ids: npt.NDArray[Any]
) -> dict[str, Any]:
    """Return the columns of a table as Arrow arrays, for the rows `ids`. Numbers are float32, as they are stored."""
    rows = {array: features[array].gather(ids) for array in dict.fromkeys(c.array for c in columns.values())}
    return {name: _restored(pa, column, rows[column.array]) for name, column in columns.items()}


def _restored(pa: Any, column: Column, rows: npt.NDArray[Any]) -> Any:
    if column.kind == "embedding":
        missing = np.isnan(rows).all(axis=1)
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1], mask=pa.array(missing))
    if column.kind == "multicategory":
        names = pa.array(column.names, pa.string()).take(pa.array(rows[rows >= 0]))
        ends = np.concatenate([[0], np.cumsum((rows >= 0).sum(axis=1))])
        return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), names)
    values = rows[:, column.column]
    if column.kind == "category":
        codes = pa.array(values, mask=values < 0)
        return pa.array(column.names, pa.string()).take(codes)
    if column.kind == "time":
        return pa.array(values.astype("datetime64[s]"), mask=values == MISSING_TIME)
    missing = np.isnan(values)
    if column.kind == "bool":
        return pa.array(np.where(missing, 0, values) != 0, mask=missing)
    return pa.array(values, mask=missing)


def joined_notes(dataset: Dataset) -> list[str]:
    """Return a line for each column of a dataset with values that were joined as "(other)" when it was imported."""
    notes = []
    parts: list[tuple[str, NodeData | EdgeData]] = list(dataset.nodes.items())
    parts += [(" ".join(edge_type), edge) for edge_type, edge in dataset.edges.items()]
    for of, data in parts:
        for name, column in data.columns.items():
            if OTHER not in (column.names if column.kind in ("category", "multicategory") else ()):
                continue
            store, code = data.features[column.array], column.names.index(OTHER)
            count = sum(
                int((_codes(column, store.gather(np.arange(at, min(at + _STEP, len(store))))) == code).sum())
                for at in range(0, len(store), _STEP)
            )
            where = f" of {of}" if dataset.is_typed else ""
            notes.append(f"column {name!r}{where}: {count:,} rare values, joined by the import, are written as {OTHER}")
    return notes


def _codes(column: Column, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return rows if column.kind == "multicategory" else rows[:, column.column]


def flat_lists(pa: Any, batch: Any) -> Any:
    """Return a batch without lists, which CSV does not have: `x_0`, `x_1`, ... for a matrix, `a;b` for names."""
    columns: dict[str, Any] = {}
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_fixed_size_list(field.type):
            for at in range(field.type.list_size):
                columns[f"{field.name}_{at}"] = pa.compute.list_element(values, at)
        elif pa.types.is_list(field.type):
            columns[field.name] = pa.compute.binary_join(values, ";")
        else:
            columns[field.name] = values
    return pa.RecordBatch.from_pydict(columns)
