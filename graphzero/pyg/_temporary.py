"""Temporary folders for compiled objects: removed with the object they belong to, or when the process ends."""

from __future__ import annotations

import shutil
import tempfile
from multiprocessing.util import Finalize

__all__ = ["make_folder", "remove_with"]


def make_folder() -> str:
    """Return a new folder in `$TMPDIR`, or `/tmp`."""
    return tempfile.mkdtemp(prefix="graphzero-pyg-")


def remove_with(owner: object, folder: str) -> None:
    """Remove `folder` when `owner` is dropped, at the latest when this process ends.

    Worker processes end without `atexit`, and so without `weakref.finalize`, but they run these finalizers. A forked
    child that drops its copy of the owner removes nothing: a finalizer counts in the process that made it.
    """
    Finalize(owner, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=0)
