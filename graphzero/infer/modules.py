"""Outputs of any module with forward(x, edge_index) for every node, over all neighbours.

A model that offers its layers (`inference_per_layer`, as PyG's BasicGNN has) is run layer by layer, each from file to
file. Any other is run batch by batch over neighbourhoods as deep as it has layers, which reads and computes far more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import BudgetError
from ..load.loader import NeighborLoader
from ..stores.features import FeatureStore
from ..stores.graph import Graph

if TYPE_CHECKING:
    import torch

_WIDENED = ("float16", "bfloat16", "int8")
_BATCH_SIZES = (1024, 256, 64, 16, 4, 1)
_WRITER_SHARE = 10  # of the budget: a tenth
_LEAST_WRITER = 1 << 20


@dataclass(frozen=True)
class Job:
    """The arguments of `gz.inference`."""

    model: Any
    graph: Graph
    budget: int
    direction: str | None
    device: Any
    name: str
    num_threads: int | None
    io: str
    progress: Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Step:
    """One pass over all nodes: how deep the neighbourhoods are, and what is run on them."""

    title: str
    hops: int
    run: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def model_rows(model: Any, x: torch.Tensor) -> torch.Tensor:
    """Return features in the type that the model computes with: that of its weights, float32 if it has none."""
    import torch

    first = next((weight for weight in model.parameters() if weight.is_floating_point()), None)
    return x.to(torch.float32 if first is None else first.dtype)


def count_layers(model: Any, asked: int | None) -> int:
    """Return how many layers to run, or how many hops a batch needs; ValueError when the model does not say."""
    has = getattr(model, "num_layers", None)
    if not isinstance(has, int):
        if asked is None:
            raise ValueError(
                f"{type(model).__name__} has no num_layers; pass num_layers=, as many hops as its layers reach"
            )
        return asked
    layers = has if asked is None else asked
    if not 1 <= layers <= has:
        raise ValueError(f"num_layers is {asked}, expected 1 to {has}, the layers of the model")
    return layers


def steps_of(model: Any, layers: int) -> list[Step]:
    """Return the passes that the model needs: one per layer where it offers them, else one."""
    # Layers that normalise by degree need the whole degree of the nodes that send, and so their edges too.
    more = 1 if _normalises(model) else 0
    if callable(getattr(model, "inference_per_layer", None)) and getattr(model, "jk_mode", None) in (None, "last"):

        def layer(number: int) -> Step:
            return Step(
                f"layer {number + 1}",
                1 + more,
                lambda x, edges, count: model.inference_per_layer(number, x, edges, count)[:count],
            )

        return [layer(number) for number in range(layers)]
    has = getattr(model, "num_layers", layers)
    if layers != has:
        raise ValueError(f"num_layers is {layers}, but {type(model).__name__} does not offer its layers one by one")
    return [Step("nodes", layers + more, lambda x, edges, count: model(x, edges)[:count])]


def _normalises(model: Any) -> bool:
    return any(getattr(part, "normalize", False) is True for part in model.modules())


def writer_memory(budget: int) -> int:
    """Return the part of the budget that writes the outputs; the loader has the rest."""
    return max(budget // _WRITER_SHARE, _LEAST_WRITER)


def inference_loader(graph: Any, features: Any, *, budget: int, device: Any, **options: Any) -> NeighborLoader:
    """Return a loader that is planned, `options` being those of `NeighborLoader`; BudgetError where no batch fits."""
    for size in _BATCH_SIZES:
        loader = NeighborLoader(
            graph,
            features,
            batch_size=size,
            memory=budget - budget // _WRITER_SHARE,
            device=None if device is None or device.type == "cpu" else device,
            rank=0,
            world_size=1,  # every process that calls this writes all rows
            **options,
        )
        try:
            loader._ready_plan()
        except BudgetError as error:
            reason = error
        else:
            return loader
    raise reason


def block_loader(job: Job, store: FeatureStore, hops: int, seeds: Any = None) -> NeighborLoader:
    """Return a loader of all nodes (or `seeds`) in order, with all neighbours, in the largest batches that fit."""
    return inference_loader(
        job.graph,
        store,
        budget=job.budget,
        device=job.device,
        fanouts=[-1] * hops,
        seeds=seeds,
        prefetch=2,
        num_threads=job.num_threads,
        dtype="float32" if store.dtype_name in _WIDENED else None,
        direction=job.direction,
        io=job.io,
    )


def rows_of(job: Job, loader: NeighborLoader, step: Step) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the outputs of a pass, batch by batch."""
    import torch

    done, total = 0, job.graph.num_nodes
    if total == 0:
        raise ValueError(f"{job.graph.path}: the graph has no nodes, so the width of the output is not known")
    for batch in loader:
        x = model_rows(job.model, batch.x)
        x = x.unsqueeze(1) if x.dim() == 1 else x
        out = step.run(x, batch.edge_index, batch.batch_size)
        if not isinstance(out, torch.Tensor) or out.dim() != 2 or len(out) != batch.batch_size:
            shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(f"{type(job.model).__name__} returned {shape}, expected a row for each node")
        done += batch.batch_size
        yield out.float().cpu().numpy()
        if job.progress is not None:
            job.progress(step.title, done, total)
