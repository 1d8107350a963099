"""Maps between the ids of your data and the dense ids 0, 1, 2, ... of a graph, looked up on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_ids, as_threads
from ..errors import StorageError
from .base_files import warn_of_deltas

__all__ = ["IdMap"]


class IdMap:
    """The original ids of nodes, strings or integers: a `.gd` file that is mounted, not loaded.

    `compile_graph(..., "g.gl", ids="map")` writes it as `g.ids.gd`; in a dataset it is `ds.ids`.

    >>> import graphzero as gz
    >>> ids = gz.IdMap("g.ids.gd")  # doctest: +SKIP
    >>> ids.to_dense(["bash", "libc6"]), ids.to_original([17])  # doctest: +SKIP
    (array([ 3, 17]), ['libc6'])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        text: str | os.PathLike[str] | None = None,
        *,
        deltas: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        """Mount the map at `path`; strings are in the file `text` (default: `*.text.gd` next to it).

        `deltas` are the files of maps of ids that a dataset got later, in order: their ids follow those before them.
        """
        self._path = os.path.abspath(os.fsdecode(path))
        text = text_path(self._path) if text is None else os.path.abspath(os.fsdecode(text))
        self._text = text
        if not os.path.exists(self._path):
            raise StorageError(2, f"{self._path}: no id map found; compile with ids='map'", self._path)
        if deltas is None:
            warn_of_deltas(self._path)
        self._deltas = tuple(deltas or ())
        files = ((self._path, text), *self._deltas)
        self._maps = [_core.IdMap.open(file, words if os.path.exists(words) else "") for file, words in files]
        self._starts = np.cumsum([0, *(one.size for one in self._maps)])  # the first id of each, and the end

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._path

    @property
    def is_text(self) -> bool:
        """Whether ids are strings; integers otherwise."""
        return bool(self._maps[0].is_text)

    def __len__(self) -> int:
        """Return the number of ids."""
        return int(self._starts[-1])

    def to_dense(self, ids: Any, *, missing: str = "raise", num_threads: int | None = None) -> IdArray:
        """Return the dense ids of original ones, as int64.

        ids: a list, an array, or a column of a table. missing: "raise" raises KeyError for the first unknown id, "mark"
        returns -1 for unknown ids.
        """
        from ..sources.keys import keys_of

        if missing not in ("raise", "mark"):
            raise ValueError(f"missing is {missing!r}, expected 'raise' or 'mark'")
        if isinstance(ids, (str, bytes)):
            raise TypeError("to_dense expects a list of ids, got a single string")
        if hasattr(ids, "__len__") and len(ids) == 0:
            return np.empty(0, np.int64)
        keys, threads = keys_of(ids), as_threads(num_threads)
        found: IdArray = self._maps[0].find(*keys, threads)
        for one, start in zip(self._maps[1:], self._starts[1:], strict=False):
            if not (found < 0).any():
                break
            more: IdArray = one.find(*keys, threads)
            found = np.where((found < 0) & (more >= 0), more + start, found)
        if missing == "raise" and found.size and int(found.min()) < 0:
            at = int(np.argmin(found))
            raise KeyError(f"ids[{at}] is {ids[at]!r}, which is not in this map")
        return found

    def to_original(self, ids: Any) -> list[str] | npt.NDArray[np.int64]:
        """Return the original ids of dense ones: a list of strings, or an int64 array."""
        dense = as_ids(ids, "ids")
        _core.check_ids(dense, "ids", len(self), "nodes")
        if not self.is_text:
            numbers = np.empty(len(dense), np.int64)
            for one, place, ids in self._by_map(dense):
                numbers[place] = one.numbers(ids)
            return numbers
        texts = np.empty(len(dense), object)
        for one, place, ids in self._by_map(dense):
            texts[place] = [text.decode("utf-8", "surrogateescape") for text in one.texts(ids)]
        return list(texts)

    def _by_map(self, dense: IdArray) -> Iterator[tuple[_core.IdMap, Any, IdArray]]:
        """Yield each map with the places and the ids that it has."""
        if len(self._maps) == 1:
            yield self._maps[0], slice(None), dense
            return
        owner = np.searchsorted(self._starts, dense, side="right") - 1
        for number in np.unique(owner):
            place = np.flatnonzero(owner == number)
            yield self._maps[number], place, dense[place] - self._starts[number]

    def __reduce__(self) -> Any:
        """Pickle as the paths."""
        return (partial(IdMap, deltas=self._deltas), (self._path, self._text))

    def __repr__(self) -> str:
        """Return a short description."""
        return f"IdMap({self._path!r}, {len(self):,} {'strings' if self.is_text else 'integers'})"


def text_path(path: str) -> str:
    """Return the file of the strings that belong to the map at `path`."""
    return path.removesuffix(".gd") + ".text.gd"


def map_path(graph: str) -> str:
    """Return the path of the map of a single graph file: next to it."""
    return graph.removesuffix(".gl") + ".ids.gd"
