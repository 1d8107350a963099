"""Waiting for a condition, for as long as a busy machine may need."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

PATIENCE = 300  # seconds, after which a process is taken to hang: what is waited for takes a few on a quiet machine


def wait_until(condition: Callable[[], object]) -> bool:
    """Return whether the condition became true."""
    until = time.monotonic() + PATIENCE
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return bool(found)


def call_with_ctrl_c(function: Callable[[], object]) -> None:
    """Call a function while Ctrl-C is pressed, shortly after it began."""

    def press() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        function()
    finally:
        thread.join()
