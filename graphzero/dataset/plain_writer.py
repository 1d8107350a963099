"""Writes a dataset of one node type and one edge type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..args.ids import as_count
from ..compile.graph import compile_graph
from ..errors import InputError
from ..sources.row_text import text_nodes
from ..sources.rows import is_text
from ..stores.graph import Graph
from .manifest import EdgeType, Manifest, NodeType, check_name
from .writer import DatasetWriter, MadeGraph, needs_edge_ids, rows_known

__all__ = ["PlainParts", "named_rows"]


@dataclass
class PlainParts:
    """The arguments, checked as far as possible without reading the data."""

    graph: Any
    features: dict[str, Any]
    labels: Any
    splits: Mapping[str, Any]
    edge_features: dict[str, Any]
    edge_splits: Mapping[str, Any]
    ids: str | None
    num_classes: int | None
    options: dict[str, Any]  # of compile_graph

    @classmethod
    def of(cls, graph: Any, num_nodes: Any, parts: Mapping[str, Any], options: Mapping[str, Any]) -> PlainParts:
        """Check the arguments of `Dataset.create`."""
        if parts.get("reverse"):
            raise TypeError("reverse=True is for datasets of several types; directed=False stores each edge both ways")
        classes, ids = parts.get("num_classes"), parts.get("ids")
        made = cls(
            graph,
            named_rows(parts.get("features"), "x"),
            parts.get("labels"),
            parts.get("splits") or {},
            named_rows(parts.get("edge_features"), "edge_attr"),
            parts.get("edge_splits") or {},
            None if ids is None else os.fspath(ids),
            None if classes is None else as_count(classes, "num_classes", least=1),
            dict(options) if num_nodes is None else {**options, "num_nodes": num_nodes},
        )
        for key in (*made.features, *made.splits, *made.edge_features, *made.edge_splits):
            check_name(key)
        if not _is_compiled(graph) and needs_edge_ids(made.edge_features, made.edge_splits):
            made.options.setdefault("edge_ids", True)
        return made

    def write(
        self, writer: DatasetWriter, common: dict[str, Any], dtype: Any, name: str, about: dict[str, Any]
    ) -> Manifest:
        """Write every file and return the manifest."""
        made = self._write_graph(writer, common)
        with Graph(writer.path(made.file)) as graph:
            count = graph.num_nodes  # raises for a rectangular graph
        rows = {**common, "dtype": dtype}
        node = NodeType(
            count,
            {key: writer.features(key, source, count, rows) for key, source in self.features.items()},
            None if self.labels is None else writer.labels(self.labels, self.num_classes, count, common),
            {key: writer.split(key, ids, count, common) for key, ids in self.splits.items()},
            keys=None if self.ids is None else writer.keys(self.ids, count),
        )
        parts = writer.edge_parts(made, self.edge_features, self.edge_splits, rows)
        edge = EdgeType("node", "to", "node", made.file, *parts)
        return Manifest(name, {"node": node}, {edge.key: edge}, "node", edge.key, about)

    def _write_graph(self, writer: DatasetWriter, common: dict[str, Any]) -> MadeGraph:
        """Write the topology; rows beyond the last node that has an edge are isolated nodes."""
        known, options = self._rows(), {**common, **self.options}
        declared = [name for name in ("num_nodes", "ids", "node_ids") if self.options.get(name) is not None]
        if known is None or declared:
            return writer.graph(self.graph, options)
        count, origin = known
        if not _is_compiled(self.graph):
            try:
                return writer.graph(self.graph, {**options, "num_nodes": count})
            except InputError as error:
                if "num_nodes" not in str(error):
                    raise
                raise InputError(f"{error} (the rows of {origin})") from error
        with Graph(self.graph.path if isinstance(self.graph, Graph) else self.graph) as graph:
            if self.options or not 0 < graph.shape[0] == graph.shape[1] < count:
                return writer.graph(self.graph, options)
            compile_graph(graph.path, writer.target("graph.gl"), num_nodes=count, direction=graph.direction, **common)
        return writer.made("graph.gl", None)

    def _rows(self) -> tuple[int, str] | None:
        """Return the number of rows and where they come from; None if it is unknown before reading them."""
        for what, source in (*self.features.items(), ("labels", self.labels)):
            if source is None or isinstance(source, Iterator):
                continue
            count = text_nodes(source, self.options.get("id_base") or 0) if is_text(source) else rows_known(source)
            if count is not None:
                return count, what
        return None


def _is_compiled(graph: Any) -> bool:
    return isinstance(graph, Graph) or (isinstance(graph, (str, os.PathLike)) and os.fspath(graph).endswith(".gl"))


def named_rows(rows: Any, single: str) -> dict[str, Any]:
    """Return rows by name; a single array is named `single`."""
    if rows is None:
        return {}
    return dict(rows) if isinstance(rows, Mapping) else {single: rows}
