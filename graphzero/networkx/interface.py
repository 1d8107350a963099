"""The functions that NetworkX dispatches to this backend, with NetworkX's own names and arguments."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from ..analytics.call import Call
from ..exporting.back_out import graph_to_networkx
from ..stores.graph import Graph
from .graph import CompiledGraph, Nodes, compiled
from .info import FUNCTIONS

__all__ = [*FUNCTIONS, "can_run", "convert_from_nx", "convert_to_nx"]

# -- conversions ------------------------------------------------------------------------------------------------------


def convert_from_nx(graph: Any, edge_attrs: dict[str, Any] | None = None, **_: Any) -> CompiledGraph:
    """Compile a NetworkX graph to a temporary file."""
    return compiled(graph, edge_attrs)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Return graphs as graphs of NetworkX, and anything else as it is."""
    if isinstance(result, (Graph, CompiledGraph)):
        nodes = Nodes(result)
        return graph_to_networkx(nodes.file, nodes.names(range(len(nodes))), result.is_multigraph(), nodes.weight)
    return result


def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
    """Return whether a call can be run here, or why not."""
    given = inspect.signature(globals()[name]).bind(*args, **kwargs).arguments
    if name in ("clustering", "average_clustering") and given.get("weight") is not None:
        return "clustering by weight is not implemented"
    if given.get("sort_neighbors") is not None:
        return "sort_neighbors is not implemented"
    if name in ("core_number", "clustering", "average_clustering", "transitivity") and given["G"].is_directed():
        return f"{name} of directed graphs is not implemented"
    return True


def _call(nodes: Nodes) -> Call:
    return Call(nodes.file, "auto", None, False, "auto")


# -- ranks ------------------------------------------------------------------------------------------------------------


def pagerank(
    G: Any,
    alpha: float = 0.85,
    personalization: dict[Any, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: dict[Any, float] | None = None,
    weight: str | None = "weight",
    dangling: dict[Any, float] | None = None,
) -> dict[Any, float]:
    """See `networkx.pagerank`."""
    nodes = Nodes(G)
    if len(nodes) == 0:
        return {}
    if max_iter < 1:
        raise nx.PowerIterationFailedConvergence(max_iter)
    given = [_weights(nodes, values) for values in (personalization, dangling, nstart)]
    with _call(nodes).run() as native:
        by_weight = weight is not None and weight == nodes.weight
        limit = len(nodes) * tol
        ranks, _, change = native.pagerank64("out", alpha, max_iter, limit, by_weight, *given)
    if not change < limit:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return nodes.by_name(ranks)


def _weights(nodes: Nodes, values: dict[Any, float] | None) -> Any:
    if values is None:
        return None
    found = [(i, value) for name, value in values.items() if (i := nodes.find(name)) is not None]
    weights = np.array([value for _, value in found], np.float64)
    if weights.sum() == 0:
        raise ZeroDivisionError
    return np.array([i for i, _ in found], np.int64), weights


# -- components -------------------------------------------------------------------------------------------------------


def _components(G: Any, strong: bool = False) -> tuple[Nodes, npt.NDArray[np.int32], int]:
    nodes = Nodes(G)
    with _call(nodes).run() as native:
        labels, count = native.strong_components() if strong else native.weak_components()
    return nodes, labels, count


def _one_component(G: Any, strong: bool = False) -> bool:
    nodes, _, count = _components(G, strong)
    if len(nodes) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return count == 1


def connected_components(G: Any) -> Iterator[set[Any]]:
    """See `networkx.connected_components`."""
    nodes, labels, _ = _components(G)
    yield from nodes.sets(labels)


def number_connected_components(G: Any) -> int:
    """See `networkx.number_connected_components`."""
    return _components(G)[2]


def is_connected(G: Any) -> bool:
    """See `networkx.is_connected`."""
    return _one_component(G)


def node_connected_component(G: Any, n: Any) -> set[Any]:
    """See `networkx.node_connected_component`."""
    nodes, labels, _ = _components(G)
    place = nodes.find(n)
    if place is None:
        raise KeyError(n)
    return set(nodes.names(np.flatnonzero(labels == labels[place])))


def strongly_connected_components(G: Any) -> Iterator[set[Any]]:
    """See `networkx.strongly_connected_components`."""
    nodes, labels, _ = _components(G, strong=True)
    yield from nodes.sets(labels)


def number_strongly_connected_components(G: Any) -> int:
    """See `networkx.number_strongly_connected_components`."""
    return _components(G, strong=True)[2]


def is_strongly_connected(G: Any) -> bool:
    """See `networkx.is_strongly_connected`."""
    return _one_component(G, strong=True)


weakly_connected_components: Callable[[Any], Iterator[set[Any]]] = connected_components
number_weakly_connected_components: Callable[[Any], int] = number_connected_components
is_weakly_connected: Callable[[Any], bool] = is_connected


# -- searches ---------------------------------------------------------------------------------------------------------


def _levels(nodes: Nodes, sources: list[int], limit: float | None, direction: str = "out") -> npt.NDArray[np.int32]:
    most = -1 if limit is None or limit >= len(nodes) else int(limit)
    with _call(nodes).run() as native:
        levels: npt.NDArray[np.int32] = native.levels(np.array(sources, np.int64), direction, most)
    return levels


def _ordered(nodes: Nodes, levels: npt.NDArray[np.int32]) -> dict[Any, int]:
    reached = np.flatnonzero(levels >= 0)
    order = reached[np.argsort(levels[reached], kind="stable")]
    return dict(zip(nodes.names(order), levels[order].tolist(), strict=True))


def _source(nodes: Nodes, source: Any) -> int:
    found = nodes.find(source)
    if found is None:
        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    return found


def bfs_layers(G: Any, sources: Any) -> Iterator[list[Any]]:
    """See `networkx.bfs_layers`."""
    nodes = Nodes(G)
    one = nodes.find(sources)
    if one is None and (isinstance(sources, str) or not isinstance(sources, Iterable)):
        raise nx.NetworkXError(f"The node {sources} is not in the graph.")
    starts = [one] if one is not None else [_source(nodes, source) for source in sources]
    if not starts:
        return
    levels = _levels(nodes, starts, None)
    reached = np.flatnonzero(levels >= 0)
    order = reached[np.argsort(levels[reached], kind="stable")]
    for part in np.split(order, np.flatnonzero(np.diff(levels[order])) + 1):
        yield nodes.names(part)


def descendants_at_distance(G: Any, source: Any, distance: int) -> set[Any]:
    """See `networkx.descendants_at_distance`."""
    nodes = Nodes(G)
    levels = _levels(nodes, [_source(nodes, source)], distance)
    return set(nodes.names(np.flatnonzero(levels == distance)))


def single_source_shortest_path_length(G: Any, source: Any, cutoff: float | None = None) -> dict[Any, int]:
    """See `networkx.single_source_shortest_path_length`."""
    nodes = Nodes(G)
    if nodes.find(source) is None:
        raise nx.NodeNotFound(f"Source {source} is not in G")
    return _ordered(nodes, _levels(nodes, [nodes.id(source)], cutoff))


def single_target_shortest_path_length(G: Any, target: Any, cutoff: float | None = None) -> dict[Any, int]:
    """See `networkx.single_target_shortest_path_length`."""
    nodes = Nodes(G)
    if nodes.find(target) is None:
        raise nx.NodeNotFound(f"Target {target} is not in G")
    return _ordered(nodes, _levels(nodes, [nodes.id(target)], cutoff, "in"))


def has_path(G: Any, source: Any, target: Any) -> bool:
    """See `networkx.has_path`."""
    nodes = Nodes(G)
    for what, node in (("Source", source), ("Target", target)):
        if nodes.find(node) is None:
            raise nx.NodeNotFound(f"{what} {node} is not in G")
    return bool(_levels(nodes, [nodes.id(source)], None)[nodes.id(target)] >= 0)


def bfs_edges(
    G: Any, source: Any, reverse: bool = False, depth_limit: int | None = None, sort_neighbors: None = None
) -> Iterator[tuple[Any, Any]]:
    """See `networkx.bfs_edges`. Neighbours are visited in the order of their ids."""
    nodes = Nodes(G)
    file = nodes.file
    rows = "in" if reverse and G.is_directed() else "out"
    side = None if not G.is_directed() else rows
    first = _source(nodes, source)
    seen = np.zeros(len(nodes), np.bool_)
    seen[first] = True
    queue = deque([(first, 0)])
    while queue:
        node, depth = queue.popleft()
        if depth_limit is not None and depth >= depth_limit:
            return
        fresh = np.unique(file.get_neighbours(node, direction=side))
        fresh = fresh[~seen[fresh]]
        seen[fresh] = True
        for other in fresh.tolist():
            queue.append((other, depth + 1))
            yield nodes.name(node), nodes.name(other)


def bfs_predecessors(
    G: Any, source: Any, depth_limit: int | None = None, sort_neighbors: None = None
) -> Iterator[tuple[Any, Any]]:
    """See `networkx.bfs_predecessors`."""
    for parent, child in bfs_edges(G, source, depth_limit=depth_limit):
        yield child, parent


def bfs_successors(
    G: Any, source: Any, depth_limit: int | None = None, sort_neighbors: None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """See `networkx.bfs_successors`."""
    parent = source
    children: list[Any] = []
    for node, child in bfs_edges(G, source, depth_limit=depth_limit):
        if node != parent:
            yield parent, children
            parent, children = node, []
        children.append(child)
    yield parent, children


# -- structure --------------------------------------------------------------------------------------------------------


def core_number(G: Any) -> dict[Any, int]:
    """See `networkx.core_number`."""
    nodes = Nodes(G)
    call = _call(nodes)
    with call.symmetric() as rows, call.run(rows) as native:
        if native.edge_facts(0, 0)["self_loops"]:
            raise nx.NetworkXNotImplemented(
                "Input graph has self loops which is not permitted; compile it with self_loops=False"
            )
        return nodes.by_name(native.core_numbers())


def _triangles(nodes: Nodes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the triangles of each node, and the pairs of its neighbours."""
    call = _call(nodes)
    with call.symmetric() as rows, call.run(rows) as native:
        found, degree = native.triangles()
    wide = degree.astype(np.int64)
    return found, wide * (wide - 1) // 2


def _shares(nodes: Nodes) -> npt.NDArray[np.float64]:
    found, pairs = _triangles(nodes)
    shares: npt.NDArray[np.float64] = found / np.maximum(pairs, 1)
    return shares


def triangles(G: Any, nodes: Any = None) -> Any:
    """See `networkx.triangles`."""
    known = Nodes(G)
    return known.selected(_triangles(known)[0], nodes)


def clustering(G: Any, nodes: Any = None, weight: None = None) -> Any:
    """See `networkx.clustering`."""
    known = Nodes(G)
    found = known.selected(_shares(known), nodes)
    return {name: value or 0 for name, value in found.items()} if isinstance(found, dict) else found or 0


def average_clustering(G: Any, nodes: Any = None, weight: None = None, count_zeros: bool = True) -> float:
    """See `networkx.average_clustering`."""
    values = list(clustering(G, nodes).values())
    if not count_zeros:
        values = [value for value in values if abs(value) > 0]
    return float(sum(values) / len(values))


def transitivity(G: Any) -> float:
    """See `networkx.transitivity`."""
    found, pairs = _triangles(Nodes(G))
    return 0 if not found.any() else float(found.sum() / pairs.sum())
