"""Outputs for every node on the workers of a Ray cluster: layer by layer, one block of rows per task."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..args.ids import as_count
from ..args.sizes import parse_size
from ..args.target import as_target
from ..infer.inference import (
    Blocks,
    InferenceReport,
    Layer,
    LayerwiseModel,
    check_inputs,
    count_passes,
    is_layerwise,
)
from ..infer.modules import Job
from ..load.device import as_device
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ._cluster import Tasks, WorkFolder, is_stopped, put_together, require_ray

if TYPE_CHECKING:
    import torch

__all__ = ["inference"]


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
    io: str = "auto",
    block_rows: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_retries: int = 3,
    progress: Callable[[str, int, int], None] | None = None,
) -> InferenceReport:
    """Run `model` over all nodes and neighbours on a Ray cluster, and write one row per node to the `.gd` file `out`.

    Like `graphzero.inference`, layer by layer, with one block of rows per task. The graph, the features and `out` must
    be in folders that every node of the cluster sees under the same path. Each worker writes its rows into one shared
    file; a block whose worker died is computed again. The rows equal those of
    `graphzero.inference` up to the order of additions.

    memory: the budget of one worker, as in `graphzero.inference`.
    device: where workers compute, for example "cuda" together with num_gpus=1 (default: the CPU).
    block_rows: rows per task (default: two blocks per worker). The same number
        gives the same bytes on any cluster of equal machines.
    num_cpus, num_gpus: per task; max_retries: how often Ray retries one whose worker or node died.

    >>> import graphzero.ray
    >>> report = graphzero.ray.inference(model, ds.graph, ds.features["x"], "/shared/out.gd")  # doctest: +SKIP
    """
    layers = check_inputs(model, graph, features, num_layers)
    target = as_target(out, "features", reads=(features.path, *features.deltas, graph.path))
    budget = parse_size(memory)
    tasks = Tasks.of(num_cpus, num_gpus, max_retries)
    if block_rows is not None:
        as_count(block_rows, "block_rows", least=1)
    if device is not None and num_gpus == 0:
        as_device(device)  # checks a device of this machine; with num_gpus the device is on the workers
    ray = require_ray()
    begin = time.perf_counter()
    here = _on_cpu(model)
    steps = range(count_passes(here, layers))
    sent = ray.put(here)
    store, rows_read = features, 0
    with WorkFolder(target) as folder:
        plan = _Plan(
            graph, budget, direction or graph.message_direction, device, name, tasks.num_threads, io, layers, folder
        )
        for number in steps:
            path = target if number == steps[-1] else os.path.join(folder, f"layer{number}.gd")
            width = tasks.run(_width, [(sent, plan, number, store)])[0]
            rows = block_rows or max(1, -(-graph.num_nodes // (2 * tasks.slots())))
            file = _core.SharedFile.features(path, graph.num_nodes, [(name, "float32", [graph.num_nodes, width])])
            try:
                offset = file.arrays[0][1]
                calls = [
                    (sent, plan, number, store, file.temporary, offset, first, min(first + rows, graph.num_nodes))
                    for first in range(0, graph.num_nodes, rows)
                ]
                done = tasks.run(_write_block, calls, f"layer {number + 1}", progress, folder)
                put_together(file, [written for written, _ in done])
            finally:
                file.discard()
            rows_read += sum(read for _, read in done)
            if store is not features:
                store.close()
                os.unlink(store.path)
            store = FeatureStore(path)
    return InferenceReport.of(os.path.normpath(target), layers, rows_read, begin)


@dataclass(frozen=True)
class _Plan:
    """The data of every task of an inference; graph and stores are pickled as their paths."""

    graph: Graph
    budget: int
    direction: str
    device: Any
    name: str
    num_threads: int
    io: str
    layers: int
    folder: str

    def job(self, model: Any) -> Job:
        device = None if self.device is None else as_device(self.device)
        if device is not None and hasattr(model, "to"):
            model = model.to(device)
        if hasattr(model, "eval"):
            model.eval()
        return Job(model, self.graph, self.budget, self.direction, device, self.name, self.num_threads, self.io, None)


def _on_cpu(model: Any) -> Any:
    """Return a copy of the model on the CPU, which any worker can load; the caller's model is not moved."""
    import torch

    return copy.deepcopy(model).cpu().eval() if isinstance(model, torch.nn.Module) else model


def _width(model: Any, plan: _Plan, number: int, store: FeatureStore) -> int:
    """Return the width of the rows after a step."""
    import torch

    with torch.no_grad():
        job = plan.job(model)
        if is_layerwise(model):
            return Layer(job, number, store).out_width
        blocks = Blocks.of(job, plan.layers, number, store, 0, min(1, plan.graph.num_nodes))
        return int(next(blocks.rows).shape[1])


def _write_block(
    model: Any, plan: _Plan, number: int, store: FeatureStore, path: str, offset: int, first: int, last: int
) -> tuple[list[Any], int]:
    """Compute rows [first, last) and write them into the shared file; return sums, fragments and rows read."""
    import torch

    torch.set_num_threads(plan.num_threads)
    with torch.no_grad():
        blocks = Blocks.of(plan.job(model), plan.layers, number, store, first, last)
        writer = None
        for rows in blocks.rows:
            if is_stopped(plan.folder):
                return [], 0
            rows = np.ascontiguousarray(rows, np.float32)
            if writer is None:
                each = 4 * rows.shape[1]
                writer = _core.RangeWriter(path, [(plan.name, offset, first * each, last * each)])
            writer.append(0, rows)
        assert writer is not None  # a block has rows
        return writer.finish(), blocks.rows_read()
