"""The tasks that compile a graph: cut a split into runs, count and write the rows of a range."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, fields
from typing import Any

from .. import _core
from ..compile.options import GraphOptions
from ..errors import InputError
from ._cluster import is_stopped
from ._splits import Split


def cut(split: Split, options: GraphOptions) -> dict[str, Any]:
    """Write the edges of a split to files of the folder, partitioned into buckets by row; return their locations.

    File names are unique per attempt, so if a task runs twice, its result refers to complete files.
    """
    import numpy as np

    _limit_arrow(options.threads)
    path = os.path.join(options.spill_folder, f"{split.first_edge}-{uuid.uuid4().hex}")
    builder = options.builder(None, split.first_edge, path)
    builder.expect(split.num_edges)
    edge = split.first_edge
    for block in split.edge_blocks():
        if is_stopped(options.spill_folder):
            return {}
        numbers = np.arange(edge, edge + len(block)) if options.edge_ids else None
        builder.add(
            block.src,
            block.dst,
            block.weights if options.weights else None,
            block.times if options.times else None,
            len(block),
            numbers,
        )
        edge += len(block)
    if edge != split.first_edge + split.num_edges:
        raise InputError(
            f"found {edge - split.first_edge} edges from number {split.first_edge} on, expected {split.num_edges}; "
            "the source may have changed while it was read"
        )
    return builder.finish_runs()


@dataclass(frozen=True)
class Part:
    """A range of rows of one side, and its locations in the runs."""

    side: str
    row_begin: int
    row_end: int
    bucket_bits: int
    shift: int
    largest_neighbour: int
    records: int  # in the runs, duplicates included
    runs: list[tuple[Any, ...]]

    def range(self) -> Any:
        """Return it in the form that the core expects."""
        return _core.RowRange(**{f.name: getattr(self, f.name) for f in fields(Part) if f.name != "records"})


@dataclass(frozen=True)
class WriteOptions:
    """The options for writing every range."""

    spill_folder: str
    memory: int
    threads: int


def count_distinct(part: Part, options: WriteOptions) -> int:
    """Return the number of edges of a range without duplicates."""
    return 0 if is_stopped(options.spill_folder) else int(part.range().count_distinct(**vars(options)))


def write(
    part: Part, path: str, shape: dict[str, Any], edges_before: int, edges: int, options: WriteOptions
) -> dict[str, Any]:
    """Write the rows of a range into the shared file; return its checksums and the fragments at its ends."""
    if is_stopped(options.spill_folder):
        return {}
    layout = {"path": path, "shape": _core.GraphShape(**shape), "edges_before": edges_before, "edges": edges}
    return dict(part.range().write(**layout, **vars(options)))


def _limit_arrow(threads: int) -> None:
    """Limit Arrow to the CPUs of the task; by default it uses every core of the host."""
    try:
        import pyarrow
    except ImportError:  # not needed for arrays
        return
    pyarrow.set_cpu_count(threads)
