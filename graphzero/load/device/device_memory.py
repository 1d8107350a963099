"""How much memory of a device is free for rows: gpu_memory="auto"."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import torch

    from .tier import DeviceTier

_SPARE = 0.15  # of the memory that training has needed at most so far: may be needed in addition
_RESERVE = 0.05  # of the device's memory: stays free


class DeviceMemory:
    """What training needs of a device besides the tables of all loaders, as far as it has shown that.

    torch counts the most that was ever allocated, tables included. So that is looked at before and after tables are
    made or freed, and tables are subtracted if there were some when it grew.
    """

    _of: ClassVar[dict[torch.device, DeviceMemory]] = {}

    def __init__(self, device: torch.device) -> None:
        """Nothing is known yet."""
        self._device = device
        self._tiers: weakref.WeakSet[DeviceTier] = weakref.WeakSet()
        self._peak = self._held = 0  # when it was last looked at
        self.training_bytes = 0

    @classmethod
    def of(cls, device: torch.device) -> DeviceMemory | None:
        """The one of a device; None where there is nothing to look at."""
        import torch

        if device.type != "cuda" or torch.cuda.get_allocator_backend() == "pluggable":
            return None
        return cls._of.setdefault(device, cls(device))

    def add(self, tier: DeviceTier) -> None:
        """Subtract the tables of this one too, as long as it is used."""
        self._tiers.add(tier)
        self.look()

    def look(self) -> None:
        """Find out whether training needs more than before."""
        import torch

        held = sum(tier.table_bytes for tier in list(self._tiers))
        peak = torch.cuda.memory_stats(self._device).get("allocated_bytes.all.peak", 0)
        if peak > self._peak:
            self.training_bytes = max(self.training_bytes, peak - max(held, self._held))
        self._peak, self._held = peak, held

    def room(self, coming: int, margin: float = 1) -> int:
        """Bytes that are free beyond what training needs and a margin, negative if the margin is used up.

        `coming`: bytes of tables that will be made, less those that will be freed. `margin` is a share of the margin.
        """
        import torch

        self.look()
        free, total = torch.cuda.mem_get_info(self._device)
        reserved = torch.cuda.memory_stats(self._device).get("reserved_bytes.all.current", 0)
        if (fraction := getattr(torch.cuda, "get_per_process_memory_fraction", None)) is not None:
            free = min(free, int(fraction(self._device) * total) - reserved)
        # What torch has reserved and does not use serves training as well as free memory does.
        needed = max((1 + margin * _SPARE) * self.training_bytes - (reserved - self._held), 0)
        return int(free - coming - needed - margin * _RESERVE * total)

    def return_unused(self) -> None:
        """Return what was freed to the device: torch keeps it for the stream that it was made on."""
        import torch

        with torch.cuda.device(self._device):
            torch.cuda.empty_cache()
        self.look()
