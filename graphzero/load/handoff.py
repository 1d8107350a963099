"""From one epoch to the next without a pause: how long memory and threads are held for the next epoch.

While the last batches of an epoch are used, rows of the next one are read. When the epoch is over its run (threads, and
the window of rows) is held for the epoch that follows. It is released when that does not come within a few seconds,
when another epoch comes instead, when something else in the process needs the memory, and by `close()`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING

from .. import _core
from ..errors import BudgetError

if TYPE_CHECKING:
    from .device import DeviceTier
    from .epochs import EpochLoader

__all__ = ["HOLD_SECONDS", "Handoff", "Run", "make_room", "release_held"]

HOLD_SECONDS = 5.0  # in addition to the longest pause between two epochs so far,
_LONGEST_PAUSE = 60.0  # but at most this much of it
_MOST_EPOCHS, _MOST_BATCHES = 8, 1024  # to look ahead: a window has at most half as many batches

_handoffs: weakref.WeakSet[Handoff] = weakref.WeakSet()


@dataclass(eq=False)
class Run:
    """Epochs that one set of threads makes, one after the other, within one budget."""

    epoch: _core.LoadEpoch
    plan: _core.LoadPlan  # whose budget it is
    tier: DeviceTier | None  # what the device keeps by this plan
    coming: deque[tuple[weakref.ref[EpochLoader], int]] = field(default_factory=deque)  # said to follow

    def expect(self, following: Iterator[tuple[EpochLoader, int]]) -> None:
        """Say what follows, as far as it was not said before and rows are read by a window."""
        for position, (loader, number) in enumerate(following):
            if position < len(self.coming):
                continue
            if not self.epoch.expect(loader._known_plan(), number, loader._share()):
                return
            self.coming.append((weakref.ref(loader), number))


class Handoff:
    """The order in which loaders deliver epochs, and the run that is held between two of them.

    A loader has one of its own: its next epoch follows if it shuffles. Those of a `LoaderGroup` share one.
    """

    def __init__(
        self,
        members: Sequence[EpochLoader],
        *,
        goes_on: bool,
        repeat: Sequence[EpochLoader] = (),
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        """Make `members` take turns; those of `repeat` deliver one epoch again and again."""
        self._members: list[weakref.ref[EpochLoader]] = []
        self._repeat = {id(loader) for loader in repeat}
        self._goes_on = goes_on
        self._hold_seconds = hold_seconds
        self.then: Sequence[tuple[EpochLoader, int]] | None = None  # what follows the next epoch, if not the next turn
        self._longest_pause = 0.0
        self._reset()
        for loader in members:
            self.add(loader)
        _handoffs.add(self)

    def add(self, loader: EpochLoader) -> None:
        """Give a loader a turn, after the others. What is held ends with any of them."""
        self._members.append(weakref.ref(loader))
        loader._handoff = self
        weakref.finalize(loader, self.release)

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()  # a loader may be collected while it is held
        # Guarded by the lock:
        self._held: Run | None = None
        self._timer: Timer | None = None
        self._ended = 0.0  # when the last epoch was over

    def leave_parent(self) -> None:
        """Reset in a forked child: the threads belong to the parent, and one of them may have held the lock."""
        if self._process != os.getpid():
            self._reset()

    def members(self) -> list[EpochLoader]:
        """The loaders that are still there."""
        return [loader for ref in self._members if (loader := ref()) is not None]

    def owner(self, loader: EpochLoader) -> EpochLoader:
        """The member in whose budget the batches of `loader` are made: the first that has all it needs."""
        return next(other for other in self.members() if other is loader or other._serves(loader))

    def repeats(self, loader: EpochLoader) -> bool:
        """Whether a loader delivers the same epoch each time."""
        return id(loader) in self._repeat

    def begin(self, loader: EpochLoader, number: int, share: _core.Share) -> Run:
        """Start an epoch, or continue with its prefetched part, and announce what follows it."""
        self.leave_parent()
        run = self._take_up(loader, number, share)
        if run is None:
            owner = self.owner(loader)
            self.release(but=owner)
            try:
                run = self._start(owner, loader, number, share)
            except BudgetError:
                if not release_held(but=self):
                    raise
                run = self._start(owner, loader, number, share)
        following = self._following(loader, number)
        run.expect(takewhile(lambda then: self.owner(then[0])._plan is run.plan, following))
        return run

    def _start(self, owner: EpochLoader, loader: EpochLoader, number: int, share: _core.Share) -> Run:
        if owner._memory == 0:
            release_held(but=self, auto_only=True)
        plan, tier = owner._ready_plan()
        return Run(_core.LoadEpoch(plan, number, share, None if owner is loader else loader._known_plan()), plan, tier)

    def _take_up(self, loader: EpochLoader, number: int, share: _core.Share) -> Run | None:
        with self._lock:
            if self._ended:
                self._longest_pause = max(self._longest_pause, monotonic() - self._ended)
                self._ended = 0.0
            run = self._held
            if run is None or not run.epoch.continue_with(loader._known_plan(), number, share):
                return None
            run.coming.popleft()
            self._take_out()
            return run

    def hold(self, run: Run) -> None:
        """Keep a run whose epoch was delivered to its end, where something follows; else its threads end now."""
        with self._lock:
            self._ended = monotonic()
            if not run.epoch.has_next_epoch:
                run.epoch.stop()
                return
            self._stop_held()
            self._held = run
            seconds = self._hold_seconds + min(self._longest_pause, _LONGEST_PAUSE)
            self._timer = Timer(seconds, _expire, (weakref.ref(self), weakref.ref(run)))
            self._timer.daemon = True
            self._timer.start()

    def next_epoch(self, loader: EpochLoader) -> int | None:
        """The epoch of a loader that memory and threads are held for."""
        run = self._held
        return None if run is None else next((number for ref, number in run.coming if ref() is loader), None)

    def release(self, but: EpochLoader | None = None, run: Run | None = None, copies: bool = True) -> bool:
        """End the run that is held, if it is `run` or that is not given, and free the rows and idle buffers of members.

        Those of `but`, which is about to deliver, and of a loader with an epoch in flight stay, and whole copies of
        files without `copies`. False: there was nothing to free.
        """
        self.leave_parent()
        with self._lock:
            if run is not None and run is not self._held:
                return False
            stopped = self._stop_held()  # under the lock: an epoch that begins now finds all memory free
            freed = [loader._plan.release(copies) for loader in self.members() if loader._plan and loader is not but]
        return stopped or any(freed)

    def _stop_held(self) -> bool:
        held = self._take_out()
        if held is not None:
            held.epoch.stop()
        return held is not None

    def _take_out(self) -> Run | None:
        if self._timer is not None:
            self._timer.cancel()
        held, self._held, self._timer = self._held, None, None
        return held

    def _following(self, loader: EpochLoader, number: int) -> Iterator[tuple[EpochLoader, int]]:
        """The epochs after epoch `number` of `loader`, as far as it is useful to know them."""
        if self.then is not None:
            yield from self.then
        if self.then is not None or not self._goes_on:
            return
        members = self.members()
        at, batches, last = members.index(loader), 0, {id(loader): number}
        for turn in range(at + 1, at + 1 + _MOST_EPOCHS):
            other = members[turn % len(members)]
            step = 0 if self.repeats(other) else 1
            last[id(other)] = last[id(other)] + step if id(other) in last else other._epoch
            yield other, last[id(other)]
            batches += len(other)
            if batches >= _MOST_BATCHES:
                return


def _expire(handoff: weakref.ref[Handoff], run: weakref.ref[Run]) -> None:
    held, its_run = handoff(), run()
    if held is not None and its_run is not None:
        held.release(run=its_run)


def release_held(but: Handoff | None = None, *, auto_only: bool = False) -> bool:
    """Release what loaders of this process hold between epochs; False where nothing was held.

    `auto_only`: of those with memory="auto", which choose again. A budget that the user set will be used again, and
    whole copies of files, which were chosen because they fit, are kept.
    """
    released = [
        handoff.release(copies=not auto_only)
        for handoff in list(_handoffs)
        if handoff is not but and not (auto_only and any(loader._memory for loader in handoff.members()))
    ]
    return any(released)


def make_room(wanted: int) -> None:
    """Release what loaders hold between epochs, if less than `wanted` bytes are available without that."""
    if any(handoff._held for handoff in list(_handoffs)) and _core.available_memory() < wanted:
        release_held()
