"""Batches whose layer-neighbour samples depend on each other: slow changes, and each batch as random as before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pytest.importorskip("torch")
DEGREE, FANOUT = 40, 10


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> gz.Graph:
    """Node 0 has 40 neighbours."""
    path = tmp_path_factory.mktemp("dependency") / "star.gl"
    edges = np.stack([np.arange(1, DEGREE + 1), np.zeros(DEGREE, np.int64)])
    gz.compile_graph(edges, path, num_nodes=DEGREE + 1, direction="in")
    return gz.Graph(path)


def chosen(graph: gz.Graph, batches: int, epoch: int = 0, **options: Any) -> np.ndarray:
    """Which neighbours each batch has, as a table of bools; all batches are around node 0."""
    options = {"method": "labor", "seed": 3, "memory": "50MB", "num_threads": 1, "batch_size": 1} | options
    loader = gz.NeighborLoader(graph, fanouts=[FANOUT], seeds=np.zeros(batches, np.int64), **options)
    loader.set_epoch(epoch)
    found = np.zeros((len(loader), DEGREE), bool)
    for row, batch in zip(found, loader, strict=True):
        row[np.asarray(batch.n_id)[1:] - 1] = True
    assert (found.sum(1) == FANOUT).all()
    return found


def test_a_dependency_of_one_is_none(star: gz.Graph) -> None:
    assert np.array_equal(chosen(star, 8, batch_dependency=1), chosen(star, 8))


@pytest.mark.parametrize("k", [2, 7, 32])
def test_neighbours_change_slowly(star: gz.Graph, k: int) -> None:
    found = chosen(star, 40 * k, batch_dependency=k)
    kept = (found[1:] & found[:-1]).sum(1).mean() / FANOUT
    # A neighbour that draws a new number stays with probability 1/4, and others are pushed out by those that come in:
    # at most two changes for each of 40 / k that draw anew.
    assert kept >= 1 - 2 * DEGREE / k / FANOUT * 0.3
    apart = (found[k:] & found[:-k]).sum(1).mean() / FANOUT  # all have drawn anew: a quarter in common
    assert abs(apart - FANOUT / DEGREE) < 0.1


@pytest.mark.parametrize("number", [0, 3, 7])
def test_a_single_batch_is_uniform(star: gz.Graph, number: int) -> None:
    epochs = 600
    found = np.array([chosen(star, number + 1, epoch, batch_dependency=8)[number] for epoch in range(epochs)])
    share = FANOUT / DEGREE
    counts = found.sum(0)
    # Draws without replacement have a smaller variance than the binomial by (40 - 10) / (40 - 1) in all: the sum below
    # is chi-square with 39 degrees of freedom, which exceeds 95 with a probability below 1e-6.
    assert ((counts - epochs * share) ** 2).sum() / (epochs * share * (1 - share)) * (DEGREE - 1) / DEGREE < 95
    pairs = (found[:, ::2] & found[:, 1::2]).sum()  # 20 disjoint pairs, each in a sample with probability 10/40 * 9/39
    expected = epochs * 20 * share * 9 / 39
    assert abs(pairs - expected) < 6 * np.sqrt(expected)  # 6 standard deviations


def test_epochs_differ_and_repeat(star: gz.Graph) -> None:
    first = chosen(star, 16, 0, batch_dependency=8)
    assert np.array_equal(first, chosen(star, 16, 0, batch_dependency=8, num_threads=2))
    assert not np.array_equal(first, chosen(star, 16, 1, batch_dependency=8))


def test_ranks_get_the_batches_of_one_process(star: gz.Graph) -> None:
    whole = chosen(star, 24, batch_dependency=8)
    parts = [chosen(star, 24, batch_dependency=8, rank=rank, world_size=2) for rank in range(2)]
    assert np.array_equal(whole[::2], parts[0])
    assert np.array_equal(whole[1::2], parts[1])


def test_successive_batches_share_more_nodes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    gz.compile_graph(rng.integers(0, 4000, (2, 120_000)), tmp_path / "g.gl", num_nodes=4000, direction="in")

    def shared(k: int) -> float:
        options = {"fanouts": [3, 3], "batch_size": 32, "seed": 0, "method": "labor", "memory": "100MB"}
        loader = gz.NeighborLoader(gz.Graph(tmp_path / "g.gl"), batch_dependency=k, shuffle=True, **options)
        nodes = [set(batch.n_id.tolist()) for batch in loader]
        return float(np.mean([len(a & b) / len(b) for a, b in pairwise(nodes)]))

    assert shared(32) > 1.5 * shared(1)


def test_links_take_it_too(star: gz.Graph) -> None:
    options = {"fanouts": [FANOUT], "method": "labor", "seed": 1, "exclude": "none", "memory": "50MB"}
    edges = np.array([[1] * 8, [0] * 8])
    different = []
    for k in (1, 1000):
        loader = gz.LinkNeighborLoader(star, edges=edges, batch_size=1, batch_dependency=k, **options)
        different.append(len({tuple(sorted(batch.n_id.tolist())) for batch in loader}))
    assert different[0] == 8
    assert different[1] <= 2


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError), ("8", TypeError)])
def test_bad_values_are_refused(star: gz.Graph, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="batch_dependency"):
        gz.NeighborLoader(star, fanouts=[2], method="labor", batch_dependency=value)


def test_other_methods_are_refused(star: gz.Graph) -> None:
    with pytest.raises(ValueError, match="batch_dependency is 8, which needs method 'labor'"):
        gz.NeighborLoader(star, fanouts=[2], batch_dependency=8)
