"""What all loaders share: epochs of batches prefetched by native threads, ranks, devices, statistics."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..args.ids import as_count, as_threads
from ..args.sizes import format_size, parse_size
from ..machine.ranks import as_rank, current_local_rank, current_rank, local_threads, warn_if_alone
from ..sample.subgraph import resolve_seed
from ..stores.closing import Closing
from .batch import AnyBatch
from .device import COPIES, DeviceBatches, DeviceTier, as_device, as_gpu_memory, copies_to, current, page_lock
from .handoff import Handoff, Run
from .inputs import Labels
from .source import LoadSource
from .stats import LoaderStats


@dataclass(frozen=True)
class LoaderOptions:
    """The arguments that all kinds of loaders share, as they were given."""

    batch_size: int
    shuffle: bool
    drop_last: bool
    seed: Any
    memory: int | float | str
    prefetch: int | None
    num_threads: int | None
    device: Any
    gpu_memory: int | float | str
    transform: Callable[[Any], Any] | None
    edge_order: str
    replace: bool
    weighted: bool
    disjoint: bool
    temporal: str
    window: int | None
    method: str
    batch_dependency: int
    pad_nodes: bool
    io: str
    cache: str
    rank: int | None
    world_size: int | None
    local_world_size: int | None
    uneven: str


class EpochLoader(Closing):
    """A loader: a plan that is made once, and an epoch of batches each time it is iterated over.

    A kind of loader gives a source (what is sampled, with which rows), seeds (around what), and `_batch`, which makes a
    batch of what the core delivers.
    """

    def __init__(
        self,
        source: LoadSource,
        seeds: _core.SeedSource,
        options: LoaderOptions,
        *,
        timed: bool,
        views: Mapping[str, Any],
    ) -> None:
        """Check everything. `timed`: seeds have times; `views`: arrays that may be views of files."""
        if options.transform is not None and not callable(options.transform):
            raise TypeError(f"transform must be callable, got {type(options.transform).__name__}")
        self._source = source
        self._seeds = seeds
        views = {**views, **{f"node_time[{t!r}]": times for t, times in source.node_time.items()}}
        self._views = [(name, array, array.ctypes.data) for name, array in views.items() if array is not None]
        self._asked_rank = as_rank(options.rank, options.world_size)
        local = options.local_world_size
        self._asked_local = None if local is None else as_count(local, "local_world_size", least=1)
        self._uneven = options.uneven
        self._batch_size = as_count(options.batch_size, "batch_size", least=1)
        self._drop_last = bool(options.drop_last)
        self._device = None if options.device is None else as_device(options.device)
        self._gpu_memory = as_gpu_memory(options.gpu_memory, self._device)
        if self._device is not None and (self._is_cuda() or self._gpu_memory != 0):
            source.convert_on(self._device)
        threads = options.num_threads
        self._threads = as_threads(threads)
        if threads is None:
            self._threads = local_threads(self._asked_local, self._is_cuda(), self._gpu_memory != 0)
        self._memory = 0 if options.memory == "auto" else parse_size(options.memory)
        self._transform = options.transform
        prefetch, window = options.prefetch, options.window
        self._options = _core.LoadOptions(
            batch_size=self._batch_size,
            shuffle=bool(options.shuffle),
            drop_last=self._drop_last,
            seed=resolve_seed(options.seed),
            memory=self._memory,
            prefetch=0 if prefetch is None else min(as_count(prefetch, "prefetch", least=1), 2**20),
            threads=self._threads,
            held=COPIES if self._is_cuda() else 1,
            device_bytes=self._gpu_memory,
            io=options.io,
            cache=options.cache,
            edge_order=options.edge_order,
            fanouts=source.hops,
            direction=source.asked_direction,
            replace=bool(options.replace),
            weighted=bool(options.weighted),
            disjoint=bool(options.disjoint) or timed,
            temporal=options.temporal,
            method=options.method,
            batch_dependency=as_count(options.batch_dependency, "batch_dependency", least=1),
            pad_nodes=bool(options.pad_nodes),
            window=None if window is None else as_count(window, "window", least=0),
        )
        self._check_views()
        _core.check_load(*source.open(), self._seeds, self._options)
        self._epoch = self._first_batch = 0
        self._share()  # checks `uneven`
        self._plan: _core.LoadPlan | None = None
        self._outline: _core.LoadPlan | None = None  # without a budget: of a loader whose epochs another one makes
        self._last: Run | None = None  # of the epoch in flight, or left early
        self._final: tuple[Any, Any] | None = None  # what an epoch that is over said of itself
        self._copies: DeviceBatches | None = None  # of the last epoch, where there is a CUDA device
        self._tier: DeviceTier | None = None  # rows on the device, of the plan
        self._making = threading.Lock()  # of a plan: two threads may begin an epoch at once
        self._iterators: weakref.WeakSet[_Batches] = weakref.WeakSet()
        self._process = os.getpid()
        self._handoff = Handoff([self], goes_on=bool(options.shuffle))

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        """Return the batch that the core delivered as `raw`."""
        raise NotImplementedError

    def _labels(self) -> Labels | None:
        """The labels of all nodes that batches take theirs from."""
        return None

    def __len__(self) -> int:
        """Return the number of batches of the next epoch, on this rank."""
        batches = _core.count_batches(len(self._seeds), self._batch_size, self._drop_last)
        return int(_core.count_share(batches, self._share()))

    @property
    def direction(self) -> str:
        """Which edges are followed from a seed: "in", those that point to it, or "out", those that leave it."""
        return self._source.direction

    @property
    def epoch(self) -> int:
        """The number of the next epoch."""
        return self._epoch

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        """Make `epoch` the next one, as torch's DistributedSampler has it; batches repeat exactly.

        `first_batch` resumes an epoch after that many of its batches, counted over all ranks.
        The number of ranks may have changed since: after 10 steps of 8 ranks, `first_batch=80`.
        """
        self._epoch, self._first_batch = (
            as_count(epoch, "epoch", least=0),
            as_count(first_batch, "first_batch", least=0),
        )

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. Leaving the loop early, an exception or dropping the iterator stops the threads."""
        warn_if_alone(self._asked_rank, current_rank(self._asked_rank)[1])
        self._leave_parent()
        self._device = current(self._device)
        number, share, first_batch = self._epoch, self._share(), self._first_batch
        self._first_batch = 0  # of the epochs after this one
        try:
            run = self._handoff.begin(self, number, share)
        except BaseException:
            self._first_batch = first_batch
            raise
        self._epoch = number if self._handoff.repeats(self) else number + 1
        self._last, self._final = run, None
        if (tier := run.tier) is not None:
            tier.begin_epoch()
        batches = self._deliver(run.epoch, tier)
        self._copies = None
        if self._device is not None:
            batches, self._copies = copies_to(self._device, tier, batches, run.epoch.is_ready)
        iterator = _Batches(batches, run, self._transform, self._copies, self._end)
        self._iterators.add(iterator)
        return iterator

    def _end(self, run: Run) -> None:
        """All batches of an epoch were delivered."""
        if self._last is run:
            self._final, self._last = (run.epoch.stats, run.epoch.info), None
        self._handoff.hold(run)

    def close(self) -> None:
        """Release memory and threads now: end iterators in use, and what is held for the next epoch.

        The loader can be iterated over again and then starts afresh; an iterator that was in use raises RuntimeError.
        `with NeighborLoader(...) as loader:` closes it at the end of the block. So does dropping the last reference.
        """
        self._leave_parent()
        for iterator in list(self._iterators):
            iterator.abort()
        if self._last is not None:
            self._final = self._last.epoch.stats, self._last.epoch.info
        self._last = self._plan = self._outline = self._tier = None
        self._handoff.release()

    def stats(self) -> LoaderStats:
        """Return where the time of the current (or last) epoch went, what was read and is held, and the bottleneck."""
        self._leave_parent()
        raw, plan = self._final or (None, None)
        if self._last is not None:
            raw, plan = self._last.epoch.stats, self._last.epoch.info
        elif self._plan is not None and plan is None:
            plan = self._plan.info
        owner = self._handoff.owner(self)._plan if plan is not None else None
        return LoaderStats.of(
            raw,
            plan,
            self._copies.stats() if self._copies is not None else None,
            kept=owner_tier.stats() if (owner_tier := self._handoff.owner(self)._tier) is not None else None,
            held_bytes=owner.held_bytes if owner is not None else 0,
            next_epoch=self._handoff.next_epoch(self),
        )

    def __repr__(self) -> str:
        """Return `NeighborLoader(12 batches of 1024, fanouts=[15, 10] along 'in' edges, parts=['x'], ...)`."""
        return (
            f"{type(self).__name__}({len(self)} batches of {self._batch_size}, {self._source}, "
            f"memory={format_size(self._memory) if self._memory else 'auto'})"
        )

    def __reduce__(self) -> Any:
        """Raise TypeError: loaders cannot be pickled; graphs and features can."""
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled; pass the Graph and FeatureStore, and create one there"
        )

    def _is_cuda(self) -> bool:
        return self._device is not None and self._device.type == "cuda"

    def _share(self) -> _core.Share:
        rank, world_size = current_rank(self._asked_rank)
        return _core.Share(rank, world_size, self._uneven, self._first_batch)

    def _ready_plan(self) -> tuple[_core.LoadPlan, DeviceTier | None]:
        """Divide the budget for loaders that share it; raises BudgetError. With what the device keeps by the plan."""
        self._leave_parent()
        with self._making:
            if self._plan is None:
                self._device = current(self._device)
                graph, parts = self._source.open()
                local = current_local_rank(self._asked_local, self._asked_rank)
                guests = [loader for loader in self._handoff.members() if loader is not self and self._serves(loader)]
                plan = _core.LoadPlan.make(
                    graph, parts, self._seeds, self._options, page_lock(self._device),
                    local_rank=local.rank, local_world_size=local.world_size, group=local.group,
                    guests=[loader._known_plan() for loader in guests],
                )  # fmt: skip
                if self._gpu_memory != 0 and self._device is not None:
                    wanted = [labels for loader in (self, *guests) if (labels := loader._labels()) is not None]
                    self._tier = DeviceTier(plan, self._source.stores, self._device, self._gpu_memory, wanted)
                self._plan = plan
            return self._plan, self._tier

    def _known_plan(self) -> _core.LoadPlan:
        if self._plan is not None:
            return self._plan
        if self._outline is None:
            self._outline = _core.LoadPlan.outline(
                *self._source.open(), self._seeds, self._options, page_lock(self._device)
            )
        return self._outline

    def _serves(self, other: EpochLoader) -> bool:
        """Whether batches of another loader can be made within the budget of this one, by the same threads."""
        return (
            (self._memory, self._threads, current(self._device), self._gpu_memory)
            == (other._memory, other._threads, current(other._device), other._gpu_memory)
            and self._source.converts_like(other._source)
            and current_local_rank(self._asked_local, self._asked_rank).world_size == 1
            and current_local_rank(other._asked_local, other._asked_rank).world_size == 1
            and self._known_plan().serves(other._known_plan())
        )

    def _leave_parent(self) -> None:
        """Reset in a forked child: threads of the parent may have held the plan's locks."""
        if self._process != os.getpid():
            self._plan = self._outline = self._last = self._copies = self._final = self._tier = None
            self._iterators = weakref.WeakSet()
            self._making = threading.Lock()
            self._handoff.leave_parent()
            self._process = os.getpid()

    def _check_views(self) -> None:
        """Raise when seeds or times are views of a file that could not be read: they would be zeros."""
        for name, _, address in self._views:
            _core.check_view(address, name)

    def _deliver(self, epoch: _core.LoadEpoch, tier: DeviceTier | None) -> Iterator[AnyBatch]:
        while (raw := epoch.next()) is not None:
            self._check_views()
            raw["tier"] = tier
            batch = self._batch(raw)
            del raw
            yield batch
            del batch  # while the next one is awaited, only the user holds this one


class _Batches:
    """An iterator over an epoch's batches that stops the threads when it ends, is closed, or is dropped.

    Threads may share it: each batch goes to one of them. Transforms run outside the lock, so in parallel.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        run: Run,
        transform: Callable[[Any], Any] | None,
        copies: DeviceBatches | None,
        end: Callable[[Run], None],
    ) -> None:
        self._batches: Iterator[Any] = batches
        self._copies = copies
        self._end = end
        self._run = run
        self._transform = transform
        self._lock = threading.Lock()  # a generator may not be entered twice
        self._process = os.getpid()
        self._aborted = False
        self._finalizer = weakref.finalize(self, _stop, run.epoch, copies)

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():  # a thread of the parent may have held the lock
            raise ValueError("this iterator belongs to the parent process; call iter(loader) in the child")
        try:
            with self._lock:
                if not self._finalizer.alive:
                    raise StopIteration
                batch = next(self._batches)
            return batch if self._transform is None else _transformed(self._transform, batch)
        except StopIteration:
            if self._aborted:
                raise RuntimeError("the loader was closed; call iter(loader) to start a new epoch") from None
            if self._finalizer.detach() is not None:
                run, end = self._run, self._end
                self._forget()
                end(run)
            raise
        except BaseException:
            self._finalizer()
            raise

    def close(self) -> None:
        """Stop the threads; there are no more batches."""
        self._finalizer()

    def abort(self) -> None:
        """Stop, because the loader is closed; asking for more batches raises an error."""
        self._aborted = self._aborted or self._finalizer.alive
        self._finalizer()
        self._forget()

    def _forget(self) -> None:
        """Let go of the loader and its plan: an iterator that is kept must not keep their memory."""
        self._batches = iter(())
        if self._copies is not None:
            self._copies.release()
        self.__dict__.pop("_run", None)
        self.__dict__.pop("_end", None)


def _stop(epoch: _core.LoadEpoch, copies: DeviceBatches | None) -> None:
    epoch.stop()  # first: another thread may be waiting for a batch of it, in `copies`
    if copies is not None:
        copies.stop()


def _transformed(transform: Callable[[Any], Any], batch: Any) -> Any:
    try:
        return transform(batch)
    except StopIteration as error:  # it would end the epoch in silence
        raise RuntimeError("transform raised StopIteration") from error
