"""Rows of features of any source, as blocks of arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.dtypes import dtype_name, refuse_text
from ..errors import InputError
from .edge_blocks import load_npy

__all__ = ["Rows", "all_rows", "is_text", "rows_of_file"]


@dataclass
class Rows:
    """One source of rows, in its own type. `blocks(step)` yields arrays of at most `step` rows, in order."""

    name: str
    dtype: str
    columns: int | None  # None: a vector
    count: int | None  # None: not known before the end
    blocks: Callable[[int], Iterator[npt.NDArray[Any]]]
    rewindable: bool = True
    raw: tuple[str, int] | None = None  # the file and byte at which the rows are stored in this form
    complete: bool = False  # fewer rows than nodes are an error, not missing labels
    scale: npt.NDArray[np.float32] | None = None  # of int8 that represents floats, one factor per column

    @property
    def width(self) -> int:
        """Columns, 1 for a vector."""
        return 1 if self.columns is None else self.columns

    def shape(self, count: int) -> tuple[int, ...]:
        """Return the shape with `count` rows."""
        return (count,) if self.columns is None else (count, self.columns)

    def widened(self) -> Rows:
        """Return the floats that int8 with factors represents; other rows as they are."""
        if self.scale is None:
            return self
        scale = self.scale[0] if self.columns is None else self.scale
        blocks = self.blocks
        return replace(
            self, dtype="float32", blocks=lambda step: (block * scale for block in blocks(step)), raw=None, scale=None
        )


def is_text(source: Any) -> bool:
    """Whether `source` is the path of a text file."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    path = os.fspath(source)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path}: is a folder, expected a file of rows")
    return not path.endswith((".npy", ".gd"))


def all_rows(source: Any, name: str) -> list[Rows]:
    """Return the arrays of a source, or of a dict of them."""
    if isinstance(source, Mapping):
        if not source:
            raise ValueError("an empty dict holds no features")
        return [rows for key, value in source.items() for rows in _rows_of(value, str(key))]
    return _rows_of(source, name)


def _rows_of(source: Any, name: str) -> list[Rows]:
    if isinstance(source, Rows):
        return [source]
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if is_text(path):
            raise TypeError(f"{path}: text cannot be one of several arrays; compile it on its own first")
        return rows_of_file(path) if path.endswith(".gd") else [_rows_of_npy(path, name)]
    if hasattr(source, "detach"):
        source = source.detach().cpu()
        if str(source.dtype) == "torch.bfloat16":
            import torch

            return [_rows_of_array(source.contiguous().view(torch.int16).numpy().view(np.uint16), name, "bfloat16")]
        source = source.numpy()
    if isinstance(source, (list, tuple)) and not any(isinstance(s, np.ndarray) or hasattr(s, "detach") for s in source):
        source = np.asarray(source)
    if isinstance(source, np.ndarray) or hasattr(source, "__array__"):  # the latter: a DataFrame and its like
        return [_rows_of_array(np.asarray(source), name)]
    if isinstance(source, Iterable):
        return [_rows_of_iterator(source, name)]
    raise TypeError(
        f"cannot read rows from {type(source).__name__}: expected a path, an array, or an iterator of blocks"
    )


def _rows_of_array(array: npt.NDArray[Any], name: str, dtype: str | None = None) -> Rows:
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: features have shape (N, F) or (N,), got {array.shape}")
    refuse_text(array, name)
    kind = dtype if dtype is not None else dtype_name(array.dtype)
    native = array.dtype.newbyteorder("=")

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for at in range(0, len(array), step):
            yield array[at : at + step].astype(native, copy=False)

    return Rows(name, kind, array.shape[1] if array.ndim == 2 else None, len(array), blocks)


def _rows_of_npy(path: str, name: str) -> Rows:
    array = load_npy(path)
    rows = _rows_of_array(array, name)
    if isinstance(array, np.memmap) and array.flags.c_contiguous and array.dtype.isnative:
        rows.raw = (path, int(array.offset))
    return rows


def rows_of_file(path: str) -> list[Rows]:
    """Return the arrays of an existing `.gd` file."""
    from ..stores.features import FeatureStore

    store = FeatureStore(path)
    found = []
    for array in store.names:
        one = store[array]
        rows = _rows_of_array(one.get_tensor(), array, one.dtype_name)
        offset = next(a["offset"] for a in one.info["arrays"] if a["name"] == array)
        rows.raw, rows.scale = (path, int(offset)), one.scale
        found.append(rows)
    return found


def _rows_of_iterator(source: Iterable[Any], name: str) -> Rows:
    iterator = iter(source)
    first = next(iterator, None)
    if first is None:
        raise InputError(f"{name}: the iterator yields no blocks, so the width of a row is unknown")
    head = _rows_of(first, name)[0]

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        yield from head.blocks(step)
        at = int(head.count or 0)
        for block in iterator:
            part = _rows_of(block, name)[0]
            if (part.dtype, part.columns) != (head.dtype, head.columns):
                raise InputError(
                    f"{name}: the block at row {at} has {part.columns} columns of {part.dtype}, "
                    f"expected {head.columns} of {head.dtype} like the first"
                )
            at += int(part.count or 0)
            yield from part.blocks(step)

    return Rows(name, head.dtype, head.columns, None, blocks, rewindable=False)
