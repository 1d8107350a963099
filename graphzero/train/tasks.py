"""The tasks of a run: batches, model, loss and metrics, for labels of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..args.ids import as_ids
from ..args.times import per_second
from ..dataset.dataset import Dataset
from ..dataset.trainable import check_parts, check_splits, standard_splits
from ..dataset.writer import as_labels
from ..load.epochs import EpochLoader
from ..load.loader import NeighborLoader
from .degrees import Degrees
from .inputs import Inputs, plain_type
from .models import SampledModel, make_model
from .readback import Readback
from .records import TrainingData, TrainOptions
from .seeds import Seeds, YOfRows, node_times, seeds_of_nodes, seeds_of_table, table_of
from .sizing import sized
from .targets import Target, kind_of_labels, make_target

__all__ = ["LabelTask", "Meter", "NodeTask", "Step", "Task", "sampled_outputs", "widened"]


class Step(NamedTuple):
    """The result of a training batch: the loss, the number of correct answers, and the number of answers.

    The loss is a mean: `weight` is what its sum was divided by, such as the number of labels that are known.
    """

    loss: Tensor
    right: Tensor
    seeds: int | Tensor
    weight: int | Tensor


class Meter:
    """Accumulates metrics over the batches of an evaluation: `task.scores()` creates them, `task.measure` adds."""

    def __init__(self, task: Task) -> None:
        """Begin with nothing seen."""
        self._task, self._scores = task, task.scores()
        self._waiting: list[Readback] = []  # the values of the last batch

    def add(self, model: torch.nn.Module, batch: Any) -> None:
        """Add a batch. A device computes it while the values of the batch before are counted."""
        values = [Readback(widened(part)) for part in self._task.measure(model, batch)]
        self._count()
        self._waiting = values

    def _count(self) -> None:
        if self._waiting:
            self._scores.add(*(value.wait().numpy() for value in self._waiting))
            self._waiting = []

    def state(self) -> Any:
        """Return the counts, for the other ranks."""
        self._count()
        return self._scores

    def merge(self, states: Sequence[Any]) -> None:
        """Combine the counts of all ranks."""
        self._scores = type(self._scores).merged(states)

    def scores(self) -> dict[str, float]:
        """Return scores by name."""
        found: dict[str, float] = self.state().scores()
        return found

    def confusion(self) -> list[list[int]]:
        """Return counts by true and predicted class; empty where there are no classes."""
        found = self.state()
        return found.confusion() if hasattr(found, "confusion") else []


class Task:
    """The interface of a task to the trainer."""

    inputs: Inputs
    metric = "accuracy"  # the score that selects the best epoch
    baseline: Mapping[str, Mapping[str, float]] = {}  # scores of one answer for all seeds, by split
    rank, world_size = 0, 1  # of the processes that train together
    pads_nodes = False  # batches have few sizes; for models that ignore nodes without edges

    def __init__(self, data: Any, options: TrainOptions, device: torch.device) -> None:
        """Check that the data can be trained on."""
        self.options, self.device = options, device
        self.splits = standard_splits(self._find_splits(data))
        check_splits({split: self.size(split) for split in self.splits})
        self.options = sized(options, self.size("train"))

    def _find_splits(self, data: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = data.splits
        return found

    def size(self, split: str) -> int:
        """The number of seeds of a split; 0 if there is no such split."""
        return len(self.splits[split]) if split in self.splits else 0

    def trained(self) -> int:
        """The number of seeds that are trained on."""
        return self.size("train")

    def batches(self) -> int:
        """The number of batches of a training epoch, over all ranks."""
        return -(-self.size("train") // self.batch_size)

    @property
    def batch_size(self) -> int:
        """Seeds per batch."""
        assert self.options.batch_size is not None
        return self.options.batch_size

    def precision(self) -> AbstractContextManager[None]:
        """Return the context in which models run: autocast to bfloat16, or nothing."""
        if self.options.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def gains_from_padding(self) -> bool:
        """Whether batches of few sizes make training faster: in bfloat16 on a GPU.

        Not by time, where padding could be newer than its seed; nor with embeddings of ids, of which the optimiser
        updates those of all nodes in a batch.
        """
        of_ids = any(spec["kind"] == "ids" or "ids" in spec for spec in self.inputs.specs.values())
        narrow = self.device.type == "cuda" and self.options.precision == "bfloat16"
        return narrow and not of_ids and not self.inputs.timed

    def make_model(self) -> torch.nn.Module:
        """Make the model that the options name."""
        raise NotImplementedError

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return the batches of a split: shuffled for training, in order for evaluation."""
        raise NotImplementedError

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Run the model over a batch."""
        raise NotImplementedError

    def scores(self) -> Any:
        """Return the accumulator of an evaluation."""
        raise NotImplementedError

    def measure(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the values that the metrics of a batch are computed from."""
        raise NotImplementedError

    def meter(self) -> Meter:
        """Return the metrics of an evaluation."""
        return Meter(self)

    def explain_loss(self, batch: Any) -> str:
        """Explain why the loss of a batch is not finite: features that are not finite, or a run that diverged."""
        for name, ids, rows in self.inputs.features_of(batch):
            bad = ids[~torch.isfinite(rows.reshape(len(ids), -1)).all(1)] if len(ids) else ids
            if len(bad):
                shown = ", ".join(map(str, bad[:5].tolist())) + (", ..." if len(bad) > 5 else "")
                return f"{name} has NaN or infinite values in {len(bad)} of {len(ids)} rows of the batch, nodes {shown}"
        return f"the features of the batch are finite, so the run diverged; try a smaller lr (now {self.options.lr})"

    def describe(self) -> dict[str, Any]:
        """Return the size of the data, for the report."""
        raise NotImplementedError

    def learns(self) -> str:
        """Say what is learned."""
        raise NotImplementedError

    def summary(self) -> str:
        """Say in a line what the model sees: inputs, labels, seeds of each split and fanouts."""
        sizes = {split: self.trained() if split == "train" else self.size(split) for split in self.splits}
        seeds = ", ".join(f"{split} {size:,}" for split, size in sizes.items())
        fanouts = ",".join(map(str, self.options.fanouts))
        return f"inputs: {self.inputs.summary()} | {self.learns()} | seeds: {seeds} | fanouts {fanouts}"

    def about(self) -> dict[str, Any]:
        """Describe the task as JSON values for the checkpoint, as predictions need it."""
        return {}

    def loading(self, split: str, num_threads: int, memory: int) -> dict[str, Any]:
        """Return the arguments that all loaders share."""
        options = self.options
        training = split == "train"
        return {
            "fanouts": list(options.fanouts if training else options.eval_fanouts or options.fanouts),
            "batch_size": self.batch_size,
            "shuffle": training,
            "seed": options.seed,
            "memory": memory or "auto",
            "num_threads": num_threads,
            "device": None if self.device.type == "cpu" else self.device,
            "gpu_memory": options.gpu_memory,
            "direction": options.direction,
            "rank": self.rank,
            "world_size": self.world_size,
            "uneven": "pad" if training else "keep",  # in training every rank takes part in every step
            "pad_nodes": self.pads_nodes,
        } | ({} if options.prefetch is None else {"prefetch": options.prefetch})


class LabelTask(Task):
    """Learns labels of nodes: classes, several labels, or numbers."""

    target: Target
    splits: dict[str, Seeds]
    table: Any = None  # the task table of the dataset, if the task is one
    labels: Any = None  # of all nodes

    def labels_of_rows(self) -> dict[str, Any]:
        """Return the labels of each split of a task table."""
        names = ("train", "valid", "test")
        return {name: self.splits[name].labels for name in names if self.size(name)}

    def seeding(self, split: str, labels: Any, node_type: str | None = None) -> dict[str, Any]:
        """Return the arguments of a loader that select its seeds."""
        seeds = self.splits[split]
        given = {"seeds": seeds.ids if node_type is None else (node_type, seeds.ids), "time": seeds.times}
        if seeds.labels is None:
            return {**given, "labels": labels}
        return {**given, "transform": YOfRows(seeds.labels, node_type)}

    def scores_of_seeds(self, model: torch.nn.Module, batch: Any) -> Tensor:
        """Return outputs for the seeds of a batch."""
        raise NotImplementedError

    def labels_of_seeds(self, batch: Any) -> Tensor:
        """Return the labels of the seeds of a batch."""
        raise NotImplementedError

    def outputs(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return outputs for the seeds of a batch, and their labels."""
        with self.precision():
            out = self.scores_of_seeds(model, batch)
        return widened(out), self.target.labels(self.labels_of_seeds(batch))

    def set_target(self, asked: str | None, known: Mapping[str, Any], classes: int, kind: str | None = None) -> None:
        """Create the target from the labels of each split."""
        kind = asked or kind or kind_of_labels(known["train"])
        self.target = make_target(self.options, kind, known, classes)
        self.metric = self.target.metric
        found = {split: self.target.baseline(known["train"], labels) for split, labels in known.items()}
        self.baseline = {split: scores for split, scores in found.items() if scores and split != "train"}
        if kind == "classification":
            absent = self.target.outputs - len(np.unique(known["train"]))
            if absent:
                of = f"{absent} of {self.target.outputs} classes {'is' if absent == 1 else 'are'}"
                self.inputs.notes.append(f"{of} not in the training split and cannot be learned")

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Compare outputs with the labels of the seeds."""
        out, y = self.outputs(model, batch)
        return Step(self.target.loss(out, y), self.target.right(out, y), len(out), self.target.weight(y))

    def scores(self) -> Any:
        """Return the metrics of the target."""
        return self.target.scores()

    def measure(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return outputs and labels."""
        out, y = self.outputs(model, batch)
        return self.target.scored(out), y

    def about(self) -> dict[str, Any]:
        """Describe the target."""
        return {"target": self.target.to_dict()}

    def learns(self) -> str:
        """Say what the labels are."""
        said = {"classification": f"{self.target.outputs} classes", "multilabel": f"{self.target.outputs} labels each"}
        return f"labels: {said.get(self.target.kind, 'numbers')}"

    def describe_target(self) -> dict[str, Any]:
        """Describe the target, for the report."""
        found = {"target": self.target.kind, "train_seeds": self.size("train")}
        return found if self.target.kind == "regression" else {**found, "classes": self.target.outputs}


class NodeTask(LabelTask):
    """Learns labels of nodes of a graph of one type."""

    def __init__(self, data: TrainingData, options: TrainOptions, device: torch.device) -> None:
        """Check features, splits and labels."""
        if isinstance(data, Dataset) and options.task == "nodes":
            check_parts(data, splits=options.split_by_time is None)
        self.inputs = Inputs(data, options, typed=False)
        super().__init__(data, options, device)
        self.graph = data.graph
        self.degrees = Degrees(self.graph, options.direction or self.graph.message_direction)
        if self.table is not None:
            self.set_target(options.target, self.labels_of_rows(), self.table.num_classes, self.table.kind)
            return
        labels = np.asarray(data.labels)
        kind = options.target or getattr(data, "label_kind", None) or kind_of_labels(labels)
        labels = as_labels(labels) if kind == "classification" and labels.ndim == 1 else labels
        self.labels = torch.from_numpy(labels if labels.flags.writeable else labels.copy())
        known = {
            split: self.labels[torch.from_numpy(as_ids(self.splits[split].ids, split))].numpy()
            for split in ("train", "valid", "test")
            if self.size(split)
        }
        self.set_target(kind, known, int(getattr(data, "num_classes", 0)))

    def _find_splits(self, data: Any) -> Mapping[str, Seeds]:
        self.table = table_of(data, self.options)
        unit = getattr(data, "time_unit", "s")
        self.inputs.set_time_scale(per_second(unit))
        if self.table is not None:
            return seeds_of_table(self.table, self.options, unit)
        times, name = None, self.options.time
        self.times = times
        if name is not None:
            nodes = next(iter(getattr(data, "nodes", {}).values()), None)
            times = node_times(data.features, {} if nodes is None else nodes.columns, name, unit)
            if times is None:
                raise ValueError(
                    f"time is {name!r}, expected a column of times or one of the features {list(data.features)}"
                )
            self.times = times
        return seeds_of_nodes(data.splits, lambda: data.labels, times, self.options, unit)

    def make_model(self) -> torch.nn.Module:
        """Make a model from the rows of nodes to outputs."""
        options, width = self.options, self.inputs.widths()[plain_type]
        return make_model(options.model, width, options.hidden, self.target.outputs, options.layers, options.dropout)

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's nodes."""
        return NeighborLoader(
            self.graph,
            self.inputs.stores[plain_type],
            dtype="float32",
            **self.seeding(split, self.labels),
            **self.loading(split, num_threads, memory),
        )

    def labels_of_seeds(self, batch: Any) -> Tensor:
        """Return the labels of the seeds of a batch."""
        y: Tensor = batch.y
        return y

    def scores_of_seeds(self, model: torch.nn.Module, batch: Any) -> Tensor:
        """Return outputs for the seeds of a batch."""
        x = self.inputs.rows(model, batch)
        out = sampled_outputs(model, x, batch, self.degrees)[: batch.batch_size]
        if not isinstance(model, SampledModel):
            check_outputs(out, batch.batch_size, self.target.outputs)
        return out

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        return describe_graph(self.graph, self.inputs) | self.describe_target()


def widened(out: Tensor) -> Tensor:
    """Return outputs as float32 if they are narrower: losses and scores are computed in that."""
    return out.float() if out.dtype in (torch.float16, torch.bfloat16) else out


def describe_graph(graph: Any, inputs: Inputs) -> dict[str, Any]:
    """Return the size of a graph of one type and of the arrays of its nodes."""
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


def sampled_outputs(model: torch.nn.Module, x: Tensor, batch: Any, degrees: Degrees) -> Tensor:
    """Run a model on a batch of one type: returns rows of the seeds, or of all nodes for other models."""
    if not isinstance(model, SampledModel):
        other: Tensor = model(x, batch.edge_index)
        return other
    degree = None
    if model.aggregation == "gcn" and "seed_time" not in batch and "edge_label_time" not in batch:
        # A seed with a time must not see how many edges come later: the degrees within the batch are used then.
        degree = degrees.of(batch.n_id)
    out: Tensor = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges, degree)
    return out


def check_outputs(out: Tensor, rows: int, classes: int) -> None:
    """Raise ValueError if a model of the user does not return one row per seed and one column per class."""
    if out.dim() != 2 or len(out) != rows or out.shape[1] < classes:
        expected = f"one row per node with at least {classes} columns"
        raise ValueError(f"the model returned shape {tuple(out.shape)} for {rows} nodes, expected {expected}")
