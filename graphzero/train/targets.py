"""Prediction targets of nodes: one of several classes, any of several labels, or a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..args.suggest import did_you_mean
from ..dataset.writer import kind_of_labels
from .metrics import ClassScores, LabelScores, NumberScores
from .records import TrainOptions

__all__ = ["Target", "kind_of_labels", "make_target"]

_MANY_CLASSES = 10_000


class Target:
    """How outputs are compared with labels. `scores()` creates the metrics of an evaluation."""

    kind = ""
    metrics: tuple[str, ...] = ()  # the first one selects the best epoch by default

    def __init__(self, outputs: int, options: TrainOptions, metric: str | None = None) -> None:
        """Set the number of outputs; ValueError for an unknown metric. `metric` is the default of the options."""
        self.outputs = outputs
        self.metric = options.metric or metric or self.metrics[0]
        if self.metric not in self.metrics:
            known = ", ".join(map(repr, self.metrics))
            hint = did_you_mean(self.metric, self.metrics)
            raise ValueError(f"metric is {options.metric!r}, expected one of {known} for {self.kind}{hint}")

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """The mean loss over the seeds of a batch."""
        raise NotImplementedError

    def weight(self, y: Tensor) -> int | Tensor:
        """What the mean of a batch divides by: the number of labels that are known, or the sum of their weights."""
        return torch.isfinite(y).sum()

    def right(self, out: Tensor, y: Tensor) -> Tensor:
        """The number of correct answers, where that is defined."""
        return torch.zeros((), dtype=torch.int64, device=out.device)

    def labels(self, y: Tensor) -> Tensor:
        """Return labels as they are compared: NaN for a number or a label that is not known."""
        return y if y.is_floating_point() else torch.where(y < 0, float("nan"), y.float())

    def scored(self, out: Tensor) -> Tensor:
        """Return outputs as `scores()` takes them."""
        return out

    def scores(self) -> Any:
        """Return the metrics of an evaluation."""
        raise NotImplementedError

    def baseline(self, train: Any, labels: Any) -> dict[str, float]:
        """Return the scores of one answer for all labels, the best one by the training split; empty if undefined."""
        return {}

    def answers(self, out: Tensor) -> Tensor:
        """Convert outputs to probabilities, or to numbers in their original units."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The target as JSON values, for the checkpoint."""
        return {"kind": self.kind, "outputs": self.outputs}


class ClassTarget(Target):
    """One of several classes."""

    kind, metrics = "classification", ("accuracy", "f1_macro", "f1_micro", "auc")

    def __init__(self, classes: int, options: TrainOptions, labels: Any = None) -> None:
        """Count the classes of the training split if weights are balanced."""
        super().__init__(classes, options)
        if self.metric == "auc" and classes != 2:
            raise ValueError(f"metric is 'auc', which needs 2 classes, found {classes}")
        self._weights = _class_weights(options.class_weights, classes, labels)

    def labels(self, y: Tensor) -> Tensor:
        """Return classes."""
        return y

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Cross entropy."""
        if self._weights is None:
            return functional.cross_entropy(out, y)
        weights = self._weights_on(out.device).to(out.dtype)
        if out.shape[1] > self.outputs:
            weights = functional.pad(weights, (0, out.shape[1] - self.outputs), value=1.0)
        total = weights[y].sum()  # zero in a batch of classes without weight
        least = torch.finfo(out.dtype).tiny
        return functional.cross_entropy(out, y, weights, reduction="sum") / total.clamp(min=least)

    def weight(self, y: Tensor) -> int | Tensor:
        """The number of seeds, or the sum of the weights of their classes."""
        return len(y) if self._weights is None else self._weights_on(y.device)[y].sum()

    def _weights_on(self, device: torch.device) -> Tensor:
        assert self._weights is not None
        self._weights = self._weights.to(device)  # where they stay
        return self._weights

    def right(self, out: Tensor, y: Tensor) -> Tensor:
        """The number of seeds whose largest output is that of their class."""
        return (out.detach().argmax(1) == y).sum()

    def scores(self) -> ClassScores:
        """Accuracy and F1, and AUC of two classes."""
        return ClassScores(self.outputs)

    def baseline(self, train: Any, labels: Any) -> dict[str, float]:
        """Return the accuracy of always answering the largest class."""
        largest = int(np.bincount(np.asarray(train, np.int64).reshape(-1)).argmax())
        return {"accuracy": float(np.mean(np.asarray(labels) == largest))}

    def answers(self, out: Tensor) -> Tensor:
        """Return probabilities."""
        return torch.softmax(out.float(), dim=1)


class LabelTarget(Target):
    """Any of several labels."""

    kind, metrics = "multilabel", ("auc", "f1_micro", "f1_macro")

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Binary cross entropy over the labels that are known."""
        y = y.to(out.dtype)
        known = torch.isfinite(y)
        each = functional.binary_cross_entropy_with_logits(out, torch.where(known, y, 0.0), reduction="none")
        return (each * known).sum() / known.sum().clamp(min=1)

    def scores(self) -> LabelScores:
        """F1 and AUC."""
        return LabelScores(self.outputs)

    def answers(self, out: Tensor) -> Tensor:
        """Return one probability per label."""
        return torch.sigmoid(out.float())


class NumberTarget(Target):
    """A number, normalised by the mean and deviation of the training split."""

    kind, metrics = "regression", ("rmse", "mae", "r2")

    def __init__(self, options: TrainOptions, mean: float = 0.0, std: float = 1.0) -> None:
        """Compute the mean and the deviation over the training seeds."""
        super().__init__(1, options, "mae" if options.loss == "mae" else None)
        self.mean, self.std, self._absolute = mean, std, options.loss == "mae"

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Mean squared or absolute error of the normalised values."""
        known = torch.isfinite(y)
        wanted = ((torch.where(known, y, self.mean) - self.mean) / self.std).to(out.dtype)
        error = (out.reshape(-1) - wanted) * known
        total = error.abs().sum() if self._absolute else (error**2).sum()
        return total / known.sum().clamp(min=1)

    def labels(self, y: Tensor) -> Tensor:
        """Return one number per seed."""
        return super().labels(y).reshape(-1)

    def scored(self, out: Tensor) -> Tensor:
        """Return numbers in their own units."""
        return self.answers(out).reshape(-1)

    def scores(self) -> NumberScores:
        """Errors and R²."""
        return NumberScores(self.mean)

    def baseline(self, train: Any, labels: Any) -> dict[str, float]:
        """Return the errors of always answering the mean."""
        scores, y = self.scores(), self.labels(torch.as_tensor(np.asarray(labels))).numpy()
        scores.add(np.full(len(y), self.mean), y)
        return {name: score for name, score in scores.scores().items() if name != "r2"}

    def answers(self, out: Tensor) -> Tensor:
        """Return numbers in their own units."""
        return out.double() * self.std + self.mean

    def to_dict(self) -> dict[str, Any]:
        """The target as JSON values."""
        return {**super().to_dict(), "mean": self.mean, "std": self.std}


def make_target(options: TrainOptions, kind: str, known: Mapping[str, Any], at_least: int) -> Target:
    """Create the target named by `kind`, after checking every label of training and evaluation.

    `known` has the labels of each split; `at_least` is the number of classes that the dataset names.
    """
    train = np.asarray(known["train"])
    if options.class_weights is not None and kind != "classification":
        raise ValueError(f"class_weights is for classification, but the target is {kind}")
    if options.loss != "mse" and kind != "regression":
        raise ValueError(f"loss is {options.loss!r}, which is for regression, but the target is {kind}")
    if kind == "regression":
        values = np.asarray(train, np.float64).reshape(-1)
        if train.dtype.kind in "iu":
            values = np.where(values < 0, np.nan, values)  # -1 is missing in integer labels
        finite = values[np.isfinite(values)]
        if len(finite) == 0:
            raise ValueError("no node of the training split has a finite label")
        return NumberTarget(options, float(finite.mean()), float(finite.std()) or 1.0)
    if kind == "multilabel":
        if train.ndim != 2:
            raise ValueError(f"target is 'multilabel', expected a row of labels per node, found shape {train.shape}")
        return LabelTarget(train.shape[1], options)
    if train.ndim == 2 and train.shape[1] > 1:
        raise ValueError(f"target is 'classification', but the labels have {train.shape[1]} columns; use 'multilabel'")
    return ClassTarget(count_classes(known, at_least, asked=options.target is not None), options, train)


def target_from(note: dict[str, Any], options: TrainOptions) -> Target:
    """Recreate a target from a checkpoint."""
    if note["kind"] == "regression":
        return NumberTarget(options, float(note["mean"]), float(note["std"]))
    if note["kind"] == "multilabel":
        return LabelTarget(int(note["outputs"]), options)
    return ClassTarget(int(note["outputs"]), options)


def count_classes(known: Mapping[str, Any], at_least: int, *, asked: bool = False) -> int:
    """Return the number of classes; ValueError if a seed of a split has no label.

    Labels that would be far more classes than seeds are refused, unless a classification was asked for.
    """
    most = -1
    for split, labels in known.items():
        if len(labels) and int(np.min(labels)) < 0:
            raise ValueError(
                f"split {split!r} has {int(np.sum(labels < 0))} nodes without a label (label {int(np.min(labels))}, "
                "which means missing); remove them from the split"
            )
        most = max(most, int(np.max(labels, initial=-1)))
    classes = max(at_least, most + 1)
    labelled = sum(len(labels) for labels in known.values())
    if most >= max(_MANY_CLASSES, labelled) and not asked:
        raise ValueError(
            f"the labels reach {most:,}, which would be {most + 1:,} classes for {labelled:,} seeds; if they are "
            "numbers, not classes, use target='regression' (--target regression)"
        )
    if classes < 2:
        raise ValueError(f"found {classes} class{'es' * (classes != 1)}; need at least 2")
    return classes


def _class_weights(asked: Any, classes: int, labels: Any) -> Tensor | None:
    if asked is None:
        return None
    if isinstance(asked, str):
        if labels is None:
            return None
        counts = np.bincount(np.asarray(labels, np.int64).reshape(-1), minlength=classes)[:classes]
        return torch.from_numpy(counts.sum() / (classes * np.maximum(counts, 1)))
    if len(asked) != classes:
        raise ValueError(f"class_weights has {len(asked)} numbers, expected {classes}, one per class")
    return torch.tensor([float(weight) for weight in asked], dtype=torch.float64)
