"""From one epoch to the next without a pause: an epoch that is over goes on with those that are known to follow."""

from __future__ import annotations

import weakref
from typing import Any

from . import _core

__all__ = ["Relay"]


class Relay:
    """Keeps an epoch that was delivered to its end, while its threads make what follows, until that is asked for.

    Loaders over the same files may share one: the validation that follows an epoch of training is then read while the
    last batches are trained on, within one budget.
    """

    def __init__(self) -> None:
        self._epoch: _core.LoadEpoch | None = None
        self._begun: tuple[_core.LoadPlan, int] | None = None  # what it went on to, and was not taken for yet
        self._finalizer: Any = None

    def rest(self, epoch: _core.LoadEpoch) -> None:
        """Keep an epoch that looks ahead. Its threads end with this object, or with the process."""
        self.stop()
        self._epoch = epoch
        self._finalizer = weakref.finalize(self, epoch.stop)

    def goes_on(self, plan: _core.LoadPlan, number: int, share: _core.Share) -> bool:
        """Whether the epoch that rests goes on to this one. Where it expected another, it is stopped."""
        if self._epoch is None:
            return False
        if self._begun == (plan, number):
            return True
        if self._begun is None and self._epoch.go_on(plan, number, share):
            self._begun = plan, number
            return True
        self.stop()
        return False

    def take_up(self) -> _core.LoadEpoch:
        """Return the epoch that goes on."""
        epoch = self._leave()
        assert epoch is not None
        return epoch

    def stop(self) -> None:
        """End the epoch that rests."""
        epoch = self._leave()
        if epoch is not None:
            epoch.stop()

    def forget(self) -> None:
        """Leave the epoch to the process that was forked: its threads are there."""
        self._leave()

    def _leave(self) -> _core.LoadEpoch | None:
        epoch, self._epoch, self._begun = self._epoch, None, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        return epoch
