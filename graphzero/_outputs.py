"""Where a compiled file goes: what must hold of the place before any work is done for it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from . import _core
from .errors import FormatError, StorageError

_WHAT = {"topology": "a graph (.gl)", "features": "features (.gd)"}


def as_target(out: str | os.PathLike[str], kind: str, reads: Iterable[str] = ()) -> str:
    """Return `out` as an absolute path that a file of `kind` may be published at; not one of the files it `reads`.

    An older file of the same kind is replaced. Anything else is somebody's data, most likely because the source and the
    target were swapped: it is refused, unless its name ends like a compiled file and it is none that can be read.
    """
    path = os.path.abspath(os.fsdecode(out))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder}: no such folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: folder is not writable")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path}: is a folder, expected the name of a file to make")
    if os.path.exists(path) and not os.path.isfile(path):  # a device, say, which a rename would replace
        raise FileExistsError(f"{path}: is not a regular file, expected the name of a file to make")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return path
    for source in reads:
        if os.path.exists(source) and os.path.samefile(path, source):
            raise FileExistsError(f"output {path} is also an input (the same file as {source}); choose another name")
    try:
        found = str(_core.file_info(path)["kind"])
    except (FormatError, StorageError):
        if path.endswith((".gl", ".gd")):
            return path
        found = ""
    if found != kind:
        what = f"holds {_WHAT[found]}" if found else "is not a GraphZero file"
        raise FileExistsError(f"{path}: {what} and would be overwritten; choose another name, or remove it first")
    return path
