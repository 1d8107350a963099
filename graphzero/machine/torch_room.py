"""Checks that torch fits in the memory limit of a container, before the kernel kills the process."""

from __future__ import annotations

import sys

from .. import _core
from ..args.sizes import format_size
from ..errors import BudgetError
from .facts import memory

_TORCH_BYTES = 240_000_000  # torch 2.13, an optimizer and a first small step, code pages not counted


def check_room_for_torch() -> None:
    """Raise BudgetError if torch is not loaded yet and does not fit: the kernel would kill the process."""
    found = _core.available_memory()  # 0 if unknown
    if not found or found >= _TORCH_BYTES or "torch" in sys.modules or memory()["swap"]:
        return
    raise BudgetError(
        f"{format_size(found)} of memory is available, but torch and an optimizer need about "
        f"{format_size(_TORCH_BYTES)} before the first batch; raise the memory limit by at least "
        f"{format_size(_TORCH_BYTES - found)}",
        _TORCH_BYTES,
    )
