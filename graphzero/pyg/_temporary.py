"""Temporary folders for compiled objects: removed with their owner, or when the process ends."""

from __future__ import annotations

import shutil
import tempfile
from multiprocessing.util import Finalize

__all__ = ["make_folder", "remove_with"]


def make_folder() -> str:
    """Return a new folder in `$TMPDIR`, or `/tmp`."""
    return tempfile.mkdtemp(prefix="graphzero-pyg-")


def remove_with(owner: object, folder: str) -> None:
    """Remove `folder` when `owner` is garbage collected, at the latest when this process ends.

    Worker processes exit without `atexit`, and so without `weakref.finalize`, but they run these finalizers. A forked
    child that deletes its copy of the owner removes nothing: a finalizer runs only in the process that created it.
    """
    Finalize(owner, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=0)
