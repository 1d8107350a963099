"""The loaders of a run: splits take turns, within one memory budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from ..args.sizes import format_size
from ..errors import BudgetError
from ..load.epochs import EpochLoader
from ..load.handoff import Handoff
from ..load.stats import LoaderStats

__all__ = ["Loaders"]


class Loaders:
    """One loader per split, created on first use; they take turns like those of a `LoaderGroup`."""

    def __init__(self, make: Callable[[str, int, int], EpochLoader], memory: int, num_threads: int) -> None:
        """Create loaders with `make(split, num_threads, memory)` within `memory` bytes; 0 lets the first one choose."""
        self._make = make
        self._memory = memory
        self._threads = num_threads
        self._handoff = Handoff([], goes_on=False)
        self._loaders: dict[str, EpochLoader] = {}
        self.stats: dict[str, LoaderStats] = {}  # of the last pass of each split

    def check(self, *splits: str) -> None:
        """Raise BudgetError if the budget is too small for one of the splits, before the first epoch.

        If the budget is too small for all threads, fewer threads are tried.
        """
        most = self._threads
        fewer = [] if self._memory == 0 else [threads for threads in (8, 4, 2, 1) if threads < most]
        for self._threads in [most, *fewer]:
            refused = self._refusals(splits)
            if not refused:
                return
            self.close()
        split, reason = max(refused, key=lambda found: found[1].needed_bytes)
        if self._memory == 0:
            raise reason
        needed = math.ceil(reason.needed_bytes / 1e6) * 1_000_000
        raise BudgetError(
            f"memory is {format_size(self._memory)}, but {split} batches need {format_size(reason.needed_bytes)}; "
            f"raise memory to {needed // 1_000_000}MB or lower batch_size or fanouts",
            needed,
        ) from reason

    def _refusals(self, splits: Sequence[str]) -> list[tuple[str, BudgetError]]:
        """Divide the budgets; return the errors of the splits whose budget is too small."""
        refused = []
        loaders = {split: self._loader(split) for split in splits}
        for split, loader in loaders.items():
            if not isinstance(loader, EpochLoader):  # everything is in RAM
                continue
            owner = self._handoff.owner(loader)
            try:
                owner._ready_plan()
            except BudgetError as error:
                refused.append((split, error))
            self._handoff.release(but=owner)
        return refused

    def count(self, split: str) -> int:
        """How many batches a pass over a split has."""
        return len(self._loader(split))

    def batches(
        self, split: str, epoch: int, first_batch: int = 0, then: Sequence[tuple[str, int]] = ()
    ) -> Generator[Any, None, None]:
        """Iterate over an epoch of a split, or the rest of it; the loader's statistics are then in `stats`.

        `then` lists the splits and epochs that follow, as far as they are known.
        """
        loader = self._loader(split)
        loader.set_epoch(epoch, first_batch)
        self._handoff.then = [(self._loader(name), at) for name, at in then]
        try:
            yield from loader
        finally:
            self.stats[split] = loader.stats()

    def close(self) -> None:
        """Release memory and threads."""
        for loader in self._loaders.values():
            loader.close()
        self._handoff.then = []
        self._loaders.clear()

    def _loader(self, split: str) -> EpochLoader:
        if split not in self._loaders:
            loader = self._loaders[split] = self._make(split, self._threads, self._memory)
            if isinstance(loader, EpochLoader):
                self._handoff.add(loader)
        return self._loaders[split]
