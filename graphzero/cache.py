"""Rows kept in RAM within a byte budget, for features that do not fit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core
from ._dtypes import dtype_name
from ._ids import as_ids, as_threads
from ._rows import Destination
from ._sizes import format_size, parse_size
from .graph import Graph

if TYPE_CHECKING:
    from .features import FeatureStore

__all__ = ["RowCache"]


class RowCache:
    """A cache of one array's rows that never takes more than `memory`.

    Rows that are known to be hot are pinned; the others come and go: those that an announced batch will need stay, the
    rest by SIEVE. Misses are read past the page cache, so a row is in RAM once, and `memory` is all that it costs.

    `pin` says which rows are hot: ids, the hottest first (for example by how often a few sampled batches met them), or
    a Graph, whose nodes of the highest degree are taken. They get at most `pin_share` of the room.

    >>> cache = fs.cached("2GB", pin=graph)  # doctest: +SKIP
    >>> x = cache.gather(batch.n_id)  # doctest: +SKIP
    >>> cache.stats()["hit_rate"]  # doctest: +SKIP
    0.83
    """

    def __init__(
        self,
        store: FeatureStore,
        memory: int | str | float,
        *,
        name: str | None = None,
        pin: Any = None,
        pin_share: float = 0.75,
    ) -> None:
        """Take the memory and read the pinned rows. Raises BudgetError when not even one row fits."""
        self._store = store
        self._memory = parse_size(memory)
        self._matrix = store._matrix(name)
        self._arguments = {"name": name, "pin": pin, "pin_share": pin_share}
        self._core = _core.RowCache(store._open(), self._matrix.name, self._memory)
        self._tally = _core.ReadCounts()
        if pin is not None:
            self.pin(pin, pin_share)

    def pin(self, rows: Any, share: float = 1.0) -> int:
        """Read rows and keep them for good, until `share` of the room is pinned; return how many are new.

        `rows` are ids, the hottest first, or a Graph.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"the share to pin is {share}, expected 0 to 1")
        if isinstance(rows, Graph):
            ids = _core.nodes_by_degree(rows._open(), int(self._core.stats()["capacity"] * share))
        else:
            ids = as_ids(rows, "pin")
        return int(self._core.pin(ids, share))

    def gather(
        self,
        ids: Any,
        out: Any = None,
        dtype: Any = None,
        io: str = "auto",
        *,
        num_threads: int | None = None,
        as_torch: bool | None = None,
        pinned: bool = False,
        number: int | None = None,
    ) -> Any:
        """The rows of `ids`, as `FeatureStore.gather` gives them; `number` is that of an announced batch."""
        rows = as_ids(ids)
        wanted = None if dtype is None else dtype_name(dtype)
        target = Destination.of(out, ids, as_torch, pinned)
        tail = self._store._tail(self._matrix)
        room = target.room(self._matrix, (len(rows), *tail), wanted)
        found = self._core.gather(rows, room, wanted, io, as_threads(num_threads), number, self._tally)
        return target.result(found, tail, wanted or self._matrix.dtype)

    def announce(self, number: int, ids: Any) -> None:
        """Say that batch `number` will need `ids`: rows of coming batches are kept, the soonest first.

        Numbers ascend, at most 64 batches are announced at a time, and each is gathered with `number=` in its turn.
        """
        self._core.announce(number, as_ids(ids))

    def forget_announced(self) -> None:
        """Forget the batches that were announced and will not come."""
        self._core.forget_announced()

    def clear(self) -> None:
        """Drop all rows that are not pinned."""
        self._core.clear()

    def stats(self) -> dict[str, Any]:
        """Capacity, rows pinned and held, hits, misses, hit_rate, evictions, and what the reads of misses did."""
        reads = self._tally.read()
        return {**self._core.stats(), **{key: reads[key] for key in ("bytes_useful", "bytes_read", "reads")}}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what it was made from: a worker starts with the pinned rows alone."""
        return (_remake, (self._store, self._memory, self._arguments))

    def __repr__(self) -> str:
        """Say what it is: `RowCache('x.gd', 'x', 2 GB: 1,000 of 3,745,318 rows, hit rate 83%)`."""
        s = self._core.stats()
        return (
            f"RowCache({os.path.basename(self._store.path)!r}, {self._matrix.name!r}, {format_size(self._memory)}: "
            f"{s['resident']:,} of {s['capacity']:,} rows, hit rate {s['hit_rate']:.0%})"
        )


def _remake(store: FeatureStore, memory: int, arguments: dict[str, Any]) -> RowCache:
    return RowCache(store, memory, **arguments)
