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
from .part_rows import PartRows

if TYPE_CHECKING:
    import torch

    from ...stores.features import FeatureStore
    from ..inputs import Labels

_WARM_UP = 10  # batches before "auto" decides: by then the device has run some training steps
_CHECK_EVERY = 16  # batches between two looks at the device's free memory
_SPARE = 1.15  # of the memory that training has taken at most so far
_RESERVE = 20  # one part in so many of the device's memory stays free
_LABELS = 16  # labels of all nodes are kept if they take at most one part in so many of what rows may take

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
        self._labels: tuple[torch.Tensor, torch.dtype] | None = None
        self._too_small = -1  # bytes in which the labels did not fit
        if memory is not None:
            self._divide(memory)

    def begin_epoch(self) -> None:
        """The batches that come next are of a new epoch."""
        for part in self.parts:
            part.begin_epoch()

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
        """What the tables and labels take on the device."""
        return sum(part.table_bytes for part in self.parts) + (0 if self._labels is None else self._labels[0].nbytes)

    def labels(self, labels: Labels) -> tuple[torch.Tensor, torch.dtype] | None:
        """The labels of all nodes on the device, uploaded once, and their dtype; None if they are too large for that.

        int64 labels that are too large are kept as int32, if they fit in that.
        """
        import torch

        most = self._granted // _LABELS
        if self._labels is None and self._too_small < most and labels.nbytes <= 2 * most:
            found = kept = labels.all()
            if found.dtype == torch.int64 and found.nbytes > most:
                low, high = (int(bound) for bound in torch.aminmax(found))
                kept = found.to(torch.int32) if low >= -(2**31) and high < 2**31 else found
            if kept.nbytes <= most:
                self._labels = (kept.to(self._device), found.dtype)
                if self._device.type == "cuda":  # another stream is about to read them
                    torch.cuda.current_stream(self._device).synchronize()
            else:
                self._too_small = most
        return self._labels

    def forget(self) -> None:
        """Batches that were planned will not come: the caches are empty from the next epoch on."""
        for part in self.parts:
            part.core.forget()

    def stats(self) -> dict[str, Any]:
        """By part: how many rows the device keeps, of how many, and whether it reads the others by itself."""
        found = {}
        for name, part in zip(self._names, self.parts, strict=True):
            sizes = {"slots": part.core.slots, "bytes": part.table_bytes, "row_bytes": part.row_bytes}
            found[name] = sizes | {"all_rows": part.num_rows, "reads_host": part.reads_host}
        return found

    def give_back(self) -> None:
        """Free the tables; those of the next generations are half as large together."""
        held, self._labels = self._granted, None
        for part in self.parts:
            part.drop()
        self._divide(held // 2)
        warnings.warn(
            f"the device is out of memory: its cache of rows is emptied and gets {format_size(held // 2)} "
            f"instead of {format_size(held)}; lower gpu_memory, or batch_size",
            stacklevel=2,
        )

    def _divide(self, memory: int) -> None:
        """Set the sizes of the tables."""
        needs = [(part.num_rows, part.row_bytes, rows) for part, rows in zip(self.parts, self._rows, strict=True)]
        for part, slots in zip(self.parts, _core.divide_slots(memory, needs), strict=True):
            part.core.resize(slots)
        self._granted = sum(part.core.slots * part.row_bytes for part in self.parts)

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
