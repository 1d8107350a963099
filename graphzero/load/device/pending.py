"""What stands in a batch on the host for a tensor that is made on the device, and the step that makes them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..batch import AnyBatch, Attributes, Batch

if TYPE_CHECKING:
    import torch

    from ...args.ids import IdArray
    from .assemble import Conversion
    from .part_rows import PartRows
    from .tier import DeviceTier

Move = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(eq=False)
class PlannedRows:
    """Rows of a part of which the device keeps some: the misses, and where the others are."""

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

    def make(self, to: Move, group: Attributes) -> torch.Tensor:
        """Return the rows on the device; `group` has their ids there."""
        planned = self
        if not self.is_whole:
            # Positions stay: not every way of assembling needs them.
            moved: dict[str, Any] = {name: to(getattr(self, name)) for name in ("misses", "source", "admitted")}
            planned = replace(self, **moved)
        return self.part.rows(planned, group[self.by])


@dataclass(eq=False)
class StoredRows:
    """Rows that cross the link as they are stored, and are converted on the device."""

    rows: torch.Tensor
    conversion: Conversion

    @property
    def link_bytes(self) -> int:
        """Bytes that are copied to the device."""
        return int(self.rows.nbytes)

    @property
    def device_bytes(self) -> int:
        """Bytes of the rows on the device, in both forms."""
        return int(self.rows.nbytes + 4 * self.rows.numel())

    def make(self, to: Move, group: Attributes) -> torch.Tensor:
        """Return the rows on the device, converted."""
        rows = to(self.rows)
        return self.conversion(rows.reshape(len(rows), -1)).reshape(rows.shape)


@dataclass(eq=False)
class KeptLabels:
    """Labels of the seeds, which are the first nodes, from those of all nodes on the device."""

    labels: torch.Tensor  # on the device
    count: int

    link_bytes = 0

    @property
    def device_bytes(self) -> int:
        """Bytes of the seeds' labels."""
        return self.count * 8

    def make(self, to: Move, group: Attributes) -> torch.Tensor:
        """Return the labels; `group` has the nodes."""
        return self.labels.index_select(0, group["n_id"][: self.count])


@dataclass(eq=False)
class NarrowIds:
    """A tensor of ids: a part of the int32 array that has all ids of the batch, and is widened on the device."""

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


Made = (PlannedRows, StoredRows, KeptLabels)
Pending = (NarrowIds, *Made)


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


def sizes_of(batch: AnyBatch) -> tuple[int, int]:
    """Bytes of a batch on the host that are copied to the device, and that it takes there."""
    crossing = there = 0
    for group in _groups(batch):
        for _, value in group:
            if isinstance(value, Pending):
                crossing += value.link_bytes
                there += value.device_bytes
            elif hasattr(value, "nbytes"):
                crossing += int(value.nbytes)
                there += int(value.nbytes)
    return crossing, there


def _groups(batch: AnyBatch) -> Iterator[Attributes]:
    if isinstance(batch, Batch):
        yield batch
    else:
        yield from (data for _, data in batch)


def move(batch: AnyBatch, to: Move, tier: DeviceTier | None) -> AnyBatch:
    """Return the batch on the device: tensors by `to`, the others made there.

    Where memory is short, what the tables take is given back, and the rows come from the host.
    """
    import torch

    try:
        return _move(batch, to)
    except torch.OutOfMemoryError:
        if tier is None:
            raise
    tier.give_back()
    for group in _groups(batch):
        for _, value in group:
            if isinstance(value, PlannedRows):
                value.part.lose(value.generation)
    return _move(batch, to)


def _move(batch: AnyBatch, to: Move) -> AnyBatch:
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
            if isinstance(value, Made):
                group.__dict__[name] = value.make(to, group)
    return moved
