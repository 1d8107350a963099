"""Locks of folders: held by a living writer and gone with its process, so that others can tell what is abandoned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows: no locks, so folders of others are left alone
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_abandoned", "lock", "locked", "unlock"]


def lock(path: str, wait: bool = False) -> int | None:
    """Lock a folder, or a file in it, until `unlock` or the end of the process; None where the system has no locks.

    A file is made where there is none: network file systems lock files, but not folders. BlockingIOError when another
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
    """Release a lock, also where a child that was forked meanwhile has a copy of the handle."""
    if handle is None:
        return
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a lock for a moment; wait for it."""
    handle = lock(path, wait=True)
    try:
        yield
    finally:
        unlock(handle)


def is_abandoned(path: str) -> bool:
    """Whether no living process holds the lock; False where that cannot be told."""
    try:
        handle = lock(path)
    except OSError:  # held, or its owner is removing it
        return False
    unlock(handle)
    return handle is not None
