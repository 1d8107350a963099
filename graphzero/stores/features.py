"""Mounted features: named matrices of rows, read from the file on demand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.destination import Destination
from ..args.dtypes import dtype_name
from ..args.html_table import html_table
from ..args.ids import as_id, as_ids, as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size
from ..load.handoff import make_room
from .base_files import warn_of_deltas
from .closing import Closing
from .paths import Paths, absolute

__all__ = ["FeatureStore"]


class FeatureStore(Closing):
    """The features in a `.gd` file, mounted instantly regardless of size.

    A file may hold several named arrays; `name` selects one, and may be omitted if there is only one (or one named
    "x"). The object is thread-safe, survives fork, and pickles as its path.

    >>> import graphzero as gz
    >>> fs = gz.FeatureStore("x.gd")  # doctest: +SKIP
    >>> fs.shape, fs.dtype  # doctest: +SKIP
    ((2708, 1433), dtype('float32'))
    """

    def __init__(
        self, filename: str | os.PathLike[str], name: str | None = None, *, deltas: Paths | None = None
    ) -> None:
        """Mount `filename`. Raises FormatError if it is not a valid `.gd` file, StorageError if it cannot be read.

        `deltas` are the files that were appended to it, oldest first: a Dataset passes those of its manifest. Without
        them, a file of a dataset that has been appended to is opened alone, with a warning.
        """
        self._path, self._deltas = absolute(filename), tuple(map(absolute, deltas or ()))
        if deltas is None:
            warn_of_deltas(self._path)
        self._file: _core.FeatureFile | None = _core.FeatureFile.open(self._path, list(self._deltas))
        self._info: dict[str, Any] = self._file.info
        self._matrices = {m.name: m for m in self._file.matrices}
        if not self._matrices:
            raise ValueError(f"{self._path}: the file holds no features")
        if name is not None and name not in self._matrices:
            raise KeyError(f"{self._path}: no feature {name!r}; the file has {', '.join(map(repr, self._matrices))}")
        self._asked = name
        self._name = name if name is not None else "x" if "x" in self._matrices else next(iter(self._matrices))
        self._row_shape: tuple[int, ...] | None = None  # set by a dataset for rows that are not vectors
        self._tally = _core.ReadCounts()

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._path

    @property
    def deltas(self) -> tuple[str, ...]:
        """The files that were appended to it, oldest first, as absolute paths."""
        return self._deltas

    @property
    def name(self) -> str:
        """The array used if no name is given."""
        return self._name

    @property
    def names(self) -> list[str]:
        """All arrays of the file."""
        return list(self._matrices)

    @property
    def num_nodes(self) -> int:
        """The number of rows of every array."""
        return int(self._info["num_nodes"])

    @property
    def feature_dim(self) -> int:
        """The number of columns of the array; 1 for a vector."""
        return int(self._matrices[self._name].columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape, as in NumPy. Rows of a dataset may have several dimensions: (100, 3, 4)."""
        m = self._matrices[self._name]
        return (int(m.rows), *self._tail(m))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The array's NumPy dtype. bfloat16, which NumPy lacks, is uint16 here; see `dtype_name`."""
        name = self.dtype_name
        return np.dtype(np.uint16 if name == "bfloat16" else name)

    @property
    def dtype_name(self) -> str:
        """The dtype on disk by name, "bfloat16" included."""
        return str(self._matrices[self._name].dtype)

    @property
    def scale(self) -> npt.NDArray[np.float32] | None:
        """The factor of each column if int8 values represent floats, `values * scale`; else None.

        `gather(dtype="float32")`, loaders and PyG stores return the floats; `gather()` and `get_tensor()` the int8.
        """
        return self._open().scale(self._name)

    @property
    def info(self) -> dict[str, Any]:
        """The contents of the header, as a dict."""
        return dict(self._info)

    @overload
    def __getitem__(self, key: str) -> FeatureStore: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """Return another array of the file, or rows: `fs["label"]`, `fs[7]`, `fs[10:20]`, `fs[ids]`, `fs[mask]`.

        Rows are read as by `gather`: a copy, from reads with many in flight.
        """
        if isinstance(key, str):
            return self._other(key)
        if isinstance(key, slice):
            return self.gather(np.arange(*key.indices(self.num_nodes)))
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return self.gather([key + self.num_nodes if key < 0 else key])[0]
        mask = np.asarray(key) if not hasattr(key, "detach") else key.detach().cpu().numpy()
        if mask.dtype == np.bool_:
            if mask.shape != (self.num_nodes,):
                raise IndexError(f"the mask has shape {mask.shape}, expected ({self.num_nodes},)")
            return self.gather(np.flatnonzero(mask))
        return self.gather(key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the whole array for `np.asarray(fs)`: a view of the file unless a dtype or a copy is asked for."""
        view = self.get_tensor()
        if dtype is None or np.dtype(dtype) == view.dtype:
            return np.array(view) if copy else view
        if copy is False:
            raise ValueError(f"a view has dtype {view.dtype}; {np.dtype(dtype)} needs a copy")
        return view.astype(dtype)

    def _other(self, name: str) -> FeatureStore:
        self._matrix(name)
        store = FeatureStore.__new__(FeatureStore)
        store.__dict__.update(self.__dict__, _file=self._open(), _asked=name, _name=name, _tally=_core.ReadCounts())
        store._row_shape = self._row_shape if name == self._name else None
        return store

    def preload(self, *, num_threads: int | None = None, progress: bool | Callback | None = None) -> None:
        """Read the whole file into RAM now, sequentially, rather than row by row when it is first needed.

        Useful if the file fits; see `Graph.preload`. Raises BudgetError if it is larger than the available memory.
        """
        with Reporting(progress) as callback:
            self._open().preload(as_threads(num_threads), callback)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def get_tensor(self) -> npt.NDArray[Any]:
        """The whole array as a view of the file: pages are read on access, nothing is copied.

        The memory is private and copy-on-write: `torch.from_numpy(fs.get_tensor())` does not warn, and a write to it
        changes neither the file nor what `gather` and loaders read, only other views of this store. To change features,
        write a new file. The view keeps the mapping alive after the store is deleted.
        """
        return self._open().view(self._name).reshape(self.shape)

    def get_data(self, node: int) -> npt.NDArray[Any]:
        """One row, as a view of the file."""
        row = self._open().row(self._name, as_id(node))
        return row if self._row_shape is None else row.reshape(self._row_shape)

    def gather(
        self,
        ids: Any,
        out: Any = None,
        dtype: Any = None,
        io: str = "auto",
        *,
        num_threads: int | None = None,
        name: str | None = None,
        as_torch: bool | None = None,
        pinned: bool = False,
    ) -> Any:
        """The rows of `ids` as one contiguous array.

        Rows that are in RAM are copied; the others are read with many reads in flight, bypassing the page cache, where
        indexing a mapped array would fault them in one by one. The GIL is released.

        `out` is filled and returned: a NumPy array or a torch tensor (pinned or not) of the right shape and dtype.
        `dtype="float32"` (or `np.float32`, `torch.float32`) converts float16, bfloat16 and int8 on the way.
        `io` forces a read path: "mmap" uses only the mapping, "uring" or "pread" only reads; the result is the same.
        `name` selects another array of the file. The result is a torch tensor if `ids` is one or `as_torch=True`, in
        page-locked memory with `pinned=True`, and a NumPy array otherwise.

        Raises IndexError for an id that is out of range, before anything is read; StorageError if a read fails.

        >>> x = fs.gather([3, 1, 3])  # doctest: +SKIP
        >>> fs.gather(ids, out=batch)  # doctest: +SKIP
        """
        matrix = self._matrix(name)
        rows = as_ids(ids)
        wanted = None if dtype is None else dtype_name(dtype)
        target = Destination.of(out, ids, as_torch, pinned)
        make_room(8 * len(rows) * matrix.columns if out is None else 0)
        tail = self._tail(matrix)
        buffer = target.buffer(matrix, (len(rows), *tail), wanted)
        found = _core.gather(self._open(), matrix.name, rows, buffer, wanted, io, as_threads(num_threads), self._tally)
        return target.result(found, tail, wanted or matrix.dtype)

    def stats(self) -> dict[str, Any]:
        """Counters of this store's gathers: rows, rows from the mapping, useful bytes, bytes read, seconds.

        `bytes_read / bytes_useful` is the read amplification; seconds are summed over threads.
        """
        return dict(self._tally.read())

    # -- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file. Arrays already returned stay valid; later calls raise ValueError."""
        self._file = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.num_nodes

    def __reduce__(self) -> tuple[Callable[..., FeatureStore], tuple[str, str | None], dict[str, Any]]:
        """Pickle as the path: a worker mounts the same file."""
        opened = partial(FeatureStore, deltas=self._deltas) if self._deltas else FeatureStore
        return (opened, (self._path, self._asked), {"_row_shape": self._row_shape})

    def __repr__(self) -> str:
        """Return `FeatureStore('x.gd', 'x', shape=(4, 2), dtype=float32, 12.3 KB)`."""
        state = "" if self._file is not None else ", closed"
        others = [n for n in self._matrices if n != self._name]
        more = f", also {', '.join(map(repr, others))}" if others else ""
        return (
            f"FeatureStore({os.path.basename(self._path)!r}, {self._name!r}, shape={self.shape}, "
            f"dtype={self.dtype_name}{more}, {format_size(self._info['file_bytes'])}{state})"
        )

    def _repr_html_(self) -> str:
        """Return a table of the arrays, for notebooks."""
        rows = [(m.name, [int(m.rows), *self._tail(m)], m.dtype) for m in self._matrices.values()]
        title = f"FeatureStore {os.path.basename(self._path)}"
        return html_table(title, rows, ("array", "shape", "dtype"), f"{format_size(self._info['file_bytes'])} on disk")

    def _shaped(self, row_shape: tuple[int, ...]) -> FeatureStore:
        """Return self with rows of this shape; raise ValueError if the number of columns does not match."""
        if math.prod(row_shape) != self.feature_dim:
            raise ValueError(f"rows have {self.feature_dim} columns, expected {math.prod(row_shape)}")
        self._row_shape = row_shape
        return self

    def _tail(self, matrix: _core.Matrix) -> tuple[int, ...]:
        if self._row_shape is not None and matrix.name == self._name:
            return self._row_shape
        return () if matrix.is_vector else (int(matrix.columns),)

    def _matrix(self, name: str | None) -> _core.Matrix:
        if name is None:
            return self._matrices[self._name]
        if name not in self._matrices:
            raise KeyError(f"{self._path}: no feature {name!r}; the file has {', '.join(map(repr, self._matrices))}")
        return self._matrices[name]

    def _open(self) -> _core.FeatureFile:
        if self._file is None:
            raise ValueError(f"{self._path}: the store is closed")
        return self._file
