"""PyG's NeighborLoader and LinkNeighborLoader over files: the same arguments and batches, built by native threads."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import BaseSampler

from ..args.keywords import known_keywords
from ..dataset.dataset import Dataset
from ..load.loader import LinkNeighborLoader as NativeLinkLoader
from ..load.loader import NeighborLoader as NativeNodeLoader
from ..load.seeds import is_edge_type
from ._edges import is_remote
from ._native import NativeEpochs, why_not_native, without_workers
from .sampler import NeighborSampler
from .stores import FeatureStore, GraphStore, edges_by_id

__all__ = ["LinkNeighborLoader", "NeighborLoader"]


class NeighborLoader(NativeEpochs, NodeLoader):  # type: ignore[misc]  # PyG has no types
    """PyG's `NeighborLoader`: a drop-in replacement.

    `data` is a `Data`, a `HeteroData`, a pair (FeatureStore, GraphStore), or a `gz.Dataset`, whose features, labels
    ("y") and edge features become attributes of the batches. Objects in memory are compiled once into temporary files
    (`compile_seconds` is the time that took), which the loaders of one object share.

    Batches are `Data` or `HeteroData`, with PyG's attributes. If `native` is True they come from `gz.NeighborLoader`:
    sampled and prefetched by native threads, within `memory`. Options for worker processes are then ignored, with one
    warning. Otherwise PyG's own loader runs, including its workers, on GraphZero's sampler and stores;
    `why_not_native` is the reason.

    A run is reproducible with `torch.manual_seed`, or with `generator=`. Under torch.distributed each process loads its
    own `input_nodes`, as in PyG.

    >>> from graphzero.pyg import NeighborLoader  # doctest: +SKIP
    >>> loader = NeighborLoader(data, num_neighbors=[15, 10], input_nodes=data.train_mask,
    ...                         batch_size=1024, shuffle=True)  # doctest: +SKIP
    """

    @known_keywords(NodeLoader.__init__, torch.utils.data.DataLoader.__init__)
    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        memory: int | float | str = "auto",
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        cache_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take PyG's arguments; `memory`, `prefetch`, `num_threads` and `device` are those of `gz.NeighborLoader`."""
        if input_time is not None and time_attr is None:
            raise ValueError("'input_time' is given without 'time_attr'; temporal sampling needs both")
        started = clock.perf_counter()
        sampling = (subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr)
        sampler = neighbor_sampler or NeighborSampler(
            data, num_neighbors, *sampling, directed=directed, cache_dir=cache_dir
        )
        given = {**kwargs, "transform_sampler_output": transform_sampler_output, "neighbor_sampler": neighbor_sampler}
        self.why_not_native = why_not_native(data, sampler, given)
        self._user_transform = transform
        stores = _as_stores(data)
        super().__init__(
            data=data if stores is None else stores,
            node_sampler=sampler,
            input_nodes=_as_input_nodes(data, input_nodes),
            input_time=input_time,
            transform=transform if stores is None else _JoinEdges(stores[0], transform),
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **(without_workers(kwargs) if self.native else kwargs),
        )
        if self.native:
            options = {"memory": memory, "prefetch": prefetch, "num_threads": num_threads, "device": device}
            self._start_native(data if stores is None else stores[0], sampler, **options)
        self.compile_seconds = clock.perf_counter() - started

    def _make_native(self, graph: Any, **options: Any) -> NativeNodeLoader:
        inputs, sampler = self.input_data, self.node_sampler
        sampler.check_times(inputs.time)
        node_type = inputs.input_type or (None if "node_time" not in options else "node")
        return NativeNodeLoader(
            graph,
            seeds=inputs.node,
            input_type=node_type,
            time=None if inputs.time is None else inputs.time.numpy(),
            batch_size=self.batch_size,
            shuffle=isinstance(self.sampler, torch.utils.data.RandomSampler),
            drop_last=self.drop_last,
            **options,
        )


class LinkNeighborLoader(NativeEpochs, LinkLoader):  # type: ignore[misc]
    """PyG's `LinkNeighborLoader`: a drop-in replacement.

    Works like `NeighborLoader`; native batches are those of `gz.LinkNeighborLoader`, for edges without times. As in
    PyG, the edges of a batch are not excluded from its samples (`gz.LinkNeighborLoader` can do that), and a negative
    may be an edge. For a `gz.Dataset`, `edge_label_index` is a tensor (2, E), or for typed ones (edge_type, tensor);
    None, or (edge_type, None), takes all edges in the order of their ids, and `edge_label` and `edge_label_time` then
    have one entry per edge id.
    """

    @known_keywords(LinkLoader.__init__, torch.utils.data.DataLoader.__init__)
    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        memory: int | float | str = "auto",
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        cache_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take PyG's arguments, and those of the native loader that `NeighborLoader` takes."""
        if (edge_label_time is None) != (time_attr is None):
            there, missing = (
                ("time_attr", "edge_label_time") if edge_label_time is None else ("edge_label_time", "time_attr")
            )
            raise ValueError(
                f"Received conflicting 'edge_label_time' and 'time_attr' arguments: '{missing}' is not set while "
                f"'{there}' is set. Both arguments must be provided for temporal sampling."
            )
        started = clock.perf_counter()
        sampling = (subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr)
        sampler = neighbor_sampler or NeighborSampler(
            data, num_neighbors, *sampling, directed=directed, cache_dir=cache_dir
        )
        given = {**kwargs, "transform_sampler_output": transform_sampler_output, "neighbor_sampler": neighbor_sampler}
        self.why_not_native = why_not_native(data, sampler, given)
        if self.native and time_attr is not None:
            self.why_not_native = "edges or nodes have times"
        self._user_transform = transform
        stores = _as_stores(data)
        ours = stores if stores is not None or not is_remote(data) else data
        if ours is not None and isinstance(ours[1], GraphStore):
            edge_label_index, ids = _as_edges(ours[1], edge_label_index)
            if ids is not None:  # arrays are indexed by edge id; an id may have no edge, or two
                kwargs = {"input_id": ids, **kwargs}
                edge_label = None if edge_label is None else edge_label[ids]
                edge_label_time = None if edge_label_time is None else edge_label_time[ids]
        super().__init__(
            data=data if stores is None else stores,
            link_sampler=sampler,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform if stores is None else _JoinEdges(stores[0], transform),
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **(without_workers(kwargs) if self.native else kwargs),
        )
        negatives = self.neg_sampling
        if negatives is not None and (negatives.src_weight is not None or negatives.dst_weight is not None):
            self.why_not_native = self.why_not_native or "negatives are drawn by weights"
        if negatives is not None and negatives.is_triplet() and sampler.disjoint and negatives.amount > 1:
            self.why_not_native = self.why_not_native or "PyG numbers the trees of several negatives differently"
        if self.native:
            options = {"memory": memory, "prefetch": prefetch, "num_threads": num_threads, "device": device}
            self._start_native(data if stores is None else stores[0], sampler, **options)
        self.compile_seconds = clock.perf_counter() - started

    def _make_native(self, graph: Any, **options: Any) -> NativeLinkLoader:
        inputs, negatives = self.input_data, self.neg_sampling
        return NativeLinkLoader(
            graph,
            edges=torch.stack([inputs.row, inputs.col]),
            edge_type=inputs.input_type,
            labels=inputs.label,
            neg_sampling=None if negatives is None else negatives.mode.value,
            neg_ratio=1.0 if negatives is None else float(negatives.amount),
            exclude="none",
            batch_size=self.batch_size,
            shuffle=isinstance(self.sampler, torch.utils.data.RandomSampler),
            drop_last=self.drop_last,
            **options,
        )


class _JoinEdges:
    """The transform of loaders over stores: adds edge attributes, then applies the user's transform."""

    def __init__(self, store: FeatureStore, transform: Callable[[Any], Any] | None) -> None:
        self._store, self._transform = store, transform

    def __call__(self, batch: Any) -> Any:
        batch = self._store.join_edges(batch)
        return batch if self._transform is None else self._transform(batch)


def _as_stores(data: Any) -> tuple[FeatureStore, GraphStore] | None:
    return (FeatureStore(data), GraphStore(data)) if isinstance(data, Dataset) else None


def _as_input_nodes(data: Any, nodes: Any) -> Any:
    """Return seeds in PyG's form; for a dataset, None means all nodes, and arrays are accepted too."""
    if not isinstance(data, Dataset):
        return nodes
    if data.is_typed:
        if isinstance(nodes, str) or nodes is None:
            nodes = (nodes or data._manifest.default_node, None)
        if not (isinstance(nodes, (tuple, list)) and len(nodes) == 2 and nodes[0] in data.nodes):
            known = ", ".join(map(repr, data.nodes))
            found = f"of node type {nodes[0]!r}" if isinstance(nodes, (tuple, list)) else f"a {type(nodes).__name__}"
            raise ValueError(f"input_nodes is {found}, expected (node_type, ids) with one of {known}")
        name, ids = nodes
        return name, torch.arange(data.nodes[name].num_nodes) if ids is None else _as_tensor(ids)
    return torch.arange(data.num_nodes) if nodes is None else _as_tensor(nodes)


def _as_edges(store: GraphStore, edges: Any) -> tuple[Any, Any]:
    """Return edges in PyG's form for stores, and their ids if all edges are requested (None for 0 to E - 1)."""
    if edges is None or is_edge_type(edges):
        edges = (edges, None)
    elif not (isinstance(edges, (tuple, list)) and (edges[0] is None or is_edge_type(edges[0]))):  # untyped
        edges = (None, edges)
    edge_type, ends = edges
    edge_type = None if edge_type is None else tuple(edge_type)
    if edge_type not in store.graphs:
        known = ", ".join(map(repr, store.graphs))
        wanted = "edges without a type" if None in store.graphs else f"(edge_type, edges) with one of {known}"
        raise ValueError(f"edge_label_index has edge type {edge_type!r}, expected {wanted}")
    if ends is not None:
        return (edge_type, _as_tensor(ends)), None
    ends, _, ids = edges_by_id(store.graphs[edge_type])
    return (edge_type, ends), None if ids is None else torch.from_numpy(ids)


def _as_tensor(ids: Any) -> torch.Tensor:
    return ids if isinstance(ids, torch.Tensor) else torch.from_numpy(np.array(ids))
