"""Makes changes in a folder durable."""

from __future__ import annotations

import os


def sync_folder(folder: str) -> None:
    """Make renames and removals in `folder` durable; do nothing on platforms that cannot open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
