"""Outputs of a trained model for every node of one type of a typed dataset, to a .gd file."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..args.progress import Callback, Reporting
from ..args.sizes import parse_size
from ..args.suggest import did_you_mean
from ..args.target import as_target
from ..compile.features import compile_features
from ..dataset.dataset import Dataset
from ..infer.inference import InferenceReport, evaluating
from ..infer.modules import inference_loader, model_rows, writer_memory
from ..load.device import as_device
from ..load.loader import NeighborLoader
from ..stores.features import FeatureStore
from .encoded_rows import encoded_stores
from .hetero import HeteroSAGE
from .inputs import Inputs, inference_options
from .typed_tasks import typed_outputs

__all__ = ["typed_inference"]

Stores = Mapping[str, Mapping[str, FeatureStore]]


def typed_inference(
    model: torch.nn.Module,
    data: Dataset,
    out: str | os.PathLike[str],
    *,
    node_type: str,
    fanouts: Sequence[int] | None = None,
    feature: str = "x",
    memory: int | str = "2GB",
    device: Any = None,
    num_threads: int | None = None,
    seed: int = 0,
    progress: bool | Callback | None = None,
) -> InferenceReport:
    """Run `model` over all nodes of `node_type` and write one row per node to the `.gd` file `out`.

    A `HeteroSAGE` is run layer by layer over all neighbours: each layer streams the output of the previous one from
    temporary files next to `out`, one per node type. With `fanouts`, which other models require, it runs batch by
    batch over sampled neighbourhoods, as in the evaluation of a run.

    >>> report = typed_inference(load_model("run.npz"), ds, "out.gd", node_type="paper")  # doctest: +SKIP
    """
    begin = time.perf_counter()
    if node_type not in data.nodes:
        known = f"{', '.join(map(repr, data.nodes))}{did_you_mean(node_type, data.nodes)}"
        raise ValueError(f"no node type {node_type!r}, the dataset has {known}")
    if data.nodes[node_type].num_nodes == 0:
        raise ValueError(f"{data.path} has no nodes of type {node_type!r}")
    target = as_target(out, "features", data.files)
    where = as_device("cpu" if device is None else device)
    inputs = Inputs(data, inference_options(model, feature), typed=True)
    with Reporting(progress, "nodes") as callback, evaluating(model):
        job = _Job(model.to(where), data, parse_size(memory), where, num_threads, seed, callback)
        if fanouts is not None:
            rows_read, layers = job.sampled(inputs, node_type, fanouts, Path(target)), len(fanouts)
        elif isinstance(model, HeteroSAGE):
            rows_read, layers = job.layer_by_layer(model, inputs, feature, node_type, Path(target)), model.num_layers
        else:
            raise ValueError(f"{type(model).__name__} cannot run layer by layer; pass fanouts=, one number per hop")
    return InferenceReport.of(os.fspath(out), layers, rows_read, begin)


@dataclass(frozen=True)
class _Job:
    model: torch.nn.Module
    data: Dataset
    budget: int
    device: torch.device
    num_threads: int | None
    seed: int
    progress: Callback | None

    def sampled(self, inputs: Inputs, node_type: str, fanouts: Sequence[int], out: Path) -> int:
        """Write the outputs batch by batch; return the number of rows read."""

        def outputs(batch: Any) -> Tensor:
            return typed_outputs(self.model, inputs, batch)[node_type]

        loader = self._loader(inputs, inputs.stores, node_type, fanouts)
        return self._write(loader, node_type, outputs, out, node_type)

    def layer_by_layer(self, model: HeteroSAGE, inputs: Inputs, feature: str, node_type: str, out: Path) -> int:
        """Write the output of each layer for all types that the next one needs; return the number of rows read."""
        rows_read = 0
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            encoded = encoded_stores(inputs, model, folder, self.device, feature)
            plain = {name: of for name, of in inputs.stores.items() if of and name not in inputs.specs}
            stores: Stores = plain | {name: {feature: store} for name, store in encoded.items()}
            for layer, types in enumerate(model.needed(node_type)):
                after: dict[str, dict[str, FeatureStore]] = {}
                for number, name in enumerate(model.node_types):
                    if name not in types or self.data.nodes[name].num_nodes == 0:
                        continue
                    last = layer + 1 == model.num_layers
                    path = out if last else Path(folder, f"layer{layer}-type{number}.gd")

                    def outputs(batch: Any, layer: int = layer, name: str = name) -> Tensor:
                        counts = {t: batch[t].num_nodes for t in batch.node_types}
                        x = {name: model_rows(model, rows) for name, rows in batch.collect(feature).items()}
                        edges = batch.collect("edge_index")
                        edge_rows = inputs.edge_rows(model, batch)
                        return model.one_layer(layer, name, x, edges, counts, batch[name].batch_size, edge_rows)

                    loader = self._loader(inputs, stores, name, [-1])
                    rows_read += self._write(loader, name, outputs, path, f"layer {layer + 1}, {name}")
                    after[name] = {feature: FeatureStore(path)}
                stores = after
        return rows_read

    def _loader(self, inputs: Inputs, stores: Stores, node_type: str, fanouts: Sequence[int]) -> NeighborLoader:
        """All nodes of a type in order, in the largest batches that the budget holds."""
        return inference_loader(
            self.data.hetero,
            stores,
            edge_features=inputs.edge_stores,
            budget=self.budget,
            device=self.device,
            fanouts=list(fanouts),
            input_type=node_type,
            num_threads=self.num_threads,
            seed=self.seed,
            dtype="float32",
        )

    def _write(self, loader: NeighborLoader, node_type: str, outputs: Any, path: Path, title: str) -> int:
        total = self.data.nodes[node_type].num_nodes

        def rows() -> Iterator[npt.NDArray[np.float32]]:
            done = 0
            for batch in loader:
                yield outputs(batch)[: batch[node_type].batch_size].float().cpu().numpy()
                done += batch[node_type].batch_size
                if self.progress is not None:
                    self.progress(title, done, total)

        compile_features(
            rows(),
            path,
            num_nodes=total,
            memory=writer_memory(self.budget),
            num_threads=self.num_threads,
            progress=False,
        )
        return int(loader.stats().rows)
