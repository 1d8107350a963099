"""Mini-batches from a graph on disk, within a memory budget, as if everything were in RAM."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._ids import as_ids
from ._sizes import format_size, parse_size
from .batch import Batch
from .features import FeatureStore
from .graph import Graph
from .sampling import resolve_seed

if TYPE_CHECKING:
    import torch

__all__ = ["LoaderStats", "NeighborLoader"]

Features = FeatureStore | Sequence[FeatureStore] | Mapping[str, FeatureStore] | None


class NeighborLoader:
    """Sampled mini-batches with their features, made ahead of your training step by native threads.

    Each batch is sampled, its rows are read from the file (or copied from RAM where they are), and it waits, finished,
    until you ask for it. All that is held for this stays within `memory`: batches, read buffers, and a cache of rows
    that gets what is left. Worker processes are not needed.

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
        self._graph = graph
        self._seeds = _resolve_seeds(seeds, graph.num_nodes)
        self._labels = _as_labels(labels, graph.num_nodes)
        self._time = None if time is None else as_ids(time, "time")
        self._seed = resolve_seed(seed)
        self._batch_size = int(batch_size)
        if self._batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1")
        self._shuffle = bool(shuffle)
        self._drop_last = bool(drop_last)
        self._memory = parse_size(memory)
        self._prefetch = int(prefetch)
        self._num_threads = 0 if num_threads is None else int(num_threads)
        self._device = device
        self._transform = transform
        self._io = io
        self._cache = cache
        name = _dtype_name(dtype)
        self._parts = _named(features, "x", name) | _named(edge_features, "edge_attr", name, by_edge=True)
        self._sampling: dict[str, Any] = {
            "fanouts": [int(f) for f in fanouts],
            "replace": bool(replace),
            "weighted": bool(weighted),
            "disjoint": bool(disjoint) or time is not None,
            "temporal": temporal,
            "method": method,
            "direction": direction,
        }
        _core.check_sampling(graph._open(), with_times=self._time is not None, **self._sampling)
        self._epoch = 0
        self._plan: _core.LoadPlan | None = None
        self._last: _core.LoadEpoch | None = None

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return int(_core.count_batches(len(self._seeds), self._batch_size, self._drop_last))

    @property
    def epoch(self) -> int:
        """The number of the next epoch."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next one, as torch's DistributedSampler has it; batches repeat exactly."""
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}, expected at least 0")
        self._epoch = int(epoch)

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. Leaving the loop early, an exception or dropping the iterator stops the threads."""
        plan = self._ready_plan()
        allocate = _pinned_allocator() if _is_cuda(self._device) else None
        epoch = _core.LoadEpoch(plan, self._epoch, allocate)
        self._epoch += 1
        self._last = epoch
        batches = self._deliver(epoch)
        if self._device is not None:
            batches = _to_device(batches, self._device)
        if self._transform is not None:
            batches = map(self._transform, batches)
        return _Closing(batches, epoch)

    def stats(self) -> LoaderStats:
        """Say where the time of the current (or last) epoch went, what was read, and what the bottleneck is."""
        raw = self._last.stats if self._last is not None else None
        return LoaderStats.of(raw, self._plan.info if self._plan is not None else None)

    def __repr__(self) -> str:
        """Say what it is: `NeighborLoader(12 batches of 1024, fanouts=[15, 10], parts=['x'], memory=2 GB)`."""
        return (
            f"NeighborLoader({len(self)} batches of {self._batch_size}, fanouts={self._sampling['fanouts']}, "
            f"parts={list(self._parts)}, memory={format_size(self._memory)})"
        )

    def __reduce__(self) -> Any:
        """Refuse: hand the graph and features to the other process and make a loader there."""
        raise TypeError(
            "a NeighborLoader does not pickle: pass the Graph and FeatureStore, which do, and make one there"
        )

    def _ready_plan(self) -> _core.LoadPlan:
        if self._plan is None:
            parts = [
                _core.LoadPart(name, store._open(), store.name, by_edge, dtype)
                for name, (store, by_edge, dtype) in self._parts.items()
            ]
            self._plan = _core.LoadPlan.make(
                self._graph._open(),
                parts,
                self._seeds,
                self._time,
                batch_size=self._batch_size,
                shuffle=self._shuffle,
                drop_last=self._drop_last,
                seed=self._seed,
                memory=self._memory,
                prefetch=self._prefetch,
                threads=self._num_threads,
                io=self._io,
                cache=self._cache,
                **self._sampling,
            )
        return self._plan

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


@dataclass(frozen=True)
class LoaderStats:
    """Where an epoch's time went. Seconds of stages are summed over the loader's threads."""

    batches: int = 0
    nodes: int = 0
    edges: int = 0
    sample_seconds: float = 0.0
    read_seconds: float = 0.0
    copy_seconds: float = 0.0
    blocked_seconds: float = 0.0
    starved_seconds: float = 0.0
    consumer_seconds: float = 0.0
    queue_depth: float = 0.0
    rows: int = 0
    rows_mapped: int = 0
    rows_cached: int = 0
    bytes_useful: int = 0
    bytes_read: int = 0
    reads: int = 0
    peak_bytes: int = 0
    plan: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: dict[str, Any] | None, plan: dict[str, Any] | None) -> LoaderStats:
        """Make it from what the core counted."""
        if raw is None:
            return cls(plan=plan or {})
        raw = dict(raw)
        depth = raw.pop("depth_sum") / max(raw["batches"], 1)
        return cls(queue_depth=depth, plan=plan or {}, **raw)

    @property
    def hit_rate(self) -> float:
        """The share of rows that came from RAM: the row cache or the page cache."""
        return (self.rows_cached + self.rows_mapped) / self.rows if self.rows else 0.0

    @property
    def read_amplification(self) -> float:
        """Bytes read from the disk for each byte that was asked of it."""
        missed = self.bytes_useful * (1 - self.hit_rate)
        return self.bytes_read / missed if missed > 0 else 0.0

    @property
    def batches_per_second(self) -> float:
        """Batches delivered a second, your own step included."""
        seconds = self.starved_seconds + self.consumer_seconds
        return self.batches / seconds if seconds > 0 else 0.0

    @property
    def bottleneck(self) -> str:
        """What an epoch waits for: 'training step', 'sampling', 'reading', 'copying', or 'nothing yet'."""
        if self.batches == 0:
            return "nothing yet"
        if self.starved_seconds < 0.1 * (self.starved_seconds + self.consumer_seconds):
            return "training step"
        stages = {"sampling": self.sample_seconds, "reading": self.read_seconds, "copying": self.copy_seconds}
        return max(stages, key=lambda stage: stages[stage])

    def to_dict(self) -> dict[str, Any]:
        """Everything, derived figures included, ready for JSON."""
        derived = ("hit_rate", "read_amplification", "batches_per_second", "bottleneck")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    def __str__(self) -> str:
        """Say it in a few lines."""
        return (
            f"{self.batches} batches, {self.batches_per_second:.1f}/s, waiting for: {self.bottleneck}\n"
            f"  sample {self.sample_seconds:.2f} s, read {self.read_seconds:.2f} s, copy {self.copy_seconds:.2f} s, "
            f"threads idle {self.blocked_seconds:.2f} s\n"
            f"  you waited {self.starved_seconds:.2f} s, your steps took {self.consumer_seconds:.2f} s, "
            f"{self.queue_depth:.1f} batches ready on average\n"
            f"  {self.rows:,} rows, {self.hit_rate:.1%} from RAM, {format_size(self.bytes_read)} read in "
            f"{self.reads:,} reads ({self.read_amplification:.1f} x what was missing)"
        )


def _named(features: Features, default: str, dtype: str | None, *, by_edge: bool = False) -> dict[str, Any]:
    """Name each store: the user's name in a dict, the array's own in a list, `default` for a single store."""
    if features is None:
        return {}
    if isinstance(features, FeatureStore):
        named = {default: features}
    elif isinstance(features, Mapping):
        named = dict(features)
    else:
        named = {store.name: store for store in features}
        if len(named) != len(features):
            raise ValueError("two features have the same name: pass a dict that names them")
    reserved = {"y", "edge_index", "n_id", "e_id", "input_id", "batch", "batch_size", "seed_time"}
    for name, store in named.items():
        if not isinstance(store, FeatureStore):
            raise TypeError(f"feature {name!r} must be a FeatureStore, got {type(store).__name__}")
        if name in reserved or not name.isidentifier():
            raise ValueError(f"feature name {name!r} is taken or no attribute name: pass a dict with other names")
    return {name: (store, by_edge, _converted(store, dtype)) for name, store in named.items()}


def _converted(store: FeatureStore, dtype: str | None) -> str | None:
    if dtype is None or store.dtype_name == dtype or store.dtype_name not in ("float16", "bfloat16", "int8", "float32"):
        return None
    return dtype


def _dtype_name(dtype: Any) -> str | None:
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.") if not isinstance(dtype, (type, np.dtype)) else np.dtype(dtype).name
    if name != "float32":
        raise ValueError(f"dtype is {name!r}, expected 'float32' or None (as on disk)")
    return name


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
    tensor = labels if isinstance(labels, torch.Tensor) else torch.from_numpy(np.asarray(labels))
    if tensor.shape[:1] != (num_nodes,):
        raise ValueError(f"labels has shape {tuple(tensor.shape)}, expected an entry for each of {num_nodes} nodes")
    return tensor


def _as_tensor(array: Any, dtype: str) -> torch.Tensor:
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _is_cuda(device: Any) -> bool:
    if device is None:
        return False
    import torch

    return torch.device(device).type == "cuda"


def _pinned_allocator() -> Callable[[int], torch.Tensor]:
    """Page-locked memory from torch, whose allocator reuses it once the copies that read it are done."""
    import torch

    return lambda size: torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=True)


def _to_device(batches: Iterator[Batch], device: Any) -> Iterator[Batch]:
    """Copy each batch on a side stream while the one before it is in use."""
    import torch

    target = torch.device(device)
    if target.type != "cuda":
        for batch in batches:
            yield batch.to(target)
        return
    side = torch.cuda.Stream(target)  # type: ignore[no-untyped-call]
    waiting: tuple[Batch, torch.cuda.Event] | None = None  # on its way, and when it will be there
    for host in batches:
        pinned = Batch(**{k: _pinned(v) for k, v in host})
        with torch.cuda.stream(side):
            moved = pinned.to(target, non_blocking=True)
            done = side.record_event()
        del host, pinned  # torch keeps page-locked memory until the copies that read it are done
        if waiting is not None:
            yield _arrived(*waiting, target)
        waiting = (moved, done)
    if waiting is not None:
        yield _arrived(*waiting, target)


def _pinned(value: Any) -> Any:
    import torch

    return value if not isinstance(value, torch.Tensor) or value.is_pinned() else value.pin_memory()


def _arrived(batch: Batch, done: Any, device: Any) -> Batch:
    import torch

    current = torch.cuda.current_stream(device)
    current.wait_event(done)
    for _, value in batch:
        if isinstance(value, torch.Tensor):
            value.record_stream(current)  # the allocator must not reuse it while this stream reads it
    return batch
