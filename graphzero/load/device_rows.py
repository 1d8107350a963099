"""Rows that a device keeps: caches whose contents the core plans, or all rows, and batches assembled from them.

The core says for each batch, in the order of delivery, where its rows are: in slots of the cache, or among the misses
that come with the batch, and which misses are put into which slots afterwards. Nothing is looked up on the device, and
nothing is waited for. docs/how-the-gpu-tier-works.md has the whole picture.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..args.progress import Reporting
from ..args.sizes import format_size, parse_size
from .batch import AnyBatch, Attributes, Batch
from .device_kernels import Rows, admit, choose_rows, torch_rows

if TYPE_CHECKING:
    import torch

    from .. import _core
    from ..args.ids import IdArray
    from ..stores.features import FeatureStore

_WARM_UP = 10  # batches before "auto" decides: by then the device has run some training steps
_CHECK_EVERY = 16  # batches between two looks at the device's free memory
_SPARE = 1.15  # of the memory that training has taken at most so far
_RESERVE = 20  # one part in so many of the device's memory stays free
_UPLOAD_BYTES = 256 << 20  # of rows that are uploaded together

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
    return size


class PartRows:
    """The rows of one part on the device: a table of slots or of all rows, and how a batch's rows are made from it."""

    def __init__(self, core: _core.DeviceRows, store: FeatureStore, dtype: str | None, device: torch.device) -> None:
        """Keep nothing yet. `dtype` is what batches get; the table keeps rows as they are stored."""
        import torch

        matrix = store._matrix(None)
        self.core, self._store, self._device = core, store, device
        self.stored: torch.dtype = getattr(torch, store.dtype_name)
        self.columns = int(matrix.columns)
        self.row_bytes = self.columns * self.stored.itemsize
        self.num_rows = int(matrix.rows)
        self._tail = store.shape[1:]
        self._wanted = None if dtype is None else getattr(torch, dtype)
        self._dtype = dtype
        self._scale: torch.Tensor | None = None
        if dtype is not None and matrix.scaled:
            self._scale = torch.from_numpy(np.array(store._open().scale(store.name))).to(device)
        self._table: torch.Tensor | None = None
        self._generation = 0  # of the table; 0: there was none yet
        self._way: Rows | None = None

    @property
    def table_bytes(self) -> int:
        """What the table takes on the device."""
        return 0 if self._table is None else self._table.numel() * self._table.element_size()

    def drop(self) -> None:
        """Free the table. Batches that were planned with it get their rows from the host."""
        self._table = None

    def lose(self, generation: int) -> None:
        """The table of a generation lacks what a batch should have put there: it is not used."""
        self._table, self._generation = None, generation

    def rows(self, planned: PlannedRows, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of a batch, whose ids are on the device, in the dtype that batches have."""
        self._begin(planned)
        if self._table is None and (planned.is_whole or planned.slots > 0):
            return self.from_host(planned)
        # Without slots all rows are misses.
        table = planned.misses.new_empty((1, self.columns)) if self._table is None else self._table
        source, misses = (ids, None) if planned.is_whole else (planned.source, planned.misses)
        arguments: Any = (table, misses, source, planned.positions, self._wanted, self._scale)
        if self._way is None and self._table is not None:
            self._way = choose_rows(*arguments)
        found = (self._way or torch_rows)(*arguments)
        if self._table is not None and planned.admitted is not None:
            admit(self._table, planned.misses, planned.admitted)
        return found.reshape(-1, *self._tail)

    def from_host(self, planned: PlannedRows) -> torch.Tensor:
        """Return the rows of a batch without the table."""
        found: torch.Tensor = self._store.gather(planned.ids, dtype=self._dtype, as_torch=True)
        return found.to(self._device)

    def _begin(self, planned: PlannedRows) -> None:
        """Make the table of a new generation when its first batch comes."""
        import torch

        if planned.generation == self._generation:
            return
        self._table, self._generation = None, planned.generation
        if planned.slots > 0:
            table = torch.empty((planned.slots, self.columns), dtype=self.stored, device=self._device)
            if planned.is_whole:
                self._upload(table)
            self._table = table

    def _upload(self, table: torch.Tensor) -> None:
        step = max(1, _UPLOAD_BYTES // self.row_bytes)
        with Reporting(None) as report:
            for first in range(0, self.num_rows, step):
                last = min(first + step, self.num_rows)
                rows = self._store.gather(np.arange(first, last), as_torch=True)
                table[first:last].copy_(rows.reshape(-1, self.columns))
                if report is not None:
                    report("uploading rows to the device", last * self.row_bytes, self.num_rows * self.row_bytes)


@dataclass(eq=False)
class PlannedRows:
    """Stands for the rows of one part until the batch is moved: the misses, and where the others are."""

    part: PartRows
    ids: IdArray  # on the host
    by: str  # the attribute that has them on the device
    misses: torch.Tensor
    generation: int
    slots: int
    is_whole: bool
    num_rows: int
    source: torch.Tensor | None = None
    positions: torch.Tensor | None = None
    admitted: torch.Tensor | None = None

    @property
    def link_bytes(self) -> int:
        """Bytes that are copied to the device."""
        found = (self.misses, self.source, self.admitted)
        return sum(int(value.nbytes) for value in found if value is not None)

    @property
    def device_bytes(self) -> int:
        """Bytes of the rows on the device."""
        return int(self.num_rows * self.part.row_bytes + self.link_bytes)


@dataclass(eq=False)
class NarrowIds:
    """Stands for a tensor of ids until the batch is moved: a part of the int32 array that has all ids of the batch."""

    all: torch.Tensor
    first: int
    shape: tuple[int, ...]

    @property
    def link_bytes(self) -> int:
        """Bytes that are copied to the device; the array is counted with its first ids."""
        return 4 * self.all.numel() if self.first == 0 else 0

    @property
    def device_bytes(self) -> int:
        """Bytes of the ids on the device."""
        return 8 * math.prod(self.shape) + self.link_bytes


Pending = (PlannedRows, NarrowIds)


def narrow(array: Any, arrays: Mapping[Any, dict[str, Any]]) -> None:
    """Replace the ids of a batch by parts of one array, in the order in which the core wrote them."""
    import torch

    all_ids, first = torch.from_numpy(array), 0
    for values in arrays.values():
        for name in ("n_id", "e_id", "edge_index"):
            if name in values:
                shape = tuple(values[name].shape)
                values[name] = NarrowIds(all_ids, first, shape)
                first += math.prod(shape)


def planned_rows(part: PartRows, given: Mapping[str, Any], misses: torch.Tensor, ids: IdArray, by: str) -> PlannedRows:
    """Return what the core delivered for a part, in tensors."""
    import torch

    lists = {name: torch.from_numpy(given[name]) for name in ("source", "positions", "admitted") if name in given}
    return PlannedRows(
        part, ids, by, misses.reshape(-1, part.columns), given["generation"], given["slots"], given["is_whole"],
        given["rows"], **lists,
    )  # fmt: skip


def link_bytes(batch: AnyBatch) -> int:
    """Bytes of a batch on the host that are copied to the device."""
    return sum(int(value.nbytes) for value in batch._tensors()) + sum(int(v.link_bytes) for v in _pending(batch))


def device_bytes(batch: AnyBatch) -> int:
    """Bytes of a batch on the host that it takes on the device."""
    return sum(int(value.nbytes) for value in batch._tensors()) + sum(int(v.device_bytes) for v in _pending(batch))


def _groups(batch: AnyBatch) -> Iterator[Attributes]:
    if isinstance(batch, Batch):
        yield batch
    else:
        yield from (data for _, data in batch)


def _pending(batch: AnyBatch) -> Iterator[Any]:
    return (value for group in _groups(batch) for _, value in group if isinstance(value, Pending))


def move(batch: AnyBatch, to: Callable[[torch.Tensor], torch.Tensor], tier: DeviceTier | None) -> AnyBatch:
    """Return the batch on the device: tensors by `to`, rows assembled there.

    Where memory is short, what the tables take is given back, and the rows come from the host.
    """
    import torch

    try:
        return _move(batch, to)
    except torch.OutOfMemoryError:
        if tier is None:
            raise
    tier.give_back()
    for value in _pending(batch):
        if isinstance(value, PlannedRows):
            value.part.lose(value.generation)
    return _move(batch, to)


def _move(batch: AnyBatch, to: Callable[[torch.Tensor], torch.Tensor]) -> AnyBatch:
    import torch

    moved: AnyBatch = batch._map(to)
    wide: torch.Tensor | None = None
    for group in _groups(moved):
        for name, value in group:
            if isinstance(value, NarrowIds):
                wide = to(value.all).to(torch.int64) if wide is None else wide
                count = math.prod(value.shape)
                group.__dict__[name] = wide[value.first : value.first + count].view(value.shape)
    for group in _groups(moved):
        for name, value in group:
            if isinstance(value, PlannedRows):
                group.__dict__[name] = value.part.rows(_moved(value, to), group[value.by])
    return moved


class DeviceTier:
    """What a loader keeps on its device: a `PartRows` for each part, within a number of bytes, or what is free."""

    def __init__(
        self, plan: _core.LoadPlan, parts: Sequence[tuple[FeatureStore, str | None]], device: torch.device,
        memory: int | None,
    ) -> None:  # fmt: skip
        """Divide `memory` among the parts; None waits until some batches have shown what training needs."""
        import torch

        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        self._device, self._memory = device, memory
        self.parts = [PartRows(core, *part, device) for core, part in zip(plan.device_rows, parts, strict=True)]
        self._names = list(plan.info["rows"])
        self._rows = list(plan.info["rows"].values())
        self._lock = threading.Lock()  # one batch at a time
        self._batches = 0
        self._granted = 0  # bytes of tables, made or about to be
        self._training_bytes = 0  # the most that was allocated besides the tables
        if memory is not None:
            self._divide(memory)

    def batch_comes(self) -> None:
        """Look at the device's memory now and then, before a batch is moved."""
        with self._lock:
            self._batches += 1
            if not self._watches():
                return
            if self._batches == _WARM_UP:
                self._divide(max(self._free(), 0))
            elif self._batches > _WARM_UP and self._batches % _CHECK_EVERY == 0:
                missing = -self._free()
                if missing > 0 and self._granted > 0:
                    self._divide(max(self._granted - 2 * missing, 0))
                    for part in self.parts:
                        part.drop()

    def _watches(self) -> bool:
        return self._memory is None and self._device.type == "cuda"

    @property
    def table_bytes(self) -> int:
        """What the tables take on the device."""
        return sum(part.table_bytes for part in self.parts)

    def forget(self) -> None:
        """Batches that were planned will not come: the caches are empty from the next epoch on."""
        for part in self.parts:
            part.core.forget()

    def stats(self) -> dict[str, Any]:
        """By part: rows that batches needed, those that the device had, its slots, and their bytes."""
        found = {}
        for name, part in zip(self._names, self.parts, strict=True):
            core = part.core.stats
            found[name] = core | {"bytes": part.table_bytes, "row_bytes": part.row_bytes, "all_rows": part.num_rows}
        return found

    def give_back(self) -> None:
        """Free the tables; those of the next generations are half as large together."""
        held = self._granted
        for part in self.parts:
            part.drop()
        self._divide(held // 2)
        warnings.warn(
            f"the device is out of memory: its cache of rows is emptied and gets {format_size(held // 2)} "
            f"instead of {format_size(held)}; lower gpu_memory, or batch_size",
            stacklevel=2,
        )

    def _divide(self, memory: int) -> None:
        """Set the sizes of the tables: by the bytes that batches need of each part, none larger than its rows."""
        self._granted = 0
        left = {i: part.num_rows * part.row_bytes for i, part in enumerate(self.parts)}
        weights = {i: max(self._rows[i], 1) * self.parts[i].row_bytes for i in left}
        while left:
            share = {i: memory * weights[i] // sum(weights[j] for j in left) for i in left}
            whole = [i for i in left if left[i] <= share[i]]
            for i in whole or list(left):
                part = self.parts[i]
                size = left.pop(i) if whole else min(share[i], left.pop(i))
                part.core.resize(size // part.row_bytes)
                memory -= size
                self._granted += size

    def _free(self) -> int:
        """Bytes that could be taken without making training run out of memory, by what it has needed so far."""
        import torch

        free, total = torch.cuda.mem_get_info(self._device)
        stats = torch.cuda.memory_stats(self._device)
        held = self.table_bytes
        if (fraction := getattr(torch.cuda, "get_per_process_memory_fraction", None)) is not None:
            free = min(free, int(fraction(self._device) * total) - stats.get("reserved_bytes.all.current", 0))
        self._training_bytes = max(self._training_bytes, stats.get("allocated_bytes.all.peak", 0) - held)
        # What torch has reserved and does not use serves training as well as free memory does.
        reusable = stats.get("reserved_bytes.all.current", 0) - held
        return int(free - max(_SPARE * self._training_bytes - reusable, 0) - total // _RESERVE)


def _moved(planned: PlannedRows, to: Callable[[torch.Tensor], torch.Tensor]) -> PlannedRows:
    if planned.is_whole:
        return planned
    # Positions stay: not every way of assembling needs them.
    moved: dict[str, Any] = {name: to(getattr(planned, name)) for name in ("misses", "source", "admitted")}
    return replace(planned, **moved)
