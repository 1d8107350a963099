"""The options and the results of a training run."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..args.html_table import html_table
from ..args.progress import duration
from ..args.sizes import format_size, parse_size
from ..args.suggest import did_you_mean
from ..machine.monitor import MemorySample

if TYPE_CHECKING:
    import torch

    from ..stores.features import FeatureStore
    from ..stores.graph import Graph

__all__ = ["EpochRecord", "Observer", "Stopped", "TrainOptions", "TrainResult", "TrainingData"]

Stopped = Literal["finished", "patience", "interrupted"]
_LARGEST_LR = 10
TARGETS = ("classification", "regression", "multilabel")
PRECISIONS = ("float32", "bfloat16")


class TrainingData(Protocol):
    """What training needs; `gz.Dataset` has it."""

    @property
    def graph(self) -> Graph:
        """The topology."""

    @property
    def features(self) -> Mapping[str, FeatureStore]:
        """Node features by name."""

    @property
    def labels(self) -> Any:
        """One class per node, negative where unknown; or one number or one row of labels per node."""

    @property
    def splits(self) -> Mapping[str, Any]:
        """Node ids under "train", "valid" and, optionally, "test"; names such as "val" and "testing" are accepted."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """All options of a run: two runs with equal options and equal data give equal results.

    `fanouts` has one number per layer, nearest hop first; `eval_fanouts` the same for validation and test (None: the
    same as `fanouts`; -1: all neighbours). `memory` is the budget of the loaders, which take turns, so that each may
    use all of it; "auto" uses the available memory, less a reserve for the model. `gpu_memory` is what a GPU may keep
    rows in; "auto" uses what training leaves free there. `batch_size`, `epochs` and `lr` of
    None are chosen by the number of training seeds. `patience` stops the run after this many epochs without
    improvement; None is chosen with `epochs`, and no limit where those are given. `dropout` applies to the hidden
    layers and to encoded columns. `device` None is the GPU if available. `direction` is "in" to sample along edges that
    end at a node, "out" along edges that start at it; None is "in" if the file has that direction. `precision`
    "bfloat16" runs the model in `torch.autocast`; weights, losses and predictions stay float32.

    `task` is "nodes" for node labels, "links" for link prediction, or the name of a task of the dataset. `node_type`
    is the type whose labels are learned, where a dataset has several types with labels; `edge_type` (source, relation,
    target) the type whose edges are learned. In evaluation, each edge is ranked among `eval_negatives` others.

    `table_encoder` is "sum" or "attention": how the columns of a table become one vector. Node types without features
    and columns get a learned embedding per node as long as these take at most `id_embedding_memory`, else degrees.
    `id_embeddings` names types that get one in addition to their features or columns, which may not tell nodes apart.

    `target` is "classification", "regression" or "multilabel"; None infers it from the labels. `loss` of a regression
    is "mse" or "mae". `class_weights` is "balanced", or one number per class. `metric` is the score that selects the
    best epoch.

    `time` names a column or feature with the time of each node ("edges" for links: the times of edges); edges and
    nodes newer than a seed are then not sampled for it. `split_by_time` replaces the splits: "70/15/15", oldest first,
    or the dates at which validation and test begin, "2023-01-01/2023-07-01".

    >>> TrainOptions(fanouts=[15, 10, 5]).layers
    3
    """

    model: str = "sage"
    hidden: int = 128
    fanouts: Sequence[int] = (15, 10)
    eval_fanouts: Sequence[int] | None = None
    dropout: float = 0.5
    batch_size: int | None = None
    epochs: int | None = None
    lr: float | None = None
    weight_decay: float = 0.0
    patience: int | None = None
    memory: int | str = "auto"
    gpu_memory: int | str = 0
    prefetch: int | None = None
    num_threads: int | None = None
    device: str | None = None
    feature: str = "x"
    direction: str | None = None
    precision: str = "float32"
    seed: int = 0
    task: str = "nodes"
    node_type: str | None = None
    edge_type: Sequence[str] | None = None
    eval_negatives: int = 20
    table_encoder: str = "sum"
    id_embedding_memory: int | str = "256MB"
    id_embeddings: Sequence[str] = ()
    target: str | None = None
    loss: str = "mse"
    class_weights: str | Sequence[float] | None = None
    metric: str | None = None
    time: str | None = None
    split_by_time: str | None = None

    def __post_init__(self) -> None:
        """Check the options, before anything is opened."""
        for name, least in (("hidden", 1), ("batch_size", 1), ("epochs", 1), ("prefetch", 1), ("eval_negatives", 1)):
            if getattr(self, name) is not None and getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {least}")
        if not self.fanouts:
            raise ValueError("fanouts is empty, expected one number per layer, such as [15, 10]")
        if self.eval_fanouts is not None and len(self.eval_fanouts) != len(self.fanouts):
            found = f"{len(self.eval_fanouts)} numbers, fanouts has {len(self.fanouts)}"
            raise ValueError(f"eval_fanouts has {found}; lengths must match")
        for fanout in [*self.fanouts, *(self.eval_fanouts or ())]:
            if fanout == 0 or fanout < -1:
                raise ValueError(f"fanouts has the entry {fanout}, expected a positive number or -1 for all neighbours")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, expected 0 <= dropout < 1")
        if self.lr is not None and not 0 < self.lr <= _LARGEST_LR:
            raise ValueError(f"lr is {self.lr:g}, expected more than 0 and at most {_LARGEST_LR} (Adam: 0.0001 to 0.1)")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay is {self.weight_decay:g}, expected a finite number of at least 0")
        if self.direction not in (None, "in", "out"):
            raise ValueError(f"direction is {self.direction!r}, expected 'in', 'out' or None")
        if self.precision not in PRECISIONS:
            known = f"{' or '.join(map(repr, PRECISIONS))}{did_you_mean(self.precision, PRECISIONS)}"
            raise ValueError(f"precision is {self.precision!r}, expected {known}")
        if not isinstance(self.task, str) or not self.task:
            raise ValueError(f"task is {self.task!r}, expected 'nodes', 'links' or the name of a task of the dataset")
        if self.edge_type is not None and (isinstance(self.edge_type, str) or len(self.edge_type) != 3):
            raise ValueError(f"edge_type is {self.edge_type!r}, expected (source type, relation, target type)")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}, expected at least 1 epoch")
        if self.memory != "auto":
            parse_size(self.memory)
        if self.gpu_memory not in ("auto", 0, "0") or isinstance(self.gpu_memory, bool):
            parse_size(self.gpu_memory, "gpu_memory")
        if self.table_encoder not in ("sum", "attention"):
            raise ValueError(f"table_encoder is {self.table_encoder!r}, expected 'sum' or 'attention'")
        try:
            parse_size(self.id_embedding_memory)
        except ValueError:
            size = "expected a size such as '256MB'"
            raise ValueError(f"id_embedding_memory is {self.id_embedding_memory!r}, {size}") from None
        if isinstance(self.id_embeddings, str):
            raise ValueError(f"id_embeddings is {self.id_embeddings!r}, expected a list of node types")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed is {self.seed}, expected 0 to 2^64 - 1")
        if self.target not in (None, *TARGETS):
            known = f"{', '.join(map(repr, TARGETS))}{did_you_mean(self.target, TARGETS)}"
            raise ValueError(f"target is {self.target!r}, expected one of {known}")
        if self.loss not in ("mse", "mae"):
            raise ValueError(f"loss is {self.loss!r}, expected 'mse' or 'mae'")
        if isinstance(self.class_weights, str) and self.class_weights != "balanced":
            raise ValueError(f"class_weights is {self.class_weights!r}, expected 'balanced' or one number per class")
        weights = () if self.class_weights is None or isinstance(self.class_weights, str) else self.class_weights
        if weights and not (all(0 <= weight < math.inf for weight in weights) and any(weights)):
            raise ValueError(f"class_weights is {list(weights)}, expected numbers of at least 0 that are not all 0")

    @property
    def layers(self) -> int:
        """The number of layers of the model, one per hop."""
        return len(self.fanouts)

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON values."""
        values = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in values.items()}

    def defining(self) -> dict[str, Any]:
        """The options that must be the same in a resumed run; the others may change."""
        free = {"epochs", "patience", "memory", "gpu_memory", "prefetch", "num_threads", "device"}
        return {k: v for k, v in self.to_dict().items() if k not in free}


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """The scores, the speed and the time per stage of one epoch."""

    epoch: int
    loss: float
    train_accuracy: float | None  # None where there are no classes
    val_accuracy: float | None
    batches: int
    seeds: int
    seconds: float
    eval_seconds: float
    stages: dict[str, float]
    bytes_read: int
    bytes_useful: int
    hit_rate: float
    bottleneck: str
    metrics: dict[str, float] = field(default_factory=dict)  # other scores of the validation split
    topology_bytes_read: int = 0
    device_bytes: int = 0  # copied to a GPU
    kept_bytes: int = 0  # of rows that a GPU had
    metric: str = "accuracy"  # the score that selects the best epoch

    def score(self, metric: str | None = None) -> float:
        """A score of the validation split by name; by default the one that selects the best epoch."""
        return self.metrics.get(metric or self.metric, self.val_accuracy or 0.0)

    @property
    def seeds_per_second(self) -> float:
        """Training nodes per second, without evaluation."""
        return self.seeds / self.seconds if self.seconds > 0 else 0.0


@dataclass(kw_only=True)
class TrainResult:
    """The result of a run. `model` has the weights of the best epoch.

    `baseline` has the scores that a model should exceed: the accuracy of always answering the largest class of the
    training split, or the errors of always answering its mean, on the splits "valid" and "test".
    """

    model: torch.nn.Module = field(repr=False)
    options: TrainOptions
    epochs: list[EpochRecord]
    best_epoch: int
    val_accuracy: float | None
    test_accuracy: float | None
    stopped: Stopped
    seconds: float
    peak_anonymous: int
    data: dict[str, Any]
    checkpoint: str | None = None
    memory: list[MemorySample] = field(default_factory=list, repr=False)
    progress: list[tuple[float, int]] = field(default_factory=list, repr=False)
    metric: str = "accuracy"  # the score that selected the best epoch
    val_metrics: dict[str, float] = field(default_factory=dict)
    test_metrics: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict, repr=False)  # dataset, date, command, versions, machine
    baseline: dict[str, dict[str, float]] = field(default_factory=dict)  # scores of one answer for all seeds, by split
    confusion: dict[str, Any] = field(default_factory=dict, repr=False)  # "split", "classes", "counts" by true class

    @property
    def val_score(self) -> float:
        """The score of the best epoch that `metric` names."""
        return self.val_metrics.get(self.metric, self.val_accuracy or 0.0)

    @property
    def test_score(self) -> float | None:
        """The same of the test split; None where it was not evaluated."""
        return self.test_metrics.get(self.metric, self.test_accuracy)

    @property
    def own_baseline(self) -> dict[str, float]:
        """The baseline of the split whose scores count: test, or validation if test was not evaluated."""
        return self.baseline.get("valid" if self.test_score is None else "test", {})

    @property
    def seeds_per_second(self) -> float:
        """Training nodes per second over the whole run, without evaluation."""
        seconds = sum(e.seconds for e in self.epochs)
        return sum(e.seeds for e in self.epochs) / seconds if seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, without the weights and the samples over time."""
        return {
            "options": self.options.to_dict(),
            "data": self.data,
            "epochs": [{**dataclasses.asdict(e), "seeds_per_second": e.seeds_per_second} for e in self.epochs],
            "best_epoch": self.best_epoch,
            "val_accuracy": self.val_accuracy,
            "test_accuracy": self.test_accuracy,
            "metric": self.metric,
            "val_metrics": self.val_metrics,
            "test_metrics": self.test_metrics,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "seeds_per_second": self.seeds_per_second,
            "peak_anonymous": self.peak_anonymous,
            "checkpoint": self.checkpoint,
            "facts": self.facts,
            "baseline": self.baseline,
            "confusion": self.confusion,
        }

    def _repr_html_(self) -> str:
        """Return a table of the scores, for notebooks."""
        scores = {"accuracy": self.test_accuracy, **self.test_metrics}
        rows = [(f"test {name}", f"{score:.4f}") for name, score in scores.items() if score is not None]
        if self.epochs:
            rows.append((f"validation {self.metric}", f"{self.val_score:.4f} in epoch {self.best_epoch + 1}"))
        rows += [
            ("epochs", f"{len(self.epochs)}, {duration(self.seconds)}, {self.seeds_per_second:,.0f} seeds per second"),
            ("peak memory", f"{format_size(self.peak_anonymous)} anonymous"),
        ]
        return html_table("TrainResult", rows)

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write the run as one self-contained HTML page with plots (needs `graphzero[report]`)."""
        from .report import write_report

        write_report(self, path)


class Observer:
    """Receives the events of a run; subclass it to show progress or to log."""

    def begin(self, options: TrainOptions, summary: str) -> None:
        """Called before the first epoch with the options, whose sizes are chosen, and what the model sees."""

    def batch(self, epoch: int, done: int, total: int, loss: float, seeds_per_second: float) -> None:
        """Called when a training batch is done."""

    def note(self, text: str) -> None:
        """Called with notes before the run begins; issues a warning unless overridden."""
        warnings.warn(text, stacklevel=3)

    def evaluating(self, split: str, done: int, total: int) -> None:
        """Called when a batch of an evaluation is done."""

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Called when an epoch is done and evaluated."""

    def close(self) -> None:
        """Called when `fit` returns or raises."""
