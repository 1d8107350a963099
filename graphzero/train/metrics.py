"""Metrics accumulated batch by batch, for classes, labels, numbers and links.

Each class has `add` for a batch, `merged` to combine the ranks, and `scores`, which does not depend on how the seeds
were distributed. AUC keeps the scores of the seeds as float32; beyond two million, it keeps counts of rounded scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "HITS",
    "Auc",
    "ClassScores",
    "LabelScores",
    "LinkScores",
    "NumberScores",
    "TopScores",
    "auc",
    "better",
    "shown",
]

HITS = (1, 3, 10)
LOWER_IS_BETTER = ("mae", "rmse")
_MOST = 1 << 21  # scores kept before rounding
_LEVELS = 1 << 16
_MOST_CONFUSED = 100  # classes of a confusion matrix

Array = npt.NDArray[Any]


def better(metric: str, new: float, old: float) -> bool:
    """Whether a score is better than another one.

    >>> better("auc", 0.9, 0.8), better("rmse", 0.9, 0.8)
    (True, False)
    """
    return new < old if metric in LOWER_IS_BETTER else new > old


def shown(metric: str, value: float) -> str:
    """Format a score: accuracy in percent, errors by magnitude, others with four digits.

    >>> shown("accuracy", 0.8312), shown("rmse", 1234.567)
    ('83.12%', '1235')
    """
    if metric == "accuracy":
        return f"{value:.2%}"
    return f"{value:.4g}" if metric in LOWER_IS_BETTER else f"{value:.4f}"


def auc(positive: Array, negative: Array) -> float:
    """How often a positive scores higher than a negative; ties count half.

    >>> auc(np.array([3.0, 1.0]), np.array([2.0, 1.0]))
    0.625
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / 2 / len(negative))


class Auc:
    """The area under the ROC curve of scores that come in batches."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._parts: tuple[list[Array], list[Array]] = ([], [])  # scores of negatives, of positives
        self._counts: Array | None = None  # by class and rounded score, beyond _MOST scores
        self._kept = 0

    def add(self, scores: Array, positive: Array) -> None:
        """Add scores, and whether each belongs to a positive."""
        whole = np.ascontiguousarray(scores, dtype=np.float32)
        self._take(whole[~positive], whole[positive])

    def _take(self, *sides: Array) -> None:
        if self._counts is None and self._kept + sum(map(len, sides)) > _MOST:
            kept, self._parts, self._kept = self._parts, ([], []), 0
            self._counts = np.zeros((2, _LEVELS), np.int64)
            for side, parts in enumerate(kept):
                for part in parts:
                    self._counts[side] += np.bincount(_level(part), minlength=_LEVELS)
        for side, part in enumerate(sides):
            if self._counts is None:
                self._parts[side].append(part)
                self._kept += len(part)
            else:
                self._counts[side] += np.bincount(_level(part), minlength=_LEVELS)

    def merge(self, other: Auc) -> None:
        """Add the scores of another instance."""
        self._take(*(np.concatenate([*parts, np.empty(0, np.float32)]) for parts in other._parts))
        if other._counts is not None:
            if self._counts is None:
                self._kept = _MOST + 1
                self._take(np.empty(0, np.float32), np.empty(0, np.float32))
            assert self._counts is not None
            self._counts += other._counts

    def value(self) -> float | None:
        """The area; None without positives or without negatives."""
        if self._counts is None:
            negative, positive = (np.concatenate([*parts, np.empty(0, np.float32)]) for parts in self._parts)
            return auc(positive, negative) if len(negative) and len(positive) else None
        negatives, positives = self._counts
        if not negatives.sum() or not positives.sum():
            return None
        below = np.cumsum(negatives) - negatives / 2
        return float((positives * below).sum() / positives.sum() / negatives.sum())


def _level(scores: Array) -> Array:
    """Round scores to 65,536 levels, in their order."""
    bits = np.ascontiguousarray(scores, dtype=np.float32).view(np.uint32)
    ordered = np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))
    return (ordered >> np.uint32(16)).astype(np.int64)


class ClassScores:
    """Accuracy and F1 of classes, and AUC where there are two."""

    def __init__(self, classes: int) -> None:
        """Begin with nothing seen."""
        self._counts = np.zeros((3, classes), np.int64)  # by class: correct, predicted, present
        self._pairs = np.zeros((classes, classes), np.int64) if classes <= _MOST_CONFUSED else None
        self._auc = Auc() if classes == 2 else None

    def add(self, out: Array, y: Array) -> None:
        """Add outputs (n, classes) and classes (n)."""
        found, y, classes = out.argmax(1), y.astype(np.int64), self._counts.shape[1]
        for row, of in zip(self._counts, (y[found == y], found, y), strict=True):
            row += np.bincount(of, minlength=classes)[:classes]
        if self._pairs is not None:
            met = found < classes  # a model may have more outputs than there are classes
            self._pairs += np.bincount(y[met] * classes + found[met], minlength=classes**2).reshape(classes, classes)
        if self._auc is not None:
            self._auc.add(out[:, 1] - out[:, 0], y == 1)

    def confusion(self) -> list[list[int]]:
        """Return counts by true class, then by predicted class; empty where there are too many classes."""
        return [] if self._pairs is None else [[int(count) for count in row] for row in self._pairs]

    @staticmethod
    def merged(parts: Iterable[ClassScores]) -> ClassScores:
        """Add up what several ranks have seen."""
        whole, *others = parts
        for other in others:
            whole._counts += other._counts
            if whole._pairs is not None and other._pairs is not None:
                whole._pairs += other._pairs
            if whole._auc is not None and other._auc is not None:
                whole._auc.merge(other._auc)
        return whole

    def scores(self) -> dict[str, float]:
        """Return the scores by name; classes that do not occur are not counted in the macro F1."""
        right, predicted, there = self._counts
        found = {"accuracy": float(right.sum() / max(there.sum(), 1))}
        found |= {"f1_macro": _macro_f1(right, predicted + there), "f1_micro": found["accuracy"]}
        area = None if self._auc is None else self._auc.value()
        return found if area is None else found | {"auc": area}


class LabelScores:
    """F1 and mean AUC of multi-label targets; NaN is unknown and not counted."""

    def __init__(self, labels: int) -> None:
        """Begin with nothing seen."""
        self._counts = np.zeros((3, labels), np.int64)
        self._auc = [Auc() for _ in range(labels)]

    def add(self, out: Array, y: Array) -> None:
        """Add outputs before the sigmoid and labels, both (n, labels)."""
        known = np.isfinite(y)
        there, found = known & (y > 0.5), known & (out > 0)
        self._counts += np.stack([(there & found).sum(0), found.sum(0), there.sum(0)])
        for label, area in enumerate(self._auc):
            of = known[:, label]
            area.add(out[of, label], there[of, label])

    @staticmethod
    def merged(parts: Iterable[LabelScores]) -> LabelScores:
        """Add up what several ranks have seen."""
        whole, *others = parts
        for other in others:
            whole._counts += other._counts
            for area, more in zip(whole._auc, other._auc, strict=True):
                area.merge(more)
        return whole

    def scores(self) -> dict[str, float]:
        """Return the scores by name; AUC is the mean over labels with both positives and negatives."""
        right, predicted, there = self._counts
        both = int((predicted + there).sum())
        areas = [area for area in (one.value() for one in self._auc) if area is not None]
        return {
            "f1_micro": 2 * int(right.sum()) / both if both else 0.0,
            "f1_macro": _macro_f1(right, predicted + there),
            "auc": math.fsum(areas) / len(areas) if areas else 0.0,
        }


def _macro_f1(right: Array, both: Array) -> float:
    met = both > 0
    return float((2 * right[met] / both[met]).mean()) if met.any() else 0.0


class NumberScores:
    """Mean absolute error, root mean squared error and R² of numbers."""

    def __init__(self, center: float = 0.0) -> None:
        """Begin with nothing seen; `center` is the approximate mean of the values."""
        self._center = center
        self._sums: list[tuple[float, float, float, float]] = []
        self._count = 0

    def add(self, out: Array, y: Array) -> None:
        """Add outputs and true values; NaN is unknown and not counted."""
        known = np.isfinite(y)
        error, own = out[known].astype(np.float64) - y[known], y[known].astype(np.float64) - self._center
        self._sums.append((np.abs(error).sum(), (error**2).sum(), own.sum(), (own**2).sum()))
        self._count += int(known.sum())

    @staticmethod
    def merged(parts: Iterable[NumberScores]) -> NumberScores:
        """Add up what several ranks have seen."""
        whole, *others = parts
        for other in others:
            whole._sums += other._sums
            whole._count += other._count
        return whole

    def scores(self) -> dict[str, float]:
        """Return the scores by name; R² is 0 where all values are equal."""
        absolute, squared, own, square = (math.fsum(one[i] for one in self._sums) for i in range(4))
        count = max(self._count, 1)
        spread = square - own**2 / count
        return {
            "mae": absolute / count,
            "rmse": math.sqrt(squared / count),
            "r2": 1 - squared / spread if spread > 0 else 0.0,
        }


class LinkScores:
    """Scores of edges, each ranked among its own negatives; half of the ties are ranked before it.

    Each edge is the only correct answer for its source, so recall@k equals hits@k, and the average precision at k is
    one over its rank, or 0 beyond k.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._reciprocal: list[float] = []
        self._precision: list[float] = []
        self._hits = dict.fromkeys(HITS, 0)
        self._right = self._seen = 0
        self._auc = Auc()

    def add(self, edges: Array, negatives: Array) -> None:
        """Add the scores of n edges and of (n, k) negatives."""
        own = edges[:, None]
        rank = 1 + (negatives > own).sum(1) + 0.5 * (negatives == own).sum(1)
        self._reciprocal.append(float((1 / rank).sum()))
        self._precision.append(float((1 / rank[rank <= HITS[-1]]).sum()))
        for k in HITS:
            self._hits[k] += int((rank <= k).sum())
        # One negative per edge is enough for these two, and keeps the classes balanced.
        self._auc._take(negatives[:, 0].astype(np.float32), edges.astype(np.float32))
        self._right += int((edges > 0).sum() + (negatives[:, 0] <= 0).sum())
        self._seen += len(edges)

    @staticmethod
    def merged(parts: Iterable[LinkScores]) -> LinkScores:
        """Add up what several ranks have seen."""
        whole, *others = parts
        for other in others:
            whole._reciprocal += other._reciprocal
            whole._precision += other._precision
            whole._hits = {k: hits + other._hits[k] for k, hits in whole._hits.items()}
            whole._right, whole._seen = whole._right + other._right, whole._seen + other._seen
            whole._auc.merge(other._auc)
        return whole

    def scores(self) -> dict[str, float]:
        """Return the scores by name."""
        count, most = max(self._seen, 1), HITS[-1]
        found = {"accuracy": self._right / (2 * count), "mrr": math.fsum(self._reciprocal) / count}
        found |= {f"hits@{k}": hits / count for k, hits in self._hits.items()}
        found |= {f"recall@{most}": found[f"hits@{most}"], f"map@{most}": math.fsum(self._precision) / count}
        return found | {"auc": self._auc.value() or 0.0}


class TopScores:
    """MAP@k, precision@k and recall@k of ranked answers, as in RelBench: means over the sources with a correct answer.

    The average precision of a source is divided by the number of its correct answers, at most k.

    >>> scores = TopScores(3)
    >>> scores.add(np.array([[False, True, False]]), np.array([2]))
    >>> scores.scores()["recall@3"]
    0.5
    """

    def __init__(self, k: int) -> None:
        """Begin with nothing seen."""
        self._k = k
        self._sums: list[list[float]] = []  # by block: average precision, precision, recall, hits, reciprocal rank
        self._seen = 0

    def add(self, hits: Array, wanted: Array) -> None:
        """Add whether each of up to k answers per source is correct, and the number of correct answers per source."""
        hits, wanted = hits[wanted > 0][:, : self._k], wanted[wanted > 0]
        ranks = np.arange(1, hits.shape[1] + 1)
        average = (np.cumsum(hits, axis=1) / ranks * hits).sum(1) / np.minimum(wanted, self._k)
        found = hits.sum(1)
        first = np.where(found > 0, 1 / (hits.argmax(1) + 1), 0.0) if hits.shape[1] else np.zeros(len(hits))
        values = (average, found / self._k, found / wanted, found > 0, first)
        self._sums.append([float(value.sum()) for value in values])
        self._seen += len(wanted)

    def scores(self) -> dict[str, float]:
        """Return the scores by name."""
        names = (f"map@{self._k}", f"precision@{self._k}", f"recall@{self._k}", f"hits@{self._k}", "mrr")
        count = max(self._seen, 1)
        return {name: math.fsum(block[i] for block in self._sums) / count for i, name in enumerate(names)}
