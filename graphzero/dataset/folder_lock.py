"""Folders that several writers share: locks, which end with their process, and changes that are made durable."""

from __future__ import annotations

import contextlib
import os

try:
    import fcntl
except ImportError:  # Windows: no locks, so folders of other writers are never removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["FolderLock", "is_abandoned", "sync_folder"]


class FolderLock:
    """An exclusive lock of a folder, or of a file in it, until `release` or the end of the process.

    A missing file is created: network file systems lock files, but not folders. Raises BlockingIOError if another
    process holds the lock and `wait` is False. `held` is False if the system has no locks.
    """

    def __init__(self, path: str, wait: bool = False) -> None:
        """Acquire the lock."""
        self._path = path
        self._handle: int | None = None
        if fcntl is None:
            return
        how = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(path, how, 0o666)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException as e:
            self.release()
            if not isinstance(e, OSError) or isinstance(e, BlockingIOError):
                raise

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._handle is not None

    @property
    def lost(self) -> bool:
        """Whether the locked file was removed meanwhile, so that others may hold a lock of the same name."""
        try:
            return self._handle is not None and not os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except FileNotFoundError:
            return True

    def release(self) -> None:
        """Release the lock, even if a forked child has a copy of the file descriptor."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def __enter__(self) -> FolderLock:
        """Return the lock."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()


def is_abandoned(path: str) -> bool:
    """Return whether no running process holds the lock; False if unknown."""
    try:
        with FolderLock(path) as lock:
            return lock.held
    except OSError:  # held, or its owner is removing it
        return False


def sync_folder(folder: str) -> None:
    """Make renames and removals in `folder` durable; do nothing on platforms that cannot open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
