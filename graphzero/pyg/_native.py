"""Decides whether PyG's loaders can use the native ones, and sets those up."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler.base import SubgraphType

from ..dataset.dataset import Dataset
from ..load.loader import LinkNeighborLoader as NativeLinkLoader
from ..load.loader import NeighborLoader as NativeNodeLoader
from ..load.stats import LoaderStats
from ._attributes import Attributes
from .sampler import NeighborSampler

__all__ = ["NativeEpochs", "why_not_native", "without_workers"]

# Options of torch's DataLoader for its worker processes, which the native loader does not need.
_WORKERS = {
    "num_workers": "batches are built by native threads; use num_threads=",
    "persistent_workers": "there are no workers to keep",
    "prefetch_factor": "batches are prefetched within memory=; use prefetch=",
    "worker_init_fn": "there are no workers",
    "multiprocessing_context": "there are no workers",
    "timeout": "there are no workers to wait for",
    "pin_memory": 'device="cuda" builds batches in page-locked memory and copies them asynchronously',
    "pin_memory_device": 'device="cuda" builds batches in page-locked memory and copies them asynchronously',
}
_warned: set[str] = set()


class NativeEpochs:
    """Shared by the two PyG loaders: runs epochs on a native loader if there is one."""

    why_not_native: str | None
    generator: Any
    input_data: Any
    _attributes: Attributes | None = None
    _native: NativeNodeLoader | NativeLinkLoader | None = None
    _homogeneous = True
    _user_transform: Any = None

    @property
    def native(self) -> bool:
        """Whether batches come from the native loader."""
        return self.why_not_native is None

    def stats(self) -> LoaderStats:
        """Statistics of the current (or last) epoch; raises ValueError if the native loader is not used."""
        if self._native is None:
            raise ValueError(f"statistics need the native loader, which is not used: {self.why_not_native}")
        return self._native.stats()

    def __iter__(self) -> Iterator[Any]:
        """Start an epoch."""
        if self._native is None:
            return super().__iter__()  # type: ignore[misc, no-any-return]
        # Batches are a function of (seed, epoch, number): an epoch drawn from torch's generator follows manual_seed.
        self._native.set_epoch(int(torch.randint(0, 2**31 - 1, (1,), generator=self.generator)))
        return self._batches(iter(self._native))

    def _batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        assert self._attributes is not None
        input_id = self.input_data.input_id
        for raw in batches:
            batch = self._attributes.batch(raw, self._homogeneous)
            del raw
            if input_id is not None:  # for a mask, PyG returns node ids
                store = batch if self._homogeneous else batch[self.input_data.input_type]
                store.input_id = input_id[store.input_id.cpu()].to(store.input_id.device)
            yield batch if self._user_transform is None else self._user_transform(batch)
            del batch  # while waiting for the next one, only the user holds this one

    def _start_native(self, data: Any, sampler: NeighborSampler, **options: Any) -> None:
        """Create the native loader; `data` holds the attributes, the subclass the seeds."""
        mounted, attributes = sampler._mounted, Attributes(data)
        self._attributes, self._homogeneous = attributes, mounted.homogeneous
        plain = mounted.homogeneous and not mounted.node_time
        common: dict[str, Any] = {
            "features": attributes.features.get("node", {}) if plain else attributes.features,
            "edge_features": _only(attributes.edge_features) if plain else attributes.edge_features,
            "fanouts": sampler.fanouts(),
            "replace": sampler.replace,
            "weighted": mounted.weighted,
            "disjoint": sampler.disjoint,
            "temporal": sampler.temporal_strategy,
            "direction": mounted.side if plain else None,
            "seed": 0,
            "rank": 0,  # as in PyG, each process loads all of its seeds
            "world_size": 1,
        }
        if mounted.node_time:
            common["node_time"] = mounted.node_time
        self._native = self._make_native(mounted.graph if plain else mounted.typed(), **common, **options)

    def _make_native(self, graph: Any, **options: Any) -> Any:
        raise NotImplementedError


def _only(by_type: dict[Any, Any]) -> Any:
    return next(iter(by_type.values()), {})


def why_not_native(data: Any, sampler: Any, kwargs: dict[str, Any]) -> str | None:
    """Return why PyG's own loader has to be used; None if the native one can be."""
    for name in ("neighbor_sampler", "sampler", "batch_sampler", "custom_cls", "transform_sampler_output"):
        if kwargs.get(name) is not None:
            return f"{name} is given"
    if kwargs.get("batch_size", 1) is None:
        return "batch_size is None"
    if not isinstance(data, Dataset):
        if not isinstance(data, (Data, HeteroData)):
            return "edges and features are in stores"
        if any("adj_t" in store or "adj" in store for store in data.edge_stores):
            return "edges are in a sparse matrix"
    if sampler.subgraph_type != SubgraphType.directional:
        return f"subgraph_type={sampler.subgraph_type.value!r} needs the sampler's output"
    if not sampler.edge_types:
        return "there are no edges"
    return None if len(sampler.num_neighbors) else "there are no hops"


def without_workers(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the options without those for workers; warn once for each of those."""
    for name in _WORKERS.keys() & kwargs.keys():
        if kwargs[name] and name not in _warned:
            _warned.add(name)
            warnings.warn(f"{name}={kwargs[name]!r} is ignored: {_WORKERS[name]}", stacklevel=4)
    return {name: value for name, value in kwargs.items() if name not in _WORKERS}
