"""Learning labels of one node type of a graph of several types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .._epochs import EpochLoader
from ..dataset import Dataset
from ..loader import NeighborLoader
from .hetero import HeteroSAGE
from .inputs import Inputs
from .records import TrainOptions
from .tasks import LabelTask, check_outputs

__all__ = ["TypedNodeTask", "describe_types", "typed_outputs"]


class TypedNodeTask(LabelTask):
    """Learns labels of the nodes of one type."""

    def __init__(self, data: Dataset, options: TrainOptions, device: torch.device) -> None:
        """Find the node type that has labels and splits; check features, splits and labels."""
        self.inputs = Inputs(data, options, typed=True)
        self.node_type = _labelled_type(data, options.node_type)
        super().__init__(data, options, device)
        self.data, node = data, data.nodes[self.node_type]
        self.labels = node.label_store
        known = {s: self.labels.gather(self.splits[s]) for s in ("train", self.valid, "test") if self.size(s)}
        self.set_target(options.target, known, node.num_classes, node.label_kind)

    def _find_splits(self, data: Dataset) -> Mapping[str, Any]:
        return data.nodes[self.node_type].splits

    def make_model(self) -> torch.nn.Module:
        """Make a HeteroSAGE from the rows of all types to classes."""
        return make_hetero(self.data, self.inputs, self.options, self.target.outputs, [self.node_type])

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes, with neighbours of all types."""
        return NeighborLoader(
            self.data.hetero,
            self.inputs.stores,
            seeds=(self.node_type, self.splits[split]),
            labels={self.node_type: self.labels},
            dtype="float32",
            **self.loading(split, num_threads, memory),
        )

    def outputs(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return outputs for the seeds of a batch, and their labels."""
        seeds = batch[self.node_type]
        out = typed_outputs(model, self.inputs.rows(model, batch), batch)[self.node_type][: seeds.batch_size]
        check_outputs(out, seeds.batch_size, self.target.outputs)
        return out, self.target.labels(seeds.y)

    def suspects(self, batch: Any) -> str:
        """Name some seeds."""
        return f"look at the features of the {self.node_type!r} nodes {batch[self.node_type].n_id[:3].tolist()}..."

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        found = describe_types(self.data, self.inputs)
        return found | {"node_type": self.node_type} | self.describe_target()


def make_hetero(data: Dataset, inputs: Inputs, options: TrainOptions, out_dim: int, targets: list[str]) -> HeteroSAGE:
    """Make the model for graphs of several types."""
    if options.model != "sage":
        raise ValueError(f"model is {options.model!r}, expected 'sage': {data.path} has several types")
    return HeteroSAGE(
        inputs.widths(),
        data.metadata(),
        options.hidden,
        out_dim,
        targets,
        num_layers=options.layers,
        dropout=options.dropout,
    )


def typed_outputs(model: torch.nn.Module, x: Mapping[str, Tensor], batch: Any) -> Mapping[str, Tensor]:
    """Return what a model makes of a batch, by node type: rows of the seeds, for other models of all nodes."""
    edges = batch.collect("edge_index")
    if not isinstance(model, HeteroSAGE):
        other: Mapping[str, Tensor] = model(x, edges)
        return other
    counts = {name: batch[name].num_nodes for name in batch.node_types}
    sampled = batch.collect("num_sampled_nodes"), batch.collect("num_sampled_edges")
    out: Mapping[str, Tensor] = model(x, edges, counts, *sampled)
    return out


def describe_types(data: Dataset, inputs: Inputs) -> dict[str, Any]:
    """Return the size of the data, over all types and by type."""
    stores = {name: next(iter(of.values())) for name, of in inputs.stores.items() if of}
    every = [store for of in inputs.stores.values() for store in of.values()]
    found = {
        "nodes": sum(node.num_nodes for node in data.nodes.values()),
        "edges": sum(edge.num_edges for edge in data.edges.values()),
        "node_types": {name: node.num_nodes for name, node in data.nodes.items()},
        "edge_types": {"__".join(key): edge.num_edges for key, edge in data.edges.items()},
        "features": {name: list(store.shape) for name, store in stores.items()},
        "dtype": ", ".join(sorted({store.dtype_name for store in every})),
        "topology_bytes": sum(int(edge.graph.info["file_bytes"]) for edge in data.edges.values()),
        "feature_bytes": sum(int(store.info["file_bytes"]) for store in every),
    }
    return found | ({"inputs": inputs.describe()} if inputs.specs else {})


def _labelled_type(data: Dataset, asked: str | None) -> str:
    """Return the node type to learn: that with labels and splits, or the one asked for."""
    able = [name for name, node in data.nodes.items() if node.num_classes and node.splits]
    listed = ", ".join(map(repr, able)) or "none"
    if asked is not None and asked not in able:
        raise ValueError(f"node_type is {asked!r}; node types with labels and splits: {listed}")
    if asked is None and len(able) != 1:
        raise ValueError(
            f"node types with labels and splits: {listed}; expected one, or node_type= (--node-type) to choose"
        )
    return asked or able[0]
