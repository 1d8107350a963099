"""The folder of an export: complete when it appears, and replaced only if it is an older export.

`export.json` lists its files. A folder without it, or with anything that is not listed, is not an export.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from typing import Any

from ..args.target import check_folder_name
from ..dataset.folder_lock import FolderLock, is_abandoned

__all__ = ["MARKER", "SPEC", "new_folder"]

SPEC, MARKER = "tables.json", "export.json"
_KIND, _VERSION = "graphzero export", 1
_PART, _OLD = ".exporting-", ".replaced-"


@contextlib.contextmanager
def new_folder(folder: str, overwrite: bool) -> Iterator[str]:
    """Yield an empty folder next to `folder`, which gets its name at the end; nothing is left after an error.

    What a killed export of the same name left is removed. A link is kept: the folder that it points to is replaced.
    """
    check_folder_name(folder)
    if not os.path.isdir(os.path.dirname(folder)):
        raise FileNotFoundError(f"{os.path.dirname(folder)}: no such folder")
    target = os.path.realpath(folder)
    parent = os.path.dirname(target)
    part = f"{target}{_PART}{secrets.token_hex(4)}"
    with FolderLock(parent if os.path.isdir(parent) else os.path.dirname(folder), wait=True):
        _check_target(folder, overwrite)
        os.mkdir(part)
        lock = FolderLock(part)  # says that its export is running
    try:
        _write_marker(part, [])
        yield part
        _write_marker(part, sorted(set(_files_in(part)) - {MARKER}))
        with FolderLock(parent, wait=True) as alone:
            _check_target(folder, overwrite)
            _publish(part, target)
            if alone.held:
                _remove_leftovers(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        lock.release()


def _publish(part: str, target: str) -> None:
    """Rename the new folder to its name; an older one is removed after that, and put back if it fails."""
    old = f"{target}{_OLD}{secrets.token_hex(4)}"
    if not os.path.isdir(target):
        os.rename(part, target)
        return
    os.rename(target, old)
    try:
        os.rename(part, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _remove_leftovers(target: str) -> None:
    """Remove what killed exports to `target` left; only one that holds the lock of its parent folder may do this."""
    parent, name = os.path.split(target)
    ours = re.compile(rf"{re.escape(name)}({re.escape(_PART)}|{re.escape(_OLD)})[0-9a-f]{{8}}")
    for found in os.listdir(parent):
        path = os.path.join(parent, found)
        kind = ours.fullmatch(found)
        if kind is None or os.path.islink(path) or _listed(path) is None:
            continue
        if is_abandoned(path) if kind[1] == _PART else _strange_entry(path) is None:
            shutil.rmtree(path, ignore_errors=True)


def _check_target(folder: str, overwrite: bool) -> None:
    """Raise FileExistsError for a folder that may not be replaced."""
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder):
        what = "a link to nothing" if os.path.islink(folder) and not os.path.exists(folder) else "a file"
        raise FileExistsError(f"{folder}: is {what}; choose another name for the folder, or remove it first")
    strange = _strange_entry(folder)
    if strange is not None:
        raise FileExistsError(
            f"{folder}: folder already exists, and is not an export ({strange}); choose another name, or remove it "
            "first"
        )
    if not overwrite:
        raise FileExistsError(f"{folder}: folder already exists; pass overwrite=True to replace it")


def _strange_entry(folder: str) -> str | None:
    """Return the reason why a folder is not an export; None if it is one, or is empty."""
    listed = _listed(folder)
    if listed is None:
        with os.scandir(folder) as entries:
            held = min((entry.name for entry in entries), default=None)
        return None if held is None else f"it holds {held!r}, and no {MARKER} that lists it"
    known = {MARKER, *listed}
    folders = {"/".join(name.split("/")[:depth]) for name in known for depth in range(1, name.count("/") + 1)}
    strange = sorted({*_files_in(folder)} - known) or sorted({*_files_in(folder, folders_too=True)} - known - folders)
    return f"it holds {strange[0]!r}" if strange else None


def _write_marker(folder: str, files: list[str]) -> None:
    with open(os.path.join(folder, MARKER), "w", encoding="utf-8") as file:
        json.dump({"kind": _KIND, "version": _VERSION, "files": files}, file, indent=2)


def _listed(folder: str) -> list[str] | None:
    """Return the files that a folder should have; None if it has no list of them."""
    try:
        with open(os.path.join(folder, MARKER), encoding="utf-8") as file:
            found: Any = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("kind") != _KIND or found.get("version") != _VERSION:
        return None
    files = found.get("files")
    return files if isinstance(files, list) and all(isinstance(name, str) for name in files) else None


def _files_in(folder: str, folders_too: bool = False) -> Iterator[str]:
    """Yield what a folder holds at any depth, with "/" between names; links to folders count as files."""
    for at, folders, files in os.walk(folder):
        links = [name for name in folders if folders_too or os.path.islink(os.path.join(at, name))]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(at, name), folder).replace(os.sep, "/")
