"""Appends: new nodes and edges, and removals, as files next to those of a dataset, published with its manifest."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..args.html_table import HtmlReport
from ..args.ids import as_count, as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size, parse_size
from ..load.handoff import make_room
from .append_plan import AppendPlan
from .append_writer import AppendWriter
from .change import Change
from .compact import write_compacted
from .manifest import Manifest

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["AppendMethods", "AppendReport", "CompactReport"]


@dataclass(frozen=True)
class AppendReport(HtmlReport):
    """The result of `Dataset.append`; `dataset` is the dataset as it is now."""

    path: str
    nodes: int  # added, of all types
    edges: int  # added, without their reverses
    edges_removed: int
    duplicates_dropped: int  # edges that a graph without duplicates has already
    self_loops_dropped: int
    bytes: int  # of the new files
    files: list[str]
    seconds: float
    notes: list[str]  # what was read otherwise than it was written
    dataset: Dataset = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return a short summary."""
        parts = [_counted(self.nodes, "node"), f"{_counted(self.edges, 'edge')} added"]
        parts += [f"{_counted(self.edges_removed, 'edge')} removed"] if self.edges_removed else []
        parts += [f"{_counted(self.duplicates_dropped, 'duplicate')} dropped"] if self.duplicates_dropped else []
        parts += [f"{_counted(self.self_loops_dropped, 'self-loop')} dropped"] if self.self_loops_dropped else []
        written = f"{format_size(self.bytes)} in {_counted(len(self.files), 'file')}"
        written = written if self.files else "nothing to write"
        return "\n  ".join([f"{self.path}: {', '.join(parts)}; {written}, {self.seconds:.2f} s", *self.notes])


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


@dataclass(frozen=True)
class CompactReport(HtmlReport):
    """The result of `Dataset.compact`; `dataset` is the dataset as it is now."""

    path: str
    deltas: int  # files that were folded
    bytes_before: int  # of all files
    bytes: int
    seconds: float
    dataset: Dataset = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return a short summary."""
        sizes = f"{format_size(self.bytes_before)} before, {format_size(self.bytes)} now"
        return f"{self.path}: {_counted(self.deltas, 'delta')} folded, {sizes}, {self.seconds:.2f} s"


class AppendMethods:
    """Methods of a dataset that change it on disk; this object keeps what it has opened."""

    _path: str
    _manifest: Manifest

    def append(
        self,
        edges: Any = None,
        *,
        nodes: Any = None,
        features: Any = None,
        labels: Any = None,
        splits: Any = None,
        edge_features: Any = None,
        edge_splits: Any = None,
        remove_edges: Any = None,
        remove_nodes: Any = None,
        weights: Any = None,
        times: Any = None,
        columns: Any = None,
        num_classes: Any = None,
        memory: int | float | str = "1GB",
        num_threads: int | None = None,
        progress: bool | Callback | None = None,
    ) -> AppendReport:
        """Add nodes and edges to the dataset on disk, or remove edges, without rewriting its files.

        What is new is written to small files next to the existing ones, and published with the manifest in one step. A
        dataset that is opened afterwards shows everything as one; `report.dataset` is such a one. This object, loaders
        and other processes keep what they have opened. `compact` folds the new files into the others.

        `edges` is anything `compile_graph` takes, by original ids if the ids are mapped; `weights`, `times` and
        `columns` are as there. `nodes` is the number of new nodes, their original ids if those are mapped, or a table
        of nodes as `import_dataset` takes it. New nodes get the next ids. `features` and `labels` have one row per new
        node (labels may be omitted: they are then missing), `edge_features` one per new edge. `splits` and
        `edge_splits` map names of existing splits to ids to add, or to masks of what is new; `splits="train"` adds all
        new nodes to one. New edges get the next edge ids.

        `remove_edges` are pairs of nodes, as `edges` are, or a vector of edge ids. A pair removes all edges from the
        one to the other. `remove_nodes` removes all edges of nodes and takes the nodes out of splits; their ids stay.
        In an undirected graph an edge is removed in both directions.

        In a dataset of several types, arguments are dicts by node type or edge type. Edges of a type are added to its
        reverse, `("paper", "rev_writes", "author")`, too.

        Everything is checked before anything is written. Raises StorageError at once if another process is changing the
        dataset, or if it was changed after this object was opened.

        >>> import numpy as np, graphzero as gz
        >>> ds = gz.Dataset("toy")  # doctest: +SKIP
        >>> report = ds.append(edges=np.array([[0], [3]]), features=np.ones((1, 3)), labels=[1])  # doctest: +SKIP
        >>> report.dataset.num_nodes - ds.num_nodes  # doctest: +SKIP
        1
        """
        begin = time.perf_counter()
        given = {name: value for name, value in locals().items() if name in _PARTS and value is not None}
        if not given:
            raise ValueError(f"nothing to append; pass one of {', '.join(f'{name}=' for name in _PARTS)}")
        if num_classes is not None:
            as_count(num_classes, "num_classes", least=1)
        budget, threads = parse_size(memory), as_threads(num_threads)
        make_room(budget)
        ds: Dataset = self  # type: ignore[assignment]
        with Change(self._path, self._manifest, "append") as change:
            columns = {"weights": weights, "times": times, "columns": columns}
            plan = AppendPlan(ds, given, columns, num_classes, {"memory": budget, "num_threads": num_threads})
            made = AppendWriter(change, plan, threads)
            if not plan.empty:
                with Reporting(progress) as callback:
                    after = made.write(callback)
                ds = change.publish(after, lambda: _opened(self._path))
        return AppendReport(
            path=self._path,
            nodes=sum(node.count for node in plan.nodes.values()),
            edges=made.edges["added"],
            edges_removed=made.edges["removed"],
            duplicates_dropped=made.edges["duplicates_dropped"],
            self_loops_dropped=made.edges["self_loops_dropped"],
            bytes=sum(os.path.getsize(path) for path in made.files),
            files=made.files,
            seconds=time.perf_counter() - begin,
            notes=plan.notes,
            dataset=ds,
        )

    def compact(
        self,
        *,
        memory: int | float | str = "1GB",
        num_threads: int | None = None,
        progress: bool | Callback | None = None,
    ) -> CompactReport:
        """Fold what was appended into new files, as if the dataset had been compiled at once, and remove the old ones.

        The new files are published in one step. This object, loaders and other processes keep what they have opened.
        Needs room on disk for the files that are rewritten. Without appends, nothing is done.

        >>> report = gz.Dataset("toy").compact()  # doctest: +SKIP
        """
        begin = time.perf_counter()
        ds: Dataset = self  # type: ignore[assignment]
        budget, threads, before = parse_size(memory), as_threads(num_threads), ds.nbytes
        make_room(budget)
        folded = sum(map(len, self._manifest.deltas.values()))
        with Change(self._path, self._manifest, "compact") as change:
            if folded:
                with Reporting(progress) as callback:
                    after = write_compacted(change, budget, threads, callback)
                ds = change.publish(after, lambda: _opened(self._path))
        return CompactReport(self._path, folded, before, ds.nbytes, time.perf_counter() - begin, ds)


_PARTS = (
    "edges",
    "nodes",
    "features",
    "labels",
    "splits",
    "edge_features",
    "edge_splits",
    "remove_edges",
    "remove_nodes",
)


def _opened(path: str) -> Dataset:
    from .dataset import Dataset

    return Dataset(path)
