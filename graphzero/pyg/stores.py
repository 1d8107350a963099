"""PyG's FeatureStore and GraphStore over mounted files, for PyG's loaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.data import HeteroData
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from ..dataset.dataset import Dataset
from ..stores.features import FeatureStore as Rows
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph
from ._edges import HOMOGENEOUS, EdgeType

__all__ = ["FeatureStore", "GraphStore"]

Group = str | EdgeType | None


class FeatureStore(PygFeatureStore):  # type: ignore[misc]  # PyG has no types
    """Rows of nodes and edges in `.gd` files, as PyG's `FeatureStore`. Read-only; pickles as paths.

    `data` is a `gz.Dataset` (its features, and its labels as "y"), a `gz.FeatureStore` (every array of the file), a
    dict of names to stores, or, for typed graphs, a dict of node types to such dicts. `edges` are dicts of the same
    kind for edges, with one row per edge id.

    PyG's loaders request node attributes once per batch, in one call (`_multi_get_tensor`). They cannot request edge
    attributes: in a homogeneous graph they would index them with node ids, so those are not listed here.
    `join_edges(batch)` adds them by `e_id`; pass it to a PyG loader as `transform`. It needs the edge ids that
    `graphzero.pyg.NeighborSampler` returns. `get_tensor(edge_type, "edge_attr", index=e_id)` reads them too.

    >>> store = FeatureStore(gz.Dataset("papers"))  # doctest: +SKIP
    >>> store["node", "x", torch.tensor([3, 1])]  # doctest: +SKIP
    """

    def __init__(self, data: Any = None, edges: Any = None) -> None:
        """Take stores that are already open; nothing is read."""
        super().__init__()
        if isinstance(data, Dataset):
            nodes, edges = _of_dataset(data)
        else:
            nodes, edges = _grouped(data, None), _grouped(edges, HOMOGENEOUS)
        self.__dict__["_nodes"] = nodes
        self.__dict__["_edges"] = edges

    @property
    def _rows(self) -> dict[Any, dict[str, Rows]]:
        return {**self.__dict__["_nodes"], **self.__dict__["_edges"]}

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Every node attribute, and those of typed edges; new objects, since PyG modifies them."""
        listed = dict(self.__dict__["_nodes"])
        if None not in listed:
            listed.update(self.__dict__["_edges"])
        return [TensorAttr(group, name) for group, stores in listed.items() for name in stores]

    def join_edges(self, batch: Any) -> Any:
        """Add the attributes of edges to a batch, by `e_id`, and return it: the `transform` of a PyG loader."""
        for edge_type, stores in self.__dict__["_edges"].items():
            part = batch
            if isinstance(batch, HeteroData):
                if edge_type not in batch.edge_types:
                    continue
                part = batch[edge_type]
            for name, store in stores.items():
                part[name] = rows_of(store, part.e_id)
        return batch

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        return rows_of(self._store(attr), attr.index)

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[torch.Tensor]:
        """Read all attributes of a batch: one gather per array, ids checked and converted once."""
        ids: dict[int, Any] = {}
        for attr in attrs:
            if isinstance(attr.index, torch.Tensor) and id(attr.index) not in ids:
                ids[id(attr.index)] = _as_index(attr.index)
        return [rows_of(self._store(attr), ids.get(id(attr.index), attr.index)) for attr in attrs]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        store = self._rows.get(self._group(attr), {}).get(attr.attr_name)
        if store is None:
            return None
        if attr.index is None:
            return tuple(store.shape)
        return tuple(rows_of(store, attr.index).shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise TypeError(f"the store is read-only; compile {attr.attr_name!r} with gz.compile_features")

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise TypeError("the store is read-only; delete its files instead")

    def _store(self, attr: TensorAttr) -> Rows:
        groups, group = self._rows, self._group(attr)
        if group not in groups or attr.attr_name not in groups[group]:
            known = ", ".join(f"{group!r}: {list(stores)}" for group, stores in groups.items()) or "none"
            raise KeyError(f"no attribute {attr.attr_name!r} of {attr.group_name!r}; the store has {known}")
        return groups[group][attr.attr_name]

    def _group(self, attr: TensorAttr) -> Any:
        """Return the key of an attribute's stores; "node" is the one type of a homogeneous graph."""
        return None if attr.group_name == "node" and None in self.__dict__["_nodes"] else attr.group_name

    def __repr__(self) -> str:
        """List the attributes: `FeatureStore({'paper': ['x', 'y']})`."""
        return f"FeatureStore({ {group: list(stores) for group, stores in self._rows.items()} })"


class GraphStore(PygGraphStore):  # type: ignore[misc]
    """Topologies in `.gl` files, as PyG's `GraphStore`: CSC from in-rows, CSR from out-rows. Read-only.

    `data` is a `gz.Dataset`, a `gz.Graph`, a `gz.HeteroGraph` or a dict of edge types to graphs. GraphZero's sampler
    and loaders read the files; only `get_edge_index`, `coo()` and `csc()` copy edges to RAM, in the order of the file's
    rows.
    """

    def __init__(self, data: Any) -> None:
        """Take mounted graphs."""
        super().__init__()
        self.__dict__["_graphs"] = _graphs_of(data)

    @property
    def graphs(self) -> dict[EdgeType | None, Graph]:
        """The mounted graphs by edge type; one, under None, for a homogeneous graph."""
        return dict(self.__dict__["_graphs"])

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One layout for each edge type, with its size."""
        return [
            EdgeAttr(edge_type, _layout(graph), is_sorted=_layout(graph) == EdgeLayout.CSC, size=graph.shape)
            for edge_type, graph in self.__dict__["_graphs"].items()
        ]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor] | None:
        graph = self.__dict__["_graphs"].get(edge_attr.edge_type)
        if graph is None or edge_attr.layout != _layout(graph):
            return None
        by_target = edge_attr.layout == EdgeLayout.CSC
        indptr, indices = graph.csr(direction="in" if by_target else "out")
        pointers = torch.from_numpy(indptr.astype(np.int64))
        ids = torch.from_numpy(indices.astype(np.int64))
        return (ids, pointers) if by_target else (pointers, ids)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise TypeError("the store is read-only; compile edges with gz.compile_graph")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise TypeError("the store is read-only; delete its files instead")

    def __repr__(self) -> str:
        """List the edge types."""
        return f"GraphStore({list(self.__dict__['_graphs'])})"


def edges_by_id(graph: Graph) -> tuple[torch.Tensor, Any, Any]:
    """Return all edges in the order of their ids, as (2, E); their positions in the file; and the ids.

    Ids are None if they are 0 to E - 1; edges may have been dropped, and an undirected edge has two entries.
    """
    side = "in" if graph.direction in ("in", "both") else "out"
    indptr, indices = graph.csr(direction=side)
    expanded = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    ends = np.stack([indices, expanded] if side == "in" else [expanded, indices]).astype(np.int64, copy=False)
    if not graph.has_edge_ids:
        return torch.from_numpy(ends), slice(None), None
    ids = np.array(graph._open().array(f"{side}.edge_ids"), dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    sparse = None if np.array_equal(ids, np.arange(len(ids))) else ids
    return torch.from_numpy(np.ascontiguousarray(ends[:, order])), order, sparse


def rows_of(store: Rows, index: Any) -> torch.Tensor:
    """Return rows of a store as a tensor: of ids, a mask, a slice, one number, or all (a view if possible)."""
    dtype = "float32" if store.scale is not None else None
    whole = index is None or (isinstance(index, slice) and index == slice(None))
    if whole and dtype is None:
        view = torch.from_numpy(store.get_tensor())
        return view.view(torch.bfloat16) if store.dtype_name == "bfloat16" else view
    if isinstance(index, slice) or index is None:
        index = np.arange(store.num_nodes)[index or slice(None)]
    if isinstance(index, (int, np.integer)):
        row: torch.Tensor = store.gather([int(index)], dtype=dtype, as_torch=True)[0]
        return row
    found: torch.Tensor = store.gather(_as_index(index), dtype=dtype, as_torch=True)
    return found


def _as_index(index: Any) -> Any:
    """Return the index; a mask is converted to ids."""
    if isinstance(index, torch.Tensor):
        index = index.detach().cpu().numpy()
    array = np.asarray(index)
    return np.flatnonzero(array) if array.dtype == np.bool_ else array


def _arrays(store: Rows) -> dict[str, Rows]:
    """Return every array of a file, except the factors of scaled arrays."""
    return {name: store[name] for name in store.names if not name.endswith(".scale")}


def _grouped(source: Any, group: Group) -> dict[Any, dict[str, Rows]]:
    """Return stores by group and name."""
    if source is None:
        return {}
    if isinstance(source, Rows):
        return {group: _arrays(source)}
    if not isinstance(source, Mapping):
        raise TypeError(f"expected a Dataset, a gz.FeatureStore or a dict of them, got {type(source).__name__}")
    if all(isinstance(value, Rows) for value in source.values()) and not any(isinstance(k, tuple) for k in source):
        return {group: dict(source)}
    found = {key: _arrays(value) if isinstance(value, Rows) else dict(value) for key, value in source.items()}
    for key, stores in found.items():
        for name, store in stores.items():
            if not isinstance(store, Rows):
                raise TypeError(f"{key!r}: {name!r} must be a gz.FeatureStore, got {type(store).__name__}")
    return found


def _of_dataset(ds: Dataset) -> tuple[dict[Any, dict[str, Rows]], dict[Any, dict[str, Rows]]]:
    nodes: dict[Any, dict[str, Rows]] = {}
    for name, data in ds.nodes.items():
        stores = dict(data.features)
        if data._entry.labels is not None:
            stores.setdefault("y", data.label_store)
        nodes[name if ds.is_typed else None] = stores
    edges: dict[Any, dict[str, Rows]] = {
        edge_type if ds.is_typed else HOMOGENEOUS: dict(edge.features)
        for edge_type, edge in ds.edges.items()
        if edge.features
    }
    return nodes, edges


def _graphs_of(data: Any) -> dict[Any, Graph]:
    if isinstance(data, Graph):
        return {None: data}
    if isinstance(data, Dataset):
        return {t: edge.graph for t, edge in data.edges.items()} if data.is_typed else {None: data.graph}
    if isinstance(data, HeteroGraph):
        return {t: data[t] for t in data.edge_types}
    if isinstance(data, Mapping):
        return {t: g if isinstance(g, Graph) else Graph(g) for t, g in data.items()}
    raise TypeError(f"expected a Dataset, a Graph, a HeteroGraph or a dict of graphs, got {type(data).__name__}")


def _layout(graph: Graph) -> EdgeLayout:
    return EdgeLayout.CSR if graph.direction == "out" else EdgeLayout.CSC
