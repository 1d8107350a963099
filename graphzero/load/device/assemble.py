"""The passes over rows on the device: taking cached rows, putting missing ones in their places, converting both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch

    from ...stores.features import FeatureStore


class Missing(NamedTuple):
    """Rows that the cache lacks, and where each of them goes."""

    ids: torch.Tensor | None  # of the rows they are; None: all of them, in their order
    targets: torch.Tensor  # int32 (n, 2): a place in the batch, and a slot of the table or -1
    admitted: int  # have a slot


# (out, table, source, scale): the rows of a batch that are in the table
Take: TypeAlias = "Callable[[Any, Any, Any, Any], None]"
# (out, table, rows, missing, scale): the others, some of which are put into the table
Put: TypeAlias = "Callable[[Any, Any, Any, Missing, Any], None]"

_MOST_COLUMNS = 4096  # of a row that one program of the kernel moves
_TRIED, _MOST_TRIED = 1 << 23, 1 << 18  # bytes of rows that a trial of both ways moves, and rows


class Conversion:
    """Converts rows of a part from the dtype of the file to that of batches: the values are those of the core."""

    def __init__(self, store: FeatureStore, dtype: str | None, device: torch.device) -> None:
        """Convert to `dtype`; None keeps the file's."""
        import torch

        self.dtype = dtype
        self._wanted = None if dtype is None else getattr(torch, dtype)
        self._store = store if dtype is not None and store.scale is not None else None
        self._device = device
        self._scale: torch.Tensor | None = None

    def parts(self) -> tuple[torch.dtype | None, torch.Tensor | None]:
        """The dtype to convert to and the factors of columns, on the device; None where there are none."""
        import torch

        if self._scale is None and self._store is not None:
            self._scale = torch.from_numpy(np.array(self._store.scale)).to(self._device)
        return self._wanted, self._scale

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows in the dtype that batches have."""
        return _converted(rows, *self.parts())


def torch_take(out: torch.Tensor, table: torch.Tensor, source: torch.Tensor, scale: torch.Tensor | None) -> None:
    """Take rows of a table, on any device: out[i] = table[source[i]], or out[place] = table[slot] for pairs of them."""
    places, slots = (None, source) if source.dim() == 1 else source.unbind(1)
    _place(out, places, words(table).index_select(0, slots).view(table.dtype), scale)


def torch_put(
    out: torch.Tensor, table: torch.Tensor | None, rows: torch.Tensor, missing: Missing, scale: torch.Tensor | None
) -> None:
    """Put missing rows in their places in the batch, and those that are admitted into slots of the table."""
    ids, targets, admitted = missing
    found = words(rows) if ids is None else words(rows).index_select(0, ids)
    place, slot = targets.unbind(1)
    _place(out, place, found.view(rows.dtype), scale)
    if admitted > 0:
        assert table is not None
        kept = slot.argsort(descending=True)[:admitted]  # the device need not tell how many there are
        words(table).index_copy_(0, slot[kept].long(), found.index_select(0, kept))


def _place(out: torch.Tensor, places: torch.Tensor | None, rows: torch.Tensor, scale: torch.Tensor | None) -> None:
    """Convert rows, with the same values as by the core's conversion, and put them in their places; None: in order."""
    rows = _converted(rows, out.dtype, scale)
    if places is None:
        out.copy_(rows)
    else:
        words(out).index_copy_(0, places.long(), words(rows))


def _converted(rows: torch.Tensor, wanted: torch.dtype | None, scale: torch.Tensor | None) -> torch.Tensor:
    """Return rows in the dtype that batches have: the same values as by the core's conversion."""
    rows = rows if wanted is None else rows.to(wanted)
    return rows if scale is None else rows * scale


def words(rows: torch.Tensor) -> torch.Tensor:
    """Return rows as integers, so that every dtype can be indexed."""
    import torch

    row_bytes = rows.shape[1] * rows.element_size()
    for word in (torch.int64, torch.int32, torch.int16):
        if row_bytes % word.itemsize == 0:
            return rows.view(word)
    return rows.view(torch.uint8)


class Passes(NamedTuple):
    """One way of doing both passes."""

    take: Take
    put: Put


TORCH = Passes(torch_take, torch_put)


def choose_passes(columns: int, stored: torch.dtype, conversion: Conversion, device: torch.device) -> Passes:
    """Return the faster way for rows of this kind, by trying both."""
    import torch

    if device.type != "cuda" or not 0 < columns <= _MOST_COLUMNS:
        return TORCH
    try:
        from .triton_rows import triton_put, triton_take

        other = Passes(triton_take, triton_put)
        trial = _Trial(columns, stored, conversion, device)
        for _ in range(2):  # compiled, and launched directly
            made = [trial(way) for way in (TORCH, other)]
            if not all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(*made, strict=True)):
                return TORCH
        seconds = [seconds_of(lambda way=way: trial(way)) for way in (TORCH, other)]  # type: ignore[misc]
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception:  # no Triton, no compiler for it, or a dtype that it does not have
        return TORCH
    return TORCH if seconds[0] < seconds[1] else other


class _Trial:
    """Made-up rows of a kind; calling it with a way returns all that its passes make of them."""

    def __init__(self, columns: int, stored: torch.dtype, conversion: Conversion, device: torch.device) -> None:
        import torch

        count = min(max(1, _TRIED // (columns * stored.itemsize)), _MOST_TRIED)
        generator = torch.Generator(device).manual_seed(0)  # the user's own is left alone
        self._rows = torch.randint(0, 100, (count, columns), device=device, generator=generator).to(stored)
        self._wanted, self._scale = conversion.parts()
        order = torch.randperm(count, device=device, dtype=torch.int32, generator=generator)
        self._ids, self._cached = order.long(), torch.stack([order, order.flip(0)], dim=1)
        slots = torch.where(order % 2 == 0, order, -1)
        self._targets = torch.stack([order.flip(0), slots], dim=1)

    def __call__(self, way: Passes) -> list[torch.Tensor]:
        rows, admitted = self._rows, (len(self._rows) + 1) // 2
        made = [rows.new_empty(rows.shape, dtype=self._wanted or rows.dtype) for _ in range(4)]
        tables = [rows.new_zeros(rows.shape) for _ in range(2)]
        way.take(made[0], rows, self._ids, self._scale)
        way.take(made[1], rows, self._cached, self._scale)
        way.put(made[2], tables[0], rows, Missing(self._ids, self._targets, admitted), self._scale)
        way.put(made[3], tables[1], rows, Missing(None, self._targets, admitted), self._scale)
        return made + tables


def seconds_of(call: Callable[[], Any]) -> float:
    """The time that the device takes for three calls; only to be compared."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(3):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))
