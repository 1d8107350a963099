"""Checks the path of an output file before any work is done."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import _core
from ..errors import FormatError, StorageError

_WHAT = {"topology": "a graph (.gl)", "features": "features (.gd)"}
_EXTENSIONS = {
    "topology": (".gl",),
    "features": (".gd",),
    "checkpoint": (".npz", ".ckpt", ".checkpoint"),
    "report": (".html", ".htm"),
}
_DATA = (".csv", ".tsv", ".txt", ".json", ".npy", ".parquet", ".arrow", ".pt", ".pth")
_FILES = {extension for extensions in _EXTENSIONS.values() for extension in extensions} | set(_DATA)


def check_extension(path: str, kind: str) -> None:
    """Raise ValueError if the extension of a new file is not that of the format written.

    >>> check_extension("predictions.csv", "features")
    Traceback (most recent call last):
    ValueError: predictions.csv: the output is a .gd file; name it predictions.gd
    """
    stem, extension = os.path.splitext(path)
    accepted = _EXTENSIONS[kind]
    if extension and extension.lower() not in accepted:
        raise ValueError(f"{path}: the output is a {accepted[0]} file; name it {stem}{accepted[0]}")


def check_folder_name(path: str) -> None:
    """Raise ValueError if a new folder would have the extension of a file."""
    stem, extension = os.path.splitext(path)
    if extension.lower() in _FILES and not os.path.isdir(path):
        raise ValueError(f"{path}: the output is a folder, but {extension} is a file extension; try {stem}")


def as_target(out: str | os.PathLike[str], kind: str, reads: Iterable[str] = ()) -> str:
    """Return `out` as an absolute path at which a file of `kind` may be published; not one of the inputs `reads`.

    An older file of the same kind is replaced. Any other file is rejected, since the source and the target were most
    likely swapped; an unreadable file is replaced only if it has the extension of a compiled file.
    """
    path = os.path.abspath(os.fsdecode(out))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder}: no such folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: folder is not writable")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path}: is a folder, expected a file name")
    if os.path.exists(path) and not os.path.isfile(path):  # such as a device, which a rename would replace
        raise FileExistsError(f"{path}: is not a regular file, expected a file name")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        check_extension(os.fsdecode(out), kind)
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
