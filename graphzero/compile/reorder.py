"""Datasets with their nodes in another order, so that rows that are used together are stored together."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import as_count, as_threads
from ..args.progress import Callback, Reporting, named
from ..args.sizes import format_size, parse_size
from ..args.suggest import did_you_mean
from ..dataset.compact import write_keys
from ..dataset.dataset import Dataset
from ..dataset.manifest import ArrayRef, Manifest
from ..dataset.node_ids import NEW, ORIGINAL
from ..dataset.publish import plain_name
from ..dataset.writer import DatasetWriter
from ..errors import BudgetError
from ..load.loader import NeighborLoader
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from .reordered_files import Renamed, remake_file

__all__ = ["NEW_ORDERS", "ORDERS", "check_order", "make_ordered", "reorder"]

ORDERS = ("degree", "presample", "bfs", "community")
NEW_ORDERS = ("degree", "bfs", "community")  # of a dataset that is being made: no batches are known
# Bytes per node while an order is computed; later steps stream.
_STATE = {"degree": 13, "presample": 13, "bfs": 9, "community": 17}
_LEAST = 1_000_000  # bytes per thread for compiling
_STEP = 1 << 20  # ids per block

Order = npt.NDArray[np.uint32]


def reorder(
    dataset: Dataset | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    by: str | None = None,
    direction: str | None = None,
    fanouts: Sequence[int] = (15, 10, 5),
    split: str = "train",
    batch_size: int = 1024,
    epochs: int = 1,
    seed: int = 0,
    memory: int | float | str = "2GB",
    num_threads: int | None = None,
    progress: Callback | bool | None = None,
    overwrite: bool = False,
) -> Dataset:
    """Write `dataset` to the folder `out` with its nodes in another order, and open it.

    A loader that reads from disk reads pages, and a page holds several rows: it reads fewer pages when the rows that
    batches need are adjacent. The graph is otherwise the same. Features, labels and splits follow their
    nodes; weights, times and edge ids follow their edges; edge features are shared with the source, whose edge ids stay
    valid. `ds.ids` translates between the ids of the new dataset and the original ones.

    by: "presample", descending by how often nodes occur in the batches of the first epochs; "degree", descending by how
        many nodes have them as neighbours (in both, nodes that are about equally hot are in breadth-first order);
        "bfs", breadth-first order from the hottest node; "community", communities found by label propagation, one by
        one. None is "presample", or "degree" without a training split.
    direction: which rows of the graph your loader samples; None as for a loader.
    fanouts, split, batch_size, epochs, seed: the batches that "presample" draws; use those of your training.
    memory: the memory budget. Orders take 9 to 17 bytes per node; rows and edges are streamed through temporary files.

    `out` is published when it is complete. Until then it is unchanged, also with `overwrite=True`.

    >>> import graphzero as gz
    >>> ds = gz.reorder("papers", "papers-hot")  # doctest: +SKIP
    >>> ds.ids.to_original(ds.splits["train"][:3])  # doctest: +SKIP
    """
    source = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    target = os.path.abspath(os.fspath(out))
    if by is None:
        unknown = split not in (*source.splits, "train")  # raises below
        by = "presample" if unknown or len(source.splits.get(split, ())) else "degree"
    if by not in ORDERS:
        raise ValueError(f"by is {by!r}, expected one of {', '.join(ORDERS)}{did_you_mean(by, ORDERS)}")
    manifest = _checked_manifest(source, target)
    budget, threads = _checked_budget(parse_size(memory), as_threads(num_threads), by, source.num_nodes)
    graph = Graph(source.graph.path, deltas=source.graph.deltas)
    direction = direction or graph.message_direction  # as loaders do
    _core.check_order(graph._open(), direction)
    about: dict[str, Any] = {"by": by}
    make_order: Callable[[], Order] = partial(_ordered, graph, by, direction, progress)
    if by == "presample":
        options = {"batch_size": batch_size, "direction": direction, "seed": as_count(seed, "seed", least=0)}
        loader = _sampler(source, graph, split, fanouts, {**options, "num_threads": threads}, budget)
        rounds = as_count(epochs, "epochs", least=1)
        about |= {"fanouts": list(fanouts), "split": split, "epochs": rounds, **options}
        make_order = partial(_presampled, loader, rounds, graph, direction, progress)
    with DatasetWriter(target, overwrite) as writer:
        return _Reordering(source, manifest, writer, budget, threads, progress).write(make_order, about)


def check_order(by: str | None, one_type: bool) -> None:
    """Raise ValueError if a dataset that is being made cannot get its nodes in the order `by`."""
    if by is not None and by not in NEW_ORDERS:
        hint = " (presample needs batches: use gz.reorder)" if by == "presample" else did_you_mean(by, NEW_ORDERS)
        raise ValueError(f"order is {by!r}, expected one of {', '.join(NEW_ORDERS)}{hint}")
    if by is not None and not one_type:
        raise ValueError(f"order is {by!r}, which supports only datasets of one node type; omit order")


def make_ordered(
    out: str | os.PathLike[str],
    by: str,
    make: Callable[[str], Dataset],
    *,
    memory: int | float | str,
    num_threads: int | None,
    progress: Callback | bool | None,
    overwrite: bool,
) -> Dataset:
    """Make the dataset `out` of what `make` creates in the folder that it is passed, with the nodes ordered `by`.

    That folder is inside `out` until all is published. The rows of features take their space on disk once at any time,
    apart from a part of the size of `memory` (three times where the system cannot free parts of a file).
    """
    with DatasetWriter(os.path.abspath(os.fspath(out)), overwrite) as writer:
        folder = os.path.join(os.path.dirname(writer.target("graph.gl")), "unordered")
        source = make(folder)
        manifest, graph = _checked_manifest(source, writer.folder), Graph(source.graph.path)
        budget, threads = _checked_budget(parse_size(memory), as_threads(num_threads), by, source.num_nodes)
        _core.check_order(graph._open(), graph.message_direction)
        made = _Reordering(source, manifest, writer, budget, threads, progress, made_in=folder)
        return made.write(partial(_ordered, graph, by, graph.message_direction, progress), {"by": by})


class _Reordering:
    """Writes a reordered dataset: first the ids, then everything indexed by them."""

    def __init__(
        self,
        source: Dataset,
        manifest: Manifest,
        writer: DatasetWriter,
        budget: int,
        threads: int,
        progress: Callback | bool | None,
        made_in: str | None = None,  # the folder of a source that is not kept
    ) -> None:
        self._source, self._writer, self._made_in = source, writer, made_in
        self._manifest, self._origin = _plainly_named(manifest)  # new file names, and those of the source
        self._budget, self._threads, self._progress = budget, threads, progress
        self._scratch = ""
        self._node = self._manifest.nodes[manifest.default_node]
        self._ids_file = _free_name(self._manifest, "ids.gd")
        self._renamed: Renamed

    def write(self, make_order: Callable[[], Order], about: dict[str, Any]) -> Dataset:
        """Write and publish everything."""
        parent = os.path.dirname(self._writer.path("graph.gl"))
        with tempfile.TemporaryDirectory(prefix=".reorder-", dir=parent) as self._scratch:
            self._write_ids(make_order())
            self._write_graphs()
            self._write_rows()
        if self._made_in is not None:
            shutil.rmtree(self._made_in)
        return self._writer.publish(self._new_manifest(about), lambda: Dataset(self._writer.folder))

    def _write_ids(self, order: Order) -> None:
        """Write the order and its inverse; later steps look ids up in that file, so that the arrays can be freed."""
        before = self._source.ids.arrays()
        target = self._writer.target(self._ids_file)
        path = target if before is None else os.path.join(self._scratch, "ids.gd")
        inverse = np.empty_like(order)
        for at in range(0, len(order), _STEP):
            inverse[order[at : at + _STEP]] = np.arange(at, min(at + _STEP, len(order)), dtype=np.uint32)
        _write_ids(path, order, inverse, self._threads)
        store = FeatureStore(path)
        self._renamed = Renamed(store, store[ORIGINAL].get_tensor(), store[NEW].get_tensor())
        if before is not None:  # reordered before: the original ids are those of the first dataset
            original, new = before
            through = _Through(self._renamed.to_old, original), _Through(new, self._renamed.to_new)
            _write_ids(target, *through, self._threads)

    def _write_graphs(self) -> None:
        """Write every topology with the new ids."""
        for edge in self._manifest.edges.values():
            path, deltas = self._paths(edge.file)
            graph = Graph(path, deltas=deltas)
            with Reporting(named(self._progress, edge.file), "edges") as callback:
                _core.relabel_graph(
                    graph._open(),
                    self._renamed.to_new,
                    self._writer.target(edge.file),
                    number_edges=bool(edge.features),
                    memory=self._budget,
                    threads=self._threads,
                    spill_folder=self._scratch,
                    progress=callback,
                )
            self._renamed.check()

    def _write_rows(self) -> None:
        """Write every file of rows: permuted, or shared if nothing in it is indexed by node."""
        node, edges = self._node, self._manifest.edges.values()
        labels = [node.labels] if node.labels else []
        moved = {ref.file for ref in (*node.features.values(), *labels)}
        splits = {(ref.file, ref.array) for ref in node.splits.values()}
        kept = {(ref.file, ref.array) for edge in edges for ref in edge.features.values()}
        ends = {(ref.file, ref.array) for edge in edges for ref in edge.splits.values() if self._is_pairs(ref)}
        ends |= {(file, "ids") for task in self._manifest.tasks.values() for file in task.splits.values()}
        keys = node.keys
        if keys is not None and self._paths(keys.file)[1] and (ids := self._source.ids.keys) is not None:
            text = self._writer.target(keys.text) if keys.text else ""
            write_keys(ids, self._writer.target(keys.file), text, self._budget, self._threads)
        for file in self._manifest.base_files():
            path, deltas = self._paths(file)
            if deltas and keys is not None and file in (keys.file, keys.text):
                continue  # written above
            if file.endswith(".gl") or file == node.ids:
                continue
            if file not in moved and not any(file == name for name, _ in splits | ends):
                self._writer.link(path, file, deltas)
                continue
            with Reporting(named(self._progress, file)) as callback:
                remake_file(
                    FeatureStore(path, deltas=deltas),
                    self._writer.target(file),
                    self._renamed,
                    splits={array for name, array in splits if name == file},
                    ends={array for name, array in ends if name == file},
                    kept={array for name, array in kept if name == file},
                    by_node=file in moved,
                    budget=self._budget,
                    threads=self._threads,
                    scratch=self._scratch,
                    progress=callback,
                    consume=self._made_in is not None,
                )

    def _new_manifest(self, about: dict[str, Any]) -> Manifest:
        """Return the manifest of the new dataset: the old one plus the file of ids."""
        node = dataclasses.replace(self._node, ids=self._ids_file)
        return dataclasses.replace(
            self._manifest,
            nodes={self._manifest.default_node: node},
            about={**self._manifest.about, "reordered": about},
        )

    def _is_pairs(self, ref: ArrayRef) -> bool:
        """Return whether an edge split holds pairs of nodes rather than edge ids, which do not change."""
        path, deltas = self._paths(ref.file)
        return len(FeatureStore(path, ref.array, deltas=deltas).shape) == 2

    def _paths(self, file: str) -> tuple[str, tuple[str, ...]]:
        return self._source._manifest.paths(self._source.path, self._origin[file])


class _Through:
    """Ids looked up in one array and then in another, slice by slice."""

    def __init__(self, first: npt.NDArray[Any], then: npt.NDArray[Any]) -> None:
        self._first, self._then = first, then

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._then[self._first[part]]
        return found


def _write_ids(path: str, original: Any, new: Any, threads: int) -> None:
    count = len(original)
    dtype = "int32" if count <= 2**31 else "int64"
    writer = _core.FeatureWriter(path, count, [(ORIGINAL, dtype, [count]), (NEW, dtype, [count])], None)
    try:
        for index, ids in enumerate((original, new)):
            for at in range(0, count, _STEP):
                writer.append(index, np.ascontiguousarray(ids[at : at + _STEP], dtype=dtype))
        writer.finish(threads)
    finally:
        writer.discard()


def _ordered(
    graph: Graph,
    by: str,
    direction: str | None,
    progress: Callback | bool | None,
    counts: npt.NDArray[np.uint32] | None = None,
) -> Order:
    way = {"degree": "hot", "presample": "hot"}.get(by, by)
    with Reporting(progress, "edges") as callback:
        order: Order = _core.order_nodes(graph._open(), way, direction, counts, callback)
    return order


def _sampler(
    source: Dataset, graph: Graph, split: str, fanouts: Sequence[int], options: dict[str, Any], budget: int
) -> NeighborLoader:
    if split not in source.splits:
        has = ", ".join(map(repr, source.splits)) or "none"
        hint = did_you_mean(split, source.splits) or "; by='presample' needs an existing split"
        raise ValueError(f"split is {split!r}, the dataset has {has}{hint}")
    seeds = source.splits[split]
    if not len(seeds):
        raise ValueError(f"split {split!r} has no nodes; by='presample' needs a split with nodes")
    left = budget - 4 * graph.num_nodes  # in addition to the counts
    loader = NeighborLoader(graph, fanouts=fanouts, seeds=seeds, shuffle=True, memory=left, **options)
    loader._ready_plan()  # raises if the budget is too small for its batches
    return loader


def _presampled(
    loader: NeighborLoader, epochs: int, graph: Graph, direction: str | None, progress: Callback | bool | None
) -> Order:
    counts = np.zeros(graph.num_nodes, np.uint32)
    total = epochs * len(loader)
    with Reporting(progress, "batches") as callback:
        for epoch in range(epochs):
            for number, batch in enumerate(loader):
                counts[np.asarray(batch.n_id)] += 1  # a node is in a batch at most once
                if callback is not None:
                    callback("sampling", epoch * len(loader) + number + 1, total)
    return _ordered(graph, "presample", direction, progress, counts)


# -- checks -----------------------------------------------------------------------------------------------------------


def _checked_manifest(source: Dataset, target: str) -> Manifest:
    """Return the manifest of a dataset that can be reordered into `target`."""
    manifest = source._manifest
    if os.path.realpath(target) == os.path.realpath(source.path):
        raise ValueError(f"{target}: out is the folder of the dataset itself; choose another folder")
    if len(manifest.nodes) > 1:
        names = ", ".join(manifest.nodes)
        raise ValueError(f"{source.path}: has {len(manifest.nodes)} node types ({names}); reorder supports only one")
    _check_roles(source.path, manifest)
    for key, edge in manifest.edges.items():
        graph = source.graphs[key]
        if edge.features and graph.direction == "both" and not graph.has_edge_ids:
            raise ValueError(
                f"{graph.path}: has edge features and rows in both directions but no edge ids, so the order of the "
                "features is unknown; compile it with edge_ids=True"
            )
    return manifest


def _check_roles(path: str, manifest: Manifest) -> None:
    """Raise ValueError for an array with two roles, since its rows could not follow both."""
    node = manifest.nodes[manifest.default_node]
    by_node: dict[str, ArrayRef] = {f"features.{name}": ref for name, ref in node.features.items()}
    if node.labels is not None:
        by_node["labels"] = node.labels
    splits = {f"splits.{name}": ref for name, ref in node.splits.items()}
    by_edge = {f"edges.{key}.{name}": ref for key, e in manifest.edges.items() for name, ref in e.features.items()}
    roles: dict[tuple[str, str], tuple[int, str]] = {}
    for kind, table in enumerate((by_node, splits, by_edge)):
        for name, ref in table.items():
            other, first = roles.setdefault((ref.file, ref.array), (kind, name))
            if other != kind:
                raise ValueError(f"{path}: {ref.file} {ref.array!r} cannot be both {first} and {name}")


def _checked_budget(budget: int, threads: int, by: str, nodes: int) -> tuple[int, int]:
    """Return the budget and as many threads as it allows; raise BudgetError if it is too small for the order."""
    needed = _STATE[by] * nodes + 2 * _LEAST
    if budget < needed:
        raise BudgetError(
            f"memory is {format_size(budget)}, but ordering {nodes:,} nodes by {by} needs {format_size(needed)}", needed
        )
    if threads < 0:
        raise ValueError(f"num_threads is {threads}, expected at least 1")
    wanted = threads or _core.default_threads()
    return budget, max(1, min(wanted, budget // _LEAST))


def _plainly_named(manifest: Manifest) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest with the file names of a new folder, and a map from those to the current names."""
    manifest = manifest.without_deltas()  # they are folded into the new files
    plain = {file: plain_name(file) for file in manifest.files()}
    if len(set(plain.values())) < len(plain):
        plain = {file: file for file in plain}
    return manifest.renamed(plain), {name: file for file, name in plain.items()}


def _free_name(manifest: Manifest, name: str) -> str:
    """Return `name`, or a similar name that no other file of the dataset has."""
    taken = set(manifest.files()) - {node.ids for node in manifest.nodes.values()}
    stem, _, suffix = name.rpartition(".")
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}.{suffix}"
    return name
