"""Members of `.npz` files as streams: compressed ones are inflated block by block, never whole."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from ..args.dtypes import dtype_name
from ..errors import InputError
from .edge_blocks import Block, as_id_column
from .read_ahead import ahead
from .rows import Rows

__all__ = ["NpzEdges", "NpzMember", "members"]

_SKIP = 1 << 22
_BLOCK_EDGES = 1 << 20


def members(path: str) -> dict[str, NpzMember]:
    """Return the arrays of a `.npz` file by name; their headers are read, nothing else."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if info.filename.endswith(".npy")]
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a .npz file: {error}") from error
    return {name.removesuffix(".npy"): NpzMember(path, name) for name in names}


class NpzMember:
    """One array of a `.npz` file: dtype, shape, and its values in order."""

    def __init__(self, path: str, member: str) -> None:
        """Read the header of the member. Arrays of Python objects are refused: they would have to be unpickled."""
        self.path, self.member = path, member
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            self.shape, self._fortran, self.dtype = _header(stream, self.name)

    @property
    def name(self) -> str:
        """The file and the member, for messages."""
        return f"{self.path}[{self.member.removesuffix('.npy')}]"

    def values(self, skip: int, count: int, step: int) -> Iterator[npt.NDArray[Any]]:
        """Yield `count` values from number `skip` on, in the order of the file, `step` at a time."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:
            _header(stream, self.name)
            for at in range(0, skip * self.dtype.itemsize, _SKIP):
                self._read(stream, min(_SKIP, skip * self.dtype.itemsize - at))
            for at in range(0, count, step):
                raw = self._read(stream, min(step, count - at) * self.dtype.itemsize)
                yield np.frombuffer(raw, self.dtype).astype(self.dtype.newbyteorder("="), copy=False)

    def _read(self, stream: IO[bytes], size: int) -> bytes:
        try:
            raw = stream.read(size)
        except (zlib.error, zipfile.BadZipFile, EOFError) as error:
            raise InputError(f"{self.name}: the compressed data is damaged ({error})") from error
        if len(raw) != size:
            raise InputError(f"{self.name}: found {len(raw)} bytes, expected {size}: the file is truncated")
        return raw

    def rows(self, name: str) -> Rows:
        """Return the array as rows of features."""
        if len(self.shape) not in (1, 2) or (len(self.shape) == 2 and self._fortran and self.shape[1] != 1):
            order = " in Fortran order" if self._fortran else ""
            raise InputError(f"{self.name}: shape {self.shape}{order}, expected (N, F) or (N,) in C order")
        width = self.shape[1] if len(self.shape) == 2 else None

        def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
            each = 1 if width is None else width
            for values in ahead(self.values(0, self.shape[0] * each, step * each)):
                yield values if width is None else values.reshape(-1, width)

        return Rows(name, dtype_name(self.dtype.newbyteorder("=")), width, self.shape[0], blocks)

    def array(self) -> npt.NDArray[Any]:
        """Return the whole array: for small ones."""
        count = int(np.prod(self.shape))
        flat = np.concatenate([np.empty(0, self.dtype.newbyteorder("=")), *self.values(0, count, 1 << 20)])
        return flat.reshape(self.shape, order="F" if self._fortran else "C")

    def edges(self) -> NpzEdges:
        """Return an array of shape (2, E) or (E, 2) as a source of edges."""
        return NpzEdges(self)


class NpzEdges:
    """The edges of a compressed array: (2, E) is inflated twice side by side, once for sources and once for targets."""

    def __init__(self, member: NpzMember) -> None:
        """Check the shape."""
        self.name, self._member = member.name, member
        shape = member.shape
        if len(shape) != 2 or 2 not in shape:
            raise InputError(f"{self.name}: shape {shape}, expected (2, E) or (E, 2)")
        columns = shape[0] == 2
        self.num_edges = int(shape[1] if columns else shape[0])
        self._apart = columns != member._fortran  # all sources come first, then all targets

    def edge_blocks(self) -> Iterator[Block]:
        """Yield blocks of edges."""
        if not self._apart:
            for pairs in ahead(self._member.values(0, 2 * self.num_edges, 2 * _BLOCK_EDGES)):
                yield Block(as_id_column(pairs[::2], "src"), as_id_column(pairs[1::2], "dst"))
            return
        src = ahead(self._member.values(0, self.num_edges, _BLOCK_EDGES))
        dst = ahead(self._member.values(self.num_edges, self.num_edges, _BLOCK_EDGES))
        for u, v in zip(src, dst, strict=True):
            yield Block(as_id_column(u, "src"), as_id_column(v, "dst"))


def _header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{name}: not an array of numbers ({error})") from error
    if dtype.hasobject or dtype.kind not in "iufb":
        raise InputError(f"{name}: holds {dtype}, expected numbers")
    return tuple(int(n) for n in shape), bool(fortran), dtype
