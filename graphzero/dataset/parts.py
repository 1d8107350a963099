"""The parts of a dataset by type, checked and then written; a dataset without types is the case of one type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..args.ids import as_count
from ..compile.graph import compile_graph
from ..errors import InputError
from ..sample.hetero_subgraph import EDGE, NODE, EdgeTypeName
from ..sources.edge_blocks import Block, GraphFileSource
from ..sources.row_text import text_nodes
from ..sources.rows import is_text
from ..stores.graph import Graph
from .manifest import EdgeType, Manifest, NodeType, check_name, edge_key
from .writer import DatasetWriter, MadeGraph, compiled_path, deltas_of, needs_edge_ids, rows_known

__all__ = ["Parts", "is_typed"]


def is_typed(graph: Any) -> bool:
    """Return whether `graph` is a dict of edge types; dicts of columns are tables."""
    return isinstance(graph, Mapping) and bool(graph) and all(isinstance(key, (tuple, list)) for key in graph)


@dataclass
class Parts:
    """The arguments of `Dataset.create` by type, checked as far as possible without reading the data."""

    graphs: dict[EdgeTypeName, Any]
    num_nodes: dict[str, int]  # declared
    features: dict[str, dict[str, Any]]
    labels: dict[str, Any]
    splits: dict[str, dict[str, Any]]
    edge_features: dict[EdgeTypeName, dict[str, Any]]
    edge_splits: dict[EdgeTypeName, dict[str, Any]]
    ids: dict[str, str]
    num_classes: dict[str, int]
    options: dict[EdgeTypeName, dict[str, Any]]  # of compile_graph
    reverse: bool = False
    node_types: list[str] = field(default_factory=list)
    typed: bool = True
    plain: bool = False  # the user named no types: files and messages do not name them either

    @classmethod
    def _of_one(cls, graph: Any, num_nodes: Any, parts: Mapping[str, Any], options: Mapping[str, Any]) -> Parts:
        """Check the arguments for a graph without types."""
        if parts.get("reverse"):
            raise TypeError("reverse=True is for datasets of several types; directed=False stores each edge both ways")
        given = {what: value for what, value in parts.items() if value is not None}
        made = cls(
            {EDGE: graph},
            {},
            {NODE: named_parts(given.get("features", {}), "x")},
            {NODE: given["labels"]} if "labels" in given else {},
            {NODE: named_parts(given.get("splits", {}), None, "splits")},
            {EDGE: named_parts(given.get("edge_features", {}), "edge_attr")},
            {EDGE: named_parts(given.get("edge_splits", {}), None, "edge_splits")},
            {NODE: os.fspath(given["ids"])} if "ids" in given else {},
            {NODE: as_count(given["num_classes"], "num_classes", least=1)} if "num_classes" in given else {},
            {EDGE: dict(options) if num_nodes is None else {**options, "num_nodes": num_nodes}},
            node_types=[NODE],
            typed=False,
            plain=True,
        )
        if compiled_path(graph, Graph, ".gl") is None and made._needs_edge_ids(EDGE):
            made.options[EDGE].setdefault("edge_ids", True)
        return made

    @classmethod
    def of(cls, graph: Any, graphs: Any, num_nodes: Any, parts: Mapping[str, Any], options: Mapping[str, Any]) -> Parts:
        """Check the arguments of `Dataset.create`; `parts` are those by type, `options` those of `compile_graph`."""
        if graphs is None:
            return cls._of_one(graph, num_nodes, parts, options)
        if not isinstance(graphs, Mapping) or not graphs:
            raise TypeError("graphs must be a dict of edge types, such as {('author', 'writes', 'paper'): edges}")
        named: dict[EdgeTypeName, Any] = {as_edge_type(key): source for key, source in graphs.items()}
        if len({edge_key(key) for key in named}) < len(named):
            raise ValueError(f"duplicate edge type name: {', '.join(map(edge_key, named))}")
        if num_nodes is not None and not isinstance(num_nodes, Mapping):
            raise TypeError(f"num_nodes must be a dict by node type, got {type(num_nodes).__name__}")
        declared = {str(t): as_count(n, f"num_nodes[{t!r}]", least=0) for t, n in (num_nodes or {}).items()}
        types = list(dict.fromkeys([*declared, *(t for source, _, target in named for t in (source, target))]))
        for name in types:
            check_name(name)
        by_node = {what: _by_type(parts.get(what), what, types) for what in ("features", "labels", "splits", "ids")}
        by_edge = {w: by_edge_type(parts.get(w), w, named) for w in ("edge_features", "edge_splits")}
        made = cls(
            named,
            declared,
            {t: named_parts(rows, "x") for t, rows in by_node["features"].items()},
            by_node["labels"],
            {t: named_parts(ids, None, f"splits[{t!r}]") for t, ids in by_node["splits"].items()},
            {t: named_parts(rows, "edge_attr") for t, rows in by_edge["edge_features"].items()},
            {t: named_parts(ids, None, f"edge_splits[{t!r}]") for t, ids in by_edge["edge_splits"].items()},
            {t: os.fspath(path) for t, path in by_node["ids"].items()},
            _classes(parts.get("num_classes"), by_node["labels"], types),
            {t: _options_of(t, named, options) for t in named},
            bool(parts.get("reverse")),
            types,
            parts.get("typed", True) is not False,
        )
        made._check_rows()
        return made

    def _check_rows(self) -> None:
        """Take undeclared counts from rows, and raise ValueError for rows that disagree."""
        origin = dict.fromkeys(self.num_nodes, "num_nodes")
        rows = [(t, f"features[{t!r}][{n!r}]", s) for t, named in self.features.items() for n, s in named.items()]
        for t, what, source in (*rows, *((t, f"labels[{t!r}]", s) for t, s in self.labels.items())):
            count = None if isinstance(source, Iterator) else rows_known(source)
            if count is None:
                continue
            known = self.num_nodes.setdefault(t, count)
            first = origin.setdefault(t, what)
            if known != count:
                message = f"{what} has {count} rows, expected {known}, one per node of type {t!r} (from {first})"
                raise ValueError(message)

    @property
    def default_node(self) -> str:
        """The type of `ds.labels` and `ds.features`: the first with labels, else with features, else the first."""
        return next(iter([*self.labels, *self.features, *self.node_types]))

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self, writer: DatasetWriter, common: dict[str, Any], dtype: Any, name: str, about: dict[str, Any]
    ) -> Manifest:
        """Write every file and return the manifest."""
        made = self._write_one_graph(writer, common) if self.plain else self._write_graphs(writer, common)
        rows = {**common, "dtype": dtype}
        nodes = {t: self._write_nodes(writer, t, common, rows) for t in self.node_types}
        edges: dict[str, EdgeType] = {}
        for edge_type, graph in made.items():
            key, features = edge_key(edge_type), self.edge_features.get(edge_type, {})
            where, given = "" if self.plain else key, self.edge_splits.get(edge_type, {})
            refs, splits, count = writer.edge_parts(graph, features, given, rows, where)
            edges[key] = EdgeType(*edge_type, graph.file, refs, splits, count)
        if self.reverse:
            for edge_type in self.graphs:
                self._write_reverse(writer, edge_type, edges, common)
        return Manifest(name, nodes, edges, self.default_node, next(iter(edges)), about, self.typed)

    def _write_nodes(self, writer: DatasetWriter, t: str, common: dict[str, Any], rows: dict[str, Any]) -> NodeType:
        count, labels = self.num_nodes[t], None
        folder, what = ("", "") if self.plain else (f"/{t}", f"[{t!r}]")
        features = self.features.get(t, {}).items()
        made = {n: writer.features(n, source, count, rows, f"features{folder}") for n, source in features}
        if t in self.labels:
            classes = self.num_classes.get(t)
            labels = writer.labels(self.labels[t], classes, count, common, f"labels{folder}.gd", f"labels{what}")
        splits = {
            n: writer.split(n, ids, count, common, f"splits{folder}", f"splits{what}")
            for n, ids in self.splits.get(t, {}).items()
        }
        keys = writer.keys(self.ids[t], count, t) if t in self.ids else None
        return NodeType(count, made, labels, splits, keys=keys)

    def _write_one_graph(self, writer: DatasetWriter, common: dict[str, Any]) -> dict[EdgeTypeName, MadeGraph]:
        """Make the topology of a dataset without types, and count its nodes."""
        made = self._write_with_rows(writer, common)
        with Graph(writer.path(made.file)) as graph:
            self.num_nodes[NODE] = graph.num_nodes  # refuses a rectangular one
        return {EDGE: made}

    def _write_with_rows(self, writer: DatasetWriter, common: dict[str, Any]) -> MadeGraph:
        """Make the only topology; rows beyond the last node that has an edge are isolated nodes."""
        source, given, file = self.graphs[EDGE], self.options[EDGE], "graph.gl"
        known, options = self._known_rows(), {**common, **given}
        if known is None or any(given.get(name) is not None for name in ("num_nodes", "ids", "node_ids")):
            return writer.graph(source, options, file)
        count, origin = known
        path = compiled_path(source, Graph, ".gl")
        if path is None:
            try:
                return writer.graph(source, {**options, "num_nodes": count}, file)
            except InputError as error:
                if "num_nodes" not in str(error):
                    raise
                raise InputError(f"{error} (the rows of {origin})") from error
        with Graph(path, deltas=deltas_of(source)) as graph:
            if given or not 0 < graph.shape[0] == graph.shape[1] < count:
                return writer.graph(source, options, file)
            compile_graph(source, writer.target(file), num_nodes=count, direction=graph.direction, **common)
        return writer.made(file, None)

    def _known_rows(self) -> tuple[int, str] | None:
        """Return how many rows there are, and of what; None where the number is only known after reading them."""
        for what, source in (*self.features[NODE].items(), ("labels", self.labels.get(NODE))):
            if source is None or isinstance(source, Iterator):
                continue
            base = self.options[EDGE].get("id_base") or 0
            count = text_nodes(source, base) if is_text(source) else rows_known(source)
            if count is not None:
                return count, what
        return None

    def _write_graphs(self, writer: DatasetWriter, common: dict[str, Any]) -> dict[EdgeTypeName, MadeGraph]:
        """Write every topology. Undeclared counts are the largest that any edge type needs."""
        made = {t: self._write_graph(writer, t, {**common, **self.options[t]}) for t in self.graphs}
        for (source, _, target), graph in made.items():
            for t, count in ((source, graph.shape[0]), (target, graph.shape[1])):
                if t not in self.num_nodes:
                    most = [g.shape[side] for e, g in made.items() for side in (0, 1) if e[2 * side] == t]
                    self.num_nodes[t] = max([count, *most])
        for edge_type, graph in made.items():
            if graph.shape != self._shape(edge_type):
                made[edge_type] = self._resize(writer, edge_type, graph, {**common, **self.options[edge_type]})
        return made

    def _needs_edge_ids(self, edge_type: EdgeTypeName) -> bool:
        return needs_edge_ids(self.edge_features.get(edge_type, {}), self.edge_splits.get(edge_type, {}))

    def _shape(self, edge_type: EdgeTypeName) -> tuple[int | None, int | None]:
        return self.num_nodes.get(edge_type[0]), self.num_nodes.get(edge_type[2])

    def _write_graph(self, writer: DatasetWriter, edge_type: EdgeTypeName, options: dict[str, Any]) -> MadeGraph:
        source, file = self.graphs[edge_type], f"graphs/{edge_key(edge_type)}.gl"
        if self._fits(edge_type, source):
            plain = {key: options[key] for key in ("memory", "num_threads", "progress")}
            return writer.graph(source, plain, file)
        counts = self._shape(edge_type)
        wanted = {"direction": "in", "num_nodes": counts if edge_type[0] != edge_type[2] else counts[0], **options}
        if self._needs_edge_ids(edge_type):
            wanted.setdefault("edge_ids", True)
        path = compiled_path(source, Graph, ".gl")
        try:
            if path is None:
                return writer.graph(source, wanted, file)
            if wanted.pop("edge_ids", False) and not Graph(path).has_edge_ids:
                raise ValueError(
                    f"{edge_type}: {path} has no edge ids, so the rows of its edge features cannot be matched to its "
                    "edges; compile it with edge_ids=True"
                )
            compile_graph(source, writer.target(file), **wanted)
            return writer.made(file, None)
        except InputError as error:
            raise InputError(f"{edge_type}: {error}") from error

    def _fits(self, edge_type: EdgeTypeName, source: Any) -> bool:
        """Whether a source is a graph file that can be linked in as it is."""
        if compiled_path(source, Graph, ".gl") is None:
            return False
        source = source if isinstance(source, Graph) else Graph(source)
        wanted = [n for n, known in zip(source.shape, self._shape(edge_type), strict=True) if known not in (None, n)]
        inward = source.direction in ("in", "both") or bool(source.info["undirected"])
        return inward and not wanted and not self.options[edge_type]

    def _resize(
        self, writer: DatasetWriter, edge_type: EdgeTypeName, graph: MadeGraph, options: dict[str, Any]
    ) -> MadeGraph:
        """Compile a topology again, after the node counts of its types are known."""
        small = writer.path(graph.file) + ".small.gl"
        os.rename(writer.path(graph.file), small)
        kept = {k: v for k, v in options.items() if k in (*_KEPT, "memory", "num_threads", "progress")}
        counts = self._shape(edge_type)
        nodes = counts if edge_type[0] != edge_type[2] else counts[0]
        try:
            compile_graph(small, writer.target(graph.file), **{"direction": "in", **kept, "num_nodes": nodes})
        finally:
            os.unlink(small)
        return writer.made(graph.file, graph.count)

    def _write_reverse(
        self,
        writer: DatasetWriter,
        edge_type: EdgeTypeName,
        edges: dict[str, EdgeType],
        common: dict[str, Any],
    ) -> None:
        """Add the reversed edges as a separate type; rows of features are shared."""
        forward = edges[edge_key(edge_type)]
        other = (edge_type[2], f"rev_{edge_type[1]}", edge_type[0])
        swapped = _Swapped(writer.path(forward.file))
        if edge_key(other) in edges or swapped.undirected:
            return
        kept = {k: v for k, v in self.options[edge_type].items() if k in _KEPT}
        nodes = self._shape(other) if other[0] != other[2] else self.num_nodes[other[0]]
        file = f"graphs/{edge_key(other)}.gl"
        compile_graph(
            swapped, writer.target(file), **{"direction": "in", **kept}, num_nodes=nodes, edge_ids=None, **common
        )
        edges[edge_key(other)] = replace(
            forward, source=other[0], relation=other[1], target=other[2], file=file, splits={}
        )


_KEPT = ("direction", "dedup", "self_loops")  # options that apply when a topology is compiled from another


class _Swapped(GraphFileSource):
    """The edges of a graph file with source and target swapped; they keep their ids."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        if isinstance(self.num_nodes, tuple):
            self.num_nodes = self.num_nodes[::-1]

    def edge_blocks(self) -> Iterator[Block]:
        for block in super().edge_blocks():
            yield Block(block.dst, block.src, block.weights, block.times, block.edge_ids)


# -- names ------------------------------------------------------------------------------------------------------------


def as_edge_type(key: Any) -> EdgeTypeName:
    """Return an edge type given as three names; raise ValueError if one is not a valid name."""
    if not isinstance(key, (tuple, list)) or len(key) != 3 or not all(isinstance(part, str) for part in key):
        raise TypeError(f"an edge type is three names (source, relation, target), got {key!r}")
    for part in key:
        check_name(part)
    check_name(edge_key(key))
    return key[0], key[1], key[2]


def _by_type(values: Any, what: str, types: list[str]) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} must be a dict by node type, got {type(values).__name__}")
    for name in values:
        if name not in types:
            raise ValueError(
                f"{what}: no node type {name!r}; the edge types have {', '.join(map(repr, types))}; "
                "declare more with num_nodes"
            )
    return dict(values)


def by_edge_type(values: Any, what: str, types: Mapping[EdgeTypeName, Any]) -> dict[EdgeTypeName, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} must be a dict by edge type, got {type(values).__name__}")
    found: dict[EdgeTypeName, Any] = {}
    for name, value in values.items():
        known = next((t for t in types if name in (t, list(t), edge_key(t))), None)
        if known is None:
            raise ValueError(f"{what}: no edge type {name!r}; the dataset has {', '.join(map(repr, types))}")
        found[known] = value
    return found


def named_parts(values: Any, single: str | None, what: str = "") -> dict[str, Any]:
    """Return values by name; a single value is named `single`."""
    if not isinstance(values, Mapping):
        if single is None:
            raise TypeError(f"{what} must be a dict by name, such as {{'train': ids}}, got {type(values).__name__}")
        values = {single: values}
    for key in values:
        check_name(key)
    return dict(values)


def _classes(given: Any, labels: Mapping[str, Any], types: list[str]) -> dict[str, int]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {
            t: as_count(n, f"num_classes[{t!r}]", least=1) for t, n in _by_type(given, "num_classes", types).items()
        }
    count = as_count(given, "num_classes", least=1)
    if len(labels) > 1:
        raise TypeError("num_classes must be a dict by node type if several types have labels")
    return dict.fromkeys(labels, count)


def _options_of(
    edge_type: EdgeTypeName, types: Mapping[EdgeTypeName, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of one edge type; an option may be a dict by edge type."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            by_type = by_edge_type(value, name, types)
            if edge_type in by_type:
                found[name] = by_type[edge_type]
        else:
            found[name] = value
    for name in ("num_nodes", "num_sources", "num_targets"):
        if name in found:
            raise TypeError(f"{name}: use num_nodes={{type: count}} for a dataset of several types")
    if found.get("directed") is False and edge_type[0] != edge_type[2]:
        raise ValueError(f"directed=False needs edges within one node type, not {edge_type}; use reverse=True")
    return found
