"""From one epoch to the next without a pause: an epoch that is over goes on with those that are expected to follow."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    from ._epochs import EpochLoader

__all__ = ["Relay", "Run"]


@dataclass(eq=False)
class Run:
    """Epochs that one set of threads makes, one after the other, within one budget."""

    epoch: _core.LoadEpoch
    owner: weakref.ref[EpochLoader]  # whose budget it is
    coming: deque[tuple[weakref.ref[EpochLoader], int]] = field(default_factory=deque)  # expected: loader, epoch


class Relay:
    """Keeps a run whose epoch was delivered to its end, while its threads make what follows, until that is asked for.

    Loaders over the same files may share one: the validation that follows an epoch of training is then read while the
    last batches are trained on, within one budget.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._begun: tuple[_core.LoadPlan, int] | None = None  # what it went on to, and was not taken for yet
        self._finalizer: Any = None

    @property
    def rests(self) -> bool:
        """Whether there is a run that waits to be taken up."""
        return self._run is not None

    def rest(self, run: Run) -> None:
        """Keep a run that looks ahead. Its threads end with this object, with its owner, or with the process."""
        self.stop()
        self._run = run
        self._finalizer = weakref.finalize(self, run.epoch.stop)

    def goes_on(self, plan: _core.LoadPlan, number: int, share: _core.Share) -> bool:
        """Whether the run that rests goes on to this epoch. Where it expected another, it is stopped."""
        if self._run is None:
            return False
        if self._begun == (plan, number):
            return True
        if self._begun is None and self._run.epoch.go_on(plan, number, share):
            self._begun = plan, number
            return True
        self.stop()
        return False

    def take_up(self) -> Run:
        """Return the run, which went on."""
        run = self._leave()
        assert run is not None
        run.coming.popleft()
        return run

    def stop(self) -> None:
        """End the run that rests."""
        run = self._leave()
        if run is not None:
            run.epoch.stop()

    def forget(self) -> None:
        """Leave the run to the process that was forked: its threads are there."""
        self._leave()

    def _leave(self) -> Run | None:
        run, self._run, self._begun = self._run, None, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        return run
