"""Mini-batches from a graph on disk, within a memory budget, as if everything were in RAM."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._copy_stage import COPIES, CopyStage
from ._ids import as_count, as_fanouts, as_threads
from ._loader_inputs import Features, Labels, all_parts, resolve_seeds, resolve_time, wanted_dtype
from ._ranks import as_rank, current_rank, warn_if_alone
from ._sizes import format_size, parse_size
from ._transfer import CudaCopies, as_device, page_lock, plain_copies
from .batch import Batch
from .graph import Graph
from .loader_stats import LoaderStats
from .sampling import resolve_seed

if TYPE_CHECKING:
    import torch

__all__ = ["LoaderStats", "NeighborLoader"]


class NeighborLoader:
    """Sampled mini-batches with their features, made ahead of your training step by native threads.

    Each batch is sampled, its rows are read from the file (or copied from RAM where they are), and it waits, finished,
    until you ask for it. All that is held for this stays within `memory`: batches, read buffers, and the rows of coming
    batches, which get what is left: the more there is, the more batches share each read. `memory="auto"` takes what the
    machine and the container leave, less some for your model. Files that fit beside all this are read into the page
    cache first. `loader.stats().plan["why"]` says what was chosen. Worker processes are not needed.

    `graph`: a `Graph`. `features`: a `FeatureStore`, several, or a dict that names them; rows arrive as `batch.x` or
    under the array's name. `edge_features`: the same, with a row for each edge id of a graph compiled with
    `edge_ids=True`; they arrive as `batch.edge_attr` or under their names. `labels`: an array or a `FeatureStore` with
    an entry for each node; `batch.y` holds those of the seeds.

    A neighbour of a node is what a row of the file lists (`loader.direction`). For "in", the sources of the edges that
    point to the node: messages flow along the edges, as in PyG. For "out", the targets of its own edges: messages
    flow against them. An undirected graph has both ways in either. `direction=` chooses where the file has both.

    Batches depend on `seed`, the epoch and their number alone: not on threads, memory or the read path. Each new
    iteration is the next epoch, reshuffled when `shuffle` is set; `set_epoch` goes back or ahead.

    >>> loader = gz.NeighborLoader(g, fs, fanouts=[15, 10], seeds=train, labels=y, batch_size=1024,
    ...                            shuffle=True, seed=0)  # doctest: +SKIP
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
        memory: int | float | str = "auto",
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        transform: Callable[[Batch], Any] | None = None,
        edge_features: Features = None,
        edge_order: str = "ids",
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
        rank: int | None = None,
        world_size: int | None = None,
        uneven: str = "pad",
    ) -> None:
        """Check everything that can be checked; nothing is read until the first iteration.

        `seeds` may be node ids, a boolean mask over all nodes, or None for all nodes; an array is read where it is, so
        leave it unchanged. `time` holds one timestamp a seed, for graphs compiled with times. `dtype="float32"`
        converts float16, bfloat16 and scaled int8 features on the way. `edge_order="file"` is for graphs without edge
        ids: it says that row i of the edge features belongs to the i-th edge as the file stores them, by node and then
        by neighbour in the direction that is followed. `device` may be a CUDA device: batches are then made in
        page-locked memory, and a thread copies them on a side stream while you compute: a few that come next are on the
        device, which takes at most an eighth of its memory. `io` and `cache` ("auto", "on", "off") are for measuring;
        their defaults decide by themselves.

        `rank` and `world_size` say which of how many processes this is; without them torch.distributed decides, where
        it is initialised. All ranks share one epoch: rank r delivers the batches r, r + world_size, ... that a single
        process would deliver, bit for bit. When they do not come out even, `uneven="pad"` repeats batches from the
        start of the epoch, "drop" leaves out the last round, and "keep" gives some ranks one batch less.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be a Graph, got {type(graph).__name__}: open a .gl file with gz.Graph(path)")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be callable, got {type(transform).__name__}")
        self._graph = graph
        self._asked_rank = as_rank(rank, world_size)
        self._uneven = uneven
        self._seed_ids = resolve_seeds(seeds, graph.num_nodes)
        self._seeds = _core.Numbers.range(graph.num_nodes) if self._seed_ids is None else _core.Numbers(self._seed_ids)
        self._labels = None if labels is None else Labels(labels, graph.num_nodes)
        self._time = resolve_time(time)
        times = None if self._time is None else _core.Numbers(self._time)
        self._source = _core.node_seeds(self._seeds, times)
        self._seed = resolve_seed(seed)
        self._batch_size = as_count(batch_size, "batch_size", least=1)
        self._drop_last = bool(drop_last)
        self._memory = 0 if memory == "auto" else parse_size(memory)
        self._device = None if device is None else as_device(device)
        self._transform = transform
        name = wanted_dtype(dtype)
        self._parts = all_parts(features, edge_features, name)
        self._fanouts = as_fanouts(fanouts)
        self._first_batch = 0
        self._direction = direction or ("in" if graph.direction == "in" else "out")
        self._options = _core.LoadOptions(
            batch_size=self._batch_size,
            shuffle=bool(shuffle),
            drop_last=self._drop_last,
            seed=self._seed,
            memory=self._memory,
            prefetch=0 if prefetch is None else min(as_count(prefetch, "prefetch", least=1), 2**20),
            threads=as_threads(num_threads),
            held=COPIES if self._is_cuda() else 2,
            io=io,
            cache=cache,
            fanouts=self._fanouts,
            replace=bool(replace),
            weighted=bool(weighted),
            disjoint=bool(disjoint) or time is not None,
            temporal=temporal,
            method=method,
            direction=direction,
            edge_order=edge_order,
        )
        self._check_views()
        _core.check_load(_core.LoadGraph(graph._open()), self._open_parts(), self._source, self._options)
        self._share()  # checks `uneven`
        self._epoch = 0
        self._plan: _core.LoadPlan | None = None
        self._last: _core.LoadEpoch | None = None
        self._copies: CopyStage | None = None  # of the last epoch, where there is a CUDA device
        self._process = os.getpid()

    def __len__(self) -> int:
        """Return the number of batches of the next epoch, on this rank."""
        batches = _core.count_batches(len(self._seeds), self._batch_size, self._drop_last)
        return int(_core.count_share(batches, self._share()))

    @property
    def direction(self) -> str:
        """Which edges are followed from a seed: "in", those that point to it, or "out", those that leave it."""
        return self._direction

    @property
    def epoch(self) -> int:
        """The number of the next epoch."""
        return self._epoch

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        """Make `epoch` the next one, as torch's DistributedSampler has it; batches repeat exactly.

        `first_batch` goes on within an epoch: so many of its batches, counted over all ranks, are left out because they
        are done. The number of ranks may have changed since: after 10 steps of 8 ranks, `first_batch=80`.
        """
        self._epoch, self._first_batch = (
            as_count(epoch, "epoch", least=0),
            as_count(first_batch, "first_batch", least=0),
        )

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. Leaving the loop early, an exception or dropping the iterator stops the threads."""
        plan = self._ready_plan()
        warn_if_alone(self._asked_rank, current_rank(self._asked_rank)[1])
        epoch = _core.LoadEpoch(plan, self._epoch, self._share())
        self._epoch, self._first_batch = self._epoch + 1, 0
        self._last = epoch
        batches = self._deliver(epoch)
        self._copies = None
        if self._device is not None and self._is_cuda():
            self._copies = CopyStage(batches, CudaCopies(self._device))
        elif self._device is not None:
            batches = plain_copies(batches, self._device)
        return _Closing(self._copies or batches, epoch, self._transform, self._copies)

    def stats(self) -> LoaderStats:
        """Say where the time of the current (or last) epoch went, what was read, and what the bottleneck is."""
        self._leave_the_parents()
        raw = self._last.stats if self._last is not None else None
        plan = self._plan.info if self._plan is not None else None
        return LoaderStats.of(raw, plan, self._copies.stats() if self._copies is not None else None)

    def __repr__(self) -> str:
        """Say what it is: `NeighborLoader(12 batches of 1024, fanouts=[15, 10] along 'in' edges, parts=['x'], ...)`."""
        return (
            f"NeighborLoader({len(self)} batches of {self._batch_size}, fanouts={self._fanouts} along "
            f"{self._direction!r} edges, parts={list(self._parts)}, "
            f"memory={format_size(self._memory) if self._memory else 'auto'})"
        )

    def __reduce__(self) -> Any:
        """Refuse: hand the graph and features to the other process and make a loader there."""
        raise TypeError(
            "a NeighborLoader does not pickle: pass the Graph and FeatureStore, which do, and make one there"
        )

    def _is_cuda(self) -> bool:
        return self._device is not None and self._device.type == "cuda"

    def _share(self) -> _core.Share:
        rank, world_size = current_rank(self._asked_rank)
        return _core.Share(rank, world_size, self._uneven, self._first_batch)

    def _ready_plan(self) -> _core.LoadPlan:
        self._leave_the_parents()
        if self._plan is None:
            graph, parts, lock = _core.LoadGraph(self._graph._open()), self._open_parts(), page_lock(self._device)
            self._plan = _core.LoadPlan.make(graph, parts, self._source, self._options, lock)
        return self._plan

    def _leave_the_parents(self) -> None:
        """Start anew in a forked child: threads of the parent may have held the cache's locks."""
        if self._process != os.getpid():
            self._plan = self._last = self._copies = None
            self._process = os.getpid()

    def _open_parts(self) -> list[_core.LoadPart]:
        return [
            _core.LoadPart(name, store._open(), store.name, by_edge, dtype)
            for name, (store, by_edge, dtype) in self._parts.items()
        ]

    def _check_views(self) -> None:
        """Raise when seeds or times are views of a file that could not be read: they would be zeros."""
        for name, array in (("seeds", self._seed_ids), ("time", self._time)):
            if array is not None:
                _core.check_view(array.ctypes.data, name)

    def _deliver(self, epoch: _core.LoadEpoch) -> Iterator[Batch]:
        import torch

        while (raw := epoch.next()) is not None:
            rows = zip(self._parts, raw["parts"], strict=True)
            parts = {name: _as_tensor(array, dtype) for name, (array, dtype) in rows}
            raw |= raw["nodes"][0] | raw["edges"][0]
            input_id = raw["input_id"]
            self._check_views()
            attributes: dict[str, Any] = dict(parts)
            if self._labels is not None:
                attributes["y"] = self._labels.of(raw["n_id"][: len(input_id)])
            for name in ("edge_index", "n_id", "e_id", "input_id", "batch"):
                if name in raw:
                    attributes[name] = torch.from_numpy(raw[name])
            if self._time is not None:
                attributes["seed_time"] = torch.from_numpy(self._time[input_id])
            attributes["batch_size"] = len(input_id)
            attributes["num_sampled_nodes"] = raw["num_sampled_nodes"]
            attributes["num_sampled_edges"] = raw["num_sampled_edges"]
            del raw, parts, rows
            batch = Batch(**attributes)
            del attributes
            yield batch
            del batch  # while the next one is awaited, only the user holds this one


class _Closing:
    """An iterator over an epoch's batches that stops the threads when it ends, is closed, or is dropped.

    Threads may share it: each batch goes to one of them. Transforms run outside the lock, so in parallel.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        epoch: _core.LoadEpoch,
        transform: Callable[[Batch], Any] | None,
        copies: CopyStage | None,
    ) -> None:
        self._batches = batches
        self._epoch = epoch
        self._transform = transform
        self._lock = threading.Lock()  # a generator may not be entered twice
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _stop, epoch, copies)

    def __iter__(self) -> _Closing:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():  # a thread of the parent may have held the lock for ever
            self._epoch.next()  # raises
        try:
            with self._lock:
                if not self._finalizer.alive:
                    raise StopIteration
                batch = next(self._batches)
            return batch if self._transform is None else _transformed(self._transform, batch)
        except BaseException:  # the end of the epoch too
            self._finalizer()
            raise

    def close(self) -> None:
        self._finalizer()


def _stop(epoch: _core.LoadEpoch, copies: CopyStage | None) -> None:
    if copies is not None:
        copies.stop()
    epoch.stop()  # what the copying thread waits for comes to its end
    if copies is not None:
        copies.join()


def _transformed(transform: Callable[[Batch], Any], batch: Batch) -> Any:
    try:
        return transform(batch)
    except StopIteration as error:  # it would end the epoch in silence
        raise RuntimeError("transform raised StopIteration") from error


def _as_tensor(array: Any, dtype: str) -> torch.Tensor:
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
