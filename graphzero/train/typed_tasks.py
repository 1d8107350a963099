"""Learning labels of one node type of a graph of several types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..args.ids import IdArray
from ..args.times import per_second
from ..dataset.dataset import Dataset
from ..dataset.trainable import check_messages, labelled_type
from ..load.epochs import EpochLoader
from ..load.loader import NeighborLoader
from .hetero import HeteroSAGE
from .inputs import Inputs
from .records import TrainOptions
from .seeds import Seeds, node_times, seeds_of_nodes, seeds_of_table, table_of
from .tasks import LabelTask, check_outputs

__all__ = ["TypedNodeTask", "describe_types", "typed_outputs"]


class TypedNodeTask(LabelTask):
    """Learns labels of the nodes of one type."""

    def __init__(self, data: Dataset, options: TrainOptions, device: torch.device) -> None:
        """Find the node type that has labels and splits; check features, splits and labels."""
        self.inputs = Inputs(data, options, typed=True)
        self.table = table_of(data, options)
        cut = options.split_by_time is not None
        self.node_type = (
            self.table.entity if self.table is not None else labelled_type(data, options.node_type, splits=not cut)
        )
        check_messages(data, self.node_type)
        self.node_times: dict[str, IdArray] = {}
        super().__init__(data, options, device)
        self.data, node = data, data.nodes[self.node_type]
        if self.table is not None:
            self.set_target(options.target, self.labels_of_rows(), self.table.num_classes, self.table.kind)
            return
        self.labels = node.label_store
        known = {s: self.labels.gather(self.splits[s].ids) for s in ("train", "valid", "test") if self.size(s)}
        self.set_target(options.target, known, node.num_classes, node.label_kind)

    def _find_splits(self, data: Dataset) -> Mapping[str, Seeds]:
        unit, name = data.time_unit, self.options.time
        self.inputs.set_time_scale(per_second(unit))
        if name is not None:
            self.node_times = times_by_type(data, name)
        if self.table is not None:
            return seeds_of_table(self.table, self.options, unit)
        node = data.nodes[self.node_type]
        times = self.node_times.get(self.node_type)
        if name is not None and times is None:
            found = f"node type {self.node_type!r} does not have; its columns are {list(node.columns)}"
            raise ValueError(f"time is {name!r}, which {found}")
        return seeds_of_nodes(node.splits, lambda: node.labels, times, self.options, unit)

    def make_model(self) -> torch.nn.Module:
        """Make a HeteroSAGE from the rows of all types to classes."""
        return make_hetero(self.data, self.inputs, self.options, self.target.outputs, [self.node_type])

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes, with neighbours of all types."""
        return NeighborLoader(
            self.data.hetero,
            self.inputs.stores,
            edge_features=self.inputs.edge_stores,
            dtype="float32",
            node_time=self.node_times or None,
            **self.seeding(split, {self.node_type: self.labels}, self.node_type),
            **self.loading(split, num_threads, memory),
        )

    def labels_of_seeds(self, batch: Any) -> Tensor:
        """Return the labels of the seeds of a batch."""
        y: Tensor = batch[self.node_type].y
        return y

    def scores_of_seeds(self, model: torch.nn.Module, batch: Any) -> Tensor:
        """Return outputs for the seeds of a batch."""
        seeds = batch[self.node_type]
        out = typed_outputs(model, self.inputs, batch)[self.node_type][: seeds.batch_size]
        check_outputs(out, seeds.batch_size, self.target.outputs)
        return out

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        found = describe_types(self.data, self.inputs)
        return found | {"node_type": self.node_type} | self.describe_target()


def make_hetero(data: Dataset, inputs: Inputs, options: TrainOptions, out_dim: int, targets: list[str]) -> HeteroSAGE:
    """Make the model for graphs of several types."""
    if options.model != "sage":
        raise ValueError(f"model is {options.model!r}, expected 'sage' because {data.path} has several types")
    return HeteroSAGE(
        inputs.widths(),
        data.metadata(),
        options.hidden,
        out_dim,
        targets,
        num_layers=options.layers,
        dropout=options.dropout,
    )


def typed_outputs(model: torch.nn.Module, inputs: Inputs, batch: Any) -> Mapping[str, Tensor]:
    """Run a model on a batch, by node type: returns rows of the seeds, or of all nodes for other models."""
    x: Mapping[str, Tensor] = inputs.rows(model, batch)
    edges = batch.collect("edge_index")
    if not isinstance(model, HeteroSAGE):
        other: Mapping[str, Tensor] = model(x, edges)
        return other
    counts = {name: batch[name].num_nodes for name in batch.node_types}
    sampled = batch.collect("num_sampled_nodes"), batch.collect("num_sampled_edges")
    out: Mapping[str, Tensor] = model(x, edges, counts, *sampled, inputs.edge_rows(model, batch))
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
    return found | ({"inputs": inputs.describe()} if inputs.describe() else {})


def times_by_type(data: Dataset, name: str) -> dict[str, IdArray]:
    """Return the times of the nodes of every type that has such a column or feature."""
    found = {t: node_times(node.features, node.columns, name, data.time_unit) for t, node in data.nodes.items()}
    times = {node_type: own for node_type, own in found.items() if own is not None}
    if not times:
        raise ValueError(f"time is {name!r}, but no node type has a column of times or a feature of this name")
    return times
