"""Making what happened in a folder durable."""

from __future__ import annotations

import os


def sync_folder(folder: str) -> None:
    """Make renames and removals in `folder` durable; where a platform cannot open folders there is nothing to do."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
