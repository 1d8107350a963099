"""The loaders of a run: one pass follows another, so each may use the whole memory budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from .. import _core
from .._epochs import EpochLoader
from .._ranks import current_local_rank
from .._relay import Relay
from .._sizes import format_size
from ..errors import BudgetError
from ..loader import LoaderStats

__all__ = ["Loaders"]

_MARGIN = 1.1  # what a pass takes is seen between batches, and may be a little more


class Loaders:
    """Makes the loader of a split when its pass begins, with the whole budget.

    Where rows are read by a window, one pass goes on into the next within the same window and budget, also from the
    training to the validation. Otherwise a loader holds the rows that it copied between its passes. It keeps them while
    another one is at work as long as both fit into the budget; else it is dropped, and made again for its next pass:
    the batches are the same.
    """

    def __init__(self, make: Callable[[str, int, int], EpochLoader], memory: int, num_threads: int) -> None:
        """Make loaders by `make(split, num_threads, memory)` within `memory` bytes; 0 is what the first one chooses."""
        self._make = make
        self._memory = memory
        self._chooses = memory == 0
        self._ranks = current_local_rank(None, (0, 1)).world_size  # of this host, whose budget it is
        self._threads = num_threads
        self.stats: dict[str, LoaderStats] = {}  # of the last pass of each split
        self._relay = Relay()
        self._loaders: dict[str, EpochLoader] = {}  # that have a budget
        self._guests: dict[str, EpochLoader] = {}  # whose batches another one makes
        self._kept: dict[str, int] = {}  # bytes of row cache that a loader holds between its passes
        self._used: dict[str, int] = {}  # the most bytes that its pass was seen to take

    def check(self, *splits: str) -> None:
        """Raise BudgetError now when the budget is too small for one of them: after an epoch it would be late."""
        refused = []
        for split in splits:
            try:
                self._ready(split, self._memory)
            except BudgetError as error:
                refused.append(error)
        if refused:  # the one that asks for most: the others are content with that
            raise max(refused, key=lambda error: error.needed_bytes)

    def ready(self, split: str) -> EpochLoader:
        """The loader of a split, with its share of the budget."""
        others = self._ranks * sum(kept for name, kept in self._kept.items() if name != split)
        if split in self._loaders:
            if self._ranks * self._used.get(split, 0) * _MARGIN + others > self._memory:
                self._drop(but=split)
            return self._loaders[split]
        if self._chooses or others > self._memory // 2:
            self._drop(but=split)
            others = 0
        try:
            loader = self._ready(split, self._memory - others)
        except BudgetError:
            if not others:
                raise
            self._drop(but=split)
            loader = self._ready(split, self._memory)
        self._loaders[split] = loader
        return loader

    def count(self, split: str) -> int:
        """How many batches a pass over a split has."""
        return len(self._known(split))

    def batches(
        self, split: str, epoch: int, first_batch: int = 0, then: Sequence[tuple[str, int]] = ()
    ) -> Generator[Any, None, None]:
        """Go over an epoch of a split, or what is left of it; `stats` then has what its loader says of it.

        `then` says which splits and epochs follow, as far as that is known.
        """
        loader = self._known(split)
        loader.set_epoch(epoch, first_batch)
        relayed = isinstance(loader, EpochLoader) and loader._goes_on()
        if not relayed:
            self._relay.stop()
            loader = self.ready(split)
            loader.set_epoch(epoch, first_batch)
        if isinstance(loader, EpochLoader):
            loader._followers = [(self._known(name), at) for name, at in then]
        try:
            yield from loader if relayed else self._watched(split, loader)
        finally:
            self.stats[split] = loader.stats()

    def _watched(self, split: str, loader: EpochLoader) -> Generator[Any, None, None]:
        """Go over an epoch of a loader, and see what memory it takes."""
        others = sum(kept for name, kept in self._kept.items() if name != split)
        most = 0
        try:
            for batch in loader:
                most = max(most, _core.bytes_held()["total"])
                yield batch
                del batch  # while the next one is awaited, only the user holds this one
        finally:
            self._used[split] = max(most - others, self._used.get(split, 0))
            self._kept[split] = max(_core.bytes_held()["cache"] - others, 0)

    def _known(self, split: str) -> EpochLoader:
        """The loader of a split, with a budget or without."""
        if split not in self._loaders and split not in self._guests:
            self._guests[split] = self._loader(split, self._threads, self._memory)
        return self._loaders.get(split) or self._guests[split]

    def _loader(self, split: str, threads: int, memory: int) -> EpochLoader:
        loader = self._make(split, threads, memory)
        if isinstance(loader, EpochLoader):
            loader._relay = self._relay
        return loader

    def _drop(self, but: str) -> None:
        for split in [s for s in self._loaders if s != but]:
            del self._loaders[split]
            self._kept.pop(split, None)
            self._used.pop(split, None)

    def _ready(self, split: str, memory: int) -> EpochLoader:
        """Make the loader and divide its budget. Where that does not do, fewer threads are tried: they hold less."""
        if self._chooses:
            loader = self._loader(split, self._threads, 0)
            if not isinstance(loader, EpochLoader):
                return loader
            self._memory = max(self._memory, int(loader._ready_plan().info["host_memory"]))
            return loader
        most = self._threads
        for threads in [most, *(n for n in (8, 4, 2, 1) if n < most)]:
            loader = self._loader(split, threads, memory)
            try:
                if isinstance(loader, EpochLoader):
                    loader._ready_plan()
            except BudgetError as error:
                reason = error
            else:
                return loader
        needed = math.ceil(reason.needed_bytes / 1e6) * 1_000_000
        raise BudgetError(
            f"memory is {format_size(memory)}, {split} batches need {format_size(reason.needed_bytes)}: "
            f"raise memory to {needed // 1_000_000}MB or lower batch_size or fanouts",
            needed,
        ) from reason
