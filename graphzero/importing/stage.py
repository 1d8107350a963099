"""The folder next to the target where an import writes its files, so that a killed import can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from typing import Any

from ..args.target import check_folder_name
from ..dataset import manifest
from ..dataset.folder_lock import FolderLock, sync_folder
from ..errors import InputError, StorageError

__all__ = ["Stage", "fingerprint"]

_RECORD = "import.json"


def fingerprint(*things: Any) -> str | None:
    """Return a key that identifies an import: paths with size and modification time, options; None for objects."""
    try:
        text = json.dumps([_identity(thing) for thing in things], sort_keys=True)
    except TypeError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _identity(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {str(key): _identity(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_identity(value) for value in thing]
    if isinstance(thing, (str, os.PathLike)) and os.path.exists(thing):
        path = os.path.realpath(os.fspath(thing))
        if os.path.isdir(path):
            found = sorted(os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
            return [_stat(name) for name in found]
        return _stat(path)
    if isinstance(thing, os.PathLike):  # "apt:", which the command line passes as a path
        return os.fspath(thing)
    if thing is None or isinstance(thing, (str, int, float, bool)):
        return thing
    raise TypeError


def _stat(path: str) -> list[Any]:
    status = os.stat(path)
    return [path, status.st_size, status.st_mtime_ns]


class Stage:
    """`<target>.importing`: finished files and what they were made from. One import at a time may use it."""

    def __init__(self, target: str, key: str | None) -> None:
        """Create the folder, or resume from the files of an import with the same `key`."""
        self.folder = f"{target}.importing"
        self._key = key
        self.resumed: list[str] = []
        os.makedirs(self.folder, exist_ok=True)
        try:
            self._lock = FolderLock(self.path("lock"))
        except BlockingIOError as error:
            raise StorageError(error.errno, f"{self.folder}: another import is writing here", self.folder) from None
        self._done: dict[str, Any] = {}
        record = os.path.join(self.folder, _RECORD)
        if os.path.exists(record):
            with open(record, encoding="utf-8") as file:
                known = json.load(file)
            if key is not None and known.get("key") == key:
                self._done = known["done"]
        self._delete(name for name in os.listdir(self.folder) if name != _RECORD and name not in self._done)

    def path(self, name: str) -> str:
        """Return the full path of a file."""
        return os.path.join(self.folder, name)

    def finished(self, name: str) -> Any:
        """Return the note about a file that an earlier run finished, None if there is none."""
        if name not in self._done or not os.path.exists(self.path(name)):
            return None
        self.resumed.append(name)
        return self._done[name]

    def note(self, name: str, report: Any, with_it: Iterable[str] = ()) -> None:
        """Note that a file is complete, with the other files `with_it` that belong to it."""
        self._done |= {other: None for other in with_it if os.path.exists(self.path(other))}
        self._done[name] = report
        record = self.path(_RECORD)
        with open(record + ".tmp", "w", encoding="utf-8") as file:
            json.dump({"key": self._key, "done": self._done}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(record + ".tmp", record)
        sync_folder(self.folder)

    def forget(self) -> None:
        """Delete the files and the notes about them: they are in a dataset now, or an import starts again."""
        self._done = {}
        self._delete(sorted(os.listdir(self.folder), key=lambda name: name != _RECORD))  # the notes first

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self.path(name)
            if name != "lock":
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def close(self, remove: bool) -> None:
        """Release the folder; `remove` it, or keep it if an import can be resumed from it."""
        self._lock.release()
        if remove or self._key is None or not self._done:
            shutil.rmtree(self.folder, ignore_errors=True)


def check_target(target: str, overwrite: bool) -> None:
    """Raise before any work if the dataset could not be published."""
    check_folder_name(target)
    if os.path.isfile(target):
        raise InputError(f"{target}: is a file, expected the name of a dataset folder to make")
    if os.path.exists(os.path.join(target, manifest.MANIFEST)) and not overwrite:
        raise FileExistsError(f"{target}: dataset already exists; pass overwrite=True to replace it")
    parent = os.path.dirname(target)
    if not os.path.isdir(parent):
        raise FileNotFoundError(f"{parent}: no such folder")
