"""What an append adds and removes, by type: read and checked in full before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_ids
from ..args.suggest import did_you_mean
from ..sample.hetero_subgraph import EdgeTypeName
from ..sources.edge_blocks import GraphFileSource
from ..stores.graph import Graph
from .appended_edges import EdgeRequest, Edges, read_edges
from .appended_nodes import NewNodes, rows_for
from .appended_table import edge_table_features, read_table
from .edge_data import EdgeData, as_edge_split
from .manifest import edge_key
from .parts import by_edge_type, named_parts

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["AppendPlan", "ChangedEdges"]

_NONE: IdArray = np.empty(0, np.int64)
_BY_NODE = ("nodes", "features", "labels", "splits", "remove_nodes")
_BY_EDGE = ("edges", "edge_features", "edge_splits", "remove_edges")


@dataclass
class ChangedEdges:
    """What changes in one edge type. Ends are ids in the dataset."""

    data: EdgeData
    src: IdArray = field(default_factory=lambda: _NONE)
    dst: IdArray = field(default_factory=lambda: _NONE)
    weights: npt.NDArray[np.float32] | None = None
    times: IdArray | None = None
    edge_ids: IdArray | None = None  # of the edges to add, if the graph stores them
    features: dict[str, npt.NDArray[Any]] = field(default_factory=dict)  # one row per edge of the source
    splits: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    removed: tuple[IdArray, IdArray] = (_NONE, _NONE)  # pairs, all of whose edges go
    removed_ids: IdArray = field(default_factory=lambda: _NONE)  # edges to remove by id
    gone: IdArray = field(default_factory=lambda: _NONE)  # ids of all removed edges, for splits

    @property
    def given(self) -> int:
        """The number of edges to add; the graph may drop duplicates and self-loops, but features have all."""
        return len(self.src)

    @property
    def changes(self) -> bool:
        """Whether an edge is added or removed."""
        return bool(len(self.src) or len(self.removed[0]) or len(self.removed_ids))

    def reverse(self, data: EdgeData) -> ChangedEdges:
        """Return the same change for the edge type with the reverses; it shares features and edge ids."""
        return ChangedEdges(
            data,
            self.dst,
            self.src,
            self.weights,
            self.times,
            self.edge_ids,
            removed=self.removed[::-1],
            removed_ids=self.removed_ids,
            gone=self.gone,
        )


class AppendPlan:
    """The arguments of `append`, by type, checked against the dataset."""

    def __init__(
        self,
        ds: Dataset,
        given: Mapping[str, Any],
        columns: Mapping[str, Any],
        num_classes: int | None,
        options: dict[str, Any],
    ) -> None:
        """Read and check everything; `columns` are weights, times and columns of the edges."""
        self.ds, self._options = ds, options
        self.notes: list[str] = []
        typed = ds.is_typed
        by_node = {what: _by_node(ds, given.get(what), what, typed) for what in _BY_NODE}
        by_edge = {what: _by_edge(ds, given.get(what), what, typed) for what in _BY_EDGE}
        self.nodes = {name: NewNodes(data, f"[{name!r}]" if typed else "") for name, data in ds.nodes.items()}
        self._take_nodes(by_node, num_classes)
        self.edges = {kind: ChangedEdges(data) for kind, data in ds.edges.items()}
        self._mirrors = dict(_mirrors(ds))
        self._columns = {what: _by_edge(ds, value, what, typed) for what, value in columns.items()}
        for kind, source in by_edge["edges"].items():
            self._take_edges(kind, source)
        for node in self.nodes.values():
            node.check()
        for name, splits in by_node["splits"].items():
            node = self.nodes[name]
            everyone = {splits: np.ones(node.count, np.bool_)} if isinstance(splits, str) else None
            node.take_splits(everyone or named_parts(splits, None, f"splits{node.where}"))
        for kind, change in self.edges.items():
            if kind in self._mirrors:
                continue
            self._take_edge_features(kind, by_edge["edges"].get(kind), by_edge["edge_features"].get(kind))
            self._take_removed(kind, by_edge["remove_edges"].get(kind))
            change.splits = self._edge_splits(kind, by_edge["edge_splits"].get(kind))
        self.removed_nodes = self._take_removed_nodes(by_node["remove_nodes"])
        for kind, forward in self._mirrors.items():
            for what in ("edge_features", "edge_splits", "remove_edges"):
                if kind in by_edge[what]:
                    raise _mirrored(kind, forward, what)
            self.edges[kind] = self.edges[forward].reverse(ds.edges[kind])

    @property
    def memory(self) -> int:
        """The budget in bytes."""
        return int(self._options["memory"])

    def is_mirror(self, kind: EdgeTypeName) -> bool:
        """Whether an edge type holds the reverses of another, with which it changes."""
        return kind in self._mirrors

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        changes = any(change.changes or change.splits for change in self.edges.values())
        grows = any(node.count or node.splits for node in self.nodes.values())
        return not changes and not grows and not any(map(len, self.removed_nodes.values()))

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _take_nodes(self, by_node: Mapping[str, Mapping[str, Any]], num_classes: int | None) -> None:
        for name, node in self.nodes.items():
            classes = self.ds.info["about"].get("classes")
            classes = classes.get(name) if isinstance(classes, Mapping) else classes
            table = read_table(by_node["nodes"].get(name), node, classes)
            self.notes += table.notes
            if table.ids is not None:
                node.declare(table.ids)
            features = by_node["features"].get(name)
            node.take_features({**table.features, **({} if features is None else named_parts(features, "x"))})
            labels = by_node["labels"].get(name, table.labels)
            if labels is not None:
                node.take_labels(labels, num_classes)
            if table.splits:
                node.take_splits(table.splits)

    def _take_removed_nodes(self, by_node: Mapping[str, Any]) -> dict[str, IdArray]:
        """Add the edges of removed nodes to those that are removed."""
        removed = {}
        for name, given in by_node.items():
            node, what = self.nodes[name], f"remove_nodes{self.nodes[name].where}"
            removed[name] = np.unique(node.dense(given, what, grow=False))
            _core.check_ids(removed[name], what, node.before, "nodes")
        for kind, change in self.edges.items():
            ends = removed.get(kind[0], _NONE), removed.get(kind[2], _NONE)
            if kind in self._mirrors or not (len(ends[0]) or len(ends[1])):
                continue
            found = [
                (block.src[hit], block.dst[hit])
                for block in GraphFileSource(change.data.graph).edge_blocks()
                if len(hit := np.flatnonzero(np.isin(block.src, ends[0]) | np.isin(block.dst, ends[1])))
            ]
            src, dst = (np.concatenate([change.removed[side], *(f[side] for f in found)]) for side in (0, 1))
            self._remove(change, src.astype(np.int64), dst.astype(np.int64))
        return removed

    # -- edges --------------------------------------------------------------------------------------------------------

    def _take_edges(self, kind: EdgeTypeName, source: Any) -> None:
        if kind in self._mirrors:
            raise _mirrored(kind, self._mirrors[kind], "edges")
        data, ends = self.ds.edges[kind], (self.nodes[kind[0]], self.nodes[kind[2]])
        what = f"edges[{kind!r}]" if self.ds.is_typed else "edges"
        columns: dict[str, Any] = {name: by_type.get(kind) for name, by_type in self._columns.items()}
        graph = data.graph
        limits = ends[0].limit, ends[1].limit
        src, dst, found = self._read(kind, source, what, graph.has_weights, graph.has_times, limits=limits, **columns)
        ids = None
        if data.graph.has_edge_ids:
            first = data.num_ids if data.num_ids is not None else data.graph._largest_edge_id() + 1
            ids = np.arange(first, first + len(src))
        self.edges[kind] = ChangedEdges(data, src, dst, found.weights, found.times, ids)

    def _read(
        self,
        kind: EdgeTypeName,
        source: Any,
        what: str,
        weighted: bool,
        timed: bool,
        *,
        grow: bool = True,
        **columns: Any,
    ) -> tuple[IdArray, IdArray, Edges]:
        """Read edges; return their ends as ids in the dataset, and all columns."""
        ends = self.nodes[kind[0]], self.nodes[kind[2]]
        asked = EdgeRequest(
            source,
            what,
            weighted,
            timed,
            text=any(end.is_text for end in ends),
            sparse=any(end.data.ids.mapped for end in ends),
            time_unit=self.ds.time_unit,
            **columns,
            **self._options,
        )
        found = read_edges(asked)
        src, dst = (
            end.dense(_as_integers(ids, end), what, grow) for end, ids in zip(ends, (found.src, found.dst), strict=True)
        )
        return src, dst, found

    def _take_edge_features(self, kind: EdgeTypeName, source: Any, given: Any) -> None:
        change, what = self.edges[kind], f"edge_features[{kind!r}]" if self.ds.is_typed else "edge_features"
        rows = {} if given is None else named_parts(given, "edge_attr")
        if source is not None and any(name not in rows for name in change.data.features):
            found, notes = edge_table_features(source, change.data, change.given, f"edges of {kind!r}")
            rows, self.notes = {**found, **rows}, self.notes + notes
        for name in rows:
            if name not in change.data.features:
                known = ", ".join(map(repr, change.data.features)) or "none"
                hint = did_you_mean(name, change.data.features)
                raise ValueError(f"{what}: no edge feature {name!r}; the dataset has {known}{hint}")
        for name, store in change.data.features.items():
            if name not in rows:
                if change.given:
                    raise ValueError(f"{what}: {change.given} new edges need rows of {name!r}; pass {what}=")
                continue
            change.features[name] = rows_for(rows[name], store, f"{what}[{name!r}]")
            if len(change.features[name]) != change.given:
                count = len(change.features[name])
                raise ValueError(f"{what}[{name!r}] has {count} rows, expected {change.given}, one per new edge")

    def _edge_splits(self, kind: EdgeTypeName, given: Any) -> dict[str, npt.NDArray[np.int64]]:
        change, found = self.edges[kind], {}
        first = None if change.data.num_ids is None else change.data.num_ids
        shape = self.nodes[kind[0]].total, self.nodes[kind[2]].total
        for name, values in ({} if given is None else named_parts(given, None, "edge_splits")).items():
            what = f"edge_splits[{kind!r}][{name!r}]" if self.ds.is_typed else f"edge_splits[{name!r}]"
            if name not in change.data.splits:
                known = ", ".join(map(repr, change.data.splits)) or "none"
                raise ValueError(f"{what}: no such edge split; the dataset has {known}")
            old = change.data.splits[name]
            array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
            if array.dtype == np.bool_ and first is not None:
                if array.shape != (change.given,):
                    raise ValueError(
                        f"{what} is a mask of shape {array.shape}, expected ({change.given},), the new edges"
                    )
                array = first + np.flatnonzero(array)
            made = as_edge_split(array, what, None if first is None else first + change.given, shape)
            if made.ndim != old.ndim:
                kinds = {1: "edge ids", 2: "pairs of nodes"}
                raise ValueError(f"{what}: found {kinds[made.ndim]}, but the split has {kinds[old.ndim]}")
            if made.ndim == 1 and np.isin(made, old).any():
                raise ValueError(f"{what}: edge {int(made[np.isin(made, old)][0])} is in the split already")
            found[name] = made
        return found

    def _take_removed(self, kind: EdgeTypeName, given: Any) -> None:
        if given is None:
            return
        change, what = self.edges[kind], f"remove_edges[{kind!r}]" if self.ds.is_typed else "remove_edges"
        graph = change.data.graph
        array = (
            None
            if isinstance(given, (str, tuple))
            else np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        )
        if array is not None and array.ndim == 1 and array.dtype.kind in "iu" and array.size:
            if not graph.has_edge_ids:
                raise ValueError(f"{what} has one dimension, but the graph stores no edge ids; pass pairs of nodes")
            change.removed_ids = change.gone = np.unique(as_ids(array, what))
            _core.check_ids(change.removed_ids, what, change.data.num_ids or 2**62, "edges of the source")
            return
        columns: dict[str, Any] = {"columns": self._columns["columns"].get(kind), "weights": False, "times": False}
        src, dst, _ = self._read(kind, given, what, False, False, grow=False, **columns)
        _check_exist(graph, src, dst, what)
        self._remove(change, src, dst)

    def _remove(self, change: ChangedEdges, src: IdArray, dst: IdArray) -> None:
        pairs = np.unique(np.stack([src, dst]), axis=1)
        change.removed = pairs[0].copy(), pairs[1].copy()
        if change.data.graph.has_edge_ids and len(src):
            own = _pairs(change.data.graph, *change.removed)
            found = edges_of_rows(change.data.graph, *change.removed)
            change.gone = np.unique(found[2][np.isin(_pairs(change.data.graph, *found[:2]), own)])


# -- edges that exist -------------------------------------------------------------------------------------------------


def edges_of_rows(graph: Graph, src: IdArray, dst: IdArray) -> tuple[IdArray, IdArray, IdArray]:
    """Return all edges (source, target, id) in the rows that edges from `src` to `dst` are in."""
    side = "in" if graph.direction == "in" else "out"
    near = np.unique(dst if side == "in" else src)
    near = near[near < (graph.num_targets if side == "in" else graph.num_sources)]
    if graph.num_sources == graph.num_targets:
        found = graph.sample(near, [-1], direction=side, seed=0)
        far, own = (np.asarray(found.node)[np.asarray(end)] for end in (found.row, found.col))
        ids = np.asarray(found.edge)
    else:  # sampling needs one set of nodes
        rows = [graph.get_neighbours(int(node), direction=side) for node in near]
        far, own = np.concatenate([_NONE, *rows]), np.repeat(near, [len(row) for row in rows])
        stored = [graph.get_edge_ids(int(node), direction=side) for node in near] if graph.has_edge_ids else []
        ids = np.concatenate([_NONE, *stored])
    source, target = (far, own) if side == "in" else (own, far)
    return source, target, ids


def _pairs(graph: Graph, src: IdArray, dst: IdArray) -> IdArray:
    """Return pairs as one number each; those of an undirected graph in one order."""
    if graph.info["undirected"]:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    return src * max(2**31, max(graph.shape)) + dst


def _check_exist(graph: Graph, src: IdArray, dst: IdArray, what: str) -> None:
    known = edges_of_rows(graph, src, dst)
    lost = ~np.isin(_pairs(graph, src, dst), _pairs(graph, known[0], known[1]))
    if lost.any():
        at = int(np.argmax(lost))
        raise ValueError(f"{what}: there is no edge from {src[at]} to {dst[at]} (row {at})")


# -- types ------------------------------------------------------------------------------------------------------------


def _mirrors(ds: Dataset) -> Iterator[tuple[EdgeTypeName, EdgeTypeName]]:
    """Yield edge types that hold the reverses of another: named so, with as many edges and the same features."""
    for kind, data in ds.edges.items():
        other = kind[2], kind[1].removeprefix("rev_"), kind[0]
        if not kind[1].startswith("rev_") or other not in ds.edges:
            continue
        forward = ds.edges[other]
        if forward.num_edges == data.num_edges and forward._entry.features == data._entry.features:
            yield kind, other


def _mirrored(kind: EdgeTypeName, forward: EdgeTypeName, what: str) -> ValueError:
    return ValueError(f"{what}: {kind!r} has the reverses of {forward!r} and changes with it; pass {forward!r} only")


def _by_node(ds: Dataset, value: Any, what: str, typed: bool) -> dict[str, Any]:
    if value is None:
        return {}
    if not typed:
        return {next(iter(ds.nodes)): value}
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a dict by node type, got {type(value).__name__}")
    for name in value:
        if name not in ds.nodes:
            known = ", ".join(map(repr, ds.nodes))
            raise ValueError(f"{what}: no node type {name!r}; the dataset has {known}{did_you_mean(name, ds.nodes)}")
    return dict(value)


def _by_edge(ds: Dataset, value: Any, what: str, typed: bool) -> dict[EdgeTypeName, Any]:
    if value is None:
        return {}
    if typed:
        return by_edge_type(value, what, dict.fromkeys(ds.edges))
    only = next(iter(ds.edges))
    plain = isinstance(value, Mapping) and set(value) <= {only, edge_key(only)} and bool(value)
    return by_edge_type(value, what, {only: None}) if plain else {only: value}


def _as_integers(column: Any, end: NewNodes) -> Any:
    """Return ids that were read as text, because those of the other end are, as integers where they are such."""
    if end.is_text or isinstance(column, np.ndarray) or not column:
        return column
    try:
        return np.array([int(text) for text in column], np.int64)
    except ValueError:
        return column
