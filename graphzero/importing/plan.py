"""The plan of an import: where edges, features, labels and splits are, before any of them is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dataset.columns import Column

__all__ = ["EdgePlan", "NodePlan", "Plan"]

_ONE = ("node", "to", "node")


@dataclass
class NodePlan:
    """One node type of a dataset to make."""

    num_nodes: int | None = None  # as the layout declares it; else as its rows, else as edges need
    features: dict[str, Any] = field(default_factory=dict)  # anything compile_features takes
    labels: Any = None  # one number per node
    splits: dict[str, Any] = field(default_factory=dict)  # ids or masks
    num_classes: int | None = None
    columns: list[Column] = field(default_factory=list)  # of its table; their values are features
    id_map: str | None = None  # the file of original ids, if they were mapped
    least_nodes: int = 0  # how many the labels by id, or the rows of a node table, need
    id_place: Callable[[int], str] | None = None  # where the id of a row is, for messages
    some_ids: bool = False  # whether the edges may have ids other than those of the rows


@dataclass
class EdgePlan:
    """One edge type of a dataset to make."""

    edges: Any  # anything compile_graph takes
    options: dict[str, Any] = field(default_factory=dict)  # of compile_graph
    features: dict[str, Any] = field(default_factory=dict)  # a row for each edge, in the order of `edges`
    splits: dict[str, Any] = field(default_factory=dict)  # edge ids, masks or pairs
    columns: list[Column] = field(default_factory=list)


@dataclass
class Plan:
    """One dataset to make. Adapters for layouts fill it in; arguments of `import_dataset` override what they found.

    A `plain` plan, made by `Plan.of`, has one node type and one edge type without names, `one` and `edge`. Without
    `typed`, a dataset of named types is loaded as a graph without types.
    """

    kind: str  # shown in the report: "edge list", "OGB folder"
    nodes: dict[str, NodePlan] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], EdgePlan] = field(default_factory=dict)
    shares: str | None = None  # splits to draw of every type with labels, such as "60/20/20"
    name: str | None = None
    about: dict[str, Any] = field(default_factory=dict)  # for the manifest: names of classes
    found: list[str] = field(default_factory=list)  # what was found in the source, one line each
    prepare: Callable[[str, int, int], None] | None = None  # (folder, memory, threads): fills in what needs reading
    reads: list[Any] = field(default_factory=list)  # files that are read in addition to the source
    typed: bool = True
    plain: bool = False
    time_unit: str = "s"
    reverse: bool = False  # add each edge type the other way round
    tasks: Callable[[Any], None] | None = None  # adds the task tables to the dataset once it is published

    @classmethod
    def of(
        cls,
        kind: str,
        edges: Any,
        options: Mapping[str, Any] | None = None,
        *,
        num_nodes: int | None = None,
        name: str | None = None,
        found: Iterable[str] = (),
    ) -> Plan:
        """Return the plan of a graph without types; `options` are those of compile_graph."""
        plan = cls(kind, name=name, found=list(found), plain=True)
        plan.add_edges(_ONE, edges, **(options or {}))
        plan.one.num_nodes = num_nodes
        return plan

    @property
    def one(self) -> NodePlan:
        """The only node type of a plain plan."""
        return self.nodes[_ONE[0]]

    @property
    def edge(self) -> EdgePlan:
        """The only edge type of a plain plan."""
        return self.edges[_ONE]

    def node(self, name: str) -> NodePlan:
        """Return the plan of a node type, created on first use."""
        return self.nodes.setdefault(name, NodePlan())

    def add_edges(self, edge_type: tuple[str, str, str], edges: Any, **options: Any) -> EdgePlan:
        """Add an edge type, and its node types."""
        for name in (edge_type[0], edge_type[2]):
            self.node(name)
        self.edges[edge_type] = EdgePlan(edges, options)
        return self.edges[edge_type]

    def keep(self, edge_types: set[tuple[str, str, str]]) -> None:
        """Leave out all other edge types, and node types that only those had; what is left may be a plain graph."""
        self.typed = self.typed and (len(edge_types) > 1 or len(self.edges) == 1)
        self.edges = {key: edge for key, edge in self.edges.items() if key in edge_types}
        used = {name for source, _, target in self.edges for name in (source, target)}
        self.nodes = {name: node for name, node in self.nodes.items() if name in used}
