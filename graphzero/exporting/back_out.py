"""Converts graphs to SciPy and NetworkX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FormatError
from ..sources.edge_blocks import GraphFileSource

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset
    from ..stores.graph import Graph

__all__ = ["graph_to_networkx", "to_networkx", "to_scipy"]

_MOST_NODES = 1_000_000  # default limit, since each becomes a Python object


def to_scipy(graph: Graph, direction: str | None) -> Any:
    """Return the adjacency matrix; see `Graph.to_scipy`."""
    from scipy import sparse

    side = direction or ("out" if graph.direction in ("out", "both") else "in")
    indptr, indices = graph.csr(direction=side)
    narrow = indices.dtype == np.int32 and graph.num_edges < 2**31
    data = graph._open().array(f"{side}.weights") if graph.has_weights else np.ones(graph.num_edges, np.int8)
    matrix = (sparse.csr_matrix if side == "out" else sparse.csc_matrix)(graph.shape, dtype=data.dtype)
    # assigned, because the constructor would copy the indices to check them
    matrix.data = data
    matrix.indices = indices if narrow else indices.astype(np.int64)
    matrix.indptr = indptr.astype(np.int32 if narrow else np.int64)
    matrix.has_sorted_indices = True
    return matrix


def to_networkx(dataset: Dataset, most_nodes: int | None = None) -> Any:
    """Return a NetworkX graph; see `Dataset.to_networkx`."""
    import networkx

    if len(dataset.nodes) > 1 or len(dataset.edges) > 1:
        raise ValueError("to_networkx supports one node type and one edge type; to_pyg supports several")
    limit = _MOST_NODES if most_nodes is None else most_nodes
    if dataset.num_nodes > limit:
        raise ValueError(
            f"the dataset has {dataset.num_nodes:,} nodes, more than {limit:,}, which would take gigabytes as Python "
            "objects; most_nodes= raises the limit"
        )
    graph = networkx.MultiDiGraph() if dataset.graph.num_edges else networkx.DiGraph()
    names: list[Any] = list(range(dataset.num_nodes))
    if dataset.ids.mapped or dataset.ids.changed:
        original = dataset.ids.to_original(np.arange(dataset.num_nodes))
        names = original if isinstance(original, list) else original.tolist()
    labels = dataset.labels.tolist() if dataset.num_classes else None
    none = -1 if dataset.label_kind == "classification" else None
    for i, name in enumerate(names):
        graph.add_node(name, **({} if labels is None or labels[i] == none else {"label": labels[i]}))
    _add_edges(graph, dataset.graph, names, "weight")
    return graph


def graph_to_networkx(graph: Graph, names: list[Any], parallel: bool, weight: str | None) -> Any:
    """Return a NetworkX graph of one file; `weight` is the attribute that weights become."""
    import networkx

    kinds = (
        (networkx.Graph, networkx.DiGraph),
        (networkx.MultiGraph, networkx.MultiDiGraph),
    )
    result = kinds[parallel][graph.is_directed()]()
    result.add_nodes_from(names)
    _add_edges(result, graph, names, weight)
    return result


def _add_edges(result: Any, graph: Graph, names: list[Any], weight: str | None) -> None:
    once = result.is_multigraph() and not result.is_directed()  # the file has each edge both ways
    for block in GraphFileSource(graph).edge_blocks():
        for ids in (block.src, block.dst):
            wrong = ids[(ids < 0) | (ids >= len(names))]
            if wrong.size:
                raise FormatError(
                    f"{graph.path}: damaged: an edge of node {wrong[0]}, but there are {len(names)} nodes"
                )
        weights = [None] * len(block) if block.weights is None or weight is None else block.weights.tolist()
        for u, v, value in zip(block.src.tolist(), block.dst.tolist(), weights, strict=True):
            if not once or u <= v:
                result.add_edge(names[u], names[v], **({} if value is None else {str(weight): value}))
