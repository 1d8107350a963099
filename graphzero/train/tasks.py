"""What a run learns: the classes of nodes of one type; which batches, which model, which loss and which scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .._epochs import EpochLoader
from .._ids import as_ids
from .._trainable import check_splits, standard_splits
from ..loader import NeighborLoader
from .models import SampledModel, make_model
from .records import TrainingData, TrainOptions

__all__ = ["Meter", "NodeTask", "Step", "Task", "sampled_outputs"]

WIDENED = ("float16", "bfloat16", "int8")


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

    metric = "accuracy"  # which score says what the best epoch is
    rank, world_size = 0, 1  # of the processes that train together

    def __init__(self, data: Any, options: TrainOptions, device: torch.device) -> None:
        """Check that the data can be trained on."""
        self.options, self.device = options, device
        self.splits = standard_splits(self._find_splits(data))
        check_splits({split: self.size(split) for split in self.splits})

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

    def inputs(self, batch: Any) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield what the model got of a batch: the name of a feature array, the ids of its nodes, and their rows."""
        yield f"feature {self.options.feature!r}", batch.n_id, batch.x

    def explain_loss(self, batch: Any) -> str:
        """Say why the loss of a batch is not finite: rows that are not, or else a run that diverged."""
        for name, ids, rows in self.inputs(batch):
            bad = ids[~torch.isfinite(rows.reshape(len(ids), -1)).all(1)] if len(ids) else ids
            if len(bad):
                shown = ", ".join(map(str, bad[:5].tolist())) + (", ..." if len(bad) > 5 else "")
                return f"{name} has NaN or infinite values in {len(bad)} of {len(ids)} rows of the batch, nodes {shown}"
        return f"the features of the batch are finite, so the run diverged; try a smaller lr (now {self.options.lr})"

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
        self.features = feature_of(data, options)
        super().__init__(data, options, device)
        self.graph = data.graph
        self.labels = torch.from_numpy(np.asarray(data.labels, dtype=np.int64).reshape(-1))
        known = {
            split: self.labels[torch.from_numpy(as_ids(self.splits[split], split))].numpy()
            for split in ("train", "valid", "test")
            if self.size(split)
        }
        self.num_classes = count_classes(known, int(getattr(data, "num_classes", 0)))

    def make_model(self) -> torch.nn.Module:
        """Make a model from the rows of nodes to classes."""
        options, width = self.options, self.features.feature_dim
        return make_model(options.model, width, options.hidden, self.num_classes, options.layers, options.dropout)

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes."""
        return NeighborLoader(
            self.graph,
            self.features,
            seeds=self.splits[split],
            labels=self.labels,
            dtype="float32" if self.features.dtype_name in WIDENED else None,
            **self.loading(split, num_threads, memory),
        )

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Compare outputs with the classes of the seeds."""
        out = sampled_outputs(model, batch, self.graph, self.options)[: batch.batch_size]
        if not isinstance(model, SampledModel):
            check_outputs(out, batch.batch_size, self.num_classes)
        loss = functional.cross_entropy(out, batch.y)
        return Step(loss, (out.detach().argmax(1) == batch.y).sum(), batch.batch_size)

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        return {
            "nodes": self.graph.num_nodes,
            "edges": self.graph.num_edges,
            "features": list(self.features.shape),
            "dtype": self.features.dtype_name,
            "classes": self.num_classes,
            "topology_bytes": self.graph.info["file_bytes"],
            "feature_bytes": self.features.info["file_bytes"],
            "train_seeds": self.size("train"),
        }


def feature_of(data: TrainingData, options: TrainOptions) -> Any:
    """Return the features that the options name."""
    if options.feature not in data.features:
        known = ", ".join(map(repr, data.features))
        has = f"it has {known}; choose one with feature=" if known else "it has no node features; import with features="
        raise KeyError(f"no feature {options.feature!r} in the dataset: {has}")
    refuse_codes(data, options.feature)
    return data.features[options.feature]


def refuse_codes(data: Any, feature: str, node_type: str | None = None) -> None:
    """Refuse a feature of category codes: as numbers they mean nothing, and -1 means missing."""
    about = getattr(data, "info", {}).get("about", {})
    codes = about.get("categories", {})
    names = codes.get(node_type, {}) if node_type is not None else codes
    if feature in names:
        raise ValueError(
            f"feature {feature!r} holds category codes, -1 for missing, and models take numbers; embed them, for "
            "example by torch.nn.Embedding(n + 1, d, padding_idx=0)(codes + 1), or train on another feature"
        )


def sampled_outputs(model: torch.nn.Module, batch: Any, graph: Any, options: TrainOptions) -> Tensor:
    """Return what a model makes of a batch of one type: rows of the seeds, for other models of all nodes."""
    if not isinstance(model, SampledModel):
        other: Tensor = model(batch.x if batch.x.is_floating_point() else batch.x.float(), batch.edge_index)
        return other
    degree = None
    if model.aggregation == "gcn":
        degrees = graph.degrees(batch.n_id, direction=options.direction or graph.message_direction)
        degree = torch.from_numpy(degrees).to(batch.x.device)
    out: Tensor = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges, degree)
    return out


def check_outputs(out: Tensor, rows: int, classes: int) -> None:
    """Raise ValueError when a model of the user's own does not return a row a seed and a column a class."""
    if out.dim() != 2 or len(out) != rows or out.shape[1] < classes:
        expected = f"a row for each node with at least {classes} columns, one a class"
        raise ValueError(f"the model returned shape {tuple(out.shape)} for {rows} nodes, expected {expected}")


def count_classes(known: Mapping[str, Any], at_least: int) -> int:
    """Return the number of classes, once every label that training and evaluation will meet has been looked at."""
    most = -1
    for split, labels in known.items():
        if int(labels.min()) < 0:
            missing = int((labels < 0).sum())
            raise ValueError(
                f"{missing} nodes of the split {split!r} have the label {int(labels.min())}, which means missing; "
                "leave nodes without a label out of the split"
            )
        most = max(most, int(labels.max()))
    classes = max(at_least, most + 1)
    if classes < 2:
        raise ValueError(f"found {classes} class{'es' * (classes != 1)}; need at least 2")
    return classes
