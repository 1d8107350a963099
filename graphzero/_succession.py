"""Which epoch follows which: learned from the order in which a program asks its loaders for them.

    for epoch in range(10):
        for batch in train_loader: ...
        for batch in valid_loader: ...

After the first round it is known that the validation follows the training, and the training the validation.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._epochs import EpochLoader
    from ._relay import Run

__all__ = ["Succession"]

_MOST_EPOCHS, _MOST_BATCHES = 8, 1024  # that are expected: a window has at most half as many
_SMALL = 8  # times fewer seeds than the other has


@dataclass
class _Guess:
    loader: weakref.ref[EpochLoader]
    sure: bool = False  # it came true: one exception, such as a test now and then, does not change it


class Succession:
    """The loaders of a process, and which of them came after which. A wrong guess costs time, never a batch."""

    def __init__(self) -> None:
        # No locks: a child that is forked must find it usable, and what threads do at once makes at most a bad guess.
        self._loaders: dict[int, weakref.ref[EpochLoader]] = {}
        self._guesses: dict[int, _Guess] = {}
        self._ended: weakref.ref[EpochLoader] | None = None  # an epoch that nothing followed yet

    def add(self, loader: EpochLoader) -> None:
        """Make a loader known."""
        key = id(loader)
        self._guesses.pop(key, None)  # of one that had this id
        self._loaders[key] = weakref.ref(loader, lambda ref: self._forget(key, ref))

    def _forget(self, key: int, ref: weakref.ref[EpochLoader]) -> None:
        if self._loaders.get(key) is ref:
            self._loaders.pop(key, None)
            self._guesses.pop(key, None)

    def others(self, loader: EpochLoader) -> list[EpochLoader]:
        """All loaders but this one."""
        found = [ref() for ref in list(self._loaders.values())]
        return [other for other in found if other is not None and other is not loader]

    def begins(self, loader: EpochLoader) -> None:
        """Learn: an epoch of `loader` is asked for."""
        ended, self._ended = self._ended, None
        before = ended() if ended is not None else None
        if before is None:
            return
        guess = self._guesses.get(id(before))
        if guess is None or (guess.loader() is not loader and not guess.sure):
            self._guesses[id(before)] = _Guess(weakref.ref(loader))
        else:
            guess.sure = guess.loader() is loader

    def ends(self, loader: EpochLoader) -> None:
        """Learn: an epoch of `loader` was delivered to its end."""
        self._ended = weakref.ref(loader)

    def after(self, loader: EpochLoader) -> EpochLoader | None:
        """Whose epoch will follow one of `loader`; None where that is not known.

        Before anything was seen: a loader that shuffles, and is the only one of its graph, is there to train more than
        once.
        """
        guess = self._guesses.get(id(loader))
        if guess is not None:
            return guess.loader()
        graph = loader._source._graph
        beside = any(other._source._graph is graph for other in self.others(loader))
        return loader if loader._shuffles and not beside else None

    def likely(self, loader: EpochLoader, run: Run, number: int) -> Iterator[tuple[EpochLoader, int]]:
        """The epochs that follow what a run expects, in epoch `number` of `loader`, if its owner can make them."""
        owner = run.owner()
        last: EpochLoader | None = loader
        batches, begun = 0, {id(loader): number}
        for ref, at in run.coming:
            last = ref()
            if last is not None:
                batches, begun[id(last)] = batches + len(last), at
        for _ in range(len(run.coming), _MOST_EPOCHS):
            last = None if last is None else self.after(last)
            if owner is None or last is None or batches >= _MOST_BATCHES:
                return
            if not _can_make(owner, last) and _is_small_beside(last, owner):
                last = self.after(last)  # it makes its own batches, in what room is left
            if last is None or not _can_make(owner, last):
                return
            begun[id(last)] = begun.get(id(last), last._epoch - 1) + 1
            batches += len(last)
            yield last, begun[id(last)]

    def in_the_way(self, loader: EpochLoader) -> list[EpochLoader]:
        """The loaders that chose their memory, as `loader` is about to: what those that rest hold, it could have."""
        return [
            other
            for other in self.others(loader)
            if other._memory == 0 and other._process == loader._process and not _is_small_beside(loader, other)
        ]


def _can_make(owner: EpochLoader, other: EpochLoader) -> bool:
    """Whether batches of a loader may be made within the budget of another."""
    return other is owner or (
        other._followers is None
        and other._process == owner._process
        and other._memory == owner._memory
        and other._device == owner._device
        and other._threads == owner._threads
        and type(other) is type(owner)
        and other._batch_size <= owner._batch_size
        and other._source.fanouts == owner._source.fanouts
    )


def _is_small_beside(loader: EpochLoader, other: EpochLoader) -> bool:
    return len(loader) * loader._batch_size * _SMALL <= len(other) * other._batch_size
