"""The passes over rows on the device: assembling a batch from a table and misses, admitting misses, converting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch

    from ...stores.features import FeatureStore

# (table, misses, source, wanted dtype, scale) -> the rows of a batch, converted
Rows: TypeAlias = "Callable[[Any, Any, Any, Any, Any], torch.Tensor]"
# (table, misses, admitted)
Admit: TypeAlias = "Callable[[Any, Any, Any], None]"

_MOST_COLUMNS = 4096  # of a row that one program of the kernel moves


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


def torch_rows(
    table: torch.Tensor,
    misses: torch.Tensor | None,
    source: torch.Tensor,
    wanted: torch.dtype | None,
    scale: torch.Tensor | None,
) -> torch.Tensor:
    """Return the rows of a batch, on any device.

    Without misses: table[source]. Else row source[1, i] is table[source[0, i]], or misses[-1 - source[0, i]] where that
    is negative.
    """
    import torch

    if misses is None:
        return _converted(words(table).index_select(0, source).view(table.dtype), wanted, scale)
    source = torch.empty_like(source[0]).index_copy_(0, source[1].long(), source[0])
    rows = words(table).index_select(0, source.clamp(min=0))
    number = torch.arange(len(source), device=source.device)
    positions = number.new_empty(len(misses) + 1)  # of misses in the batch; the last takes what is not one
    positions.scatter_(0, torch.where(source < 0, -1 - source, len(misses)).to(torch.int64), number)
    rows.index_copy_(0, positions[:-1], words(misses))
    return _converted(rows.view(table.dtype), wanted, scale)


def _converted(rows: torch.Tensor, wanted: torch.dtype | None, scale: torch.Tensor | None) -> torch.Tensor:
    """Return rows in the dtype that batches have: the same values as by the core's conversion."""
    rows = rows if wanted is None else rows.to(wanted)
    return rows if scale is None else rows * scale


def torch_admit(table: torch.Tensor, misses: torch.Tensor, admitted: torch.Tensor) -> None:
    """Put the misses that are admitted into their slots, after the rows of the batch were taken."""
    import torch

    if len(admitted) > 0:
        number, slot = admitted.unbind(1)
        words(table).index_copy_(0, slot.to(torch.int64), words(misses).index_select(0, number))


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

    rows: Rows
    admit: Admit


TORCH = Passes(torch_rows, torch_admit)


def choose_passes(*arguments: Any) -> Passes:
    """Return the faster way for batches like this one, whose arguments are given, by trying both."""
    import torch

    table, misses, source, *_ = arguments
    if not table.is_cuda or not 0 < table.shape[1] <= _MOST_COLUMNS or source.numel() == 0:
        return TORCH
    try:
        from .triton_rows import triton_admit, triton_rows

        other = Passes(triton_rows, triton_admit)
        for _ in range(2):  # compiled, and launched directly
            made = [way.rows(*arguments) for way in (TORCH, other)]
            if not torch.equal(*(rows.view(torch.uint8) for rows in made)):
                return TORCH
            if not _admit_alike(TORCH, other, table if misses is None or len(misses) == 0 else misses):
                return TORCH
        seconds = [seconds_of(lambda way=way: way.rows(*arguments)) for way in (TORCH, other)]  # type: ignore[misc]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # no Triton, no compiler for it, or a dtype that it does not have
        return TORCH
    return TORCH if seconds[0] < seconds[1] else other


def _admit_alike(first: Passes, second: Passes, rows: torch.Tensor) -> bool:
    """Whether both put some rows into the same slots."""
    import torch

    number = torch.arange(min(len(rows), 100), dtype=torch.int32, device=rows.device)
    admitted = torch.stack([number, number.flip(0) * 2], dim=1)
    tables = [rows.new_zeros((2 * len(number), rows.shape[1])) for _ in range(2)]
    for way, table in zip((first, second), tables, strict=True):
        way.admit(table, rows, admitted)
    return torch.equal(*(table.view(torch.uint8) for table in tables))


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
