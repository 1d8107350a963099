"""What all loaders share: epochs of batches that native threads make ahead, ranks, devices, statistics."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _core
from ._copy_stage import COPIES, CopyStage
from ._ids import as_count, as_threads
from ._load_source import LoadSource
from ._ranks import as_rank, current_local_rank, current_rank, local_threads, warn_if_alone
from ._relay import Relay, Run
from ._sizes import format_size, parse_size
from ._succession import Succession
from ._transfer import CudaCopies, as_device, page_lock, plain_copies
from .hetero_batch import AnyBatch
from .loader_stats import LoaderStats
from .sampling import resolve_seed

_succession = Succession()


class EpochLoader:
    """A loader: a plan that is made once, and an epoch of batches each time it is iterated over.

    A kind of loader gives a source (what is sampled, with which rows), seeds (around what), and `_batch`, which makes a
    batch of what the core delivers.
    """

    def __init__(
        self,
        source: LoadSource,
        seeds: _core.SeedSource,
        *,
        sampling: Mapping[str, Any],
        views: Mapping[str, Any],
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        seed: Any,
        memory: int | float | str,
        prefetch: int | None,
        num_threads: int | None,
        device: Any,
        transform: Callable[[Any], Any] | None,
        edge_order: str,
        io: str,
        cache: str,
        rank: int | None,
        world_size: int | None,
        local_world_size: int | None,
        uneven: str,
    ) -> None:
        """Check everything. `sampling` holds the options of sampling; `views` arrays that may be views of files."""
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be callable, got {type(transform).__name__}")
        self._source = source
        self._seeds = seeds
        self._views = {name: array for name, array in views.items() if array is not None}
        self._asked_rank = as_rank(rank, world_size)
        self._asked_local = (
            None if local_world_size is None else as_count(local_world_size, "local_world_size", least=1)
        )
        self._uneven = uneven
        self._batch_size = as_count(batch_size, "batch_size", least=1)
        self._drop_last = bool(drop_last)
        self._shuffles = bool(shuffle)
        self._device = None if device is None else as_device(device)
        self._threads = (
            local_threads(self._asked_local, self._is_cuda()) if num_threads is None else as_threads(num_threads)
        )
        self._memory = 0 if memory == "auto" else parse_size(memory)
        self._transform = transform
        self._options = _core.LoadOptions(
            batch_size=self._batch_size,
            shuffle=self._shuffles,
            drop_last=self._drop_last,
            seed=resolve_seed(seed),
            memory=self._memory,
            prefetch=0 if prefetch is None else min(as_count(prefetch, "prefetch", least=1), 2**20),
            threads=self._threads,
            held=COPIES if self._is_cuda() else 1,
            io=io,
            cache=cache,
            edge_order=edge_order,
            fanouts=source.hops,
            direction=source.asked_direction,
            **sampling,
        )
        self._check_views()
        _core.check_load(*source.open(), self._seeds, self._options)
        self._epoch = self._first_batch = 0
        self._share()  # checks `uneven`
        self._plan: _core.LoadPlan | None = None
        self._outline: _core.LoadPlan | None = None  # without a budget: of a loader whose epochs another one makes
        self._relay = Relay()
        self._followers: list[tuple[EpochLoader, int]] | None = None  # with their epochs; None: what was learned
        self._last: _core.LoadEpoch | None = None
        self._final: tuple[Any, Any] | None = None  # what the last epoch said of itself, where its threads went on
        self._copies: CopyStage | None = None  # of the last epoch, where there is a CUDA device
        self._process = os.getpid()
        _succession.add(self)

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        """Return the batch that the core delivered as `raw`."""
        raise NotImplementedError

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

        `first_batch` goes on within an epoch: so many of its batches, counted over all ranks, are left out because they
        are done. The number of ranks may have changed since: after 10 steps of 8 ranks, `first_batch=80`.
        """
        self._epoch, self._first_batch = (
            as_count(epoch, "epoch", least=0),
            as_count(first_batch, "first_batch", least=0),
        )

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch. Leaving the loop early, an exception or dropping the iterator stops the threads."""
        warn_if_alone(self._asked_rank, current_rank(self._asked_rank)[1])
        if self._followers is None:
            _succession.begins(self)
        number, run = self._epoch, self._begin()
        epoch = run.epoch
        self._epoch, self._first_batch = self._epoch + 1, 0
        self._last, self._final = epoch, None
        self._expect(run, number)
        batches = self._deliver(epoch)
        self._copies = None
        if self._device is not None and self._is_cuda():
            self._copies = CopyStage(batches, CudaCopies(self._device))
        elif self._device is not None:
            batches = plain_copies(batches, self._device)
        return _Closing(self._copies or batches, epoch, self._transform, self._copies, lambda: self._end(run))

    def _begin(self) -> Run:
        """Start the next epoch, or take it up from where it was made ahead."""
        if self._goes_on():
            return self._relay.take_up()
        if self._memory == 0:
            for other in _succession.in_the_way(self):
                other._make_room()
        return Run(_core.LoadEpoch(self._ready_plan(), self._epoch, self._share()), weakref.ref(self))

    def _goes_on(self) -> bool:
        """Whether the next epoch is being made already."""
        self._leave_the_parents()
        known = self._plan or self._outline
        return known is not None and self._relay.goes_on(known, self._epoch, self._share())

    def _expect(self, run: Run, number: int) -> None:
        """Say what follows, as far as that is known and not said yet."""
        if self._followers is None:
            followers = _succession.likely(self, run, number)
        else:
            followers = iter(self._followers[len(run.coming) :])
        for loader, at in followers:
            owner = run.owner()
            if self._followers is None and owner is not None and loader is not owner:
                loader._join(owner, self._relay)
            if not run.epoch.expect(loader._known_plan(), at, loader._share()):
                return
            run.coming.append((weakref.ref(loader), at))

    def _join(self, owner: EpochLoader, relay: Relay) -> None:
        """Let another loader make the batches: there is one budget, and one run that rests between epochs."""
        if self._relay is not relay:
            self._relay.stop()
            self._relay, self._plan = relay, None
            weakref.finalize(owner, relay.stop)

    def _make_room(self) -> None:
        """Give up the rows that are held for epochs to come."""
        self._relay.stop()
        if self._plan is not None:
            self._plan.rest()

    def _known_plan(self) -> _core.LoadPlan:
        if self._plan is not None:
            return self._plan
        if self._outline is None:
            self._outline = _core.LoadPlan.outline(
                *self._source.open(), self._seeds, self._options, page_lock(self._device)
            )
        return self._outline

    def _end(self, run: Run) -> None:
        """All batches of an epoch were delivered."""
        epoch = run.epoch
        if self._followers is None:
            _succession.ends(self)
        if not epoch.looks_ahead:
            epoch.stop()
            return
        if self._last is epoch:
            self._final = epoch.stats, epoch.info
        self._relay.rest(run)

    def stats(self) -> LoaderStats:
        """Say where the time of the current (or last) epoch went, what was read, and what the bottleneck is."""
        self._leave_the_parents()
        raw = self._last.stats if self._last is not None else None
        plan = self._plan.info if self._plan is not None else self._last.info if self._last is not None else None
        if self._final is not None:
            raw, plan = self._final
        return LoaderStats.of(raw, plan, self._copies.stats() if self._copies is not None else None)

    def __repr__(self) -> str:
        """Say what it is: `NeighborLoader(12 batches of 1024, fanouts=[15, 10] along 'in' edges, parts=['x'], ...)`."""
        return (
            f"{type(self).__name__}({len(self)} batches of {self._batch_size}, {self._source}, "
            f"memory={format_size(self._memory) if self._memory else 'auto'})"
        )

    def __reduce__(self) -> Any:
        """Refuse: hand the graph and features to the other process and make a loader there."""
        raise TypeError(
            f"a {type(self).__name__} does not pickle: pass the Graph and FeatureStore, which do, and make one there"
        )

    def _is_cuda(self) -> bool:
        return self._device is not None and self._device.type == "cuda"

    def _share(self) -> _core.Share:
        rank, world_size = current_rank(self._asked_rank)
        return _core.Share(rank, world_size, self._uneven, self._first_batch)

    def _ready_plan(self) -> _core.LoadPlan:
        self._leave_the_parents()
        if self._plan is None:
            graph, parts = self._source.open()
            local = current_local_rank(self._asked_local, self._asked_rank)
            self._plan = _core.LoadPlan.make(
                graph, parts, self._seeds, self._options, page_lock(self._device),
                local_rank=local.rank, local_world_size=local.world_size, group=local.group,
            )  # fmt: skip
        return self._plan

    def _leave_the_parents(self) -> None:
        """Start anew in a forked child: threads of the parent may have held the cache's locks."""
        if self._process != os.getpid():
            self._plan = self._outline = self._last = self._copies = self._final = None
            self._relay.forget()
            self._process = os.getpid()

    def _check_views(self) -> None:
        """Raise when seeds or times are views of a file that could not be read: they would be zeros."""
        for name, array in self._views.items():
            _core.check_view(array.ctypes.data, name)

    def _deliver(self, epoch: _core.LoadEpoch) -> Iterator[AnyBatch]:
        while (raw := epoch.next()) is not None:
            self._check_views()
            batch = self._batch(raw)
            del raw
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
        transform: Callable[[Any], Any] | None,
        copies: CopyStage | None,
        end: Callable[[], None],
    ) -> None:
        self._batches = batches
        self._copies = copies
        self._end = end
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
        except StopIteration:
            if self._finalizer.detach() is not None:
                _join(self._copies)
                self._end()
            raise
        except BaseException:
            self._finalizer()
            raise

    def close(self) -> None:
        self._finalizer()


def _stop(epoch: _core.LoadEpoch, copies: CopyStage | None) -> None:
    if copies is not None:
        copies.stop()
    epoch.stop()  # what the copying thread waits for comes to its end
    _join(copies)


def _join(copies: CopyStage | None) -> None:
    if copies is not None:
        copies.join()


def _transformed(transform: Callable[[Any], Any], batch: Any) -> Any:
    try:
        return transform(batch)
    except StopIteration as error:  # it would end the epoch in silence
        raise RuntimeError("transform raised StopIteration") from error
