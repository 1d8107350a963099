"""The data of one edge type: its topology, rows of features by edge id, and splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_ids
from ..args.suggest import did_you_mean
from ..errors import FormatError
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.edge_column import edge_column
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from .columns import Column
from .manifest import MANIFEST, EdgeType, Manifest, edge_key
from .node_data import Lazy, Mounter, check_columns, read_whole
from .node_ids import check_range

__all__ = ["EdgeData", "EdgeTypes", "mount_graph"]

_STEP = 1 << 22  # edge ids per block in verify


class EdgeData:
    """The data of one edge type: `ds.edges["author", "writes", "paper"].features["year"]`.

    Rows of features are indexed by edge id, the position of an edge in the source; the topology stores the ids. A split
    is a vector of edge ids, or a matrix of (source, target) pairs, which need not be edges of the graph, such as
    held-out edges.
    """

    def __init__(self, folder: str, key: str, manifest: Manifest, graph: Callable[[], Graph]) -> None:
        """Mount the files of edge type `key`, of the manifest in `folder`; no row is read yet."""
        self._entry = entry = manifest.edges[key]
        self._graph = graph
        self._where = f"{os.path.join(folder, MANIFEST)}: edges.{entry.key}"
        files = _Files(folder, manifest, self._where, entry)  # does not refer to this object, as in NodeData
        features = Lazy("edge feature", list(entry.features), files.feature)
        splits = Lazy("edge split", list(entry.splits), files.split)
        for stores in (features, splits):
            stores.pin()
        self.features: Mapping[str, FeatureStore] = features
        self.split_stores: Mapping[str, FeatureStore] = splits
        self.splits: Mapping[str, IdArray] = Lazy("edge split", list(splits), lambda name: read_whole(splits[name]))

    @property
    def edge_type(self) -> EdgeTypeName:
        """(source type, relation, target type)."""
        return self._entry.type

    @property
    def graph(self) -> Graph:
        """The topology."""
        return self._graph()

    @property
    def num_edges(self) -> int:
        """The number of edges that the topology stores."""
        return self.graph.num_edges

    @property
    def num_ids(self) -> int | None:
        """The number of edges of the source, an upper bound of edge ids; None if unknown."""
        return self._entry.count

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns of the table that the edges come from, by name; their values are in `features`."""
        return {column.name: column for column in self._entry.columns}

    def to_arrow(self) -> Any:
        """The edges as a `pyarrow.RecordBatchReader`: src, dst, weight, time, then edge features and the split."""
        from ..exporting.arrow_out import edge_stream

        return edge_stream(self.graph, self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the edges through Arrow's C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def verify(self) -> None:
        """Raise FormatError at the first edge id or pair that is out of range."""
        graph, count = self.graph, self._entry.count
        check_columns(self._entry.columns, self.features, self._where)
        if count is not None and graph.has_edge_ids:
            side = "in" if graph.direction == "in" else "out"
            ids = edge_column(graph, side, "edge_ids")
            for at in range(0, len(ids), _STEP):
                check_range(ids[at : at + _STEP], 0, count, f"{graph.path}: {side}.edge_ids (from {at} on)", "edge id")
        for name in self.splits:
            where, values = f"{self._where}.splits.{name}", self.splits[name]
            if values.ndim == 1:
                check_range(values, 0, _most(count, graph), where, "edge id")
                continue
            for column, (side, most) in enumerate(zip(("source", "target"), graph.shape, strict=True)):
                check_range(values[:, column], 0, most, f"{where}, {side}", "node id")

    def __repr__(self) -> str:
        """Return `EdgeData(('author', 'writes', 'paper'), num_edges=9, features=['year'], splits=[])`."""
        return (
            f"EdgeData({self.edge_type}, num_edges={self.num_edges:,}, features={list(self.features)}, "
            f"splits={list(self.splits)})"
        )


class EdgeTypes(Mapping[EdgeTypeName, EdgeData]):
    """Edge data by type: (source, relation, target), or the three joined by two underscores."""

    def __init__(self, types: Mapping[EdgeTypeName, EdgeData]) -> None:
        """Take the data of each type."""
        self._types = dict(types)

    def __getitem__(self, edge_type: Any) -> EdgeData:
        """Return the data of a type."""
        for known, data in self._types.items():
            if edge_type in (known, edge_key(known)):
                return data
        names = ", ".join(map(repr, self._types)) or "none"
        raise KeyError(f"no edge type {edge_type!r}; the dataset has {names}{did_you_mean(edge_type, self._types)}")

    def __iter__(self) -> Iterator[EdgeTypeName]:
        """Iterate over the types."""
        return iter(self._types)

    def __len__(self) -> int:
        """Return the number of types."""
        return len(self._types)

    def __repr__(self) -> str:
        """List the types."""
        return f"<edge types: {', '.join(map(str, self._types))}>"


class _Files(Mounter):
    """Mounts the files of an edge type."""

    def __init__(self, folder: str, manifest: Manifest, where: str, entry: EdgeType) -> None:
        super().__init__(folder, manifest, where, "edge of the source")
        self._entry = entry

    def feature(self, name: str) -> FeatureStore:
        return self.store(self._entry.features[name], f"features.{name}", self._entry.count)

    def split(self, name: str) -> FeatureStore:
        store = self.store(self._entry.splits[name], f"splits.{name}", None)
        if store.dtype != np.int64 or (len(store.shape) == 2 and store.shape[1] != 2):
            found = f"{store.dtype} of shape {store.shape}"
            raise FormatError(
                f"{self._where}.splits.{name}: found {found}, expected int64: a vector of edge ids, or pairs"
            )
        return store


def _most(count: int | None, graph: Graph) -> int:
    return graph.num_edges if count is None else count


def as_edge_split(values: Any, what: str, count: int | None, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return an edge split: ascending edge ids of a vector or a mask, or pairs of shape (n, 2), unchanged.

    An array of shape (2, 2) is read as two pairs, as a split is stored.
    """
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.dtype == np.bool_:
        if count is None or array.shape != (count,):
            raise ValueError(
                f"{what} is a mask of shape {array.shape}, expected ({count},), one per edge of the source"
            )
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0 if array.ndim == 1 else (0, 2), np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {array.dtype}")
    if array.ndim == 1:
        ids = as_ids(array, what)
        if count is not None:
            _core.check_ids(ids, what, count, "edges of the source")
        return np.sort(ids)
    if array.ndim != 2 or 2 not in array.shape:
        raise ValueError(f"{what} has shape {array.shape}, expected edge ids, or pairs of shape (n, 2) or (2, n)")
    pairs = np.ascontiguousarray(array if array.shape[1] == 2 else array.T, dtype=np.int64)
    for column, most in enumerate(shape):
        _core.check_ids(np.ascontiguousarray(pairs[:, column]), f"{what}[:, {column}]", most, "nodes")
    return pairs


def mount_graph(path: str, manifest: Manifest, name: str) -> Graph:
    """Mount the topology of an edge type; raise FormatError if its node counts differ from those of its node types."""
    edge = manifest.edges[name]
    file, deltas = manifest.paths(path, edge.file)
    graph = Graph(file, deltas=deltas)
    expected = manifest.nodes[edge.source].count, manifest.nodes[edge.target].count
    if graph.shape != expected:
        where = f"{os.path.join(path, MANIFEST)}: edges.{name}"
        (sources, targets), (s, t) = graph.shape, expected
        found = f"{sources} nodes" if sources == targets else f"{sources} source and {targets} target nodes"
        wanted = str(s) if edge.source == edge.target else f"{s} of {edge.source!r} and {t} of {edge.target!r}"
        raise FormatError(f"{where}: {edge.file} has {found}, expected {wanted}")
    return graph
