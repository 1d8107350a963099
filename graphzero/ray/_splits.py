"""Sources of edges cut into splits, one per task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from ..errors import InputError
from ..sources.edge_blocks import ArraySource, Block, load_npy
from ..sources.edge_columns import EdgeColumns
from ..sources.edge_tables import TableEdges, pick_columns
from ..sources.tables import ArrowTable, dataset_of, is_table_file, require_pyarrow
from ._cluster import Tasks, require_ray

_PARQUET = (".parquet", ".pq", ".parq")


class Split(Protocol):
    """Consecutive edges of a source; pickled to the worker that reads it."""

    @property
    def first_edge(self) -> int:
        """The position of its first edge in the source."""

    @property
    def num_edges(self) -> int:
        """The number of edges."""

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges, in source order."""


@dataclass(frozen=True)
class Source:
    """A source as seen by the driver."""

    name: str
    splits: Sequence[Split]
    num_edges: int
    columns: EdgeColumns | None = None  # None: only pairs of ids

    def has(self, column: str) -> bool:
        """Return whether edges have a "weight" or a "time"; False for a source without edges, as on one machine."""
        return self.num_edges > 0 and self.columns is not None and getattr(self.columns, column) is not None


@dataclass(frozen=True)
class FragmentSplit:
    """Row groups of Parquet files, by path and number: pyarrow does not keep their order in pickled fragments."""

    name: str
    first_edge: int
    num_edges: int
    columns: EdgeColumns
    schema: Any
    row_groups: list[tuple[str, list[int]]] = field(repr=False)  # of each file, ascending

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges."""
        import pyarrow.dataset as files
        from pyarrow.fs import LocalFileSystem

        form, disk = files.ParquetFileFormat(), LocalFileSystem()
        parts = [form.make_fragment(path, disk).subset(row_group_ids=groups) for path, groups in self.row_groups]
        rows = files.FileSystemDataset(parts, self.schema, form)
        return TableEdges(ArrowTable(self.name, rows), self.columns, self.first_edge).edge_blocks()


@dataclass(frozen=True)
class ObjectSplit:
    """Blocks of a Ray Dataset, in the object store."""

    name: str
    first_edge: int
    num_edges: int
    columns: EdgeColumns
    refs: list[Any] = field(repr=False)

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges; one block at a time is fetched."""
        import ray

        row = self.first_edge
        for ref in self.refs:
            table = ray.get(ref)
            yield from TableEdges(ArrowTable(self.name, table), self.columns, row).edge_blocks()
            row += table.num_rows


@dataclass(frozen=True)
class ArraySplit:
    """Some columns of an edge array in a `.npy` file."""

    name: str
    first_edge: int
    num_edges: int

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges."""
        return ArraySource.of(load_npy(self.name), name=self.name).part(self.first_edge, self.num_edges).edge_blocks()


def split_source(
    source: Any, columns: Any, weights: Any, times: Any, split_edges: int, slots: int, tasks: Tasks
) -> Source:
    """Cut `source` into splits of about `split_edges` edges, fewer if there would not be enough for all `slots`."""
    for name, asked in (("weights", weights), ("times", times)):
        if asked is not None and not isinstance(asked, (bool, str, int)):
            raise TypeError(f"{name} must be a column's name or number, True or False; got {type(asked).__name__}")
    if hasattr(source, "to_arrow_refs"):
        return _from_dataset(source, columns, weights, times, split_edges, slots, tasks)
    paths = source if isinstance(source, (list, tuple)) else [source]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(
            f"cannot read edges from {type(source).__name__} on a cluster; expected Parquet files or folders, a .npy "
            "file, or a Ray Dataset"
        )
    names = [os.path.abspath(os.fspath(path)) for path in paths]
    for name in names:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name}: no such file")
    if len(names) == 1 and names[0].endswith(".npy"):
        return _from_npy(names[0], columns, weights, times, split_edges, slots)
    return _from_parquet(names, columns, weights, times, split_edges, slots)


def _target_edges(total: int, split_edges: int, slots: int) -> int:
    """Return the edges per split: at least four splits per slot, since some take longer than others."""
    return max(1, min(split_edges, -(-total // (4 * slots))))


def _grouped(counts: Sequence[int], target: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (begin, end, first edge, edges) of groups of consecutive items with about `target` edges."""
    begin, first, edges = 0, 0, 0
    for i, count in enumerate(counts):
        if edges and edges + count > target:
            yield begin, i, first, edges
            begin, first, edges = i, first + edges, 0
        edges += count
    if edges:
        yield begin, len(counts), first, edges


def _from_parquet(names: list[str], columns: Any, weights: Any, times: Any, split_edges: int, slots: int) -> Source:
    arrow = require_pyarrow(names[0])
    for name in names:
        if not is_table_file(name) or not (os.path.isdir(name) or name.lower().endswith(_PARQUET)):
            raise InputError(
                f"{name}: expected a Parquet file or a folder of them, a .npy file or a Ray Dataset, which a cluster "
                "can read in parallel; graphzero.compile_graph reads other sources on one machine"
            )
    groups: list[tuple[str, int]] = []
    counts: list[int] = []
    path = names[0]
    try:
        dataset = dataset_of(names, "parquet")
        for fragment in dataset.get_fragments():
            path = fragment.path
            for group in fragment.row_groups:  # from the file's footer
                groups.append((path, group.id))
                counts.append(int(group.num_rows))
    except (arrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file or folder: {' '.join(str(error).split())}") from error
    name = names[0]
    picked = _pick(name, dataset.schema, columns, weights, times)
    splits = []
    for begin, end, first, edges in _grouped(counts, _target_edges(sum(counts), split_edges, slots)):
        by_file = [(path, [i for _, i in of]) for path, of in groupby(groups[begin:end], key=itemgetter(0))]
        splits.append(FragmentSplit(name, first, edges, picked, dataset.schema, by_file))
    return Source(name, splits, sum(counts), picked)


def _from_dataset(
    dataset: Any, columns: Any, weights: Any, times: Any, split_edges: int, slots: int, tasks: Tasks
) -> Source:
    require_ray()
    name = "Ray Dataset"
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True  # keeps equal edges in the order of the dataset
    try:
        refs = dataset.to_arrow_refs()
    finally:
        options.preserve_order = before
    heads = tasks.run(_head, [(ref,) for ref in refs])
    counts = [rows for rows, _ in heads]
    schema = heads[0][1] if heads else getattr(dataset.schema(), "base_schema", None)
    if schema is None:
        raise InputError(f"{name}: found no columns, expected at least two: source and target")
    picked = _pick(name, schema, columns, weights, times)
    splits = [
        ObjectSplit(name, first, edges, picked, list(refs[begin:end]))
        for begin, end, first, edges in _grouped(counts, _target_edges(sum(counts), split_edges, slots))
    ]
    return Source(name, splits, sum(counts), picked)


def _head(table: Any) -> tuple[int, Any]:
    return int(table.num_rows), table.schema


def _pick(name: str, schema: Any, columns: Any, weights: Any, times: Any) -> EdgeColumns:
    """Return the columns that are used on one machine."""
    table = ArrowTable(name, schema.empty_table())
    return EdgeColumns.of(table.names, pick_columns(table, columns, weights, times))


def _from_npy(path: str, columns: Any, weights: Any, times: Any, split_edges: int, slots: int) -> Source:
    for name, asked in (("columns", columns), ("weights", weights), ("times", times)):
        if asked is not None and asked is not False:
            raise ValueError(f"{name} is {asked!r}, but {path} has only sources and targets; omit it")
    total = ArraySource.of(load_npy(path), name=path).num_edges
    step = _target_edges(total, split_edges, slots)
    splits = [ArraySplit(path, first, min(step, total - first)) for first in range(0, total, step)]
    return Source(path, splits, total)
