"""Mini-batches from a graph on disk, within a memory budget, as if everything were in RAM."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._dtypes import dtype_name
from ._ids import as_count, as_fanouts, as_ids, as_threads
from ._sizes import format_size, parse_size
from ._transfer import as_device, pinned_allocator, to_device
from .batch import Batch
from .features import FeatureStore
from .graph import Graph
from .loader_stats import LoaderStats
from .sampling import resolve_seed

if TYPE_CHECKING:
    import torch

__all__ = ["LoaderStats", "NeighborLoader"]

# Attributes of a batch that features may not be called.
_TAKEN = {
    *("y", "edge_index", "n_id", "e_id", "input_id", "batch", "batch_size", "seed_time"),
    *("num_sampled_nodes", "num_sampled_edges"),
}
Features = FeatureStore | Sequence[FeatureStore] | Mapping[str, FeatureStore] | None


class NeighborLoader:
    """Sampled mini-batches with their features, made ahead of your training step by native threads.

    Each batch is sampled, its rows are read from the file (or copied from RAM where they are), and it waits, finished,
    until you ask for it. All that is held for this stays within `memory`: batches, read buffers, and a cache of rows
    that gets what is left. A topology that fits well into the memory of the machine is read into the page cache before
    the first batch (see `Graph.preload`). Worker processes are not needed.

    `graph`: a `Graph`. `features`: a `FeatureStore`, several, or a dict that names them; rows arrive as `batch.x` or
    under the array's name. `edge_features`: the same, with a row for each edge id; they arrive as `batch.edge_attr` or
    under their names. `labels`: an array with an entry for each node; `batch.y` holds those of the seeds.

    Batches depend on `seed`, the epoch and their number alone: not on threads, memory or the read path. Each new
    iteration is the next epoch, reshuffled when `shuffle` is set; `set_epoch` goes back or ahead.

    >>> loader = gz.NeighborLoader(g, fs, fanouts=[15, 10], seeds=train, labels=y, batch_size=1024,
    ...                            shuffle=True, seed=0, memory="2GB")  # doctest: +SKIP
    >>> for batch in loader:  # doctest: +SKIP
    ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
    """

    def __init__(
        self,
        graph: Graph,
        features: Features = None,
        *,
        fanouts: Sequence[int],
        seeds: Any = None,
        labels: Any = None,
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: Any = None,
        memory: int | float | str = "2GB",
        prefetch: int = 4,
        num_threads: int | None = None,
        device: Any = None,
        transform: Callable[[Batch], Any] | None = None,
        edge_features: Features = None,
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        time: Any = None,
        temporal: str = "uniform",
        method: str = "uniform",
        direction: str | None = None,
        dtype: Any = None,
        io: str = "auto",
        cache: str = "auto",
    ) -> None:
        """Check everything that can be checked; nothing is read until the first iteration.

        `seeds` may be node ids, a boolean mask over all nodes, or None for all nodes. `time` holds one timestamp a
        seed, for graphs compiled with times. `dtype="float32"` converts float16, bfloat16 and scaled int8 features on
        the way. `device` may be a CUDA device: batches are then copied from page-locked memory on a side stream while
        you compute. `io` and `cache` ("auto", "on", "off") are for measuring; their defaults decide by themselves.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be a Graph, got {type(graph).__name__}: open a .gl file with gz.Graph(path)")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be callable, got {type(transform).__name__}")
        self._graph = graph
        self._seeds = _resolve_seeds(seeds, graph.num_nodes)
        self._labels = _as_labels(labels, graph.num_nodes)
        self._time = None if time is None else as_ids(time, "time")
        self._seed = resolve_seed(seed)
        self._batch_size = as_count(batch_size, "batch_size", least=1)
        self._drop_last = bool(drop_last)
        self._memory = parse_size(memory)
        self._device = None if device is None else as_device(device)
        self._transform = transform
        name = _wanted_dtype(dtype)
        self._parts = _named(features, "x", name) | _named(edge_features, "edge_attr", name, by_edge=True)
        self._fanouts = as_fanouts(fanouts)
        self._options = _core.LoadOptions(
            batch_size=self._batch_size,
            shuffle=bool(shuffle),
            drop_last=self._drop_last,
            seed=self._seed,
            memory=self._memory,
            prefetch=min(as_count(prefetch, "prefetch", least=1), 2**20),
            threads=as_threads(num_threads),
            io=io,
            cache=cache,
            fanouts=self._fanouts,
            replace=bool(replace),
            weighted=bool(weighted),
            disjoint=bool(disjoint) or time is not None,
            temporal=temporal,
            method=method,
            direction=direction,
        )
        _core.check_load(graph._open(), self._open_parts(), self._seeds, self._time, self._options)
        self._epoch = 0
        self._plan: _core.LoadPlan | None = None
        self._last: _core.LoadEpoch | None = None
        self._process = os.getpid()

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return int(_core.count_batches(len(self._seeds), self._batch_size, self._drop_last))

    @property
    def epoch(self) -> int:
        """The number of the next epoch."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next one, as torch's DistributedSampler has it; batches repeat exactly."""
        self._epoch = as_count(epoch, "epoch", least=0)

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. Leaving the loop early, an exception or dropping the iterator stops the threads."""
        plan = self._ready_plan()
        allocate = pinned_allocator() if self._device is not None and self._device.type == "cuda" else None
        epoch = _core.LoadEpoch(plan, self._epoch, allocate)
        self._epoch += 1
        self._last = epoch
        batches = self._deliver(epoch)
        if self._device is not None:
            batches = to_device(batches, self._device)
        if self._transform is not None:
            batches = map(self._transform, batches)
        return _Closing(batches, epoch)

    def stats(self) -> LoaderStats:
        """Say where the time of the current (or last) epoch went, what was read, and what the bottleneck is."""
        self._leave_the_parents()
        raw = self._last.stats if self._last is not None else None
        return LoaderStats.of(raw, self._plan.info if self._plan is not None else None)

    def __repr__(self) -> str:
        """Say what it is: `NeighborLoader(12 batches of 1024, fanouts=[15, 10], parts=['x'], memory=2 GB)`."""
        return (
            f"NeighborLoader({len(self)} batches of {self._batch_size}, fanouts={self._fanouts}, "
            f"parts={list(self._parts)}, memory={format_size(self._memory)})"
        )

    def __reduce__(self) -> Any:
        """Refuse: hand the graph and features to the other process and make a loader there."""
        raise TypeError(
            "a NeighborLoader does not pickle: pass the Graph and FeatureStore, which do, and make one there"
        )

    def _ready_plan(self) -> _core.LoadPlan:
        self._leave_the_parents()
        if self._plan is None:
            self._plan = _core.LoadPlan.make(
                self._graph._open(), self._open_parts(), self._seeds, self._time, self._options
            )
        return self._plan

    def _leave_the_parents(self) -> None:
        """Start anew in a forked child: threads of the parent may have held the cache's locks."""
        if self._process != os.getpid():
            self._plan = self._last = None
            self._process = os.getpid()

    def _open_parts(self) -> list[_core.LoadPart]:
        return [
            _core.LoadPart(name, store._open(), store.name, by_edge, dtype)
            for name, (store, by_edge, dtype) in self._parts.items()
        ]

    def _deliver(self, epoch: _core.LoadEpoch) -> Iterator[Batch]:
        import torch

        while (raw := epoch.next()) is not None:
            parts = {name: _as_tensor(array, dtype) for name, (array, dtype) in raw.pop("parts").items()}
            input_id = raw["input_id"]
            attributes: dict[str, Any] = dict(parts)
            if self._labels is not None:
                attributes["y"] = self._labels[torch.from_numpy(raw["n_id"][: len(input_id)])]
            for name in ("edge_index", "n_id", "e_id", "input_id", "batch"):
                if name in raw:
                    attributes[name] = torch.from_numpy(raw[name])
            if self._time is not None:
                attributes["seed_time"] = torch.from_numpy(self._time[input_id])
            attributes["batch_size"] = len(input_id)
            attributes["num_sampled_nodes"] = raw["num_sampled_nodes"]
            attributes["num_sampled_edges"] = raw["num_sampled_edges"]
            del raw, parts
            batch = Batch(**attributes)
            del attributes
            yield batch
            del batch  # while the next one is awaited, only the user holds this one


class _Closing:
    """An iterator over an epoch's batches that stops the threads when it ends, is closed, or is dropped."""

    def __init__(self, batches: Iterator[Any], epoch: _core.LoadEpoch) -> None:
        self._batches = batches
        self._finalizer = weakref.finalize(self, epoch.stop)

    def __iter__(self) -> _Closing:
        return self

    def __next__(self) -> Any:
        if not self._finalizer.alive:
            raise StopIteration
        try:
            return next(self._batches)
        except BaseException:  # the end of the epoch too
            self._finalizer()
            raise

    def close(self) -> None:
        self._finalizer()


def _named(features: Features, default: str, dtype: str | None, *, by_edge: bool = False) -> dict[str, Any]:
    """Name each store: the user's name in a dict, the array's own in a list, `default` for a single store."""
    if features is None:
        return {}
    named: dict[str, Any]
    if isinstance(features, FeatureStore):
        named = {default: features}
    elif isinstance(features, Mapping):
        named = dict(features)
    elif isinstance(features, (list, tuple)):
        named = {getattr(store, "name", f"[{i}]"): store for i, store in enumerate(features)}
        if len(named) != len(features):
            raise ValueError("two features have the same name: pass a dict that names them")
    else:
        named = {default: features}
    for name, store in named.items():
        if not isinstance(store, FeatureStore):
            raise TypeError(
                f"feature {name!r} must be a FeatureStore, got {type(store).__name__}: gz.compile_features makes a .gd "
                "file of rows, gz.FeatureStore(path) opens it"
            )
        if not isinstance(name, str) or not name.isidentifier() or name in _TAKEN or hasattr(Batch, name):
            raise ValueError(f"feature name {name!r} is taken or no attribute name: pass a dict with other names")
    return {name: (store, by_edge, _converted(store, dtype)) for name, store in named.items()}


def _converted(store: FeatureStore, dtype: str | None) -> str | None:
    if dtype is None or store.dtype_name == dtype or store.dtype_name not in ("float16", "bfloat16", "int8", "float32"):
        return None
    return dtype


def _wanted_dtype(dtype: Any) -> str | None:
    if dtype is None:
        return None
    if dtype_name(dtype) != "float32":
        raise ValueError(f"dtype is {dtype_name(dtype)!r}, expected 'float32' or None (as on disk)")
    return "float32"


def _resolve_seeds(seeds: Any, num_nodes: int) -> Any:
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = seeds.detach().cpu().numpy() if hasattr(seeds, "detach") else np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"seeds is a mask of shape {array.shape}, expected ({num_nodes},)")
        return np.flatnonzero(array).astype(np.int64)
    return as_ids(seeds, "seeds")


def _as_labels(labels: Any, num_nodes: int) -> torch.Tensor | None:
    if labels is None:
        return None
    import torch

    if isinstance(labels, FeatureStore):
        labels = labels.get_tensor()
    if not isinstance(labels, torch.Tensor):
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iufb":
            raise TypeError(f"labels must be numbers, one for each node, got dtype {labels.dtype}")
        labels = torch.from_numpy(labels if labels.flags.writeable else labels.copy())  # torch has no read-only memory
    tensor: torch.Tensor = labels
    if tensor.shape[:1] != (num_nodes,):
        raise ValueError(f"labels has shape {tuple(tensor.shape)}, expected an entry for each of {num_nodes} nodes")
    return tensor


def _as_tensor(array: Any, dtype: str) -> torch.Tensor:
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
