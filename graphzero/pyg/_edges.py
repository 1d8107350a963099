"""Reads graphs from PyG's objects: edge lists by type, node counts, times and weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler.utils import to_csc

__all__ = ["HOMOGENEOUS", "EdgeList", "EdgeType", "GraphContents", "describe", "is_remote"]

EdgeType = tuple[str, str, str]
HOMOGENEOUS: EdgeType = ("node", "to", "node")  # the name of the one type of a `Data` in files


@dataclass(frozen=True)
class EdgeList:
    """The edges of one type in the order of their ids, with the attributes used for sampling."""

    row: torch.Tensor
    col: torch.Tensor
    num_sources: int
    num_targets: int
    weights: torch.Tensor | None = None
    times: torch.Tensor | None = None

    def tensors(self) -> list[torch.Tensor]:
        """All tensors that are not None."""
        return [t for t in (self.row, self.col, self.weights, self.times) if t is not None]

    def reversed(self) -> EdgeList:
        """The same edges from target to source."""
        return EdgeList(self.col, self.row, self.num_targets, self.num_sources, self.weights, self.times)


@dataclass
class GraphContents:
    """A graph read from PyG's objects. A homogeneous graph has the single edge type `HOMOGENEOUS`."""

    homogeneous: bool
    num_nodes: dict[str, int]
    edges: dict[EdgeType, EdgeList]
    node_time: dict[str, torch.Tensor] = field(default_factory=dict)
    edge_timed: bool = False
    weighted: bool = False


def is_remote(data: Any) -> bool:
    """Whether `data` is a pair (FeatureStore, GraphStore)."""
    from torch_geometric.data import FeatureStore, GraphStore

    return (
        isinstance(data, (tuple, list))
        and len(data) == 2
        and isinstance(data[0], FeatureStore)
        and isinstance(data[1], GraphStore)
        and not isinstance(data[0], (Data, HeteroData))
    )


def describe(data: Any, time_attr: str | None, weight_attr: str | None) -> GraphContents:
    """Return the contents of a `Data`, a `HeteroData` or a pair (FeatureStore, GraphStore). Tensors are not copied."""
    if isinstance(data, Data):
        return _homogeneous(data, time_attr, weight_attr)
    if isinstance(data, HeteroData):
        return _heterogeneous(data, time_attr, weight_attr)
    if is_remote(data):
        if weight_attr is not None:
            raise NotImplementedError(
                "weight_attr is not supported for (FeatureStore, GraphStore); pass a Data, a HeteroData, a Dataset or "
                "a Graph compiled with weights"
            )
        return _remote(data[0], data[1], time_attr)
    raise ValueError(
        "expected a Data, a HeteroData, a pair (FeatureStore, GraphStore), a Dataset, a Graph or a HeteroGraph, "
        f"got {type(data).__name__}"
    )


def as_times(values: Any, what: str) -> torch.Tensor:
    """Return timestamps as int64; raise TypeError for floats."""
    times = torch.as_tensor(values)
    if times.is_floating_point() or times.is_complex() or times.dtype == torch.bool:
        raise TypeError(f"{what} must hold integers (int64 timestamps), got {times.dtype}")
    return times.detach().cpu().to(torch.int64).reshape(-1)


def _neither(time_attr: str) -> ValueError:
    return ValueError(f"The time attribute '{time_attr}' is neither a node-level or edge-level attribute")


# -- Data -------------------------------------------------------------------------------------------------------------


def _homogeneous(data: Data, time_attr: str | None, weight_attr: str | None) -> GraphContents:
    count = int(data.num_nodes or 0)
    node_time, times = {}, None
    if time_attr is not None:
        if time_attr not in data:
            raise _neither(time_attr)
        if data.is_node_attr(time_attr):
            node_time["node"] = as_times(data[time_attr], time_attr)
        elif data.is_edge_attr(time_attr):
            times = as_times(data[time_attr], time_attr)
        else:
            raise _neither(time_attr)
    weights = None if weight_attr is None else data[weight_attr].reshape(-1)
    row, col = _endpoints(data, count)
    edges = EdgeList(row, col, count, count, weights, times)
    return GraphContents(True, {"node": count}, {HOMOGENEOUS: edges}, node_time, times is not None, weights is not None)


def _endpoints(store: Any, num_targets: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sources and targets of a store's edges in the order of its edge attributes."""
    if "edge_index" in store and store.edge_index is not None:
        edge_index = store.edge_index
        if hasattr(edge_index, "as_tensor"):  # an EdgeIndex
            edge_index = edge_index.as_tensor()
        return edge_index[0], edge_index[1]
    if "adj_t" in store or "adj" in store:  # a SparseTensor: its values are in the order of the matrix
        colptr, row, _ = to_csc(store, device="cpu")
        return row, torch.repeat_interleave(torch.arange(num_targets), colptr.diff())
    return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)


# -- HeteroData -------------------------------------------------------------------------------------------------------


def _heterogeneous(data: HeteroData, time_attr: str | None, weight_attr: str | None) -> GraphContents:
    node_types, edge_types = data.metadata()
    contents = GraphContents(False, {t: int(data[t].num_nodes or 0) for t in node_types}, {})
    edge_times: dict[EdgeType, torch.Tensor] = {}
    if time_attr is not None:
        contents.node_time = {t: as_times(data[t][time_attr], time_attr) for t in node_types if time_attr in data[t]}
        edge_times = {t: as_times(data[t][time_attr], time_attr) for t in edge_types if time_attr in data[t]}
        if contents.node_time and edge_times:
            raise ValueError(f"The time attribute '{time_attr}' holds both node-level and edge-level information")
        if not contents.node_time and not edge_times:
            raise _neither(time_attr)
        contents.edge_timed = bool(edge_times)
    for edge_type in edge_types:
        store, targets = data[edge_type], contents.num_nodes[edge_type[2]]
        row, col = _endpoints(store, targets)
        weights = None
        if weight_attr is not None:  # edges of a type without weights get equal weights
            weights = store[weight_attr].reshape(-1) if weight_attr in store else torch.ones(len(row))
            contents.weighted = True
        contents.edges[edge_type] = EdgeList(
            row, col, contents.num_nodes[edge_type[0]], targets, weights, edge_times.get(edge_type)
        )
    return contents


# -- (FeatureStore, GraphStore) ---------------------------------------------------------------------------------------

_PREFERRED = [EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR]  # PyG's order of preference


def _remote(features: Any, graph: Any, time_attr: str | None) -> GraphContents:
    """Read the edges in the order of the store, which defines edge ids."""
    attrs = graph.get_all_edge_attrs()
    if time_attr is not None and any(attr.layout == EdgeLayout.CSR for attr in attrs):
        raise ValueError("Temporal sampling requires that edges are stored in either COO or CSC layout")
    homogeneous = all(attr.edge_type is None for attr in attrs)
    attrs = attrs[:1] if homogeneous else sorted(attrs, key=lambda attr: _PREFERRED.index(attr.layout))
    contents = GraphContents(homogeneous, {}, {})
    if homogeneous:
        contents.num_nodes["node"] = max(attrs[0].size)
    else:
        named = {attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)}
        for node_type in sorted(named):
            contents.num_nodes[node_type] = int(remote_backend_utils.size(features, graph, node_type))
    times = {} if time_attr is None else _remote_times(features, time_attr, contents)
    seen = set()
    for attr in attrs:
        if attr.edge_type in seen:  # a type may have several layouts, each with its own order of edges
            continue
        seen.add(attr.edge_type)
        row, col = graph.get_edge_index(attr) if attr.layout == EdgeLayout.COO else _as_coo(graph, attr)
        sizes = (contents.num_nodes["node"],) * 2 if homogeneous else attr.size
        edge_type = HOMOGENEOUS if homogeneous else attr.edge_type
        if not homogeneous:
            for node_type, size in zip((edge_type[0], edge_type[2]), sizes, strict=True):
                contents.num_nodes.setdefault(node_type, int(size))
            sizes = (contents.num_nodes[edge_type[0]], contents.num_nodes[edge_type[2]])
        contents.edges[edge_type] = EdgeList(row, col, sizes[0], sizes[1], None, times.get(edge_type))
    return contents


def _as_coo(graph: Any, attr: Any) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = graph.get_edge_index(attr)  # (row, colptr), or (rowptr, col)
    pointers = second if attr.layout == EdgeLayout.CSC else first
    expanded = torch.repeat_interleave(torch.arange(len(pointers) - 1), pointers.diff())
    return (first, expanded) if attr.layout == EdgeLayout.CSC else (expanded, second)


def _remote_times(features: Any, time_attr: str, contents: GraphContents) -> dict[EdgeType, torch.Tensor]:
    """Fill in node times, or return the times of edges by type."""
    groups = {}
    for attr in features.get_all_tensor_attrs():
        if attr.attr_name == time_attr:
            attr.index = None
            groups[attr.group_name] = as_times(features.get_tensor(attr), time_attr)
    if contents.homogeneous:
        if len(groups) != 1:
            raise ValueError("Temporal sampling specified but did not find any temporal data")
        (times,) = groups.values()
        if time_attr == "time":  # as in PyG, an attribute of this name belongs to nodes, any other to edges
            contents.node_time["node"] = times
            return {}
        contents.edge_timed = True
        return {HOMOGENEOUS: times}
    of_nodes = {name: times for name, times in groups.items() if isinstance(name, str)}
    of_edges = {name: times for name, times in groups.items() if isinstance(name, tuple)}
    if of_nodes and of_edges:
        raise ValueError(f"Found time attribute '{time_attr}' for both node-level and edge-level types")
    if not groups:
        raise _neither(time_attr)
    contents.node_time, contents.edge_timed = of_nodes, bool(of_edges)
    return of_edges
