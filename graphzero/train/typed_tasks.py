"""Learning the classes of one node type of a graph of several types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._epochs import EpochLoader
from .._trainable import check_messages, labelled_type
from ..dataset import Dataset
from ..features import FeatureStore
from ..loader import NeighborLoader
from .hetero import HeteroSAGE
from .records import TrainOptions
from .tasks import Step, Task, check_outputs, count_classes, refuse_codes

__all__ = ["TypedNodeTask", "describe_types", "features_by_type", "typed_inputs", "typed_outputs"]


class TypedNodeTask(Task):
    """Learns the classes of the nodes of one type."""

    def __init__(self, data: Dataset, options: TrainOptions, device: torch.device) -> None:
        """Find the node type that has labels and splits; check features, splits and labels."""
        self.features = features_by_type(data, options)
        self.node_type = labelled_type(data, options.node_type)
        check_messages(data, self.node_type)
        super().__init__(data, options, device)
        self.data, node = data, data.nodes[self.node_type]
        self.labels = node.label_store
        known = {s: self.labels.gather(self.splits[s]) for s in ("train", "valid", "test") if self.size(s)}
        self.num_classes = count_classes(known, node.num_classes)

    def _find_splits(self, data: Dataset) -> Mapping[str, Any]:
        return data.nodes[self.node_type].splits

    def make_model(self) -> torch.nn.Module:
        """Make a HeteroSAGE from the rows of all types to classes."""
        return make_hetero(self.data, self.features, self.options, self.num_classes, [self.node_type])

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes, with neighbours of all types."""
        return NeighborLoader(
            self.data.hetero,
            self.features,
            seeds=(self.node_type, self.splits[split]),
            labels={self.node_type: self.labels},
            dtype="float32",
            **self.loading(split, num_threads, memory),
        )

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Compare outputs with the classes of the seeds."""
        seeds = batch[self.node_type]
        out = typed_outputs(model, batch, self.options.feature)[self.node_type][: seeds.batch_size]
        check_outputs(out, seeds.batch_size, self.num_classes)
        loss = functional.cross_entropy(out, seeds.y)
        return Step(loss, (out.detach().argmax(1) == seeds.y).sum(), seeds.batch_size)

    def inputs(self, batch: Any) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the features of all types."""
        return typed_inputs(batch, self.options.feature)

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        found = describe_types(self.data, self.features)
        return found | {
            "node_type": self.node_type,
            "classes": self.num_classes,
            "train_seeds": self.size("train"),
        }


def features_by_type(data: Dataset, options: TrainOptions) -> dict[str, dict[str, FeatureStore]]:
    """Return the features that the options name, of the node types that have them."""
    name = options.feature
    found = {t: {name: node.features[name]} for t, node in data.nodes.items() if name in node.features}
    if not found:
        known = {t: list(node.features) for t, node in data.nodes.items()}
        raise KeyError(f"no feature {name!r} in the dataset, its node types have {known}")
    for node_type in found:
        refuse_codes(data, name, node_type)
    return found


def make_hetero(data: Dataset, features: Any, options: TrainOptions, out_dim: int, targets: list[str]) -> HeteroSAGE:
    """Make the model for graphs of several types."""
    if options.model != "sage":
        raise ValueError(f"model is {options.model!r}, expected 'sage': {data.path} has several types")
    widths = {name: store[options.feature].feature_dim for name, store in features.items()}
    return HeteroSAGE(
        widths, data.metadata(), options.hidden, out_dim, targets, num_layers=options.layers, dropout=options.dropout
    )


def typed_outputs(model: torch.nn.Module, batch: Any, feature: str) -> Mapping[str, Tensor]:
    """Return what a model makes of a batch, by node type: rows of the seeds, for other models of all nodes."""
    x, edges = batch.collect(feature), batch.collect("edge_index")
    if not isinstance(model, HeteroSAGE):
        other: Mapping[str, Tensor] = model(x, edges)
        return other
    counts = {name: batch[name].num_nodes for name in batch.node_types}
    sampled = batch.collect("num_sampled_nodes"), batch.collect("num_sampled_edges")
    out: Mapping[str, Tensor] = model(x, edges, counts, *sampled)
    return out


def typed_inputs(batch: Any, feature: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the features of a batch of several types, as `Task.inputs`."""
    for name, rows in batch.collect(feature).items():
        yield f"feature {feature!r} of {name!r}", batch[name].n_id, rows


def describe_types(data: Dataset, features: Mapping[str, Mapping[str, FeatureStore]]) -> dict[str, Any]:
    """Return the size of the data, over all types and by type."""
    stores = {name: next(iter(of.values())) for name, of in features.items()}
    return {
        "nodes": sum(node.num_nodes for node in data.nodes.values()),
        "edges": sum(edge.num_edges for edge in data.edges.values()),
        "node_types": {name: node.num_nodes for name, node in data.nodes.items()},
        "edge_types": {"__".join(key): edge.num_edges for key, edge in data.edges.items()},
        "features": {name: list(store.shape) for name, store in stores.items()},
        "dtype": ", ".join(sorted({store.dtype_name for store in stores.values()})),
        "topology_bytes": sum(int(edge.graph.info["file_bytes"]) for edge in data.edges.values()),
        "feature_bytes": sum(int(store.info["file_bytes"]) for store in stores.values()),
    }
