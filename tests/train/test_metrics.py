"""Scores: those of the textbook formulas, the same in one go, in batches and over ranks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from graphzero.train import metrics
from graphzero.train.metrics import Auc, ClassScores, LabelScores, LinkScores, NumberScores, TopScores


def f1(truth: Any, found: Any) -> float:
    """The formula of scikit-learn's f1_score for one class."""
    right = int((truth & found).sum())
    return 2 * right / max(int(truth.sum() + found.sum()), 1)


def pairs_auc(score: Any, truth: Any) -> float:
    above = score[truth][:, None] - score[~truth][None]
    return float(((above > 0) + 0.5 * (above == 0)).mean())


def in_parts(make: Any, *arrays: Any) -> Any:
    """Scores over three ranks, each of which has seen some batches and sends what it has by pickle."""
    ranks = [make() for _ in range(3)]
    for number, batch in enumerate(zip(*(np.array_split(array, 7) for array in arrays), strict=True)):
        ranks[number % 3].add(*batch)
    return type(ranks[0]).merged([pickle.loads(pickle.dumps(rank)) for rank in ranks]).scores()


def test_classes() -> None:
    rng = np.random.default_rng(0)
    out, y = rng.normal(size=(200, 5)), rng.integers(0, 4, 200)
    found = out.argmax(1)
    scores = in_parts(lambda: ClassScores(5), out, y)
    assert scores["accuracy"] == scores["f1_micro"] == (found == y).mean()
    assert scores["f1_macro"] == pytest.approx(np.mean([f1(y == c, found == c) for c in range(5)]))
    assert "auc" not in scores


def test_two_classes_have_an_auc() -> None:
    rng = np.random.default_rng(1)
    out, y = rng.normal(size=(90, 2)).round(1).astype(np.float32), rng.integers(0, 2, 90)
    assert in_parts(lambda: ClassScores(2), out, y)["auc"] == pytest.approx(pairs_auc(out[:, 1] - out[:, 0], y == 1))
    assert "auc" not in in_parts(lambda: ClassScores(2), out, np.zeros(90, int))


def test_several_labels() -> None:
    rng = np.random.default_rng(2)
    out, y = rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 2, (80, 3)).astype(float)
    y[:, 2] = 0  # has no AUC
    y[5] = np.nan
    scores = in_parts(lambda: LabelScores(3), out, y)
    known = np.isfinite(y[:, 0])
    truth, found = y[known] > 0.5, out[known] > 0
    assert scores["f1_micro"] == pytest.approx(f1(truth.reshape(-1), found.reshape(-1)))
    assert scores["f1_macro"] == pytest.approx(np.mean([f1(truth[:, c], found[:, c]) for c in range(3)]))
    assert scores["auc"] == pytest.approx(np.mean([pairs_auc(out[known, c], truth[:, c]) for c in range(2)]))


def test_numbers() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(1e6, 2.0, 100)
    out = y + rng.normal(size=100)
    scores = in_parts(lambda: NumberScores(1e6), np.append(out, 0.0), np.append(y, np.nan))
    assert scores["mae"] == pytest.approx(np.abs(out - y).mean())
    assert scores["rmse"] == pytest.approx(np.sqrt(((out - y) ** 2).mean()))
    assert scores["r2"] == pytest.approx(1 - ((out - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert NumberScores().scores()["r2"] == 0.0


def test_the_auc_of_many_scores_is_counted_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    truth = rng.random(5000) < 0.3
    score = (rng.normal(size=5000) + truth).astype(np.float32)
    exact = pairs_auc(score, truth)
    monkeypatch.setattr(metrics, "_MOST", 1000)
    whole, small = Auc(), Auc()
    for at in range(0, 4900, 100):
        whole.add(score[at : at + 100], truth[at : at + 100])
    small.add(score[4900:], truth[4900:])
    small.merge(whole)
    assert small.value() == pytest.approx(exact, abs=1e-3)
    assert len(pickle.dumps(small)) < 3_000_000


def test_links_are_ranked_among_their_negatives() -> None:
    scores = LinkScores()
    scores.add(np.array([2.0, 0.0]), np.array([[1.0, 3.0, 0.0], [1.0, 1.0, 1.0]]))  # ranks 2 and 4
    found = scores.scores()
    assert (found["mrr"], found["map@10"]) == (0.375, 0.375)
    assert (found["hits@1"], found["hits@3"], found["recall@10"]) == (0.0, 0.5, 1.0)


def test_lists_of_answers_against_sets_of_right_ones() -> None:
    scores = TopScores(3)
    scores.add(np.array([[False, True, True], [True, True, True]]), np.array([3, 0]))  # the second has no right ones
    scores.add(np.array([[False, False, False]]), np.array([1]))
    found = scores.scores()
    assert found["map@3"] == pytest.approx((1 / 2 + 2 / 3) / 3 / 2)
    assert found["recall@3"] == found["precision@3"] == pytest.approx(2 / 3 / 2)
    assert (found["hits@3"], found["mrr"]) == (0.5, 0.25)
