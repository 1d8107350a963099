"""Every algorithm against SciPy and NetworkX, on graphs of odd shapes, by either way of reading edges."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_graphs import OddGraph, odd_graphs
from scipy.sparse import csgraph

import graphzero as gz
from graphzero import analytics

IO = st.sampled_from(["mmap", "read"])
MANY = settings(max_examples=200)
SOME = settings(max_examples=60)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """In RAM if possible: each of some thousand small files is synced when it is published."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


def numbered(labels: Any) -> np.ndarray:
    """Labels as 0, 1, 2, ... by first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def as_multigraph(odd: OddGraph, weighted: bool = False) -> nx.DiGraph:
    matrix = odd.matrix(weighted).tocoo()
    graph = nx.DiGraph()
    graph.add_nodes_from(range(odd.shape[0]))
    graph.add_weighted_edges_from(zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True))
    return graph


def as_simple(odd: OddGraph) -> nx.Graph:
    return nx.from_scipy_sparse_array(odd.simple())


@MANY
@given(odd=odd_graphs(), io=IO, weighted=st.booleans(), reverse=st.booleans(), some=st.booleans())
def test_pagerank(folder: Path, odd: OddGraph, io: str, weighted: bool, reverse: bool, some: bool) -> None:
    g = odd.compile(folder, weighted)
    near = {0: 1.0, odd.shape[0] - 1: 2.5} if some and odd.shape[0] > 1 else None
    direction = "in" if reverse else "out"
    options = {"weighted": weighted, "personalization": near, "direction": direction, "iterations": 200, "io": io}
    found = analytics.pagerank(g, tolerance=1e-9, dtype="float64", **options)
    single = analytics.pagerank(g, tolerance=0, **options)
    graph = as_multigraph(odd, weighted)
    expected = nx.pagerank(graph.reverse() if reverse else graph, personalization=near, tol=1e-12, max_iter=500)
    expected = np.array([expected[i] for i in range(odd.shape[0])])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(single, expected, atol=1e-6)


@MANY
@given(odd=odd_graphs(), io=IO)
def test_components(folder: Path, odd: OddGraph, io: str) -> None:
    g = odd.compile(folder)
    for connection in ("weak", "strong"):
        found = analytics.connected_components(g, connection=connection, io=io)
        expected = csgraph.connected_components(odd.matrix(), connection=connection)[1] if odd.shape[0] else []
        np.testing.assert_array_equal(found, numbered(expected))


@SOME
@given(odd=odd_graphs(square=False), io=IO)
def test_components_of_two_kinds_of_nodes(folder: Path, odd: OddGraph, io: str) -> None:
    sources, targets = odd.shape
    whole = np.zeros((sources + targets, sources + targets))
    whole[:sources, sources:] = odd.matrix().toarray()
    found = analytics.connected_components(odd.compile(folder), io=io)
    np.testing.assert_array_equal(found, numbered(csgraph.connected_components(whole)[1]))


@MANY
@given(odd=odd_graphs(), io=IO, seed=st.integers(0, 99), limit=st.sampled_from([None, None, 0, 1, 2]))
def test_hops(folder: Path, odd: OddGraph, io: str, seed: int, limit: int | None) -> None:
    g, nodes = odd.compile(folder), odd.shape[0]
    sources = np.random.default_rng(seed).integers(0, nodes, min(nodes, 3)) if nodes else np.array([], np.int64)
    matrix = odd.matrix()
    ways = {"out": matrix, "in": matrix.T, "both": matrix + matrix.T}
    for direction, way in ways.items():
        each = np.zeros((len(sources), nodes), np.int64)
        if nodes:
            hops = csgraph.shortest_path(way, unweighted=True, indices=sources)
            hops[hops > (np.inf if limit is None else limit)] = np.inf
            each = np.where(np.isinf(hops), -1, hops).astype(np.int64)
        found = analytics.hop_counts(g, sources, direction=direction, limit=limit, io=io)
        np.testing.assert_array_equal(found, each)
        if nodes:
            nearest = np.where(each < 0, nodes, each).min(0)
            levels = analytics.bfs(g, sources, direction=direction, limit=limit, io=io)
            np.testing.assert_array_equal(levels, np.where(nearest == nodes, -1, nearest))


@SOME
@given(odd=st.one_of(odd_graphs(), odd_graphs(square=False)), io=IO)
def test_degrees(folder: Path, odd: OddGraph, io: str) -> None:
    g, matrix = odd.compile(folder), odd.matrix()
    out, into = matrix.sum(1), matrix.sum(0)
    np.testing.assert_array_equal(analytics.degrees(g, io=io), out)
    np.testing.assert_array_equal(analytics.degrees(g, direction="in", io=io), into)
    if odd.shape[0] == odd.shape[1]:
        both = out if odd.undirected else out + into
        np.testing.assert_array_equal(analytics.degrees(g, direction="both", io=io), both)


@MANY
@given(odd=odd_graphs(), io=IO)
def test_cores_and_triangles(folder: Path, odd: OddGraph, io: str) -> None:
    g, simple = odd.compile(folder), as_simple(odd)

    def by_node(values: dict[int, Any]) -> list[Any]:
        return [values[i] for i in range(odd.shape[0])]

    np.testing.assert_array_equal(analytics.core_numbers(g, io=io), by_node(nx.core_number(simple)))
    np.testing.assert_array_equal(analytics.triangles(g, io=io), by_node(nx.triangles(simple)))
    np.testing.assert_allclose(analytics.clustering(g, io=io), by_node(nx.clustering(simple)))
    if odd.shape[0]:
        assert float(analytics.average_clustering(g, io=io)) == pytest.approx(nx.average_clustering(simple))
    assert float(analytics.transitivity(g, io=io)) == pytest.approx(nx.transitivity(simple))


@SOME
@given(odd=odd_graphs(), io=IO, seed=st.integers(0, 3))
def test_stable_labels_are_those_of_most_neighbours(folder: Path, odd: OddGraph, io: str, seed: int) -> None:
    labels = analytics.label_propagation(odd.compile(folder), iterations=200, seed=seed, io=io)
    np.testing.assert_array_equal(labels, numbered(labels))
    simple = odd.simple()
    for node in range(odd.shape[0]):
        row = simple.indices[simple.indptr[node] : simple.indptr[node + 1]]
        if len(row):
            votes = np.bincount(labels[row])
            assert labels[node] < len(votes)
            assert votes[labels[node]] == votes.max()


def test_estimates_keep_their_error(folder: Path) -> None:
    random = np.random.default_rng(5)
    src, dst = random.integers(0, 60, (2, 500))
    odd = OddGraph((60, 60), src, dst, np.ones(500, np.float32), False, "out")
    g, simple = odd.compile(folder), as_simple(odd)
    mean = analytics.average_clustering(g, error=0.02, seed=1)
    assert abs(mean.value - nx.average_clustering(simple)) <= mean.error == 0.02
    share = analytics.transitivity(g, error=0.02, confidence=0.999, seed=1)
    assert abs(share.value - nx.transitivity(simple)) <= share.error
    assert share.samples > mean.samples > 0
    assert gz.analytics.average_clustering(g).error == 0.0
