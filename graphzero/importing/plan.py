"""The plan of an import: where edges, features, labels and splits are, before any of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..dataset.columns import Column

__all__ = ["EdgePlan", "NodePlan", "Plan", "TypedPlan"]


@dataclass
class Plan:
    """One dataset to make. Adapters for layouts fill it in; arguments of `import_dataset` override what they found."""

    kind: str  # shown in the report: "edge list", "OGB folder"
    edges: Any  # anything compile_graph takes
    graph: dict[str, Any] = field(default_factory=dict)  # options of compile_graph
    features: dict[str, Any] = field(default_factory=dict)  # anything compile_features takes
    labels: Any = None  # one number per node
    splits: dict[str, Any] = field(default_factory=dict)  # ids or masks
    edge_features: dict[str, Any] = field(default_factory=dict)  # a row for each edge, in the order of `edges`
    edge_splits: dict[str, Any] = field(default_factory=dict)  # edge ids, masks or pairs
    num_nodes: int | None = None  # as the layout declares it
    least_nodes: int = 0  # how many the labels by id need
    some_ids: bool = False  # whether the edges may have ids other than those of the rows
    num_classes: int | None = None
    columns: list[Column] = field(default_factory=list)  # of the node table; their values are features
    name: str | None = None
    about: dict[str, Any] = field(default_factory=dict)  # for the manifest: names of classes
    found: list[str] = field(default_factory=list)  # what was found in the source, one line each


@dataclass
class NodePlan:
    """One node type of a dataset to make."""

    num_nodes: int | None = None  # as the layout declares it; else as its rows, else as edges need
    features: dict[str, Any] = field(default_factory=dict)
    labels: Any = None
    splits: dict[str, Any] = field(default_factory=dict)
    num_classes: int | None = None
    columns: list[Column] = field(default_factory=list)  # of its table; their values are features
    id_map: str | None = None  # the file of original ids, if they were mapped


@dataclass
class EdgePlan:
    """One edge type of a dataset to make."""

    edges: Any  # anything compile_graph takes
    options: dict[str, Any] = field(default_factory=dict)  # of compile_graph
    features: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)


@dataclass
class TypedPlan:
    """A dataset of several types, or of one that has names; without `typed` it is loaded as a graph without types."""

    kind: str
    nodes: dict[str, NodePlan] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], EdgePlan] = field(default_factory=dict)
    shares: str | None = None  # splits to draw of every type with labels, such as "60/20/20"
    name: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    prepare: Callable[[str, int, int], None] | None = None  # (folder, memory, threads): fills in what needs reading
    reads: list[Any] = field(default_factory=list)  # files that are read in addition to the source
    typed: bool = True
    time_unit: str = "s"
    reverse: bool = False  # add each edge type the other way round
    tasks: Callable[[Any], None] | None = None  # adds the task tables to the dataset once it is published

    def node(self, name: str) -> NodePlan:
        """Return the plan of a node type, created on first use."""
        return self.nodes.setdefault(name, NodePlan())

    def add_edges(self, edge_type: tuple[str, str, str], edges: Any, **options: Any) -> EdgePlan:
        """Add an edge type, and its node types."""
        for name in (edge_type[0], edge_type[2]):
            self.node(name)
        self.edges[edge_type] = EdgePlan(edges, options)
        return self.edges[edge_type]

    def parts(self) -> list[NodePlan | EdgePlan]:
        """Return the plans of all types."""
        return [*self.nodes.values(), *self.edges.values()]

    def keep(self, edge_types: set[tuple[str, str, str]]) -> None:
        """Leave out all other edge types, and node types that only those had; what is left may be a plain graph."""
        self.typed = self.typed and (len(edge_types) > 1 or len(self.edges) == 1)
        self.edges = {key: edge for key, edge in self.edges.items() if key in edge_types}
        used = {name for source, _, target in self.edges for name in (source, target)}
        self.nodes = {name: node for name, node in self.nodes.items() if name in used}
