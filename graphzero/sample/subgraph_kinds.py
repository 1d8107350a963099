"""Subgraphs with other edges than those that were drawn: with their reverses, or all between the sampled nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray
from .hetero_subgraph import EdgeTypeName, HeteroSubgraph
from .subgraph import Subgraph

KINDS = ("directional", "bidirectional", "induced")


def check_kind(kind: str, disjoint: bool, timed: bool) -> None:
    """Raise ValueError for unknown kinds, and for those that would reveal edges that a tree must not see."""
    if kind not in KINDS:
        raise ValueError(f"subgraph is {kind!r}, expected 'directional', 'bidirectional' or 'induced'")
    if kind == "induced" and (disjoint or timed):
        other = "time=" if timed else "disjoint=True"
        raise ValueError(
            f"subgraph='induced' takes all edges between the sampled nodes and cannot be combined with {other}"
        )


def bidirectional(found: Subgraph) -> Subgraph:
    """Every edge and its reverse, each pair of nodes once, by target and then by source."""
    n = found.num_nodes
    return _with_edges(found, *_both_ways(found.row, found.col, found.row, found.col, found.edge, found.edge, n))


def induced(call: _core.TypedCall, found: Subgraph, threads: int) -> Subgraph:
    """All edges between the nodes of `found`."""
    edge_index, edge, _ = call.induce([found.node], threads)[0]
    return _with_edges(found, edge_index, edge)


def bidirectional_types(found: HeteroSubgraph) -> HeteroSubgraph:
    """The same for typed graphs: an edge type and its reverse type get each other's edges, reversed.

    The reverse of (s, r, t) is (t, "rev_" + r, s); without one, an edge type within one node type is its own reverse.
    Raises ValueError for an edge type without a reverse.
    """
    edges: dict[EdgeTypeName, tuple[IdArray, IdArray]] = {}
    for edge_type in found.edge:
        source, relation, target = edge_type
        names = [relation[4:]] if relation.startswith("rev_") else []
        known = [(target, name, source) for name in [f"rev_{relation}", *names]]
        other = next((t for t in known if t in found.edge), edge_type if source == target else None)
        if other is None:
            raise ValueError(
                f"subgraph='bidirectional' needs a reverse of each edge type; no {known[-1]!r} for {edge_type!r}, the "
                f"graph has {', '.join(repr(t) for t in found.edge)}"
            )
        # Edge ids of one type are not valid in another.
        ids = found.edge[other] if other == edge_type else np.full(len(found.edge[other]), -1)
        edges[edge_type] = _both_ways(
            *(found.row[edge_type], found.col[edge_type], found.row[other], found.col[other]),
            *(found.edge[edge_type], ids, found.num_nodes[source]),
        )
    return _with_typed_edges(found, edges)


def induced_types(call: _core.TypedCall, found: HeteroSubgraph, threads: int) -> HeteroSubgraph:
    """All edges of every type between the nodes of `found`."""
    made = call.induce(list(found.node.values()), threads)
    return _with_typed_edges(found, {t: part[:2] for t, part in zip(found.edge, made, strict=True)})


def turned(found: Subgraph) -> Subgraph:
    """The same nodes, with every edge from its other end."""
    return _with_edges(found, found.edge_index[::-1].copy(), found.edge)


def _both_ways(
    row: IdArray, col: IdArray, rev_row: IdArray, rev_col: IdArray, edge: IdArray, rev_edge: IdArray, num_sources: int
) -> tuple[IdArray, IdArray]:
    """Concatenate edges and reversed edges, and keep the first of each (source, target)."""
    sources, targets = np.concatenate([row, rev_col]), np.concatenate([col, rev_row])
    _, first = np.unique(targets * max(num_sources, 1) + sources, return_index=True)
    return np.stack([sources[first], targets[first]]), np.concatenate([edge, rev_edge])[first]


def _with_edges(found: Subgraph, edge_index: IdArray, edge: IdArray) -> Subgraph:
    more: dict[str, Any] = {"row": edge_index[0], "col": edge_index[1], "edge_index": edge_index, "edge": edge}
    return replace(found, num_sampled_edges=[], **more)


def _with_typed_edges(found: HeteroSubgraph, edges: dict[EdgeTypeName, tuple[IdArray, IdArray]]) -> HeteroSubgraph:
    return replace(
        found,
        row={t: part[0][0] for t, part in edges.items()},
        col={t: part[0][1] for t, part in edges.items()},
        edge={t: part[1] for t, part in edges.items()},
        edge_index={t: part[0] for t, part in edges.items()},
        num_sampled_edges={t: [] for t in edges},
    )
