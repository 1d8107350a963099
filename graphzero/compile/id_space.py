"""The ids of one node type, shared by its node table and by every edge table that refers to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray
from ..errors import InputError
from ..sources.keys import Keys, keys_of
from ..stores.idmap import text_path

__all__ = ["IdSpace"]

_STEP = 1 << 20


class IdSpace:
    """Dense ids 0, 1, 2, ...: integers unchanged, or strings and sparse integers through a map on disk.

    Ids of a node table come first, in the order of its rows. In a closed space all ids are known: any other is -1.
    """

    def __init__(self, name: str, folder: str, memory: int, threads: int) -> None:
        """Create an empty space; the map and its spill files are written to `folder`."""
        self.name, self.declared, self.closed = name, 0, False
        self.map_file: str | None = None
        self._folder, self._memory, self._threads = folder, memory, threads
        self._builder: _core.IdMapBuilder | None = None
        self._found: _core.IdMap | None = None
        self._first: int | None = None  # of integer ids that count up from it
        self._numbers = False
        self._text: bool | None = None  # not known yet
        self._largest = -1

    @property
    def count(self) -> int:
        """The number of nodes so far."""
        if self._builder is not None:
            return int(self._builder.count)
        return max(self.declared, self._largest + 1)

    @property
    def provisional(self) -> bool:
        """Whether `map` has returned ids that are to be resolved."""
        return self._builder is not None and bool(self._builder.late)

    def declare(self, batches: Callable[[], Iterable[Any]], where: str, always_map: bool, closed: bool) -> int:
        """Take the ids of a node table, in the order of its rows; return the number of rows.

        Rows of one id are one node, which gets its number from the first: `count` is then less than the number of rows.
        """
        rows = self._take(batches(), where, always_map, distinct=closed)
        self.closed = closed
        if self._builder is None:
            self.declared = rows
            return rows
        if not closed and self._builder.late:
            raise InputError(f"{where}: {rows} ids do not fit in the budget with missing: fill; pass a larger memory=")
        if closed and self._write():
            self._builder = self._first = None
            self._take(batches(), where, always_map, distinct=False)
            self._write()
        self.declared = self.count if self._found is None else int(self._found.size)
        return rows

    def _take(self, batches: Iterable[Any], where: str, always_map: bool, distinct: bool) -> int:
        """Add the ids of a node table to a map, unless they are 0, 1, 2, ...; return the number of rows.

        If they are expected to be distinct, they need no RAM; whether they were is known when the map is written.
        """
        rows, self._numbers = 0, not always_map
        for batch in batches:
            keys = keys_of(batch, where, rows)
            count = len(keys[1]) - (keys[0] is not None)
            if keys[0] is not None:
                self._first = None
            elif not rows and count:
                self._first = int(keys[1][0])
            if self._first is not None:
                expected = np.arange(rows, rows + count) + self._first
                self._first = self._first if np.array_equal(keys[1], expected) else None
            if self._numbers and self._first != 0 and count:
                self._numbers = False
                for at in range(0, rows, _STEP):  # ids that looked dense before
                    self._add((None, np.arange(at, min(at + _STEP, rows))), distinct)
            if not self._numbers:
                self._add(keys, distinct)
            self._text = keys[0] is not None
            rows += count
        return rows

    def map(self, column: Any, where: str, row: int, base: int, always_map: bool) -> tuple[IdArray, bool]:
        """Return the dense ids of a column (-1 for ids unknown to a closed space) and whether they are provisional."""
        keys = keys_of(column, where, row)
        if self._builder is None and self._found is None and (self._numbers or (keys[0] is None and not always_map)):
            return self._plain(keys, where, row, base), False
        self._check_kind(keys, where)
        if self._first is not None and self.closed:
            ids = keys[1] - self._first  # wraps around for ids far apart, which are out of range all the same
            return np.where((keys[1] >= self._first) & (ids >= 0) & (ids < self.declared), ids, -1), False
        if self._found is not None:
            known: IdArray = self._found.find(*keys, self._threads)
            return known, False
        return self._add(keys), self.provisional

    def _check_kind(self, keys: Keys, where: str) -> None:
        """Raise InputError for a mixture of integers and strings, which would never match."""
        text = keys[0] is not None
        if self._text is not None and text != self._text:
            kinds = ("strings", "integers") if text else ("integers", "strings")
            raise InputError(f"{where}: found {kinds[0]}, but the ids of {self.name!r} are {kinds[1]} elsewhere")

    def _plain(self, keys: Keys, where: str, row: int, base: int) -> IdArray:
        self._check_kind(keys, where)
        self._numbers, self._text = True, False
        ids: IdArray = keys[1] - base if base else keys[1].copy()
        if self.closed:
            ids[(ids < 0) | (ids >= self.declared)] = -1
            return ids
        if ids.size and int(ids.min()) < 0:
            at = int(np.argmin(ids))
            raise InputError(f"{where}: row {row + at}: found id {keys[1][at]}, expected at least {base}")
        if ids.size:
            self._largest = max(self._largest, int(ids.max()))
        return ids

    def _add(self, keys: Keys, distinct: bool = False) -> IdArray:
        self._check_kind(keys, f"ids of {self.name!r}")
        self._text = keys[0] is not None
        if self._builder is None:
            os.makedirs(self._folder, exist_ok=True)
            self._builder = _core.IdMapBuilder(
                text=keys[0] is not None, memory=self._memory, threads=self._threads, spill_folder=self._folder
            )
        if distinct:
            self._builder.append(*keys)
            return np.empty(0, np.int64)
        dense: IdArray = self._builder.map(*keys)
        return dense

    def finish(self) -> None:
        """Close the map to new ids. From now on `resolve` resolves provisional ids, until `forget`."""
        if self._builder is not None and self._found is None:
            self._write()

    def _write(self) -> bool:
        """Write the map; return whether ids that were expected to be distinct may not be."""
        assert self._builder is not None
        self._builder.close()
        path = os.path.join(self._folder, f"{self.name}.ids.gd")
        self._builder.write(path, text_path(path), None)
        self.map_file = path
        if self._builder.repeats:
            return True
        if self.closed:
            self._found = _core.IdMap.open(path, text_path(path) if self._builder.is_text else "")
            self._builder = None
        return False

    def resolve(self, ids: IdArray) -> None:
        """Replace provisional ids by final ones."""
        if self._builder is not None:
            self._builder.resolve(ids)
