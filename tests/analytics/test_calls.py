"""What all algorithms promise: the same answer for any threads and way of reading, budgets, files, Ctrl-C, errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import call_with_ctrl_c

import graphzero as gz
from graphzero import analytics

NODES, EDGES = 150_000, 900_000  # several blocks of rows and of edges

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "pagerank": lambda g, **o: analytics.pagerank(g, iterations=5, tolerance=0, **o),
    "pagerank by weight": lambda g, **o: analytics.pagerank(g, iterations=5, tolerance=0, weighted=True, **o),
    "weak": lambda g, **o: analytics.connected_components(g, **o),
    "strong": lambda g, **o: analytics.connected_components(g, connection="strong", **o),
    "bfs": lambda g, **o: analytics.bfs(g, [0, 5], direction="both", **o),
    "hops": lambda g, **o: analytics.hop_counts(g, range(3), **o),
    "degrees": lambda g, **o: analytics.degrees(g, direction="both", **o),
}
SYMMETRIC: dict[str, Callable[..., Any]] = {
    "cores": analytics.core_numbers,
    "triangles": analytics.triangles,
    "communities": lambda g, **o: analytics.label_propagation(g, iterations=4, **o),
    "estimate": lambda g, **o: np.array(analytics.transitivity(g, error=0.05, **o)),
}


@pytest.fixture(scope="module")
def edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    src, dst = (NODES * random.random((2, EDGES)) ** 3).astype(np.int64)
    src[:300_000] = 3  # a row that is longer than a block
    dst[300_000:600_000] = 3
    return src, dst, random.random(EDGES).astype(np.float32)


@pytest.fixture(scope="module", params=["out", "in", "both"])
def directed(request: Any, edges: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gz.Graph]:
    path = tmp_path_factory.mktemp("directed") / "g.gl"
    gz.compile_graph(edges, path, num_nodes=NODES, direction=request.param, progress=False)
    with gz.Graph(path) as graph:
        yield graph


@pytest.fixture(scope="module")
def undirected(edges: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gz.Graph]:
    path = tmp_path_factory.mktemp("undirected") / "g.gl"
    gz.compile_graph(edges[:2], path, num_nodes=NODES, directed=False, progress=False)
    with gz.Graph(path) as graph:
        yield graph


def all_equal(algorithm: Callable[..., Any], graph: gz.Graph) -> None:
    expected = algorithm(graph, num_threads=1, io="mmap")
    for threads, io in ((3, "mmap"), (1, "read"), (2, "read")):
        found = algorithm(graph, num_threads=threads, io=io)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=f"{threads} threads, {io}")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_for_any_threads_and_io(directed: gz.Graph, name: str) -> None:
    all_equal(ALGORITHMS[name], directed)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_same_on_symmetric_rows(undirected: gz.Graph, name: str) -> None:
    all_equal(SYMMETRIC[name], undirected)


def test_missing_directions_change_nothing(edges: Any, tmp_path: Path) -> None:
    found = []
    for direction in ("out", "in", "both"):
        path = tmp_path / f"{direction}.gl"
        gz.compile_graph(tuple(e[600_000:610_000] for e in edges[:2]), path, direction=direction, progress=False)
        with gz.Graph(path) as g:
            found.append([ALGORITHMS[name](g) for name in ("weak", "strong", "bfs", "hops", "degrees")])
            ranks = analytics.pagerank(g)
            np.testing.assert_allclose(ranks, analytics.pagerank(path.parent / "out.gl"), atol=1e-9)
            found[-1] += [analytics.core_numbers(g), analytics.label_propagation(g, direction="in")]
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)
    assert sorted(os.listdir(tmp_path)) == ["both.gl", "in.gl", "out.gl"]  # temporary files are gone


def test_a_budget_is_kept_or_refused(undirected: gz.Graph) -> None:
    with pytest.raises(gz.BudgetError, match=r"memory is 1000 bytes, but components of .* needs at least \d+") as e:
        analytics.connected_components(undirected, memory=1000)
    least = e.value.needed_bytes
    whole = analytics.connected_components(undirected, memory="1GB")
    gz._core.reset_bytes_held_peak()
    before = gz._core.bytes_held()["total"]
    np.testing.assert_array_equal(analytics.connected_components(undirected, memory=least), whole)
    assert gz._core.bytes_held()["peak"] - before <= least


@pytest.mark.parametrize("held", ["1.5MB", "8MB"])
def test_triangles_in_parts(undirected: gz.Graph, held: str) -> None:
    with pytest.raises(gz.BudgetError) as e:
        analytics.triangles(undirected, memory=1000, io="read")
    part = e.value.needed_bytes + int(float(held[:-2]) * 1e6) - 1_000_000
    np.testing.assert_array_equal(
        analytics.triangles(undirected, memory=part, io="read"), analytics.triangles(undirected)
    )


def test_a_result_as_a_file(undirected: gz.Graph, tmp_path: Path) -> None:
    out = tmp_path / "rank.gd"
    store = analytics.pagerank(undirected, out=out)
    assert (store.name, store.shape, store.dtype) == ("pagerank", (NODES,), np.float32)
    np.testing.assert_array_equal(store.get_tensor(), analytics.pagerank(undirected))
    with pytest.raises(ValueError, match=r"the output is a \.gd file"):
        analytics.pagerank(undirected, out=tmp_path / "rank.csv")


def test_progress_is_reported(undirected: gz.Graph) -> None:
    seen = []
    # By one thread: the caller's reports, and others may take all of the blocks before it takes one.
    options = {"iterations": 2, "tolerance": 0, "num_threads": 1}
    analytics.pagerank(undirected, **options, progress=lambda *report: seen.append(report))
    assert {phase for phase, _, _ in seen} == {"PageRank"}
    assert all(0 <= done <= total for _, done, total in seen)


@pytest.mark.parametrize("io", ["mmap", "read"])
def test_ctrl_c_stops_it(undirected: gz.Graph, io: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        call_with_ctrl_c(lambda: analytics.pagerank(undirected, iterations=1_000_000, tolerance=0, io=io))
    assert len(analytics.connected_components(undirected, io=io)) == NODES  # and the next call works


def test_arguments_are_checked(undirected: gz.Graph, tmp_path: Path) -> None:
    for call, message in (
        (lambda g: analytics.bfs(g, NODES), rf"sources\[0\] = {NODES} is out of range"),
        (lambda g: analytics.pagerank(g, personalization={-1: 1.0}), r"personalization\[0\] = -1 is out of range"),
    ):
        with pytest.raises(IndexError, match=message):
            call(undirected)
    for call, message in (
        (lambda g: analytics.bfs(g, 0, direction="up"), "direction is 'up', expected 'out', 'in' or 'both'"),
        (lambda g: analytics.pagerank(g, direction="both"), "direction is 'both', expected 'out' or 'in'"),
        (lambda g: analytics.pagerank(g, dtype="float16"), "expected 'float32' or 'float64'"),
        (lambda g: analytics.pagerank(g, damping=1.5), "damping is 1.5, expected 0 to 1"),
        (lambda g: analytics.pagerank(g, personalization={}), "personalization must have weights"),
        (lambda g: analytics.pagerank(g, start=[1.0]), r"start has shape \(1,\)"),
        (lambda g: analytics.pagerank(g, weighted=True), "no array 'out.weights'; compile the graph with weights"),
        (lambda g: analytics.connected_components(g, connection="no"), "expected 'weak' or 'strong'"),
        (lambda g: analytics.degrees(g, io="tape"), "io is 'tape', expected 'auto', 'mmap' or 'read'"),
        (lambda g: analytics.transitivity(g, error=2), "error is 2"),
    ):
        with pytest.raises(ValueError, match=message):
            call(undirected)
    with pytest.warns(RuntimeWarning, match="more than tolerance=1e-12; raise iterations"):
        analytics.pagerank(undirected, iterations=1, tolerance=1e-12)
    gz.compile_graph(([0], [1]), tmp_path / "r.gl", num_nodes=(1, 2), progress=False)
    for call in (analytics.pagerank, analytics.core_numbers, lambda g: analytics.bfs(g, 0)):
        with pytest.raises(ValueError, match="source nodes"):
            call(tmp_path / "r.gl")
    hetero = gz.HeteroGraph({("a", "to", "b"): tmp_path / "r.gl"})
    with pytest.raises(TypeError, match=r"expected one relation, such as graph\[\('a', 'to', 'b'\)\]"):
        analytics.degrees(hetero)
    assert analytics.degrees(hetero["a", "to", "b"], direction="in").tolist() == [0, 1]
