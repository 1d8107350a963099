"""Text files in the wild: compression, byte order marks, delimiters, headers."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import itertools
import lzma
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from .. import _core
from ..errors import InputError

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 26


def _opener_by_pyarrow(codec: str) -> Callable[..., Any]:
    """Return a function like gzip.open for what Python itself does not decompress."""

    def opened(source: str | IO[bytes], mode: str) -> Any:
        name = source if isinstance(source, str) else source.name
        try:
            import pyarrow
        except ImportError:
            raise InputError(
                f"{name}: is compressed with {codec}, which needs pyarrow; pip install 'graphzero[import]', or "
                f"decompress it first ({codec} -d)"
            ) from None
        file = source if isinstance(source, str) else pyarrow.PythonFile(source, mode="r")
        return io.BufferedReader(pyarrow.CompressedInputStream(file, codec))

    return opened


_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _opener_by_pyarrow("zstd"),
    b"\x04\x22\x4d\x18": _opener_by_pyarrow("lz4"),
}
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a"))  # the last: what ends old DOS files
_DELIMITERS = (",", "\t", ";", "|")
_QUOTED = re.compile(r'"[^"]*"')
_MARK = b"\xef\xbb\xbf"
# Files that are passed by mistake, by their first bytes, and what to do about them.
_NOT_TEXT = {
    b"PK\x03\x04": "is a zip archive (.zip, .npz, .xlsx); extract it first",
    b"7z\xbc\xaf": "is a 7z archive; extract it first",
    b"PAR1": "is a Parquet file; its name must end in .parquet",
    b"ARROW1": "is an Arrow file; its name must end in .arrow or .feather",
    b"\x89HDF": "is an HDF5 file; read its arrays with h5py and pass them",
    b"\x93NUMPY": "is a NumPy file; its name must end in .npy",
    b"\x89GZF": "is a GraphZero file; its name must end in .gl or .gd",
    b"graphlit": "is a GraphZero file; its name must end in .gl",
    b"\x80\x04": "is a pickle, which is never opened; load it and pass its arrays",
}


def _opener_of(path: str) -> Callable[..., Any] | None:
    """Return what decompresses a file, by its first bytes; its name does not matter."""
    with open(path, "rb") as file:
        start = file.read(6)
    return next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)


def is_compressed(path: str) -> bool:
    """Whether the file starts like gzip, bzip2, xz, zstd or lz4."""
    return _opener_of(path) is not None


def open_text(path: str) -> IO[bytes]:
    """Open a file for reading bytes, decompressed where it is compressed."""
    return cast(IO[bytes], (_opener_of(path) or open)(path, "rb"))


@contextlib.contextmanager
def _decompressing(path: str) -> Iterator[None]:
    """Convert errors of a decompressor to an InputError that names the file."""
    try:
        yield
    except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, InputError) or not is_compressed(path):
            raise
        raise InputError(f"{path}: the compressed data is damaged or truncated ({error})") from error


def text_blocks(path: str, most: int = _BLOCK, begin: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield (block, bytes of the file it took) of the text from byte `begin` on, decompressed."""
    size, opener = os.path.getsize(path), _opener_of(path)
    with open(path, "rb") as raw, raw if opener is None else opener(raw, "rb") as stream:
        done, skip = 0, begin
        while True:
            with _decompressing(path):
                block = stream.read(min(skip, _BLOCK) or min(most, _BLOCK))
            if not block:
                return
            if skip > 0:
                skip -= len(block)
                continue
            at = min(raw.tell(), size)
            yield block, at - done
            done = at


@dataclass(frozen=True)
class Dialect:
    """How a text file is written, from its first lines."""

    delimiter: str  # " ": any run of blanks
    header: list[str] | None  # names of the columns
    columns: int  # of the header, or else of the first line; 0 where there is neither. Every line has as many
    begin: int  # the byte where data starts
    lines_before: int  # lines up to there
    first: tuple[str, ...] = ()  # the fields of the first line of data
    first_line: int = 0  # its number, from 1


@dataclass(frozen=True)
class Line:
    """A line that is neither empty nor a comment: its position and text."""

    at: int  # the byte where it starts
    after: int  # the byte where the next one starts
    number: int  # from 1
    text: str


def content_lines(path: str) -> Iterator[Line]:
    """Yield the lines of a text file that are neither empty nor comments, read as far as they are consumed.

    Only whole lines are inspected, however long the comments at the head of a file are.
    """
    with open_text(path) as file:
        at, number = 0, 0
        while True:
            with _decompressing(path):
                raw = file.readline(_LONGEST_LINE)
            if not raw:
                return
            after, number = at + len(raw), number + 1
            if at == 0 and raw.startswith(_MARK):
                at, raw = len(_MARK), raw[len(_MARK) :]
            text = raw.decode("utf-8", "replace").rstrip("\n").rstrip("\r")
            if (content := text.strip(" \t")) and content[0] not in "#%":
                yield Line(at, after, number, text)
            at = after


def refuse_text_options(source: str, on_error: str, delimiter: str | None, header: bool | None) -> None:
    """Raise ValueError for options of text files, which another source would ignore."""
    given = {"on_error": on_error if on_error != "raise" else None, "delimiter": delimiter, "header": header}
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option} is {value!r}, an option of text files, but the source is {source}; omit it")


def require_file(path: str) -> None:
    """Refuse pipes and devices: a source is read more than once."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is a pipe or a device, expected a regular file; write its content to a file first")


def utf8_blocks(path: str, begin: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield what `text_blocks` does, and refuse bytes that are not UTF-8."""
    decoder, at = codecs.getincrementaldecoder("utf-8")(), begin
    for block, taken in itertools.chain(text_blocks(path, begin=begin), [(b"", 0)]):
        before = len(decoder.getstate()[0])
        if before or not block.isascii():
            try:
                decoder.decode(block, not block)
            except UnicodeDecodeError as error:
                line = _line_of(path, at - before + error.start)
                raise InputError(
                    f"{path}: line {line}: found byte {error.object[error.start]:#x}, expected UTF-8 text; convert the "
                    "file, for example with iconv -f LATIN1 -t UTF-8"
                ) from None
        if block:
            yield block, taken
        at += len(block)


def _line_of(path: str, byte: int) -> int:
    lines, at = 1, 0
    for block, _ in text_blocks(path):
        lines += block[: max(0, byte - at)].count(b"\n")
        at += len(block)
        if at >= byte:
            break
    return lines


def lines_at(path: str, numbers: Collection[int]) -> dict[int, str]:
    """Return the lines of a text file with some numbers, from 1: the file is read once, as far as the last of them."""
    wanted, found = sorted(set(numbers)), dict[int, str]()
    line, start = 1, b""  # the line that a block starts in, and what the blocks before it had of it
    for block, _ in itertools.chain(text_blocks(path) if wanted else (), [(b"", 0)]):
        last = line + block.count(b"\n")
        at, number = 0, line
        while wanted and (wanted[0] < last or (wanted[0] == last and not block)):
            for _ in range(wanted[0] - number):
                at = block.index(b"\n", at) + 1
            number = wanted.pop(0)
            end = block.find(b"\n", at)
            whole = (start if number == line else b"") + block[at : end if end >= 0 else len(block)]
            found[number] = whole.removeprefix(_MARK if number == 1 else b"").decode("utf-8", "replace").rstrip("\r")
        if not wanted:
            break
        if last > line:
            start = b""
        start = start + block[block.rfind(b"\n") + 1 :] if wanted[0] == last else b""
        line = last
    return found


def start_of(path: str, most: int = 1024) -> bytes:
    """Return the first bytes of a text file, decompressed; files of known other formats are refused by name."""
    require_file(path)
    with open(path, "rb") as raw:
        magic = raw.read(8)
    for known, what in _NOT_TEXT.items():
        if magic.startswith(known):
            raise InputError(f"{path}: {what}")
    with open_text(path) as file, _decompressing(path):
        head = file.read(most)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head.translate(None, _NO_TEXT) != head:
        raise InputError(f"{path}: line 1: not UTF-8 or ASCII text (UTF-16 or binary?), expected lines of numbers")
    if b"\r" in head.rstrip(b"\r") and b"\n" not in head:
        raise InputError(
            f"{path}: line 1: lines end in carriage returns alone, expected newlines; convert the file with "
            "tr '\\r' '\\n'"
        )
    content = head.removeprefix(_MARK).lstrip()
    if content[:1] in (b"{", b"["):
        raise InputError(f"{path}: line 1: this looks like JSON, expected lines of numbers")
    if content[:1] == b"<":
        raise InputError(f"{path}: line 1: this looks like HTML or XML, expected lines of numbers")
    return head


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
    begin = len(_MARK) if start_of(path).startswith(_MARK) else 0
    lines = content_lines(path)
    if (line := next(lines, None)) is None:
        return Dialect(delimiter or ",", None, 0, begin, 0)  # nothing but comments
    content = _QUOTED.sub("", line.text.strip(" \t"))
    found = delimiter if delimiter is not None else next((d for d in _DELIMITERS if d in content), " ")
    fields = _fields(line, found)
    if not fields:  # a quote that does not close, which the parser reports: the first line after it says how many
        fields = next(filter(None, (_fields(other, found) for other in lines)), [""])
        return Dialect(found, None, len(fields), line.at, line.number - 1)
    named = fields[not fields[0] :]  # ',src,dst' starts with an index that has no name
    words = bool(named) and all(f and not _starts_like_a_number(f) for f in named)
    is_header = header if header is not None else words
    if not is_header:
        return Dialect(found, None, len(fields), line.at, line.number - 1, tuple(fields), line.number)
    data = next(lines, None)
    first = () if data is None else tuple(_fields(data, found))
    number = 0 if data is None else data.number
    return Dialect(found, fields, len(fields), line.after, line.number, first, number)


def _fields(line: Line, delimiter: str) -> list[str]:
    """Return the fields of a line that determines the number of columns; an empty field at its end does not count."""
    try:
        fields = split_line(line.text, delimiter)
    except InputError:
        return []
    return fields[:-1] if len(fields) > 1 and not fields[-1] else fields


def split_line(line: str, delimiter: str) -> list[str]:
    """Split one line as the parsers of the core do; blanks around numbers in quotes are left to them."""
    return [field.strip(" \t") for field in _core.split_fields(line, delimiter)]


def _starts_like_a_number(field: str) -> bool:
    return field[0].isdigit() or field[0] in "+-." or field.lower() in ("nan", "inf")
