"""A dataset of one kind of node and one kind of edge, from whatever the user has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _manifest
from ._dataset_writer import DatasetWriter, needs_edge_ids
from ._ids import as_count
from .graph import Graph

__all__ = ["PlainParts", "named_rows"]


@dataclass
class PlainParts:
    """What was asked for, checked as far as that is possible without reading it."""

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
            _manifest.check_name(key)
        compiled = isinstance(graph, Graph) or (
            isinstance(graph, (str, os.PathLike)) and os.fspath(graph).endswith(".gl")
        )
        if not compiled and needs_edge_ids(made.edge_features, made.edge_splits):
            made.options.setdefault("edge_ids", True)
        return made

    def write(
        self, writer: DatasetWriter, common: dict[str, Any], dtype: Any, name: str, about: dict[str, Any]
    ) -> _manifest.Manifest:
        """Make every file and return the manifest."""
        made = writer.graph(self.graph, {**common, **self.options})
        with Graph(writer.path(made.file)) as graph:
            count = graph.num_nodes  # refuses a rectangular one
        rows = {**common, "dtype": dtype}
        node = _manifest.NodeType(
            count,
            {key: writer.features(key, source, count, rows) for key, source in self.features.items()},
            None if self.labels is None else writer.labels(self.labels, self.num_classes, count, common),
            {key: writer.split(key, ids, count, common) for key, ids in self.splits.items()},
            keys=None if self.ids is None else writer.keys(self.ids, count),
        )
        parts = writer.edge_parts(made, self.edge_features, self.edge_splits, rows)
        edge = _manifest.EdgeType("node", "to", "node", made.file, *parts)
        return _manifest.Manifest(name, {"node": node}, {edge.key: edge}, "node", edge.key, about)


def named_rows(rows: Any, single: str) -> dict[str, Any]:
    """Return rows by name; what is given alone is called `single`."""
    if rows is None:
        return {}
    return dict(rows) if isinstance(rows, Mapping) else {single: rows}
