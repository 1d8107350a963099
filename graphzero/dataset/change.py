"""A change of a dataset on disk: new files next to the old ones, published by one rename of the manifest."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ..errors import StorageError
from .folder_lock import FolderLock
from .manifest import Manifest
from .manifest_reader import read_manifest
from .publish import Stage, plain_name, replaced_meanwhile

__all__ = ["Change"]

_T = TypeVar("_T")
_LOCK = ".writer"  # locked while a change runs; holds who runs it


class Change:
    """One writer's change of the dataset in `folder`, whose manifest was `before` when it was opened.

    Raises StorageError at once if another process changes the dataset, or if it was changed since. Files that were not
    published are removed on exit.
    """

    def __init__(self, folder: str, before: Manifest, what: str) -> None:
        """Prepare a change; `what` is a verb for messages: "append"."""
        self.folder, self.before, self._what = folder, before, what
        self._stage = Stage(folder, overwrite=True)
        self._lock: FolderLock | None = None
        self._names: set[str] = set()

    def __enter__(self) -> Change:
        """Lock the dataset; nothing else is written before the first `target`."""
        self._lock = _locked(self.folder, self._what)
        try:
            self._check_current()
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Remove what was not published, and release the lock."""
        if self._stage.path:
            self._stage.close()
        self._unlock()
        if isinstance(error, FileNotFoundError):  # the files of a dataset that was replaced
            self._check_current()

    def _check_current(self) -> None:
        if replace(read_manifest(self.folder), tasks=self.before.tasks) != self.before:
            raise replaced_meanwhile(self.folder)

    def target(self, file: str) -> tuple[str, str]:
        """Return the name, for the manifest, and the full path of a new file that takes after `file`."""
        if not self._stage.path:
            self._stage.open()
        plain = plain_name(file)
        name = plain if plain not in self._names else file
        self._names.add(name)
        path = os.path.join(self._stage.path, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return f"{os.path.basename(self._stage.path)}/{name}", path

    def publish(self, after: Manifest, opened: Callable[[], _T]) -> _T:
        """Replace the manifest by `after`; return the result of `opened`."""
        return self._stage.publish_change(self.before, after, opened)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, _LOCK))  # before others can lock it
            lock.release()


def _locked(folder: str, what: str) -> FolderLock:
    path = os.path.join(folder, _LOCK)
    while True:
        try:
            lock = FolderLock(path)
        except BlockingIOError:
            raise StorageError(errno.EAGAIN, f"{folder}: {_holder(path)}; try again when it is done", folder) from None
        except OSError as e:
            message = f"{folder}: cannot {what}: {e.strerror}; the folder must be writable"
            raise StorageError(e.errno, message, folder) from None
        if not lock.lost:
            break
        lock.release()  # its holder removed the file between our opening and locking it
    with contextlib.suppress(OSError), open(path, "w") as f:  # a full disk
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "what": what, "since": int(time.time())}, f)
    return lock


def _holder(path: str) -> str:
    try:
        with open(path) as f:
            found = json.load(f)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(found["since"])))
        return (
            f"process {int(found['pid'])} on {found['host']!s} changes this dataset ({found['what']!s}, since {since})"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "another process changes this dataset"
