"""Scores of link prediction: AUC, MRR and hits@k, from the scores of edges and of negatives drawn for each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["HITS", "LinkScores", "auc"]

HITS = (1, 3, 10)


class LinkScores:
    """Sums over batches. An edge is ranked among its own negatives; of a tie, half of them are counted before it."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._reciprocal: list[float] = []
        self._hits = dict.fromkeys(HITS, 0)
        self._right = self._seen = 0
        self._edges: list[npt.NDArray[Any]] = []
        self._others: list[npt.NDArray[Any]] = []

    def add(self, edges: npt.NDArray[Any], negatives: npt.NDArray[Any]) -> None:
        """Take in the scores of n edges and of (n, k) negatives."""
        own = edges[:, None]
        rank = 1 + (negatives > own).sum(1) + 0.5 * (negatives == own).sum(1)
        self._reciprocal.append(float((1 / rank).sum()))
        for k in HITS:
            self._hits[k] += int((rank <= k).sum())
        # One negative an edge does for these two: as many answers are yes as are no.
        self._edges.append(edges)
        self._others.append(negatives[:, 0])
        self._right += int((edges > 0).sum() + (negatives[:, 0] <= 0).sum())
        self._seen += len(edges)

    @staticmethod
    def merged(parts: Iterable[LinkScores]) -> LinkScores:
        """Add up what several ranks have seen; the scores do not depend on who saw what."""
        whole = LinkScores()
        for part in parts:
            whole._reciprocal += part._reciprocal
            whole._hits = {k: hits + part._hits[k] for k, hits in whole._hits.items()}
            whole._right, whole._seen = whole._right + part._right, whole._seen + part._seen
            whole._edges += part._edges
            whole._others += part._others
        return whole

    def scores(self) -> dict[str, float]:
        """Return the scores by name."""
        count = max(self._seen, 1)
        found = {"accuracy": self._right / (2 * count), "mrr": math.fsum(self._reciprocal) / count}
        found |= {f"hits@{k}": hits / count for k, hits in self._hits.items()}
        return found | {"auc": auc(np.concatenate(self._edges), np.concatenate(self._others)) if self._seen else 0.0}


def auc(edges: npt.NDArray[Any], others: npt.NDArray[Any]) -> float:
    """How often an edge scores higher than something else; ties count half.

    >>> auc(np.array([3.0, 1.0]), np.array([2.0, 1.0]))
    0.625
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, edges, "left") + np.searchsorted(ordered, edges, "right")
    return float(below.mean() / 2 / len(others))
