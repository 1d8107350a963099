"""Text files as people have them: compression, byte order marks, delimiters, headers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from .errors import InputError

_HEAD = 1 << 16
_BLOCK = 1 << 22
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a"))  # the last: what ends old DOS files
_DELIMITERS = (",", "\t", ";", "|")


def is_compressed(path: str) -> bool:
    """Whether the file starts like gzip, bzip2 or xz; its name does not matter."""
    with open(path, "rb") as file:
        start = file.read(6)
    return any(start.startswith(magic) for magic in _OPENERS)


def open_text(path: str) -> IO[bytes]:
    """Open a file for reading bytes, decompressed where it is compressed."""
    with open(path, "rb") as file:
        start = file.read(6)
    for magic, opener in _OPENERS.items():
        if start.startswith(magic):
            return cast(IO[bytes], opener(path, "rb"))
    return open(path, "rb")


def text_blocks(path: str) -> Iterator[tuple[bytes, int]]:
    """Yield (block, bytes of the file it took) of a compressed file, damaged ones named."""
    size = os.path.getsize(path)
    with open(path, "rb") as raw:
        magic = raw.read(6)
        raw.seek(0)
        opener = next(o for m, o in _OPENERS.items() if magic.startswith(m))
        with opener(raw, "rb") as stream:
            done = 0
            while True:
                try:
                    block = stream.read(_BLOCK)
                except (EOFError, OSError, lzma.LZMAError, ValueError, _zlib_error()) as error:
                    raise InputError(f"{path}: the compressed data is damaged or cut short ({error})") from error
                if not block:
                    return
                at = min(raw.tell(), size)
                yield block, at - done
                done = at


def _zlib_error() -> type[Exception]:
    import zlib

    return zlib.error


@dataclass(frozen=True)
class Dialect:
    """How a text file is written, from its first lines."""

    delimiter: str  # " ": any run of blanks
    header: list[str] | None  # names of the columns
    columns: int  # of the first line of data; 0 when there is none
    begin: int  # the byte where data starts
    lines_before: int  # lines up to there


def sniff(path: str, delimiter: str | None = None, header: bool | None = None) -> Dialect:
    """Return how `path` is written. What the caller gives is taken; what is None is found out.

    A header is a first line none of whose fields starts like a number.
    """
    if delimiter is not None and (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or not delimiter.isascii()
        or delimiter in '"\r\n#%.-+0123456789'
    ):
        raise ValueError(f"delimiter is {delimiter!r}, expected one character such as ',' or '\\t' (' ': any blanks)")
    with open_text(path) as file:
        try:
            head = file.read(_HEAD)
            while head and b"\n" not in head.lstrip(b"\xef\xbb\xbf") and len(head) < 1 << 26:
                more = file.read(len(head))
                if not more:
                    break
                head += more
        except (EOFError, OSError, lzma.LZMAError, _zlib_error()) as error:
            if not is_compressed(path):
                raise
            raise InputError(f"{path}: the compressed data is damaged or cut short ({error})") from error
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:1024].translate(None, _NO_TEXT) != head[:1024]:
        raise InputError(
            f"{path}: line 1: this is no UTF-8 or ASCII text (UTF-16 or binary?), expected lines of numbers"
        )
    at = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    lines = 0
    while at < len(head):
        end = head.find(b"\n", at)
        stop = len(head) if end < 0 else end
        line = head[at:stop].decode("utf-8", "replace").rstrip("\r")
        content = line.strip(" \t")
        if content and content[0] not in "#%":
            found = delimiter if delimiter is not None else next((d for d in _DELIMITERS if d in content), " ")
            fields = split_fields(line if found == "\t" else content, found)
            is_header = header if header is not None else all(f and not _starts_like_a_number(f) for f in fields)
            if not is_header:
                return Dialect(found, None, len(fields), at, lines)
            after = len(head) if end < 0 else end + 1
            return Dialect(found, fields, _columns_after(head, after, found, len(fields)), after, lines + 1)
        at = len(head) if end < 0 else end + 1
        lines += 1
    # Nothing but comments so far: the parser finds out whether that goes on.
    return Dialect(delimiter or ",", None, 0, 3 if head.startswith(b"\xef\xbb\xbf") else 0, 0)


def split_fields(line: str, delimiter: str) -> list[str]:
    """Split one line; fields come without blanks and quotes around them."""
    fields = line.split() if delimiter == " " else line.split(delimiter)
    return [f.strip(" \t").removeprefix('"').removesuffix('"').strip(" \t") for f in fields]


def _starts_like_a_number(field: str) -> bool:
    return field[0].isdigit() or field[0] in "+-." or field.lower() in ("nan", "inf")


def _columns_after(head: bytes, at: int, delimiter: str, names: int) -> int:
    for raw in head[at:].split(b"\n"):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        content = line.strip(" \t")
        if content and content[0] not in "#%":
            return len(split_fields(line if delimiter == "\t" else content, delimiter))
    return names
