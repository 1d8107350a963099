"""Checkpoints: named arrays and a JSON note in one `.npz`, written atomically and read without unpickling anything."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from ..args.sizes import format_size
from ..args.target import check_extension
from ..dataset.folder_lock import FolderLock, is_abandoned, sync_folder
from ..errors import FormatError, GraphZeroError

__all__ = ["Checkpoint", "check_target", "is_in_use", "load_checkpoint", "load_note", "lock_of_run", "save_checkpoint"]

VERSION = 1
_NOTE = "graphzero.json"


@dataclass
class Checkpoint:
    """What a run needs to go on: tensors by name, and a note of plain JSON values."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict)

    def under(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays whose names start with `prefix.`, without it."""
        return {k[len(prefix) + 1 :]: v for k, v in self.arrays.items() if k.startswith(prefix + ".")}


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a temporary file next to `path`, flush and rename it: a kill leaves the old or the new checkpoint.

    Raises FileExistsError if the existing file is not a checkpoint. It is written next to the old one, so that both
    need space.
    """
    target = Path(path)
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    note = json.dumps({"version": VERSION, **checkpoint.note}).encode()
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{_NOTE: np.frombuffer(note, dtype=np.uint8)}, **checkpoint.arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        needed = len(note) + sum(array.nbytes for array in checkpoint.arrays.values())
        reason = (
            f"{os.strerror(error.errno)}: the checkpoint takes {format_size(needed)}; free some space, or pass "
            f"checkpoint= on another disk (graphzero train --no-save saves nothing)"
        )
        raise OSError(error.errno, reason, str(target)) from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(str(target.parent))


@contextlib.contextmanager
def lock_of_run(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep other processes from training with the same checkpoint; GraphZeroError if another one does."""
    if path is None:
        yield
        return
    name = _lock_file(path)
    name.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            lock = FolderLock(str(name))
        except BlockingIOError:
            raise GraphZeroError(
                f"{os.fspath(path)}: another process is training with this checkpoint; wait for it, or use another"
            ) from None
        if not lock.lost:
            break
        lock.release()
    try:
        yield
    finally:
        if lock.held:
            name.unlink(missing_ok=True)
        lock.release()


def is_in_use(path: str | os.PathLike[str]) -> bool:
    """Whether a process is training with this checkpoint."""
    name = _lock_file(path)
    return name.exists() and not is_abandoned(str(name))


def _lock_file(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    return target.with_name(f".{target.name}.lock")


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise if a checkpoint cannot be saved to this path, or if another kind of file would be overwritten."""
    target = Path(path)
    if not target.exists():
        check_extension(str(target), "checkpoint")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, expected a file name for the checkpoint")
    if target.exists() and target.stat().st_size > 0 and not has_checkpoint(target):
        raise FileExistsError(f"{target} exists and is not a checkpoint; choose another name, or remove the file first")


def has_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a GraphZero checkpoint: a zip file, as torch's files and other `.npz` are, with a note."""
    try:
        with zipfile.ZipFile(path) as file:
            return f"{_NOTE}.npy" in file.namelist()
    except Exception:  # damaged bytes: zipfile has many kinds of error for them
        return False


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint. Raises FormatError when the file is not one; nothing in it is ever executed."""
    name = os.fspath(path)
    with open(name, "rb") as file:
        try:
            return _parse(file, name)
        except FormatError:
            raise
        except Exception as error:  # zip, npy and JSON readers have many kinds of error for damaged bytes
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # the disk failed; a bad offset is EINVAL
            why = "" if "pickle" in str(error) else f" ({error})"  # NumPy's advice is to load it unsafely
            raise FormatError(f"{name}: damaged, or not a checkpoint of `graphzero train`{why}") from error


def load_note(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the note of a checkpoint; empty if there is none. The arrays are not read."""
    try:
        with zipfile.ZipFile(path) as members, members.open(f"{_NOTE}.npy") as file:
            found = json.loads(bytes(np.lib.format.read_array(file, allow_pickle=False)))
    except Exception:  # damaged bytes: zipfile has many kinds of error for them
        return {}
    return found if isinstance(found, dict) else {}


def _parse(file: BinaryIO, name: str) -> Checkpoint:
    with np.load(file, allow_pickle=False) as members:
        if not isinstance(members, NpzFile) or _NOTE not in members.files:
            raise FormatError(f"{name}: {_NOTE} is missing, expected a checkpoint written by `graphzero train`")
        note = json.loads(bytes(members[_NOTE]))
        arrays = {k: members[k] for k in members.files if k != _NOTE}
    if not isinstance(note, dict) or not isinstance(note.get("options", {}), dict):
        raise FormatError(f"{name}: {_NOTE} is not an object with options")
    if note.get("version") != VERSION:
        raise FormatError(f"{name}: checkpoint version {note.get('version')!r}, expected {VERSION}")
    return Checkpoint(arrays, note)
