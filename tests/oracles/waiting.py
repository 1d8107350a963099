"""Waiting for a condition, for as long as a busy machine may need."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300  # seconds, after which a process is taken to hang: what is waited for takes a few on a quiet machine


def wait_until(condition: Callable[[], object]) -> bool:
    """Return whether the condition became true."""
    until = time.monotonic() + PATIENCE
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return bool(found)
