"""What stands in a batch on the host for a tensor that is made on the device, and the step that makes them all.

This runs in the thread that launches the kernels of training, once per batch: each operation of torch that is saved
here saves it some 10 us (benchmarks/gpu.py --only next).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..batch import AnyBatch, Attributes, Batch, HeteroBatch, TypeData

if TYPE_CHECKING:
    import torch

    from ...args.ids import IdArray
    from .assemble import Conversion
    from .kept_labels import LabelTable
    from .part_rows import PartRows
    from .tier import DeviceTier


class Move(Protocol):
    """Copies a tensor to the device."""

    def __call__(self, tensor: torch.Tensor, page_locked: bool = False) -> torch.Tensor:
        """Return the copy. Memory that is known to be page-locked is not asked about again."""


class NarrowArray:
    """All ids of a batch in one array of int32, which the device widens."""

    __slots__ = ("_array", "_page_locked", "_sizes")

    def __init__(self, array: Any, sizes: Sequence[int], page_locked: bool) -> None:
        """Take the array, and how many ids each tensor has of it, one after the other."""
        self._array, self._sizes, self._page_locked = array, sizes, page_locked

    def size(self, index: int) -> int:
        """How many ids a tensor has."""
        return self._sizes[index]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return int(self._array.nbytes)

    def widened(self, to: Move) -> Sequence[torch.Tensor]:
        """Return the tensors on the device: parts of one."""
        import torch

        return to(torch.from_numpy(self._array), self._page_locked).to(torch.int64).split_with_sizes(self._sizes)

    def ids(self, index: int, count: int | None = None) -> IdArray:
        """Return the ids of one tensor, or the first `count` of them, on the host."""
        first = sum(self._sizes[:index])
        ids = self._array[first : first + (self._sizes[index] if count is None else count)]
        return ids.astype(np.int64)  # type: ignore[no-any-return]


@dataclass(eq=False, slots=True)
class NarrowIds:
    """A tensor of ids: a part of the array that has all ids of the batch."""

    array: NarrowArray
    index: int  # among the parts
    is_pair: bool = False  # (2, n), as edge_index is

    @property
    def link_bytes(self) -> int:
        """Bytes that are copied to the device; the array is counted with its first ids."""
        return self.array.nbytes if self.index == 0 else 0

    @property
    def device_bytes(self) -> int:
        """Bytes of the ids on the device."""
        return 8 * self.array.size(self.index) + self.link_bytes

    def ids(self) -> IdArray:
        """Return the ids on the host."""
        return self.array.ids(self.index)


@dataclass(eq=False, slots=True)
class PlannedRows:
    """Rows of a part of which the device keeps some: the misses, and where the others are."""

    part: PartRows
    ids: IdArray | NarrowIds
    by: str  # the attribute that has them on the device
    misses: Any  # an array of the missing rows, empty if the device reads them; None if it has all rows
    given: Mapping[str, Any]  # by the core

    @property
    def generation(self) -> int:
        """That of the table that the batch was planned with."""
        return int(self.given["generation"])

    @property
    def link_bytes(self) -> int:
        """Bytes that are copied to the device."""
        if self.misses is None:
            return 0
        lists, misses = self.given["lists"].nbytes, self.given["misses"]
        ids = 0 if self.given["reads_host"] else 8 * misses  # which the host alone needs
        return int(lists - ids + misses * self.part.row_bytes)

    @property
    def device_bytes(self) -> int:
        """Bytes of the rows on the device."""
        return int(self.given["rows"] * self.part.made_row_bytes + self.link_bytes)

    def host_ids(self) -> IdArray:
        """Return the ids on the host."""
        return self.ids.ids() if isinstance(self.ids, NarrowIds) else self.ids

    def make(self, to: Move, group: Mapping[str, Any]) -> torch.Tensor:
        """Return the rows on the device; `group` has their ids there."""
        return self.part.rows(self, group[self.by], to)


@dataclass(eq=False, slots=True)
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

    def make(self, to: Move, group: Mapping[str, Any]) -> torch.Tensor:
        """Return the rows on the device, converted."""
        rows = to(self.rows)
        return self.conversion(rows.flatten(1) if rows.dim() > 2 else rows).reshape(rows.shape)


@dataclass(eq=False, slots=True)
class KeptLabels:
    """Labels of the seeds, which are the first nodes, from those of all nodes on the device."""

    table: LabelTable
    seeds: Callable[[], IdArray]  # on the host, for where the table does not fit
    count: int

    @property
    def link_bytes(self) -> int:
        """Nothing is copied."""
        return 0

    @property
    def device_bytes(self) -> int:
        """Bytes of the seeds' labels."""
        return self.count * 8

    def make(self, to: Move, group: Mapping[str, Any]) -> torch.Tensor:
        """Return the labels; `group` has the nodes."""
        found = self.table.take(group["n_id"].narrow(0, 0, self.count))
        return to(self.table.labels.of(self.seeds())) if found is None else found


Made = (PlannedRows, StoredRows, KeptLabels)
Pending = (NarrowIds, *Made)


def narrow(given: tuple[Any, Sequence[int], bool], nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    """Add to each type its ids, which are parts of one array, in the order in which the core wrote them."""
    array, index = NarrowArray(*given), 0
    for values in edges:
        values["edge_index"] = NarrowIds(array, index, is_pair=True)
        values["e_id"] = NarrowIds(array, index + 1)
        index += 2
    for values in nodes:
        values["n_id"] = NarrowIds(array, index)
        index += 1


def sizes_of(batch: AnyBatch) -> tuple[int, int]:
    """Bytes of a batch on the host that are copied to the device, and that it takes there."""
    crossing = there = 0
    for group in _groups(batch):
        for value in group.__dict__.values():
            if isinstance(value, Pending):
                crossing += value.link_bytes
                there += value.device_bytes
            elif hasattr(value, "nbytes"):
                crossing += value.nbytes
                there += value.nbytes
    return crossing, there


def _groups(batch: AnyBatch) -> Iterator[Attributes]:
    if isinstance(batch, Batch):
        yield batch
    else:
        yield from (data for _, data in batch)


def move(batch: AnyBatch, to: Move, tier: DeviceTier | None) -> tuple[AnyBatch, list[torch.Tensor]]:
    """Return the batch on the device (tensors by `to`, the others made there), and a tensor of each of its memories.

    Where memory is short, what the tables take is given back, and the rows come from the host.
    """
    import torch

    with torch.inference_mode(False):  # else tensors that are made in it could not be used for training afterwards
        try:
            return _move(batch, to)
        except torch.cuda.OutOfMemoryError:
            if tier is None or not tier.give_back():
                raise
        for group in _groups(batch):
            for _, value in group:
                if isinstance(value, PlannedRows):
                    value.part.lose(value.generation)
        return _move(batch, to)


def _move(batch: AnyBatch, to: Move) -> tuple[AnyBatch, list[torch.Tensor]]:
    owned: list[torch.Tensor] = []
    wide: dict[NarrowArray, Sequence[torch.Tensor]] = {}  # one at most
    if isinstance(batch, Batch):
        return Batch._of(_moved(batch.__dict__, to, wide, owned)), owned
    nodes = {key: TypeData._of(_moved(data.__dict__, to, wide, owned)) for key, data in batch._nodes.items()}
    edges = {key: TypeData._of(_moved(data.__dict__, to, wide, owned)) for key, data in batch._edges.items()}
    return HeteroBatch(nodes, edges), owned


def _moved(
    given: Mapping[str, Any], to: Move, wide: dict[NarrowArray, Sequence[torch.Tensor]], owned: list[torch.Tensor]
) -> dict[str, Any]:
    """Return the attributes of one type on the device."""
    values, made = dict(given), []
    for name, value in given.items():
        if isinstance(value, NarrowIds):
            if value.array not in wide:
                wide[value.array] = value.array.widened(to)
                owned.append(wide[value.array][0])
            ids = wide[value.array][value.index]
            values[name] = ids.view(2, -1) if value.is_pair else ids
        elif isinstance(value, Made):
            made.append((name, value))
        elif hasattr(value, "untyped_storage"):
            values[name] = to(value)
            owned.append(values[name])
    for name, value in made:
        values[name] = value.make(to, values)
        owned.append(values[name])
    return values
