"""Distributions of the samplers, by chi-square.

Seeds are fixed, so a test passes or fails for good. With fresh seeds each would raise a false alarm once in a million
runs (ALARM); test_the_harness_sees_a_bias shows that it does raise a true one.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from glfile import write_graph
from scipy import stats

import graphzero as gz

ALARM = 1e-6


def p_value(observed, probabilities):
    """The chance of counts this far from the probabilities; outcomes are independent draws."""
    observed, probabilities = np.asarray(observed), np.asarray(probabilities)
    return stats.chisquare(observed, probabilities / probabilities.sum() * observed.sum()).pvalue


@pytest.fixture(scope="module")
def stars(tmp_path_factory):
    """20,000 nodes with the same six neighbours, and weights 0 to 5: one call is 20,000 independent draws."""
    n = 20_000
    src, dst = np.repeat(np.arange(n), 6), np.tile(np.arange(6), n)
    times = np.tile([3, 1, 4, 1, 5, 9], n)
    return gz.Graph(write_graph(tmp_path_factory.mktemp("s") / "s.gl", n, src, dst, weights=dst, times=times))


def drawn(graph, fanout, seed=11, **options):
    """Row i: the neighbours that node i drew, in the order of the draws."""
    n = graph.num_nodes
    s = graph.sample(np.arange(n), [fanout], seed=seed, **options)
    return (s.edge % 6).reshape(n, -1)


def set_counts(rows, sets):
    codes = np.sort(rows, 1) @ (10 ** np.arange(rows.shape[1]))
    return [int((codes == np.sort(s) @ (10 ** np.arange(len(s)))).sum()) for s in sets]


def subsets(k, of=range(6)):
    return [s for s in permutations(of, k) if list(s) == sorted(s)]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_distinct_draws_are_uniform_over_sets(stars, k):
    counts = set_counts(drawn(stars, k), subsets(k))
    assert sum(counts) == stars.num_nodes
    assert p_value(counts, np.ones(len(counts))) > ALARM


def test_draws_with_replacement_are_uniform_and_independent(stars):
    rows = drawn(stars, 2, replace=True)
    assert p_value(np.bincount(rows[:, 0] * 6 + rows[:, 1], minlength=36), np.ones(36)) > ALARM


def test_weighted_draws_with_replacement_go_by_weight(stars):
    rows = drawn(stars, 2, replace=True, weighted=True)
    weights = np.arange(6)
    pairs = np.bincount(rows[:, 0] * 6 + rows[:, 1], minlength=36)
    expected = np.outer(weights, weights).ravel()
    assert pairs[expected == 0].sum() == 0
    assert p_value(pairs[expected > 0], expected[expected > 0]) > ALARM


@pytest.mark.parametrize("k", [2, 3, 4])
def test_weighted_draws_without_replacement_are_successive_draws(stars, k):
    rows = drawn(stars, k, weighted=True)
    sequences = list(permutations(range(1, 6), k))
    expected = []
    for sequence in sequences:
        left, chance = 15.0, 1.0
        for x in sequence:
            chance *= x / left
            left -= x
        expected.append(chance)
    codes = rows @ (10 ** np.arange(k))
    counts = [int((codes == np.array(s) @ (10 ** np.arange(k))).sum()) for s in sequences]
    assert sum(counts) == stars.num_nodes
    assert p_value(counts, expected) > ALARM


def test_the_tree_of_sums_draws_successively_too(tmp_path):
    """More than 32 draws from a short row take the other way: check the pairs left out of 40 equal weights."""
    n = 4000
    src, dst = np.repeat(np.arange(n), 40), np.tile(np.arange(40), n)
    g = gz.Graph(write_graph(tmp_path / "t.gl", n, src, dst, weights=np.ones(len(src))))
    s = g.sample(np.arange(n), [38], weighted=True, seed=5)
    taken = np.zeros((n, 40), bool)
    taken[s.edge // 40, s.edge % 40] = True
    a, b = np.nonzero(~taken)[1].reshape(n, 2).T
    counts = np.bincount(a * 40 + b, minlength=1600).reshape(40, 40)[np.triu_indices(40, 1)]
    assert p_value(counts, np.ones(len(counts))) > ALARM


def test_temporal_draws_are_uniform_over_what_is_old_enough(stars):
    rows = drawn(stars, 2, time=4)  # neighbours 0, 1, 2, 3 have times 3, 1, 4, 1
    counts = set_counts(rows, subsets(2, of=range(4)))
    assert sum(counts) == stars.num_nodes
    assert p_value(counts, np.ones(len(counts))) > ALARM


def test_labor_draws_by_itself_like_uniform(tmp_path):
    """One node: over seeds, every pair of its neighbours is as likely, so the variance is that of uniform draws."""
    g = gz.Graph(write_graph(tmp_path / "l.gl", 6, [0] * 6, range(6)))
    rows = np.array([g.sample([0], [2], method="labor", seed=s).edge for s in range(6000)])
    assert p_value(set_counts(rows, subsets(2)), np.ones(15)) > ALARM


def test_labor_meets_fewer_nodes_at_equal_variance(tmp_path):
    """Means of a neighbour feature over K sampled neighbours: as precise as uniform ones, from fewer distinct nodes."""
    rng = np.random.default_rng(0)
    n, degree, k, runs = 400, 40, 5, 300
    src, dst = np.repeat(np.arange(n), degree), rng.integers(0, n, n * degree)
    g = gz.Graph(write_graph(tmp_path / "v.gl", n, src, dst))
    x = rng.standard_normal(n)
    means, met = {}, {}
    for method in ("uniform", "labor"):
        samples = [g.sample(np.arange(100), [k], method=method, seed=s) for s in range(runs)]
        means[method] = np.array([np.bincount(s.col, x[s.node[s.row]], 100) / k for s in samples])
        met[method] = np.mean([len(np.unique(s.node[s.row])) for s in samples])
    truth = np.array([x[dst[src == i]].mean() for i in range(100)])
    for m in means.values():  # unbiased: 100 means of 300 runs each, largest deviation in standard errors
        errors = (m.mean(0) - truth) / (m.std(0) / np.sqrt(runs))
        assert np.abs(errors).max() < stats.norm.isf(ALARM / 200)
    ratio = means["labor"].var(0).mean() / means["uniform"].var(0).mean()
    assert 0.9 < ratio < 1.1
    assert met["labor"] < 0.6 * met["uniform"]


def test_nodes_and_seeds_draw_apart(stars):
    """Neighbouring nodes under one seed, and one node under neighbouring seeds, are as good as independent."""
    rows, others = drawn(stars, 1)[:, 0], drawn(stars, 1, seed=12)[:, 0]
    assert p_value(np.bincount(rows[:-1] * 6 + rows[1:], minlength=36), np.ones(36)) > ALARM
    assert p_value(np.bincount(rows * 6 + others, minlength=36), np.ones(36)) > ALARM


def test_the_harness_sees_a_bias(stars):
    """The control: a tenth of the draws moved to one set is found out."""
    counts = np.array(set_counts(drawn(stars, 2), subsets(2)))
    counts[0] += counts[1] // 3
    counts[1] -= counts[1] // 3
    assert p_value(counts, np.ones(15)) < ALARM
