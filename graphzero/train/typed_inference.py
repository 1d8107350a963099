"""Outputs of a trained model for every node of one type of a typed dataset, batch by batch, to a .gd file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .._sizes import parse_size
from .._transfer import as_device
from ..compile_rows import compile_features
from ..dataset import Dataset
from ..features import FeatureStore
from ..inference import InferenceReport
from ..loader import NeighborLoader
from .records import TrainOptions
from .typed_tasks import features_by_type, typed_outputs

__all__ = ["typed_inference"]

_WRITER_SHARE = 10  # of the budget: a tenth


def typed_inference(
    model: torch.nn.Module,
    data: Dataset,
    out: str | os.PathLike[str],
    *,
    node_type: str,
    fanouts: Sequence[int],
    feature: str = "x",
    batch_size: int = 1024,
    memory: int | str = "2GB",
    device: Any = None,
    num_threads: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> InferenceReport:
    """Run `model` over all nodes of `node_type` and write a row for each to the `.gd` file `out`.

    Neighbours are sampled by `fanouts`, as in the evaluation of a run; -1 takes all of them, where the budget allows.

    >>> report = typed_inference(load_model("run.npz"), ds, "out.gd", node_type="paper", fanouts=[15, 10])
    ... # doctest: +SKIP
    """
    begin, budget = time.perf_counter(), parse_size(memory)
    where = as_device("cpu" if device is None else device)
    if node_type not in data.nodes:
        raise ValueError(f"no node type {node_type!r}, the dataset has {', '.join(map(repr, data.nodes))}")
    loader = NeighborLoader(
        data.hetero,
        features_by_type(data, TrainOptions(feature=feature)),
        fanouts=list(fanouts),
        input_type=node_type,
        batch_size=batch_size,
        memory=budget - budget // _WRITER_SHARE,
        num_threads=num_threads,
        seed=seed,
        dtype="float32",
        device=None if where.type == "cpu" else where,
        rank=0,
        world_size=1,  # every process that calls this writes all rows
    )
    count, was_training = data.nodes[node_type].num_nodes, model.training

    def rows() -> Iterator[npt.NDArray[np.float32]]:
        for number, batch in enumerate(loader):
            size = batch[node_type].batch_size
            with torch.no_grad():
                made = typed_outputs(model, batch, feature)[node_type][:size]
            yield made.float().cpu().numpy()
            if progress is not None:
                progress(min((number + 1) * batch_size, count), count)

    model.to(where).eval()
    try:
        compile_features(
            rows(), out, num_nodes=count, memory=max(budget // _WRITER_SHARE, 1 << 20), num_threads=num_threads
        )
    finally:
        model.train(was_training)
    return InferenceReport(
        path=os.fspath(out),
        shape=tuple(FeatureStore(out).shape),
        layers=len(fanouts),
        seconds=time.perf_counter() - begin,
        rows_read=int(loader.stats().rows),
        bytes_written=os.path.getsize(out),
    )
