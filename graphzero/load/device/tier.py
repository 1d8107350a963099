"""What a loader keeps on its device: rows of its parts, in tables whose contents the core plans, and labels.

The core says for each batch, in the order of delivery, where its rows are: in slots of a table, or among the misses
that come with the batch, and which misses are put into which slots afterwards. Nothing is looked up on the device, and
nothing is waited for. This file decides how much memory that takes, and gives it back where training needs it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import _core
from ...args.sizes import format_size, parse_size
from .device_memory import DeviceMemory
from .kept_labels import LabelTable
from .part_rows import PartRows

if TYPE_CHECKING:
    import torch

    from ...stores.features import FeatureStore
    from ..inputs import Labels

_WARM_UP = 10  # batches before "auto" decides: by then the device has run some training steps
_CHECK_EVERY = 16  # batches between two looks at the device's free memory
# "auto" reduces what is kept when less than this share of the margin is left, and frees it at once below the other.
_SMALL_MARGIN, _LEAST_MARGIN = 0.5, 0.1
_LABELS = 16  # labels of all nodes are kept if they take at most one part in so many

caches_on_cpu = False  # for tests: device="cpu" with gpu_memory


def as_gpu_memory(given: Any, device: torch.device | None) -> int | None:
    """Return the bytes that a loader may take for rows on its device; None for "auto", 0 for none."""
    if given in (0, "0") and not isinstance(given, bool):
        return 0
    try:
        size = None if given == "auto" else parse_size(given, "gpu_memory")
    except ValueError as error:
        raise ValueError(f"{error}; 'auto' takes what is free, and 0 nothing") from None
    if not (device is not None and (device.type == "cuda" or caches_on_cpu)):
        if size is None:
            return 0
        where = "no device" if device is None else f"device={str(device)!r}"
        raise ValueError(f'gpu_memory is {given!r}, but the loader has {where}; pass device="cuda", or gpu_memory=0')
    if size is None and _allocator_is_pluggable(device):
        raise ValueError(
            "gpu_memory is 'auto', but torch's allocator was replaced by one that does not count what is allocated; "
            'pass a size, such as gpu_memory="20GB"'
        )
    return size


def _allocator_is_pluggable(device: torch.device) -> bool:
    import torch

    return device.type == "cuda" and torch.cuda.get_allocator_backend() == "pluggable"


class DeviceTier:
    """What a loader keeps on its device: a `PartRows` for each part, and labels, within a number of bytes."""

    def __init__(
        self, plan: _core.LoadPlan, parts: Sequence[tuple[FeatureStore, str | None]], device: torch.device,
        memory: int | None, labels: Sequence[Labels] = (),
    ) -> None:  # fmt: skip
        """Divide `memory` among the parts; None waits until some batches have shown what training needs."""
        self._device, self._is_auto = device, memory is None
        self._device_memory = memory_of_device = DeviceMemory.of(device)
        self._return_unused = _nothing if memory_of_device is None else memory_of_device.return_unused
        self.parts = [
            PartRows(core, *part, device, self._return_unused)
            for core, part in zip(plan.device_rows, parts, strict=True)
        ]
        self._names = list(plan.info["rows"])
        self._rows = list(plan.info["rows"].values())
        self._all_labels: list[Labels] = []
        for one in labels:
            if not any(one.is_same(other) for other in self._all_labels):
                self._all_labels.append(one)
        self._labels: list[LabelTable] = []
        self._lock = threading.Lock()  # one change of sizes at a time
        self._batches = 0
        self._held = 0  # bytes of tables, when the last batch came
        self._granted = 0  # bytes of tables, made or about to be
        if memory_of_device is not None:
            memory_of_device.add(self)
        if memory is not None:
            self._divide(memory)

    def begin_epoch(self) -> None:
        """The batches that come next are of a new epoch."""
        for table in self._labels:
            table.begin_epoch()
        for part in self.parts:
            part.begin_epoch()

    def batch_comes(self) -> None:
        """Look at the device's memory now and then, before a batch is moved."""
        memory = self._device_memory
        if memory is None:
            return
        with self._lock:
            self._batches += 1
            held, self._held = self._held, self.table_bytes
            if held != self._held:
                memory.look()
            if not self._is_auto:
                return
            if self._batches == _WARM_UP:
                memory.return_unused()
                self._divide(max(memory.room(0), 0))
            elif self._batches > _WARM_UP and self._batches % _CHECK_EVERY == 0 and self._granted > 0:
                coming = self._granted - self.table_bytes
                if memory.room(coming, _SMALL_MARGIN) < 0:
                    self._reduce(memory, coming)

    def _reduce(self, memory: DeviceMemory, coming: int) -> None:
        """Restore the margin. The old tables are used until batches come that were planned with the new ones."""
        is_urgent = memory.room(coming, _LEAST_MARGIN) < 0
        self._divide(max(self._granted + memory.room(coming), 0))
        if is_urgent:
            self._drop()

    @property
    def table_bytes(self) -> int:
        """What the tables and labels take on the device."""
        return sum(table.table_bytes for table in self._tables)

    @property
    def _tables(self) -> list[PartRows | LabelTable]:
        return [*self.parts, *self._labels]

    def labels(self, labels: Labels) -> LabelTable | None:
        """The labels of all nodes on the device; None if they are not kept there."""
        return next((table for table in self._labels if table.labels.is_same(labels)), None)

    def stats(self) -> dict[str, Any]:
        """By part: how many rows the device keeps, of how many, and whether it reads the others by itself."""
        found = {}
        for name, part in zip(self._names, self.parts, strict=True):
            sizes = {"slots": part.core.slots, "bytes": part.table_bytes, "row_bytes": part.row_bytes}
            found[name] = sizes | {"all_rows": part.num_rows, "reads_host": part.reads_host}
        return found

    def give_back(self) -> bool:
        """Free the tables; those of the next generations are half as large together. False if there were none."""
        with self._lock:
            held = self._granted
            if held == 0:
                return False
            self._divide(held // 2)
            self._drop()
        warnings.warn(
            f"the device is out of memory: its cache of rows is emptied and gets {format_size(held // 2)} "
            f"instead of {format_size(held)}; lower gpu_memory, or batch_size",
            stacklevel=2,
        )
        return True

    def _drop(self) -> None:
        """Free the tables. Batches that were planned with them get their rows from the host."""
        for table in self._tables:
            table.drop()
        self._return_unused()

    def _divide(self, memory: int) -> None:
        """Set the sizes of the tables. Labels that are small come on top of a size that the user chose."""
        tables: list[LabelTable] = []
        labels_bytes = 0
        for labels in self._all_labels:
            if (table := self._label_table(labels, memory // _LABELS - labels_bytes)) is not None:
                tables.append(table)
                labels_bytes += table.size
        self._labels = tables
        needs = [(part.num_rows, part.row_bytes, rows) for part, rows in zip(self.parts, self._rows, strict=True)]
        rows_bytes = memory - labels_bytes if self._is_auto else memory
        for part, slots in zip(self.parts, _core.divide_slots(rows_bytes, needs), strict=True):
            part.core.resize(slots)
        self._granted = labels_bytes + sum(part.core.slots * part.row_bytes for part in self.parts)

    def _label_table(self, labels: Labels, most: int) -> LabelTable | None:
        table = self.labels(labels)
        return table if table is not None and table.size <= most else LabelTable.of(labels, self._device, most)


def _nothing() -> None:
    """There is no memory to return."""
