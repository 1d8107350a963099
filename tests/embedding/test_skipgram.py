"""The parts of training against NumPy: a step, draws by weight, and a whole run with the same random numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skipgram_oracle as oracle

import graphzero as gz
from graphzero import _core

KERNELS = pytest.mark.parametrize("plain", [False, True], ids=["vectors", "plain"])


@KERNELS
@pytest.mark.parametrize("dim", [8, 40, 128])
@pytest.mark.parametrize("contexts", [[2], [3, 1, 4, 1, 5], [*range(13), *range(19)]])
@pytest.mark.parametrize("outputs", [[7], [7, 2], [0, 3, 9], [0, 1, 2, 3], [4, 3, 2, 1, 0], [5, 4, 3, 2, 1, 9]])
def test_a_step_is_that_of_numpy(plain: bool, dim: int, contexts: list[int], outputs: list[int]) -> None:
    rng = np.random.default_rng(dim)
    x, y = rng.normal(0, 0.3, (2, 20, dim)).astype(np.float32)
    wanted_x, wanted_y = x.astype(np.float64), y.astype(np.float64)
    oracle.step(wanted_x, wanted_y, contexts, outputs, 0.05, True)
    _core.skipgram_step(x, y, np.array(contexts), np.array(outputs), 0.05, plain)
    np.testing.assert_allclose(x, wanted_x, atol=2e-6)
    np.testing.assert_allclose(y, wanted_y, atol=2e-6)


@KERNELS
def test_a_step_follows_the_gradient(plain: bool) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 0.5, (2, 6, 8))
    contexts, outputs, rate = [0, 2, 5], [1, 3, 4, 0], 1e-3

    def likelihood(x: np.ndarray, y: np.ndarray) -> float:
        products = x[contexts] @ y[outputs].T
        products[:, 1:] *= -1
        return float(-np.log1p(np.exp(-products)).sum())

    stepped = [x.astype(np.float32), y.astype(np.float32)]
    _core.skipgram_step(*stepped, np.array(contexts), np.array(outputs), rate, plain)
    for table, (before, after) in enumerate(zip((x, y), stepped, strict=True)):
        for place in np.ndindex(before.shape):
            up, down = ([x.copy(), y.copy()] for _ in range(2))
            up[table][place] += 1e-5
            down[table][place] -= 1e-5
            slope = (likelihood(*up) - likelihood(*down)) / 2e-5
            assert (after[place] - before[place]) / rate == pytest.approx(slope, abs=5e-3)


@KERNELS
def test_large_products_saturate(plain: bool) -> None:
    x, y = np.full((2, 1, 8), 50, np.float32)
    _core.skipgram_step(x, y, np.array([0]), np.array([0]), 1.0, plain)
    np.testing.assert_allclose(x, np.full((1, 8), 50), rtol=1e-6)  # a pair that is certain already


def test_draws_by_weight_have_their_shares() -> None:
    rng = np.random.default_rng(0)
    for weights in (rng.random(50) ** 4, np.r_[np.zeros(3), 1.0, np.zeros(2)], np.ones(7), np.arange(20)[::-1] ** 0.75):
        weights = weights.astype(np.float32)
        draws = 200_000
        counts = np.bincount(_core.draw_by_weight(weights, draws, 7), minlength=len(weights))
        expected = draws * weights / weights.sum()
        # Six standard deviations: once in 10^9 draws of a sound table.
        assert (np.abs(counts - expected) <= 6 * np.sqrt(expected) + 1e-3).all()
        assert counts[weights == 0].sum() == 0


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> gz.Graph:
    """All nodes have four neighbours, so that negatives are uniform."""
    nodes = np.arange(30)
    path = tmp_path_factory.mktemp("ring") / "ring.gl"
    edges = (np.r_[nodes, nodes], np.r_[(nodes + 1) % 30, (nodes + 7) % 30])
    gz.compile_graph(edges, path, directed=False, num_nodes=30, progress=False)
    return gz.Graph(path)


@pytest.mark.parametrize(
    "change",
    [{}, {"negatives": 13}, {"window": 9, "walk_length": 12}, {"p": 0.5, "q": 2.0}, {"epochs": 2, "seed": 2**63}],
)
def test_a_run_is_that_of_numpy(ring: gz.Graph, change: dict[str, object]) -> None:
    options = {"dim": 8, "walk_length": 6, "walks_per_node": 2, "window": 3, "negatives": 3, "p": 1.0, "q": 1.0}
    options |= {"epochs": 1, "learning_rate": 0.1, "seed": 5} | change
    found = gz.embed(ring, **options, num_threads=1)
    np.testing.assert_allclose(found, oracle.train(ring, **options), atol=1e-4)


def test_walks_of_the_reference_are_permutations(tmp_path: Path) -> None:
    # The control of the reference itself.
    assert sorted(oracle.shuffled(1000, 3)) == list(range(1000))
