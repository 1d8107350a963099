"""The result of sampling a graph of several types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..args.ids import IdArray

__all__ = ["EdgeTypeName", "HeteroSubgraph"]

EdgeTypeName = tuple[str, str, str]

# A graph without types is the case of one node type and one edge type, which have these names.
NODE = "node"
EDGE: EdgeTypeName = (NODE, "to", NODE)


@dataclass(frozen=True, eq=False)
class HeteroSubgraph:
    """A sampled neighbourhood in a typed graph, with PyG's conventions, as dicts of NumPy int64 arrays.

    Every node type and every edge type of the graph has an entry, empty if nothing was sampled. For each type, fields
    are as in `Subgraph`: `node[t]` has the seeds of type t first; an edge of (s, r, t) leads from `row`, an index into
    `node[s]`, to `col`, an index into `node[t]`; edges are grouped by hop. `num_sampled_nodes[t]` has hops + 1 numbers,
    the first is the number of seeds; `num_sampled_edges` has one per hop. `batch` is None unless disjoint.
    """

    node: dict[str, IdArray]
    row: dict[EdgeTypeName, IdArray]
    col: dict[EdgeTypeName, IdArray]
    edge: dict[EdgeTypeName, IdArray]
    batch: dict[str, IdArray] | None
    num_sampled_nodes: dict[str, list[int]]
    num_sampled_edges: dict[EdgeTypeName, list[int]]
    edge_index: dict[EdgeTypeName, IdArray]
    """(2, E) by edge type: `row` and `col` stacked, sharing their memory."""

    @classmethod
    def _of(
        cls, node_types: list[str], edge_types: list[EdgeTypeName], nodes: list[Any], edges: list[Any]
    ) -> HeteroSubgraph:
        """Create one from the result of the core, which is in the order of the types."""
        by_node = dict(zip(node_types, nodes, strict=True))
        by_edge = dict(zip(edge_types, edges, strict=True))
        disjoint = any(part[1] is not None for part in nodes)
        return cls(
            node={t: part[0] for t, part in by_node.items()},
            row={t: part[0][0] for t, part in by_edge.items()},
            col={t: part[0][1] for t, part in by_edge.items()},
            edge={t: part[1] for t, part in by_edge.items()},
            batch={t: part[1] for t, part in by_node.items()} if disjoint else None,
            num_sampled_nodes={t: part[2] for t, part in by_node.items()},
            num_sampled_edges={t: part[2] for t, part in by_edge.items()},
            edge_index={t: part[0] for t, part in by_edge.items()},
        )

    @property
    def num_nodes(self) -> dict[str, int]:
        """The number of nodes of each type."""
        return {t: len(nodes) for t, nodes in self.node.items()}

    @property
    def num_edges(self) -> dict[EdgeTypeName, int]:
        """The number of edges of each type."""
        return {t: len(edges) for t, edges in self.edge.items()}

    @property
    def num_hops(self) -> int:
        """The number of hops."""
        return len(next(iter(self.num_sampled_nodes.values()))) - 1

    def __repr__(self) -> str:
        """Return `HeteroSubgraph(author: 24 nodes, paper: 3 nodes, 26 edges, num_hops=2)`."""
        nodes = ", ".join(f"{t}: {n:,} nodes" for t, n in self.num_nodes.items())
        disjoint = ", disjoint" if self.batch is not None else ""
        edges = f"{sum(self.num_edges.values()):,} edges"
        return f"{type(self).__name__}({nodes}, {edges}, num_hops={self.num_hops}{disjoint})"
