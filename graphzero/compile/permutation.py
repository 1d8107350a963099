"""A shuffle of 0..n-1 that is computed, not stored: an id maps to its position and back in a few table look-ups."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray

_Digits = npt.NDArray[np.uint64]
_Step = Callable[[IdArray], IdArray]
_ROUNDS = 4


class Shuffle:
    """A seeded bijection of [0, size) onto itself that takes memory for sqrt(size) numbers only.

    An id is split into two digits of base b = ceil(sqrt(size)), and a Feistel network adds to one digit a random number
    that depends on the other, in four rounds. The few results past `size` (at most 2 b of b * b) are mapped again.

    >>> s = Shuffle(10, np.random.default_rng(0))
    >>> ids = s.forward(np.arange(10))
    >>> sorted(ids.tolist()) == list(range(10)), s.backward(ids).tolist()
    (True, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(self, size: int, random: np.random.Generator) -> None:
        """Make the shuffle of [0, size) that `random` draws."""
        self.size = size
        self._base = math.isqrt(max(size, 1) - 1) + 1
        self._tables = [random.integers(0, self._base, self._base, dtype=np.uint64) for _ in range(_ROUNDS)]

    def forward(self, ids: IdArray) -> IdArray:
        """Return the position of each of `ids`, which must be in [0, size)."""
        return self._walk(ids, self._mix)

    def backward(self, ids: IdArray) -> IdArray:
        """Return the id at each position: the inverse of `forward`."""
        return self._walk(ids, self._unmix)

    def _walk(self, ids: IdArray, step: _Step) -> IdArray:
        out = step(ids)
        astray = np.flatnonzero(out >= self.size)
        while astray.size:
            out[astray] = step(out[astray])
            astray = astray[out[astray] >= self.size]
        return out

    def _mix(self, ids: IdArray) -> IdArray:
        high, low = self._digits(ids)
        for table in self._tables:
            high, low = low, self._add(high, table.take(low.view(np.int64)))
        return self._join(high, low)

    def _unmix(self, ids: IdArray) -> IdArray:
        high, low = self._digits(ids)
        base = np.uint64(self._base)
        for table in reversed(self._tables):
            high, low = self._add(low, base - table.take(high.view(np.int64))), high
        return self._join(high, low)

    def _digits(self, ids: IdArray) -> tuple[_Digits, _Digits]:
        wide = ids.astype(np.uint64)
        base = np.uint64(self._base)
        high = wide // base
        wide -= high * base
        return high, wide

    def _add(self, digit: _Digits, amount: _Digits) -> _Digits:
        # Both are at most base, so one subtraction is the modulo; where it wraps below zero it becomes huge, and the
        # minimum picks the other.
        amount += digit
        less: _Digits = amount - np.uint64(self._base)
        np.minimum(amount, less, out=less)
        return less

    def _join(self, high: _Digits, low: _Digits) -> IdArray:
        high = high * np.uint64(self._base)
        high += low
        return high.view(np.int64)
