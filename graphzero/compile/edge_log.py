"""Edges in temporary files until every id is known; which of them are dropped, and the feature rows of the others."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import StorageError
from ..sources.edge_blocks import Block, GraphFileSource
from ..sources.rows import Rows

__all__ = ["BothWays", "EdgeLog", "FileBothWays", "alternating", "kept_rows", "repeated"]

_BLOCK = 1 << 18  # edges: a few MB, within the smallest budgets


class EdgeLog:
    """Columns of edges in temporary files of `folder`; a source for `compile_graph` after `finish`."""

    def __init__(self, folder: str, name: str, weights: bool, times: bool, narrow: bool = False) -> None:
        """Create the files, which have no names, so that they are removed when the process ends.

        narrow: all ids are below 2^31.
        """
        self.name, self.has_weights, self.has_times = name, weights, times
        ids = np.int32 if narrow else np.int64
        self._kinds: dict[str, Any] = {"src": ids, "dst": ids, "keep": np.bool_, "row": np.bool_}
        self._kinds |= ({"weight": np.float32} if weights else {}) | ({"time": np.int64} if times else {})
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._edges = 0
        self.kept = self.left_out = self.rows = 0
        self._columns: dict[str, npt.NDArray[Any]] = {}

    def write(self, columns: dict[str, Any], chosen: npt.NDArray[np.bool_] | None = None, drop: bool = False) -> None:
        """Add the edges of the `chosen` rows of a table (None: all); `drop` omits edges with an endpoint of -1."""
        count = len(columns["src"])
        keep = (columns["src"] >= 0) & (columns["dst"] >= 0) if drop else None
        row = keep if chosen is None else chosen
        if chosen is not None and keep is not None:
            row = chosen.copy()
            row[chosen] = keep
        rows = count if row is None else len(row)
        with self._writing():
            self._mark("keep", keep, count, self._edges)
            self._mark("row", row, rows, self.rows)
            for column, values in columns.items():
                if column in self._kinds:
                    self._file(column).write(np.ascontiguousarray(values, self._kinds[column]).data)
        kept = count if keep is None else int(keep.sum())
        self._edges += count
        self.kept += kept
        self.left_out += count - kept
        self.rows += rows

    def _mark(self, column: str, mask: npt.NDArray[np.bool_] | None, count: int, before: int) -> None:
        """Write a mask, which has no file while it is True everywhere."""
        if column not in self._files and (mask is None or mask.all()):
            return
        if column not in self._files:
            for at in range(0, before, _BLOCK):
                self._file(column).write(np.ones(min(_BLOCK, before - at), bool).data)
        self._file(column).write((np.ones(count, bool) if mask is None else mask).data)

    def _file(self, column: str) -> IO[bytes]:
        if column not in self._files:
            os.makedirs(self._folder, exist_ok=True)
            self._files[column] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by close
        return self._files[column]

    def finish(self, source: Callable[[Any], None] | None = None, target: Callable[[Any], None] | None = None) -> None:
        """Replace provisional ids by final ones, in the order they were written."""
        for column, kind in self._kinds.items():
            size = 0
            if column in self._files:
                with self._writing():
                    self._files[column].flush()
                size = os.fstat(self._files[column].fileno()).st_size
            if size or column not in ("keep", "row"):
                self._columns[column] = np.memmap(self._files[column], kind, "r+") if size else np.empty(0, kind)
        for column, resolve in (("src", source), ("dst", target)):
            if resolve is None:
                continue
            for at in range(0, self._edges, _BLOCK):
                ids = np.array(self._columns[column][at : at + _BLOCK])
                resolve(ids)
                self._columns[column][at : at + _BLOCK] = ids

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the folder if a write fails, since the files have no names."""
        try:
            yield
        except OSError as error:
            what = f"{self._folder}: writing the edges of {self.name!r} failed: {error.strerror}"
            raise StorageError(error.errno, what, self._folder) from error

    def close(self) -> None:
        """Close the files, which removes them."""
        self._columns.clear()
        for file in self._files.values():
            file.close()

    @property
    def num_edges(self) -> int:
        """The number of edges that are kept."""
        return self.kept

    @property
    def row_kept(self) -> npt.NDArray[np.bool_] | None:
        """For each row of the table, whether it became an edge; None if all did."""
        return self._columns.get("row")

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges that are kept."""
        for at in range(0, self._edges, _BLOCK):
            part = {name: np.asarray(column[at : at + _BLOCK]) for name, column in self._columns.items()}
            src, dst = (part[name].astype(np.int64, copy=False) for name in ("src", "dst"))
            yield Block(src, dst, part.get("weight"), part.get("time")).part(part.get("keep", slice(None)))


class BothWays:
    """Each edge followed by its reverse: edge i becomes edges 2i and 2i + 1."""

    def __init__(self, log: EdgeLog) -> None:
        """Take edges that are stored in one direction."""
        self.name, self._log = log.name, log
        self.has_weights, self.has_times = log.has_weights, log.has_times

    @property
    def num_edges(self) -> int:
        """The number of edges, reverses included."""
        return 2 * self._log.num_edges

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges."""
        for block in self._log.edge_blocks():
            ends = np.stack([block.src, block.dst], 1)
            yield Block(
                ends.reshape(-1),
                np.ascontiguousarray(ends[:, ::-1]).reshape(-1),
                None if block.weights is None else np.repeat(block.weights, 2),
                None if block.times is None else np.repeat(block.times, 2),
            )


class FileBothWays:
    """The edges of a graph file with edge ids, each with its reverse: edge i becomes edges 2i and 2i + 1."""

    def __init__(self, path: str) -> None:
        """Mount the file."""
        self._source = GraphFileSource(path)
        self.name, self.num_nodes = path, self._source.num_nodes
        self.num_edges = 2 * self._source.num_edges
        self.has_weights, self.has_times = self._source.has_weights, self._source.has_times

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges."""
        for block in self._source.edge_blocks():
            assert block.edge_ids is not None
            yield Block(block.src, block.dst, block.weights, block.times, 2 * block.edge_ids)
            yield Block(block.dst, block.src, block.weights, block.times, 2 * block.edge_ids + 1)


def alternating(count: int) -> Rows:
    """Return 0, 1, 0, 1, ... for `count` edges and their reverses: 1 marks a reverse."""

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for at in range(0, 2 * count, step):
            yield (np.arange(at, min(at + step, 2 * count)) % 2).astype(np.uint8)

    return Rows("reverse", "uint8", None, 2 * count, blocks)


def kept_rows(rows: Rows, keep: npt.NDArray[np.bool_] | None, pad_to: int | None = None) -> Rows:
    """Return the rows where `keep` is True, then zeros up to `pad_to` rows."""

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        at = done = 0
        for block in rows.blocks(step):
            part = block if keep is None else block[np.asarray(keep[at : at + len(block)])]
            at, done = at + len(block), done + len(part)
            yield part
        while pad_to is not None and done < pad_to:
            more = min(step, pad_to - done)
            yield np.zeros((more, *rows.shape(0)[1:]), block.dtype)
            done += more

    count = pad_to if pad_to is not None else None if keep is None else int(np.count_nonzero(keep))
    return dataclasses.replace(rows, count=count if count is not None else rows.count, blocks=blocks, raw=None)


def repeated(rows: Rows) -> Rows:
    """Return each row twice."""

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for block in rows.blocks(max(1, step // 2)):
            yield np.repeat(block, 2, axis=0)

    return dataclasses.replace(rows, count=None if rows.count is None else 2 * rows.count, blocks=blocks, raw=None)
