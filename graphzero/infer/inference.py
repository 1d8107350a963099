"""Outputs for every node of a graph, layer by layer, from file to file within a memory budget.

Sampled batches compute the same hidden rows over and over. Here every layer is computed once for all nodes, over all
neighbours, and written to a `.gd`; the next layer reads that. For a block of nodes the edges are sorted by the node
they come from, so that rows are read in the order of the file, each once, and added up where they belong.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ..args.html_table import HtmlReport
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size, parse_size
from ..args.target import as_target
from ..compile.features import compile_features
from ..errors import BudgetError
from ..load.device import as_device
from ..load.handoff import make_room
from ..stores.edge_column import edge_column
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from .device_rows import DeviceRows
from .modules import Job, block_loader, count_layers, rows_of, steps_of, writer_memory

if TYPE_CHECKING:
    import torch

__all__ = ["InferenceReport", "LayerwiseModel", "inference"]

_ROW_BITS = 32  # of a sort key: the receiving node within its block; the sending node has the rest
_EDGES_AT_ONCE = 1 << 18
_READERS = 32 << 20  # what the engine's read rings may take in addition to the arrays here


class LayerwiseModel(Protocol):
    """What `inference` needs of a model; `graphzero.train.GraphSAGE` and `GCN` have it.

    `aggregation` is "mean", "sum" or "gcn" (symmetric normalisation with self-loops). `combine(layer, own, aggregated)`
    returns the rows after `layer` from the rows before it and what was aggregated from the neighbours.
    """

    @property
    def num_layers(self) -> int:
        """How many layers there are."""

    @property
    def aggregation(self) -> str:
        """How the messages of the neighbours are aggregated."""

    def combine(self, layer: int, own: torch.Tensor, aggregated: torch.Tensor) -> torch.Tensor:
        """Return the rows after `layer`."""


@dataclass(frozen=True)
class InferenceReport(HtmlReport):
    """What was written, and what it took."""

    path: str
    shape: tuple[int, ...]
    layers: int
    seconds: float
    rows_read: int
    bytes_written: int

    @classmethod
    def of(cls, path: str, layers: int, rows_read: int, begin: float) -> InferenceReport:
        """Report on the file that was written since `begin`, a value of `time.perf_counter()`."""
        with FeatureStore(path) as store:
            shape, size = tuple(store.shape), int(store.info["file_bytes"])
        return cls(path, shape, layers, time.perf_counter() - begin, rows_read, size)


def inference(
    model: LayerwiseModel | torch.nn.Module,
    graph: Graph,
    features: FeatureStore,
    out: str | os.PathLike[str],
    *,
    memory: int | str = "2GB",
    num_layers: int | None = None,
    direction: str | None = None,
    device: Any = None,
    name: str = "x",
    num_threads: int | None = None,
    io: str = "auto",
    progress: bool | Callback | None = None,
) -> InferenceReport:
    """Run `model` over all nodes and all neighbours, and write a row for each node to the `.gd` file `out`.

    Each layer streams the one before it from disk; between layers the rows are in temporary files next to `out`, which
    are always removed afterwards. `memory` bounds what is held, hubs of any degree included. `num_layers=1` of
    a model of two writes the hidden rows, for use as embeddings. The result equals the model over the whole graph in
    RAM, up to the order of additions.

    `model` may also be any module with `forward(x, edge_index)`. If it exposes its layers, as PyG's GraphSAGE, GAT and
    GIN do, it runs layer by layer too; any other module runs batch by batch over neighbourhoods of `num_layers` hops,
    which is much slower. `memory` then limits the batches, but not what the model allocates.

    With `device="cuda"` the rows of each layer are uploaded if they fit in half of the device's free memory, and only
    ids cross the link after that; otherwise they stream through the host.

    `progress`: None shows progress on a terminal and in a notebook, True always, False never; a callable receives
    (phase, done, total).

    >>> report = gz.inference(model, ds.graph, ds.features["x"], "out.gd", memory="2GB")  # doctest: +SKIP
    >>> gz.FeatureStore("out.gd").shape == report.shape  # doctest: +SKIP
    True
    """
    layers = check_inputs(model, graph, features, num_layers)
    # Checked now: the layers may take hours.
    target = Path(as_target(out, "features", reads=(features.path, *features.deltas, graph.path)))
    device = None if device is None else as_device(device)
    budget = parse_size(memory)
    make_room(budget)
    begin = time.perf_counter()
    direction = direction or graph.message_direction  # as loaders do
    temporary = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    with Reporting(progress, "nodes") as callback, evaluating(model), temporary as folder:
        job = Job(model, graph, budget, direction, device, name, num_threads, io, callback)
        rows_read = run(job, features, target, folder, layers)
    return InferenceReport.of(str(target), layers, rows_read, begin)


def is_layerwise(model: Any) -> bool:
    """Whether the model is a LayerwiseModel, and not just any module."""
    return hasattr(model, "combine") and hasattr(model, "aggregation")


def check_inputs(model: Any, graph: Any, features: Any, num_layers: int | None) -> int:
    """Raise for what inference cannot run; return how many layers there are to run."""
    import torch

    for what, value, kind in (("graph", graph, Graph), ("features", features, FeatureStore)):
        if not isinstance(value, kind):
            raise TypeError(f"{what} must be a {kind.__name__}, got {type(value).__name__}")
    if not is_layerwise(model) and not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module with forward(x, edge_index), got {type(model).__name__}")
    layers = count_layers(model, num_layers)
    if is_layerwise(model) and model.aggregation not in ("mean", "sum", "gcn"):
        raise ValueError(f"the model aggregates by {model.aggregation!r}, expected 'mean', 'sum' or 'gcn'")
    if features.num_nodes != graph.num_nodes:
        raise ValueError(
            f"{features.path} has {features.num_nodes} rows, expected {graph.num_nodes}, "
            f"one for each node of {graph.path}"
        )
    return layers


def run(job: Job, features: FeatureStore, target: Path, folder: str, layers: int) -> int:
    """Write the outputs to `target`, with temporary files in `folder`; return how many rows were read."""
    store, rows_read = features, 0
    passes = count_passes(job.model, layers)
    for number in range(passes):
        path = target if number == passes - 1 else Path(folder, f"layer{number}.gd")
        blocks = Blocks.of(job, layers, number, store)
        compile_features(
            blocks.rows,
            path,
            name=job.name,
            num_nodes=job.graph.num_nodes,
            memory=writer_memory(job.budget),
            num_threads=job.num_threads,
            progress=False,  # the layers report their own
        )
        rows_read += blocks.rows_read()
        del blocks
        if store is not features:  # the file before the last is not needed any more
            store.close()
            os.unlink(store.path)
        store = FeatureStore(path)
    return rows_read


def count_passes(model: Any, layers: int) -> int:
    """Return how many passes over all nodes the model needs."""
    return layers if is_layerwise(model) else len(steps_of(model, layers))


@dataclass(frozen=True)
class Blocks:
    """The outputs of one pass for nodes [first, last), in order; all nodes by default."""

    rows: Iterator[npt.NDArray[np.float32]]
    rows_read: Callable[[], int]  # once all blocks are made

    @classmethod
    def of(
        cls, job: Job, layers: int, number: int, store: FeatureStore, first: int = 0, last: int | None = None
    ) -> Blocks:
        """Prepare pass `number` over the rows of `store`."""
        if is_layerwise(job.model):
            layer = Layer(job, number, store)
            return cls(layer.blocks(first, last), lambda: layer.rows_read)
        step = steps_of(job.model, layers)[number]
        loader = block_loader(job, store, step.hops, None if last is None else np.arange(first, last))
        return cls(rows_of(job, loader, step), lambda: int(loader.stats().rows))


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Run without gradients, and with a module in evaluation mode; its mode is restored."""
    import torch

    training = getattr(model, "training", False)
    module = model if isinstance(model, torch.nn.Module) else None
    if module is not None:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if module is not None:
            module.train(training)


@dataclass(frozen=True)
class _Shares:
    """How the budget is divided: all are counts, so that bytes are dealt with in one place."""

    block_rows: int  # whose sums are held at once
    slice_edges: int  # sorted at once
    read_rows: int  # gathered at once
    out_rows: int  # combined and handed to the writer at once

    @classmethod
    def of(cls, budget: int, width: int, out_width: int, rows: int) -> _Shares:
        row = 4 * max(width, 1)
        asked, budget = budget, max(budget - _READERS, budget // 2)
        least = 64 * (row + 4 * out_width) + 500_000  # a few rows of each, and the writer's least
        if budget < least:
            raise BudgetError(
                f"memory is {format_size(asked)}, rows of {width} numbers need at least {format_size(2 * least)}",
                2 * least,
            )
        return cls(
            block_rows=max(1, min(rows, 1 << _ROW_BITS, int(0.35 * budget) // row)),
            slice_edges=max(1, int(0.15 * budget) // 8),
            read_rows=max(1, int(0.12 * budget) // row),
            out_rows=max(1, int(0.10 * budget) // (row + 8 * out_width)),
        )


class Layer:
    """One layer for all nodes, or some: blocks of finished rows, in order."""

    def __init__(self, job: Job, layer: int, store: FeatureStore) -> None:
        """Prepare `layer` over the rows of `store`."""
        import torch

        self.job, self.layer, self.store = job, layer, store
        self.model: LayerwiseModel = job.model
        self.device = torch.device(job.device if job.device is not None else "cpu")
        self._buffer: torch.Tensor | None = None
        side = job.direction or job.graph.message_direction
        self.indptr: npt.NDArray[Any] = job.graph._open().array(f"{side}.indptr")
        self.indices = edge_column(job.graph, side, "indices")
        self.width = store.feature_dim
        empty = torch.zeros((0, self.width), device=self.device)
        self.out_width = int(self.model.combine(layer, empty, empty).shape[1])
        held = self.indptr.nbytes if job.graph.deltas else 0  # otherwise it is a view of the file
        self.shares = _Shares.of(job.budget - held, self.width, self.out_width, max(job.graph.num_nodes, 1))
        self._kept = DeviceRows.of(store, self.device, io=job.io, num_threads=job.num_threads)
        self.rows_read = 0 if self._kept is None else store.num_nodes

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the rows of nodes [first, last) after this layer; of all nodes by default."""
        total, progress = self.job.graph.num_nodes, self.job.progress
        stop = total if last is None else last
        if first == stop:
            yield self._combined(0, 0, self._sums(0, 0))  # no rows, but their width
        for begin in range(first, stop, self.shares.block_rows):
            end = min(begin + self.shares.block_rows, stop)
            sums = self._sums(begin, end)
            for row in range(begin, end, self.shares.out_rows):
                upto = min(row + self.shares.out_rows, end)
                yield self._combined(row, upto, sums[row - begin : upto - begin])
                if progress is not None:
                    progress(f"layer {self.layer + 1}", upto, total)

    def _combined(self, begin: int, end: int, sums: torch.Tensor) -> npt.NDArray[np.float32]:
        import torch

        if self._kept is not None:
            own = self._kept.table[begin:end]
        else:
            own = self._read(np.arange(begin, end, dtype=np.int64)).to(self.device)
        aggregated = sums.to(self.device)
        if self.model.aggregation != "sum":
            degree = torch.from_numpy(self._degrees(begin, end)).to(self.device).unsqueeze(1)
            if self.model.aggregation == "mean":
                aggregated = aggregated / degree.clamp(min=1)
            else:
                scale = (degree + 1).rsqrt()
                aggregated = scale * aggregated + scale * scale * own
        rows: npt.NDArray[np.float32] = self.model.combine(self.layer, own, aggregated).float().cpu().numpy()
        self._check()
        return rows

    def _sums(self, begin: int, end: int) -> torch.Tensor:
        """Sum the neighbours' rows for nodes [begin, end). A slice of edges may end inside a row: sums just add up."""
        import torch

        if self._kept is not None:
            by_degree = self.model.aggregation == "gcn"
            return self._kept.sums(self.indptr, self.indices, begin, end, self.shares.slice_edges, by_degree)
        sums = torch.zeros((end - begin, self.width))
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        for edge in range(first, last, self.shares.slice_edges):
            keys = self._keys(begin, end, edge, min(edge + self.shares.slice_edges, last))
            keys.sort()
            self._check()
            for chunk in self._chunks(keys):
                self._add(sums, chunk)
        return sums

    def _keys(self, begin: int, end: int, first: int, last: int) -> npt.NDArray[np.uint64]:
        """Return (sender, receiver within the block), packed, for edges [first, last)."""
        keys = np.empty(last - first, dtype=np.uint64)
        keys[:] = self.indices[first:last]
        keys <<= np.uint64(_ROW_BITS)
        row = begin
        while first < last:
            # rows in steps, so that the temporaries stay small; a hub's row may reach past `last`
            row += int(np.searchsorted(self.indptr[row + 1 : end + 1], first, side="right"))
            stop = min(end, row + _EDGES_AT_ONCE)
            bounds = np.clip(self.indptr[row : stop + 1].astype(np.int64), first, last)
            upto = int(bounds[-1])
            receivers = np.repeat(np.arange(row - begin, stop - begin, dtype=np.uint64), np.diff(bounds))
            part = keys[len(keys) - (last - first) :][: upto - first]
            part |= receivers
            first, row = upto, stop
        return keys

    def _chunks(self, keys: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.uint64]]:
        """Cut sorted keys so that a chunk has at most `read_rows` senders (and edges)."""
        for begin in range(0, len(keys), self.shares.read_rows):
            yield keys[begin : begin + self.shares.read_rows]

    def _add(self, sums: torch.Tensor, keys: npt.NDArray[np.uint64]) -> None:
        """Read the chunk's senders and add their rows to the receivers' sums."""
        import torch

        senders = (keys >> np.uint64(_ROW_BITS)).astype(np.int64)
        fresh = np.diff(senders, prepend=-1) != 0
        ids = senders[fresh]
        rows = self._read(ids)
        if self.model.aggregation == "gcn":
            rows *= torch.from_numpy(self._degrees_of(ids) + 1).rsqrt().unsqueeze(1)
        place = np.cumsum(fresh) - 1
        # by receiver: embedding_bag then gathers and adds in one pass (see train/neighbourhood.py)
        order = ((keys & np.uint64(0xFFFFFFFF)) << np.uint64(32)) | place.astype(np.uint64)
        order.sort()
        receivers = (order >> np.uint64(32)).astype(np.int64)
        starts = np.flatnonzero(np.diff(receivers, prepend=-1))
        part = torch.nn.functional.embedding_bag(
            torch.from_numpy((order & np.uint64(0xFFFFFFFF)).astype(np.int64)),
            rows,
            torch.from_numpy(np.append(starts, len(order))),
            mode="sum",
            include_last_offset=True,
        )
        # each receiver occurs once, so this is safe; index_add_ would go row by row through torch's dispatcher
        sums.numpy()[receivers[starts]] += part.numpy()

    def _read(self, ids: npt.NDArray[np.int64]) -> torch.Tensor:
        import torch

        self.rows_read += len(ids)
        options: dict[str, Any] = {"io": self.job.io, "num_threads": self.job.num_threads}
        if self.store.dtype_name not in ("float32", "float16", "bfloat16", "int8"):  # gather widens those alone
            rows: torch.Tensor = self.store.gather(ids, as_torch=True, **options)
            return rows.reshape(len(ids), self.width).float()
        # one buffer for every read: fresh ones would pile up in the engine's pool, each of another size
        if self._buffer is None:
            self._buffer = torch.empty((max(self.shares.read_rows, self.shares.out_rows), self.width))
        out = self._buffer[: len(ids)]
        target = out.view(len(ids), *self.store.shape[1:])
        self.store.gather(ids, out=target, dtype="float32", **options)
        return out

    def _degrees(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        return np.diff(self.indptr[begin : end + 1]).astype(np.float32)

    def _degrees_of(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        degrees: npt.NDArray[np.float32] = (self.indptr[ids + 1] - self.indptr[ids]).astype(np.float32)
        return degrees

    def _check(self) -> None:
        self.job.graph._open().check()  # raises when the file was truncated meanwhile
