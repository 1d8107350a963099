"""Edges and nodes as streams of Arrow batches, for other engines and for Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..dataset.manifest import SPLIT_SEPARATOR
from ..sources.edge_blocks import Block, GraphFileSource
from ..sources.tables import require_pyarrow
from .columns_out import column_arrays, plain_features

if TYPE_CHECKING:
    from ..dataset.edge_data import EdgeData
    from ..dataset.node_data import NodeData
    from ..dataset.node_ids import NodeIds
    from ..stores.features import FeatureStore
    from ..stores.graph import Graph

__all__ = ["edge_stream", "free_name", "node_stream"]

_STEP = 1 << 20


def edge_stream(
    graph: Graph, data: EdgeData | None = None, source_ids: NodeIds | None = None, target_ids: NodeIds | None = None
) -> Any:
    """Return a `pyarrow.RecordBatchReader` of edges: src, dst, weight, time; with `data` its features and splits.

    With `source_ids` and `target_ids`, endpoints are original ids.
    """
    pa = require_pyarrow("Arrow streams")
    batches = _edge_batches(pa, graph, data, source_ids, target_ids)
    empty = next(_edge_batches(pa, graph, data, source_ids, target_ids, only_schema=True))
    return pa.RecordBatchReader.from_batches(empty.schema, batches)


def _edge_batches(
    pa: Any, graph: Graph, data: EdgeData | None, source: Any, target: Any, only_schema: bool = False
) -> Iterator[Any]:
    splits = {} if data is None else {n: ids for n, ids in data.splits.items() if ids.ndim == 1}
    blocks: Iterator[Block] = GraphFileSource(graph).edge_blocks()
    for block in [_no_edges(graph)] if only_schema else _small(blocks):
        ids = block.edge_ids
        columns: dict[str, Any] = {"src": _ends(pa, block.src, source), "dst": _ends(pa, block.dst, target)}
        if block.weights is not None:
            columns["weight"] = pa.array(block.weights)
        if block.times is not None:
            columns["time"] = pa.array(block.times)
        if data is not None and data.features:
            assert ids is not None, "a dataset with edge features has edge ids"
            _add_features(pa, columns, data, ids)
        if splits:
            assert ids is not None
            columns["split"] = pa.array(_split_names(splits, ids), pa.string())
        yield pa.RecordBatch.from_pydict(columns)


def _no_edges(graph: Graph) -> Block:
    none = np.empty(0, np.int64)
    weights = np.empty(0, np.float32) if graph.has_weights else None
    return Block(none, none, weights, none if graph.has_times else None, none if graph.has_edge_ids else None)


def _small(blocks: Iterator[Block]) -> Iterator[Block]:
    """Split blocks so that the features of one block stay small."""
    for block in blocks:
        for at in range(0, len(block), _STEP):
            yield block.part(slice(at, at + _STEP))


def _ends(pa: Any, ids: npt.NDArray[Any], names: NodeIds | None) -> Any:
    if names is None or not (names.mapped or names.changed):
        return pa.array(ids.astype(np.int64))
    found = names.to_original(ids.astype(np.int64))
    return pa.array(found, pa.string() if isinstance(found, list) else pa.int64())


def _rows(pa: Any, store: FeatureStore, ids: npt.NDArray[Any]) -> Any:
    """Return rows of features: a column of numbers, or of lists of one length."""
    plain = store.dtype_name != "bfloat16" and store.scale is None
    rows = store.gather(ids) if plain else store.gather(ids, dtype="float32")
    flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
    return flat if rows.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, store.feature_dim)


def _add_features(pa: Any, columns: dict[str, Any], data: NodeData | EdgeData, ids: npt.NDArray[Any]) -> None:
    """Add features, and columns of the source table with the values that they had there."""
    for name, store in plain_features(data.features, data.columns).items():
        columns[free_name(name, columns)] = _rows(pa, store, ids)
    for name, values in column_arrays(pa, data.features, data.columns, ids).items():
        columns[free_name(name, columns)] = values


def free_name(name: str, taken: Any) -> str:
    """Return the name of a feature or column in a table that has the columns `taken`."""
    return name if name not in taken else free_name(f"feature_{name}", taken)


def _split_names(splits: dict[str, npt.NDArray[np.int64]], ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    names = np.full(len(ids), None, dtype=object)
    for name, chosen in splits.items():
        place = np.searchsorted(chosen, ids)
        _add_name(names, np.flatnonzero(np.append(chosen, -1)[place] == ids), name)
    return names


def _add_name(names: npt.NDArray[Any], rows: npt.NDArray[np.int64], name: str) -> None:
    """Add the name of a split to those of some rows: a row in several splits has all names, joined by ';'."""
    taken = names[rows].astype(bool)
    names[rows[~taken]] = name
    names[rows[taken]] += f"{SPLIT_SEPARATOR}{name}"


def node_stream(data: NodeData, original: bool) -> Any:
    """Return a `pyarrow.RecordBatchReader` of nodes: id, features, label, split ("train;valid" if in several).

    original: use original ids, if ids were mapped, in place of a separate column for them.
    """
    pa = require_pyarrow("Arrow streams")
    split = np.full(data.num_nodes, None if original else "", dtype=object) if data.splits else None
    for name, ids in data.splits.items():
        assert split is not None
        _add_name(split, ids, name)
    spans = [np.arange(at, min(at + _STEP, data.num_nodes)) for at in range(0, data.num_nodes, _STEP)]
    empty = _node_batch(pa, data, np.empty(0, np.int64), split, original)
    batches = (_node_batch(pa, data, ids, split, original) for ids in spans)
    return pa.RecordBatchReader.from_batches(empty.schema, batches)


def _node_batch(pa: Any, data: NodeData, ids: npt.NDArray[np.int64], split: Any, original: bool) -> Any:
    named = data.ids.mapped or data.ids.changed
    columns: dict[str, Any] = {"id": _ends(pa, ids, data.ids if original else None)}
    if named and not original:
        columns["original"] = _ends(pa, ids, data.ids)
    _add_features(pa, columns, data, ids)
    if data.num_classes:
        labels = _rows(pa, data.label_store, ids)
        if data.label_kind == "regression":
            labels = pa.array(labels.to_numpy(zero_copy_only=False), from_pandas=True)  # NaN: none
        columns[free_name("label", columns)] = labels
    if split is not None:
        columns[free_name("split", columns)] = pa.array(split[ids], pa.string())
    return pa.RecordBatch.from_pydict(columns)
