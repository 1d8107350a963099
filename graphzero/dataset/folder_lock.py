"""Folders that several writers share: locks, which end with their process, and changes that are made durable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows: no locks, so folders of other writers are never removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_abandoned", "lock", "locked", "sync_folder", "unlock"]


def lock(path: str, wait: bool = False) -> int | None:
    """Lock a folder, or a file in it, until `unlock` or the end of the process; None if the system has no locks.

    A missing file is created: network file systems lock files, but not folders. Raises BlockingIOError if another
    process holds the lock and `wait` is False.
    """
    if fcntl is None:
        return None
    how = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    handle = os.open(path, how, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException as e:
        os.close(handle)
        if isinstance(e, OSError) and not isinstance(e, BlockingIOError):
            return None
        raise
    return handle


def unlock(handle: int | None) -> None:
    """Release a lock, even if a forked child has a copy of the file descriptor."""
    if handle is None:
        return
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Acquire a lock, waiting for it, for the duration of the context."""
    handle = lock(path, wait=True)
    try:
        yield
    finally:
        unlock(handle)


def is_abandoned(path: str) -> bool:
    """Return whether no running process holds the lock; False if unknown."""
    try:
        handle = lock(path)
    except OSError:  # held, or its owner is removing it
        return False
    unlock(handle)
    return handle is not None


def sync_folder(folder: str) -> None:
    """Make renames and removals in `folder` durable; do nothing on platforms that cannot open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
