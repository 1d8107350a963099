"""Publishes a dataset in its folder: every writer has its own files, and one rename of the manifest publishes them.

A writer creates its files in a subfolder (`v2-3f9a1c2b`), which it keeps locked while it runs. To publish, it renames
its manifest over the old one: before that the old dataset is complete, after it the new one, and of several writers
the last wins. The first dataset of a folder gets plain names (`graph.gl`) if they are free. Files that no manifest
names and no running writer holds are removed by the next writer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ..args.target import check_folder_name
from ..errors import FormatError, StorageError
from .folder_lock import FolderLock, is_abandoned, sync_folder
from .manifest import MANIFEST, Manifest
from .manifest_reader import parse_manifest, read_bytes, read_manifest
from .manifest_writer import manifest_bytes, write_manifest

_T = TypeVar("_T")
_STAGE = re.compile(r"v(\d{1,9})-[0-9a-f]{8}")
_OLD_STAGE = ".replacing"  # used by earlier versions
_REPLACED = "replaced.json"  # in a stage: files of the previous dataset, removed after publishing


def plain_name(file: str) -> str:
    """Return the name of a dataset's file without the folder of the writer that made it."""
    head, _, rest = file.partition("/")
    return rest if rest and _STAGE.fullmatch(head) else file


class Stage:
    """One writer's folder within the dataset's: `path` while it is open."""

    def __init__(self, folder: str, overwrite: bool) -> None:
        """Prepare for `folder`; nothing is changed until `open`."""
        self.folder = folder
        self.path = ""
        self._overwrite = overwrite
        self._made_folder = False
        self._lock: FolderLock | None = None
        self._moved: list[str] = []  # to plain names, if the file system has no links

    @property
    def first(self) -> bool:
        """Whether the folder has no dataset, so that files may have plain names."""
        return not os.path.lexists(os.path.join(self.folder, MANIFEST))

    def open(self) -> None:
        """Create the stage. Raises FileExistsError if there is a dataset that may not be replaced."""
        self._refuse()
        check_folder_name(self.folder)
        self._made_folder = not os.path.exists(self.folder)
        while not self.path:
            os.makedirs(self.folder, exist_ok=True)
            # A failing writer may remove the folder.
            with contextlib.suppress(FileNotFoundError), FolderLock(self.folder, wait=True):
                sweep(self.folder)
                path = os.path.join(self.folder, f"v{self._number()}-{secrets.token_hex(4)}")
                os.mkdir(path)
                self.path, self._lock = path, FolderLock(path)

    def publish(self, manifest: Manifest, in_place: set[str], opened: Callable[[], _T]) -> _T:
        """Publish `manifest`, whose files have plain names, in the folder; return the result of `opened`.

        The files are in the stage, except those `in_place`, which are at their final location.
        """
        stage = os.path.basename(self.path)
        staged = {file: file if file in in_place else f"{stage}/{file}" for file in manifest.files()}
        manifest_bytes(self.folder, manifest.renamed(staged))  # checked before anything is changed
        with FolderLock(self.folder, wait=True):
            self._refuse()
            if self.first:
                staged = {file: self._with_plain_name(file, name) for file, name in staged.items()}
            return self._replace(manifest.renamed(staged), opened)

    def publish_change(self, before: Manifest, after: Manifest, opened: Callable[[], _T]) -> _T:
        """Publish a change of the dataset `before`; `after` names files of the stage and files that are in place.

        Raises StorageError if the dataset was replaced since `before` was read; tasks may have been added.
        """
        manifest_bytes(self.folder, after)  # checked before anything is changed
        with FolderLock(self.folder, wait=True):
            now = read_manifest(self.folder)
            if replace(now, tasks=before.tasks) != before:
                raise replaced_meanwhile(self.folder)
            return self._replace(replace(after, tasks=now.tasks), opened)

    def _replace(self, manifest: Manifest, opened: Callable[[], _T]) -> _T:
        """Replace the manifest, and remove the files that only the old one names. The folder must be locked."""
        self._note_replaced(set(manifest.files()))
        for path, _, _ in os.walk(self.path):
            sync_folder(path)
        sync_folder(self.folder)
        write_manifest(self.folder, manifest, self.path)
        result = opened()  # while the lock is held, so that it cannot be replaced
        self._release()
        sweep(self.folder)
        return result

    def close(self) -> None:
        """Remove what was not published, and the folder if it was created for that."""
        with contextlib.suppress(OSError), FolderLock(self.folder, wait=True):
            self._release()
            sweep(self.folder, dead=self.path)
            for name in set(self._moved) - current(self.folder):
                _remove(self.folder, name)
            if self._made_folder:
                os.rmdir(self.folder)

    def _refuse(self) -> None:
        if not self._overwrite and not self.first:
            message = "dataset already exists; pass overwrite=True to replace it"
            raise FileExistsError(errno.EEXIST, message, self.folder)

    def _number(self) -> int:
        named = current(self.folder)
        numbers = [int(m[1]) for name in named if (m := _STAGE.match(name))]
        return 1 + max(numbers, default=0 if self.first else 1)

    def _with_plain_name(self, file: str, name: str) -> str:
        """Give a staged file its plain name if that is free; the staged name is removed at the end."""
        if file == name:
            return name
        plain = _full(self.folder, file)
        try:
            os.makedirs(os.path.dirname(plain), exist_ok=True)
            os.link(_full(self.folder, name), plain)
        except OSError:  # taken, or a file system without links
            if os.path.lexists(plain) or not os.path.isdir(os.path.dirname(plain)):
                return name
            os.rename(_full(self.folder, name), plain)
            self._moved.append(file)
        sync_folder(os.path.dirname(plain))
        return file

    def _note_replaced(self, kept: set[str]) -> None:
        old = [[name, *_identity(_full(self.folder, name))] for name in sorted(current(self.folder) - kept)]
        if old:
            with open(os.path.join(self.path, _REPLACED), "w") as f:
                json.dump(old, f)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def replaced_meanwhile(folder: str) -> StorageError:
    """Return the error of a writer whose dataset is no longer the one in the folder."""
    return StorageError(errno.ESTALE, f"{folder}: the dataset was changed after it was opened; open it again", folder)


# -- what is left behind ----------------------------------------------------------------------------------------------


def current(folder: str) -> set[str]:
    """Return the files that the folder's manifest names; an empty set if there is no readable manifest."""
    try:
        return set(parse_manifest(folder, read_bytes(folder), present=False).files())
    except (FormatError, StorageError):
        return set()


def sweep(folder: str, dead: str = "") -> None:
    """Remove the files of killed writers and of the replaced dataset. The folder must be locked.

    If the manifest cannot be read, nothing is removed, since its files are unknown.
    """
    named = current(folder)
    if not named and os.path.lexists(os.path.join(folder, MANIFEST)):
        return
    for name in os.listdir(folder):
        stage = os.path.join(folder, name)
        if not (_STAGE.fullmatch(name) or name == _OLD_STAGE) or os.path.islink(stage) or not os.path.isdir(stage):
            continue
        if any(file.startswith(f"{name}/") for file in named):
            _remove_replaced(folder, stage, named)
        elif stage != dead and not is_abandoned(stage):
            continue
        _remove_unnamed(folder, stage, named)


def _remove_unnamed(folder: str, stage: str, named: set[str]) -> None:
    for path, _, files in os.walk(stage, topdown=False):
        for file in files:
            full = os.path.join(path, file)
            if os.path.relpath(full, folder).replace(os.sep, "/") in named:
                continue
            plain = os.path.relpath(full, stage).replace(os.sep, "/")
            with contextlib.suppress(OSError):  # killed after the file got its plain name
                if plain not in named and os.path.samefile(full, _full(folder, plain)):
                    _remove(folder, plain)
            with contextlib.suppress(OSError):
                os.unlink(full)
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _remove_replaced(folder: str, stage: str, named: set[str]) -> None:
    """Remove the files that the stage's dataset has replaced, if they are still the same files."""
    note = os.path.join(stage, _REPLACED)
    try:
        with open(note) as f:
            replaced = [(str(name), tuple(identity)) for name, *identity in json.load(f)]
    except (OSError, ValueError, TypeError):
        return
    for name, identity in replaced:
        path = _full(folder, name)
        inside = os.path.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)
        if name not in named and name.endswith((".gl", ".gd")) and inside and _identity(path) == identity:
            _remove(folder, name)
    with contextlib.suppress(OSError):
        os.unlink(note)


def _remove(folder: str, name: str) -> None:
    """Remove a file of the dataset, and folders that become empty."""
    with contextlib.suppress(OSError):
        os.unlink(_full(folder, name))
        while name := name.rpartition("/")[0]:
            os.rmdir(_full(folder, name))


def _identity(path: str) -> tuple[int, ...]:
    """Return the identity of a file, to detect another file under the same name."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _full(folder: str, name: str) -> str:
    return os.path.join(folder, *name.split("/"))
