"""The folder of an export: complete when it appears, and replaced only if it is an older export."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator

from ..args.target import check_folder_name

__all__ = ["SPEC", "new_folder"]

SPEC = "tables.json"
_FILES = (".parquet", ".csv", ".npy", ".npz")
_PART, _OLD = ".exporting-", ".replaced-"


@contextlib.contextmanager
def new_folder(folder: str, overwrite: bool) -> Iterator[str]:
    """Yield an empty folder next to `folder`, which gets its name at the end; nothing is left after an error."""
    check_folder_name(folder)
    if not os.path.isdir(os.path.dirname(folder)):
        raise FileNotFoundError(f"{os.path.dirname(folder)}: no such folder")
    _check_target(folder, overwrite)
    target = os.path.realpath(folder)
    part = f"{target}{_PART}{secrets.token_hex(4)}"
    os.mkdir(part)
    try:
        yield part
        _check_target(folder, overwrite)
        _publish(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


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


def _check_target(folder: str, overwrite: bool) -> None:
    """Raise FileExistsError for a folder that may not be replaced."""
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder):
        raise FileExistsError(f"{folder}: is a file; choose another name for the folder, or remove it first")
    strange = next((name for name in _names(folder) if not name.endswith(_FILES) and name != SPEC), None)
    if strange is not None:
        raise FileExistsError(
            f"{folder}: folder already exists, and is not an export (it holds {strange!r}); choose another name"
        )
    if not overwrite:
        raise FileExistsError(f"{folder}: folder already exists; pass overwrite=True to replace it")


def _names(folder: str) -> Iterator[str]:
    for at, _, files in os.walk(folder):
        for name in files:
            yield os.path.relpath(os.path.join(at, name), folder)
