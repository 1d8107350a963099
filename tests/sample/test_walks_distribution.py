"""Where walks go: chi-square against probabilities that are enumerated.

Seeds are fixed. Were they drawn afresh, each comparison would raise a false alarm once in a million runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from walk_files import write_edges, write_legacy

import graphzero as gz

FALSE_ALARM = 1e-6
N = 7
# A small directed graph with what may go wrong: a repeated edge (0, 1), a self-loop at 2, one-way edges.
EDGES = [(0, 1), (0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 4), (2, 2), (2, 0), (2, 5), (3, 0), (3, 6), (4, 1), (4, 5)]
EDGES += [(5, 2), (5, 4), (5, 6), (6, 3), (6, 0), (6, 5)]
WEIGHTS = np.array([1, 2, 0.5, 4, 1, 1, 3, 2, 1, 1, 5, 1, 1, 1, 0, 2, 2, 1, 3, 0.25], np.float32)


def fits(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Whether counts agree with probabilities, which must sum to 1; what cannot happen must not have."""
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    if possible.sum() == 1:
        return True
    expected = counts.sum() * probabilities[possible]
    assert expected.min() >= 5  # a chi-square needs that
    return bool(stats.chisquare(counts[possible], expected).pvalue > FALSE_ALARM)


def transition(u: int, previous: int | None, p: float, q: float, weighted: bool) -> np.ndarray:
    """The probability of each next node, straight from the definition."""
    shares = np.zeros(N)
    for (a, x), w in zip(EDGES, WEIGHTS.tolist(), strict=True):
        if a != u:
            continue
        bias = 1.0
        if previous is not None:
            bias = 1 / p if x == previous else 1.0 if (previous, x) in EDGES else 1 / q
        shares[x] += bias * (w if weighted else 1.0)
    return shares / shares.sum()


@pytest.fixture(scope="module", params=["sorted", "legacy"])
def graph(request, tmp_path_factory) -> gz.Graph:
    path = tmp_path_factory.mktemp("distribution") / "g.gl"
    return gz.Graph((write_edges if request.param == "sorted" else write_legacy)(path, N, EDGES, WEIGHTS))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (1.0, 0.5), (0.25, 2.0), (4.0, 0.25), (1e-3, 1.0), (1.0, 50.0)])
def test_every_transition_has_its_probability(graph, p, q, weighted):
    walks = graph.batch_random_walk(np.repeat(np.arange(N), 12_000), 2, p, q, weighted=weighted, seed=2)
    for u in range(N):
        first = walks[walks[:, 0] == u]
        assert fits(np.bincount(first[:, 1], minlength=N), transition(u, None, p, q, weighted))
        for v in np.unique(first[:, 1]).tolist():
            second = first[first[:, 1] == v][:, 2]
            probabilities = transition(v, u, p, q, weighted)
            rare = (probabilities > 0) & (probabilities * len(second) < 5)
            counts = np.bincount(second, minlength=N)
            # Outcomes too rare for a chi-square count together; if even that is rare, its count must be small.
            kept = np.append(np.where(rare, 0, probabilities), probabilities[rare].sum())
            seen = np.append(np.where(rare, 0, counts), counts[rare].sum())
            if 0 < kept[-1] * len(second) < 5:
                assert stats.binom.sf(seen[-1] - 1, len(second), kept[-1]) > FALSE_ALARM
                kept[-1], seen[-1] = 0, 0
                kept /= kept.sum()
            assert fits(seen, kept)


def test_refusals_that_are_given_up_keep_the_distribution(tmp_path):
    """With 1/p huge and a way back, almost every step is drawn by rejection; without one, by enumeration."""
    edges = [(0, 1), *((1, x) for x in range(2, 6)), (0, 2), (0, 3)]
    g = gz.Graph(write_edges(tmp_path / "g.gl", 6, edges))
    walks = g.batch_random_walk(np.zeros(60_000, np.int64), 2, p=1e-12, q=0.5, seed=4)
    second = walks[walks[:, 1] == 1][:, 2]
    shares = np.array([0, 0, 1, 1, 2, 2]) / 6  # 2 and 3 are neighbours of 0, 4 and 5 are not
    assert fits(np.bincount(second, minlength=6), shares)


def test_restarts_come_as_often_as_asked(tmp_path):
    n = 1000
    g = gz.Graph(write_edges(tmp_path / "cycle.gl", n, [(i, (i + 1) % n) for i in range(n)]))
    walks = g.batch_random_walk(np.arange(n), 50, restart=0.15, seed=6)
    restarted = (walks[:, 1:] == walks[:, :1]).sum()
    assert stats.binomtest(int(restarted), n * 50, 0.15).pvalue > FALSE_ALARM
    steps = (walks[:, 1:] - walks[:, :-1]) % n
    assert ((steps == 1) | (walks[:, 1:] == walks[:, :1])).all()


def test_restart_leaves_a_dead_end_and_forgets_the_past(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "path.gl", 2, [(0, 1)]))
    walks = g.batch_random_walk(np.zeros(4000, np.int64), 8, 0.5, 2.0, restart=0.5, seed=1)
    assert set(map(tuple, np.unique(np.stack([walks[:, :-1].ravel(), walks[:, 1:].ravel()]), axis=1).T.tolist())) == {
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    }
    from_dead_end = walks[:, 1:][walks[:, :-1] == 1]
    assert stats.binomtest(int((from_dead_end == 0).sum()), len(from_dead_end), 0.5).pvalue > FALSE_ALARM


def test_a_test_that_can_fail(graph):
    """The control: counts of one p are refused when held against another."""
    walks = graph.batch_random_walk(np.zeros(12_000, np.int64), 2, 0.25, 1.0, seed=2)
    second = walks[walks[:, 1] == 3][:, 2]
    assert not fits(np.bincount(second, minlength=N), transition(3, 0, 4.0, 1.0, False))
