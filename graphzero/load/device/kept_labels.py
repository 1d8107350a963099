"""Labels of all nodes on a device, from which those of a batch are taken by its ids."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from ..inputs import Labels


class LabelTable:
    """The labels of one loader, or of several that were given the same ones.

    They are uploaded by the first batch that needs them, on the stream that moves batches. Labels in memory may be
    changed between two epochs, so they are uploaded again in each.
    """

    def __init__(self, labels: Labels, device: torch.device, narrowed: bool) -> None:
        """Upload nothing yet. `narrowed` keeps int64 labels as int32."""
        self.labels = labels
        self._device, self._narrowed = device, narrowed
        self._lock = threading.Lock()
        # Guarded by the lock:
        self._table: torch.Tensor | None = None
        self._dtype: torch.dtype | None = None  # of the labels
        self._is_current = False  # the table has what the labels are in this epoch
        self._fits = True

    @classmethod
    def of(cls, labels: Labels, device: torch.device, most: int) -> LabelTable | None:
        """Return a table of at most `most` bytes; None if the labels are larger, or are on a device already."""
        if labels.nbytes > 2 * most or labels.is_on_device:
            return None
        narrowed = labels.nbytes > most
        if narrowed and _as_int32(labels.all()) is None:
            return None
        return cls(labels, device, narrowed)

    @property
    def size(self) -> int:
        """Bytes that the table takes once it is uploaded."""
        return self.labels.nbytes // (2 if self._narrowed else 1)

    @property
    def table_bytes(self) -> int:
        """Bytes that it takes now."""
        table = self._table
        return 0 if table is None else table.nbytes

    def begin_epoch(self) -> None:
        """The labels may have been changed."""
        with self._lock:
            self._fits = True
            self._is_current = self._is_current and self.labels.is_file

    def drop(self) -> None:
        """Free the table; the next batch uploads it again."""
        with self._lock:
            self._table, self._is_current = None, False

    def take(self, ids: torch.Tensor) -> torch.Tensor | None:
        """Return the labels of nodes, whose ids are on the device; None if they do not fit there in this epoch."""
        import torch

        with self._lock:
            if self._fits and not self._is_current:
                try:
                    self._upload()
                except torch.cuda.OutOfMemoryError:
                    self._table, self._fits = None, False
            table, dtype = self._table, self._dtype
            if not self._fits or table is None:
                return None
        found = table.index_select(0, ids)
        return found if found.dtype == dtype else found.to(dtype)

    def _upload(self) -> None:
        import torch

        found = self.labels.all()
        kept = _as_int32(found) if self._narrowed else found
        if kept is None:  # they were changed, and are too large now
            self._table, self._fits = None, False
            return
        if self._table is None or self._table.dtype != kept.dtype:
            self._table = torch.empty_like(kept, device=self._device)
        self._table.copy_(kept)
        self.labels.check()
        self._dtype, self._is_current = found.dtype, True


def _as_int32(labels: torch.Tensor) -> torch.Tensor | None:
    """Return int64 labels as int32; None if they do not fit in that."""
    import torch

    if labels.dtype != torch.int64:
        return None
    low, high = (int(bound) for bound in torch.aminmax(labels))
    return labels.to(torch.int32) if low >= -(2**31) and high < 2**31 else None
