"""PyG's NeighborLoader and LinkNeighborLoader over files: the same arguments and batches, made by native threads."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import BaseSampler
from torch_geometric.sampler.base import SubgraphType

from ..dataset import Dataset
from ..loader import NeighborLoader as NativeLoader
from ..loader_stats import LoaderStats
from ._attributes import Attributes
from .sampler import NeighborSampler
from .stores import FeatureStore, GraphStore

__all__ = ["LinkNeighborLoader", "NeighborLoader"]

# Options of torch's DataLoader for its worker processes, which the native loader does without.
_WORKERS = {
    "num_workers": "batches are made by native threads; num_threads= sets how many",
    "persistent_workers": "there are no workers to keep",
    "prefetch_factor": "batches are made ahead within memory=; prefetch= sets how many",
    "worker_init_fn": "there are no workers",
    "multiprocessing_context": "there are no workers",
    "timeout": "there are no workers to wait for",
    "pin_memory": 'device="cuda" makes batches in page-locked memory and copies them ahead',
    "pin_memory_device": 'device="cuda" makes batches in page-locked memory and copies them ahead',
}
_told: set[str] = set()


class NeighborLoader(NodeLoader):  # type: ignore[misc]  # PyG has no types
    """PyG's `NeighborLoader`: change the import and keep the script.

    `data` is a `Data`, a `HeteroData`, a pair (FeatureStore, GraphStore), or a `gz.Dataset`, whose features, labels
    ("y") and edge features become attributes of the batches. Objects in memory are compiled once into temporary files
    (`compile_seconds` says how long it took), which the loaders of one object share.

    Batches are `Data` or `HeteroData`, with PyG's attributes. Where `native` is True they come from
    `gz.NeighborLoader`: sampled and read ahead by native threads, within `memory`. Options for worker processes are
    then not needed, and a warning says so once. Otherwise PyG's own loader runs, workers included, over our sampler and
    stores; `why_not_native` tells the reason.

    A run repeats with `torch.manual_seed`, or with `generator=`. Under torch.distributed each process loads what it is
    given as `input_nodes`, as with PyG.

    >>> from graphzero.pyg import NeighborLoader  # doctest: +SKIP
    >>> loader = NeighborLoader(data, num_neighbors=[15, 10], input_nodes=data.train_mask,
    ...                         batch_size=1024, shuffle=True)  # doctest: +SKIP
    """

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
        prefetch: int = 4,
        num_threads: int | None = None,
        device: Any = None,
        cache_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take PyG's arguments; `memory`, `prefetch`, `num_threads` and `device` are those of `gz.NeighborLoader`."""
        if input_time is not None and time_attr is None:
            raise ValueError("'input_time' is given without 'time_attr': temporal sampling needs both")
        started = clock.perf_counter()
        self._user_transform = transform
        sampler = neighbor_sampler
        if sampler is None:
            sampler = NeighborSampler(
                data,
                num_neighbors,
                subgraph_type,
                replace,
                disjoint,
                temporal_strategy,
                time_attr,
                weight_attr,
                directed=directed,
                cache_dir=cache_dir,
            )
        self.why_not_native = _why_not_native(data, sampler, neighbor_sampler is not None, kwargs)
        if transform_sampler_output is not None:
            self.why_not_native = self.why_not_native or "transform_sampler_output works on PyG's sampler output"
        stores = _as_stores(data)
        super().__init__(
            data=data if stores is None else stores,
            node_sampler=sampler,
            input_nodes=_as_input_nodes(data, input_nodes),
            input_time=input_time,
            transform=transform if stores is None else _JoinEdges(stores[0], transform),
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **(_without_workers(kwargs) if self.native else kwargs),
        )
        self._attributes: Attributes | None = None
        self._native: NativeLoader | None = None
        if self.native:
            self._attributes = Attributes(data if stores is None else stores[0])
            self._native = _native_loader(
                self, memory=memory, prefetch=prefetch, num_threads=num_threads, device=device
            )
        self.compile_seconds = clock.perf_counter() - started

    @property
    def native(self) -> bool:
        """Whether batches come from the native loader."""
        return self.why_not_native is None

    def stats(self) -> LoaderStats:
        """Where the time of the current (or last) epoch went; raises ValueError where the native loader is not used."""
        if self._native is None:
            raise ValueError(
                f"there are statistics of the native loader only, which is not used: {self.why_not_native}"
            )
        return self._native.stats()

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch."""
        if self._native is None:
            return super().__iter__()  # type: ignore[no-any-return]
        # Batches are a function of (seed, epoch, number): an epoch that torch's generator draws follows manual_seed.
        self._native.set_epoch(int(torch.randint(0, 2**31 - 1, (1,), generator=self.generator)))
        return self._native_batches(iter(self._native))

    def _native_batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        assert self._attributes is not None
        input_id = self.input_data.input_id
        for raw in batches:
            if input_id is not None:  # of a mask, PyG tells the nodes
                raw.input_id = input_id[raw.input_id.cpu()].to(raw.input_id.device)
            batch = self._attributes.batch(raw)
            del raw
            batch = batch if self._user_transform is None else self._user_transform(batch)
            yield batch
            del batch  # while the next one is awaited, only the user holds this one


class LinkNeighborLoader(LinkLoader):  # type: ignore[misc]
    """PyG's `LinkNeighborLoader` over our sampler and stores: change the import and keep the script.

    `data` is as in `NeighborLoader`. Of a `gz.Dataset`, `edge_label_index` is a tensor (2, E), or for typed ones
    (edge_type, tensor); edges that the dataset itself has are `ds.edges[...]`'s.
    """

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
        cache_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take PyG's arguments."""
        if (edge_label_time is None) != (time_attr is None):
            given, missing = (
                ("time_attr", "edge_label_time") if edge_label_time is None else ("edge_label_time", "time_attr")
            )
            raise ValueError(
                f"Received conflicting 'edge_label_time' and 'time_attr' arguments: '{missing}' is not set while "
                f"'{given}' is set. Both arguments must be provided for temporal sampling."
            )
        sampler = neighbor_sampler or NeighborSampler(
            data,
            num_neighbors,
            subgraph_type,
            replace,
            disjoint,
            temporal_strategy,
            time_attr,
            weight_attr,
            directed=directed,
            cache_dir=cache_dir,
        )
        stores = _as_stores(data)
        if stores is not None and isinstance(edge_label_index, torch.Tensor):
            edge_label_index = (None, edge_label_index)  # as PyG wants it for stores
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
            **kwargs,
        )


class _JoinEdges:
    """The transform of loaders over stores: adds edge attributes, then does what the user wants."""

    def __init__(self, store: FeatureStore, transform: Callable[[Any], Any] | None) -> None:
        self._store, self._transform = store, transform

    def __call__(self, batch: Any) -> Any:
        batch = self._store.join_edges(batch)
        return batch if self._transform is None else self._transform(batch)


def _why_not_native(data: Any, sampler: Any, given_sampler: bool, kwargs: dict[str, Any]) -> str | None:
    """Return why PyG's own loader has to run; None where the native one will do."""
    if given_sampler:
        return "neighbor_sampler is given"
    for name in ("sampler", "batch_sampler", "custom_cls"):
        if kwargs.get(name) is not None:
            return f"{name} is given"
    if isinstance(data, HeteroData) or sampler.is_hetero:
        return "the graph has several types"
    if not isinstance(data, Dataset) and (not isinstance(data, Data) or "edge_index" not in data):
        return "edges and features are in stores, or in a sparse matrix"
    if sampler.subgraph_type != SubgraphType.directional:
        return f"subgraph_type={sampler.subgraph_type.value!r} is made of PyG's sampler output"
    if sampler.node_time is not None:
        return "nodes have times"
    return None if len(sampler.num_neighbors) else "there are no hops"


def _without_workers(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are left without those for workers; explain those once."""
    for name in _WORKERS.keys() & kwargs.keys():
        if kwargs[name] and name not in _told:
            _told.add(name)
            warnings.warn(f"{name}={kwargs[name]!r} is ignored: {_WORKERS[name]}", stacklevel=3)
    return {name: value for name, value in kwargs.items() if name not in _WORKERS}


def _native_loader(loader: NeighborLoader, **options: Any) -> NativeLoader:
    sampler, attributes = loader.node_sampler, loader._attributes
    assert attributes is not None
    mounted = sampler._mounted
    time = loader.input_data.time
    return NativeLoader(
        mounted.graph,
        attributes.features,
        edge_features=attributes.edge_features,
        fanouts=sampler.num_neighbors.get_values(),
        seeds=loader.input_data.node,
        batch_size=loader.batch_size,
        shuffle=isinstance(loader.sampler, torch.utils.data.RandomSampler),
        drop_last=loader.drop_last,
        seed=0,
        replace=sampler.replace,
        weighted=mounted.weighted,
        disjoint=sampler.disjoint,
        time=None if time is None else time.numpy(),
        temporal=sampler.temporal_strategy,
        direction=mounted.side,
        rank=0,  # as PyG: each process loads what it is given
        world_size=1,
        **options,
    )


def _as_stores(data: Any) -> tuple[FeatureStore, GraphStore] | None:
    return (FeatureStore(data), GraphStore(data)) if isinstance(data, Dataset) else None


def _as_input_nodes(data: Any, nodes: Any) -> Any:
    """Return seeds as PyG wants them; of a dataset, None means all nodes, and arrays are taken too."""
    if not isinstance(data, Dataset):
        return nodes
    if data.is_typed:
        if isinstance(nodes, str) or nodes is None:
            nodes = (nodes or data._manifest.default_node, None)
        name, ids = nodes
        return name, torch.arange(data.nodes[name].num_nodes) if ids is None else _as_tensor(ids)
    return torch.arange(data.num_nodes) if nodes is None else _as_tensor(nodes)


def _as_tensor(ids: Any) -> torch.Tensor:
    return ids if isinstance(ids, torch.Tensor) else torch.from_numpy(np.array(ids))
