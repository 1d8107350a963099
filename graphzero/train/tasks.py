"""What a run learns: the classes of nodes of one type; which batches, which model, which loss and which scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .._epochs import EpochLoader
from .._ids import as_ids
from ..loader import NeighborLoader
from .inputs import Inputs, plain_type
from .models import SampledModel, make_model
from .records import TrainingData, TrainOptions

__all__ = ["Meter", "NodeTask", "Step", "Task", "sampled_outputs"]


class Step(NamedTuple):
    """What a model made of a training batch: the loss, how many answers are right, and of how many."""

    loss: Tensor
    right: Tensor
    seeds: int


class Meter:
    """Counts right answers over the batches of an evaluation."""

    def __init__(self, task: Task) -> None:
        """Begin with nothing seen."""
        self._task = task
        self._right = self._seen = 0

    def add(self, model: torch.nn.Module, batch: Any) -> None:
        """Take in a batch."""
        _, right, seeds = self._task.step(model, batch)
        self._right += int(right)
        self._seen += seeds

    def state(self) -> Any:
        """Return what was counted, for the other ranks."""
        return self._right, self._seen

    def merge(self, states: Sequence[Any]) -> None:
        """Take over what all ranks have counted."""
        self._right, self._seen = (sum(state[i] for state in states) for i in range(2))

    def scores(self) -> dict[str, float]:
        """Return scores by name; "accuracy" is always there."""
        return {"accuracy": self._right / max(self._seen, 1)}


class Task:
    """What the trainer asks of a kind of learning."""

    inputs: Inputs
    metric = "accuracy"  # which score says what the best epoch is
    rank, world_size = 0, 1  # of the processes that train together

    def __init__(self, data: Any, options: TrainOptions, device: torch.device) -> None:
        """Check that the data can be trained on."""
        self.options, self.device = options, device
        self.splits = self._find_splits(data)
        self.valid = "val" if "val" in self.splits and "valid" not in self.splits else "valid"
        for split in ("train", self.valid):
            if split not in self.splits or self.size(split) == 0:
                raise ValueError(f"the dataset has no {split!r} split, which training needs")

    def _find_splits(self, data: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = data.splits
        return found

    def size(self, split: str) -> int:
        """How many seeds a split has; 0 where there is no such split."""
        return len(self.splits[split]) if split in self.splits else 0

    def batches(self) -> int:
        """How many batches an epoch of training has, over all ranks."""
        return -(-self.size("train") // self.options.batch_size)

    def make_model(self) -> torch.nn.Module:
        """Make the model that the options name."""
        raise NotImplementedError

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return the batches of a split: shuffled for training, in order for evaluation."""
        raise NotImplementedError

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Run the model over a batch."""
        raise NotImplementedError

    def meter(self) -> Meter:
        """Return what counts over an evaluation."""
        return Meter(self)

    def suspects(self, batch: Any) -> str:
        """Say where to look when the loss of a batch is not a number."""
        return f"look at the features of the seeds {batch.n_id[:3].tolist()}..."

    def describe(self) -> dict[str, Any]:
        """Return the size of the data, for the report."""
        raise NotImplementedError

    def loading(self, split: str, num_threads: int, memory: int) -> dict[str, Any]:
        """Return the arguments that all loaders share."""
        options = self.options
        training = split == "train"
        return {
            "fanouts": list(options.fanouts if training else options.eval_fanouts or options.fanouts),
            "batch_size": options.batch_size,
            "shuffle": training,
            "seed": options.seed,
            "memory": memory or "auto",
            "num_threads": num_threads,
            "device": None if self.device.type == "cpu" else self.device,
            "direction": options.direction,
            "rank": self.rank,
            "world_size": self.world_size,
            "uneven": "pad" if training else "keep",  # in training every rank takes part in every step
        } | ({} if options.prefetch is None else {"prefetch": options.prefetch})


class NodeTask(Task):
    """Learns the classes of nodes of a graph of one type."""

    def __init__(self, data: TrainingData, options: TrainOptions, device: torch.device) -> None:
        """Check features, splits and labels."""
        self.inputs = Inputs(data, options, typed=False)
        super().__init__(data, options, device)
        self.graph = data.graph
        self.labels = torch.from_numpy(np.asarray(data.labels, dtype=np.int64).reshape(-1))
        known = {
            split: self.labels[torch.from_numpy(as_ids(self.splits[split], split))].numpy()
            for split in ("train", self.valid, "test")
            if self.size(split)
        }
        self.num_classes = count_classes(known, int(getattr(data, "num_classes", 0)))

    def make_model(self) -> torch.nn.Module:
        """Make a model from the rows of nodes to classes."""
        options, width = self.options, self.inputs.widths()[plain_type]
        return make_model(options.model, width, options.hidden, self.num_classes, options.layers, options.dropout)

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes."""
        return NeighborLoader(
            self.graph,
            self.inputs.stores[plain_type],
            seeds=self.splits[split],
            labels=self.labels,
            dtype="float32",
            **self.loading(split, num_threads, memory),
        )

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Compare outputs with the classes of the seeds."""
        x = self.inputs.rows(model, batch)
        out = sampled_outputs(model, x, batch, self.graph, self.options)[: batch.batch_size]
        if not isinstance(model, SampledModel):
            check_outputs(out, batch.batch_size, self.num_classes)
        loss = functional.cross_entropy(out, batch.y)
        return Step(loss, (out.detach().argmax(1) == batch.y).sum(), batch.batch_size)

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        return describe_graph(self.graph, self.inputs) | {
            "classes": self.num_classes,
            "train_seeds": self.size("train"),
        }


def describe_graph(graph: Any, inputs: Inputs) -> dict[str, Any]:
    """Return the size of a graph of one type and of what is read for its nodes."""
    stores = list(inputs.stores[plain_type].values())
    found = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": list(stores[0].shape) if stores else [graph.num_nodes, 0],
        "dtype": ", ".join(dict.fromkeys(store.dtype_name for store in stores)),
        "topology_bytes": graph.info["file_bytes"],
        "feature_bytes": sum(int(store.info["file_bytes"]) for store in stores),
    }
    return found | ({"inputs": inputs.describe()} if inputs.specs else {})


def sampled_outputs(model: torch.nn.Module, x: Tensor, batch: Any, graph: Any, options: TrainOptions) -> Tensor:
    """Return what a model makes of a batch of one type: rows of the seeds, for other models of all nodes."""
    if not isinstance(model, SampledModel):
        other: Tensor = model(x if x.is_floating_point() else x.float(), batch.edge_index)
        return other
    degree = None
    if model.aggregation == "gcn":
        degrees = graph.degrees(batch.n_id, direction=options.direction or graph.message_direction)
        degree = torch.from_numpy(degrees).to(x.device)
    out: Tensor = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges, degree)
    return out


def check_outputs(out: Tensor, rows: int, classes: int) -> None:
    """Raise ValueError when a model of the user's own does not return a row a seed and a column a class."""
    if out.dim() != 2 or len(out) != rows or out.shape[1] < classes:
        expected = f"a row for each node with at least {classes} columns, one a class"
        raise ValueError(f"the model returned shape {tuple(out.shape)} for {rows} nodes, expected {expected}")


def count_classes(known: Mapping[str, Any], at_least: int) -> int:
    """Return the number of classes, once every label that training and evaluation will meet has been looked at."""
    least, most = 0, -1
    for labels in known.values():
        least, most = min(least, int(labels.min())), max(most, int(labels.max()))
    if least < 0:
        raise ValueError(f"a node of the splits has the label {least}, expected classes from 0 up")
    classes = max(at_least, most + 1)
    if classes < 2:
        raise ValueError(f"the labels tell {classes} classes apart, expected at least 2")
    return classes
