"""The rows of one part on the device: a table of slots or of all rows, and how a batch's rows are made from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...args.progress import Reporting
from .assemble import TORCH, Conversion, Missing, Passes, choose_passes
from .host_rows import HostRows

if TYPE_CHECKING:
    import torch

    from ... import _core
    from ...stores.features import FeatureStore
    from .pending import Move, PlannedRows

_UPLOAD_BYTES = 256 << 20  # of rows that are uploaded together


class PartRows:
    """A table on the device, by generation: the core says with each batch which one it was planned with."""

    def __init__(
        self, core: _core.DeviceRows, store: FeatureStore, dtype: str | None, device: torch.device,
        return_unused: Callable[[], None],
    ) -> None:  # fmt: skip
        """Keep nothing yet. `dtype` is what batches get; the table keeps rows as they are stored.

        `return_unused` returns memory that was freed to the device.
        """
        import torch

        matrix = store._matrix(None)
        self.core, self._store, self._device = core, store, device
        self._stored: torch.dtype = getattr(torch, store.dtype_name)
        self.columns = int(matrix.columns)
        self.row_bytes = self.columns * self._stored.itemsize
        self.num_rows = int(matrix.rows)
        self.made_row_bytes = self.columns * (getattr(torch, dtype) if dtype else self._stored).itemsize  # in a batch
        self._tail = store.shape[1:]
        self._return_unused = return_unused
        self._conversion = Conversion(store, dtype, device)
        self._table: torch.Tensor | None = None
        self._is_whole = False  # the table has all rows
        self._generation = 0  # of the table; 0: there was none yet
        self._sequence = 0  # of the last batch that was assembled
        self._lock = threading.Lock()  # an epoch that is left may still move a batch while another one begins
        self._passes: Passes | None = None  # chosen with the first batch that needs a table
        self._host: HostRows | None = None  # rows that the device reads by itself
        self._tries_host = True  # with the next batch: whether it can

    @property
    def table_bytes(self) -> int:
        """What the table takes on the device."""
        return 0 if self._table is None else self._table.numel() * self._table.element_size()

    @property
    def reads_host(self) -> bool:
        """Whether the device reads missing rows by itself."""
        return self._host is not None and self.core.is_mapped

    def begin_epoch(self) -> None:
        """What kept the device from reading rows by itself may be over, such as a file that was not in RAM."""
        self._tries_host = self._host is None

    def drop(self) -> None:
        """Free the table. Batches that were planned with it get their rows from the host."""
        self._table, self._is_whole = None, False

    def lose(self, generation: int) -> None:
        """The table of a generation lacks what a batch should have put there: it is not used."""
        self.drop()
        self._generation = max(self._generation, generation)

    def rows(self, planned: PlannedRows, ids: torch.Tensor, to: Move) -> torch.Tensor:
        """Return the rows of a batch, whose ids are on the device, in the dtype that batches have."""
        with self._lock:
            made = self._made(planned, ids, to)
            if not planned.given["is_whole"]:
                self.core.confirm(planned.given["sequence"])
        return made

    def _made(self, planned: PlannedRows, ids: torch.Tensor, to: Move) -> torch.Tensor:
        given = planned.given
        wanted, scale = self._conversion.parts()
        if self.columns == 0:  # there is nothing to keep or to move
            return ids.new_empty((given["rows"], *self._tail), dtype=wanted or self._stored)
        generation, is_whole = given["generation"], given["is_whole"]
        if generation > self._generation:
            self._begin(given)
        table = self._table  # which another thread may drop while this batch is made
        # Where all rows are there, batches may be finished in another order than sizes were changed.
        is_there = is_whole and self._is_whole if generation < self._generation else table is not None
        if not is_there and given["slots"] > 0:
            return self.from_host(planned)
        if not is_whole:
            if given["sequence"] < self._sequence:  # of an epoch that was left: a later one has the table
                return self.from_host(planned)
            self._sequence = given["sequence"]
        if self._tries_host and table is not None and not is_whole:
            self._tries_host = False
            if self.core.is_mapped:
                self._host = HostRows.of(self._store, self._conversion, self._device)
                self.core.set_reads_host(self._host is not None)
        if self._passes is None and table is not None:
            self._passes = choose_passes(self.columns, self._stored, self._conversion, self._device)
        out = ids.new_empty((given["rows"], self.columns), dtype=wanted or self._stored)
        if is_whole:
            assert self._passes is not None
            self._passes.take(out, table, ids, scale)
        else:
            self._assemble(out, table, planned, to, scale)
        return out if len(self._tail) == 1 else out.reshape(-1, *self._tail)

    def _assemble(
        self, out: torch.Tensor, table: torch.Tensor | None, planned: PlannedRows, to: Move, scale: torch.Tensor | None
    ) -> None:
        """Take the rows that the table has, then put the others in their places, and some of them into the table."""
        import torch

        given = planned.given
        count, reads_host, page_locked = given["misses"], given["reads_host"], given["page_locked"]
        begin = 0 if reads_host else count  # ids come first; where the host copies, it alone needs them
        lists = to(torch.from_numpy(given["lists"][begin:]), page_locked)
        targets = lists[count - begin :].view(torch.int32).view(-1, 2)
        missing = Missing(lists[:count] if reads_host else None, targets[:count], given["admissions"])
        passes = self._passes or TORCH
        if table is not None:  # else all rows are missing
            passes.take(out, table, targets[count:], scale)
        if reads_host:
            assert self._host is not None
            self._host.put(out, table, missing, scale)
        else:
            rows = to(torch.from_numpy(planned.misses), page_locked)
            if rows.dtype != self._stored or rows.dim() != 2:
                rows = rows.view(self._stored).view(-1, self.columns)
            passes.put(out, table, rows, missing, scale)

    def from_host(self, planned: PlannedRows) -> torch.Tensor:
        """Return the rows of a batch without the table."""
        found: torch.Tensor = self._store.gather(planned.host_ids(), dtype=self._conversion.dtype, as_torch=True)
        return found.to(self._device)

    def _begin(self, given: Mapping[str, Any]) -> None:
        """Make the table of a new generation when its first batch comes."""
        import torch

        if given["is_whole"] and self._is_whole:
            self._generation = given["generation"]
            return
        if self._table is not None:
            self.drop()
            self._return_unused()  # else a smaller table takes a part of its memory, and the rest cannot be used
        table = None
        if given["slots"] > 0:
            table = torch.empty((given["slots"], self.columns), dtype=self._stored, device=self._device)
            if given["is_whole"]:
                self._upload(table)
        # Only now: an upload may be interrupted.
        self._table, self._is_whole, self._generation = table, given["is_whole"], given["generation"]

    def _upload(self, table: torch.Tensor) -> None:
        step = max(1, _UPLOAD_BYTES // self.row_bytes)
        with Reporting(None) as report:
            for first in range(0, self.num_rows, step):
                last = min(first + step, self.num_rows)
                rows = self._store.gather(np.arange(first, last), as_torch=True)
                table[first:last].copy_(rows.reshape(-1, self.columns))
                if report is not None:
                    report("uploading rows to the device", last * self.row_bytes, self.num_rows * self.row_bytes)
