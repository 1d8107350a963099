"""`gz.embed`: quality, determinism, odd graphs, files, budgets, Ctrl-C, errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from communities import NODES, auc, communities
from waiting import call_with_ctrl_c

import graphzero as gz

SMALL = {"dim": 24, "walk_length": 10, "walks_per_node": 6, "window": 3}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gz.Graph]:
    with communities(tmp_path_factory.mktemp("communities") / "g.gl") as g:
        yield g


@pytest.mark.parametrize(
    "options",
    [
        {"num_threads": 1},
        {"num_threads": 3},
        {"method": "deepwalk"},
        {"p": 0.5, "q": 2.0},
        {"dim": 9},
        {"negatives": 20},
    ],
)
def test_communities_are_told_apart(graph: gz.Graph, options: dict[str, object]) -> None:
    x = gz.embed(graph, **{**SMALL, **options}, seed=3)
    assert (x.shape, x.dtype) == ((NODES, options.get("dim", 24)), np.float32)
    assert auc(x) > 0.9
    assert auc(np.random.default_rng(0).normal(size=x.shape)) < 0.6  # chance


def test_a_wide_window(graph: gz.Graph) -> None:
    x = gz.embed(graph, dim=24, walk_length=60, walks_per_node=2, window=20, seed=1, num_threads=1)  # 40 contexts
    assert auc(x) > 0.8


def test_one_thread_is_deterministic(graph: gz.Graph) -> None:
    first, again, other = (gz.embed(graph, **SMALL, seed=seed, num_threads=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("weighted", [False, True])
def test_directed_and_weighted_graphs(tmp_path: Path, direction: str, weighted: bool) -> None:
    with communities(tmp_path / "g.gl", directed=True, direction=direction, weighted=True) as g:
        assert auc(gz.embed(g, **SMALL, weighted=weighted)) > 0.85
        if direction == "both":
            assert auc(gz.embed(g, **SMALL, weighted=weighted, direction="in")) > 0.85


def test_weights_decide(tmp_path: Path) -> None:
    # All pairs are edges; those inside the two halves weigh a thousand times as much.
    src, dst = np.nonzero(~np.eye(40, dtype=bool))
    weights = np.where(src % 2 == dst % 2, 1.0, 0.001).astype(np.float32)
    gz.compile_graph((src, dst, weights), tmp_path / "g.gl", num_nodes=40, progress=False)
    halves = np.arange(40) % 2
    near = gz.neighbours(gz.embed(tmp_path / "g.gl", **SMALL, epochs=3, weighted=True), k=5).ids
    assert (halves[near] == halves[:, None]).mean() > 0.95
    near = gz.neighbours(gz.embed(tmp_path / "g.gl", **SMALL, epochs=3), k=5).ids
    assert (halves[near] == halves[:, None]).mean() < 0.75


def test_nodes_without_walks_are_zero(tmp_path: Path) -> None:
    gz.compile_graph(([0, 1, 4], [1, 2, 4]), tmp_path / "g.gl", num_nodes=6, progress=False)
    x = gz.embed(tmp_path / "g.gl", **SMALL)  # 0 -> 1 -> 2, a node with only a self-loop, two without edges
    assert np.isfinite(x).all()
    assert np.flatnonzero(x.any(axis=1)).tolist() == [0, 1, 2]
    gz.compile_graph((np.empty(0, int), np.empty(0, int)), tmp_path / "e.gl", num_nodes=4, progress=False)
    np.testing.assert_array_equal(gz.embed(tmp_path / "e.gl", dim=3), np.zeros((4, 3), np.float32))


def test_one_relation_of_a_typed_dataset(tmp_path: Path) -> None:
    pairs = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    graphs = {("a", "to", "a"): pairs, ("a", "has", "b"): np.stack([np.arange(20), np.zeros(20, int)])}
    data = gz.Dataset.create(tmp_path / "typed", graphs=graphs)
    assert gz.embed(data.edges["a", "to", "a"].graph, **SMALL).shape == (20, 24)
    with pytest.raises(ValueError, match="source nodes"):
        gz.embed(data.edges["a", "has", "b"].graph)
    with pytest.raises(TypeError, match="expected one relation"):
        gz.embed(data.hetero)


def test_a_result_as_a_file(graph: gz.Graph, tmp_path: Path) -> None:
    out = tmp_path / "vectors.gd"
    store = gz.embed(graph, **SMALL, num_threads=1, out=out)
    assert (store.path, store.name, store.shape) == (str(out), "x", (NODES, 24))
    np.testing.assert_array_equal(np.asarray(store), gz.embed(graph, **SMALL, num_threads=1))
    gz.verify(out)
    assert os.listdir(tmp_path) == ["vectors.gd"]


# -- budgets ----------------------------------------------------------------------------------------------------------


def least_memory(graph: gz.Graph, **options: object) -> int:
    with pytest.raises(gz.BudgetError, match=r"needs at least \d+, and \d+ to stay in RAM") as e:
        gz.embed(graph, memory=1000, out="vectors.gd", **options)
    return e.value.needed_bytes


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_partitions_learn_the_same(graph: gz.Graph, tmp_path: Path, share: float) -> None:
    options = {**SMALL, "dim": 200, "num_threads": 1}
    least, whole = least_memory(graph, **options), 2 * 4 * 200 * NODES
    memory = int(least + share * whole)
    gz._core.reset_bytes_held_peak()
    before = gz._core.bytes_held()["total"]
    store = gz.embed(graph, **options, memory=memory, out=tmp_path / "x.gd")
    assert gz._core.bytes_held()["peak"] - before <= memory
    assert auc(np.asarray(store)) > 0.9
    assert os.listdir(tmp_path) == ["x.gd"]


def test_partitions_are_deterministic_too(graph: gz.Graph, tmp_path: Path) -> None:
    options = {**SMALL, "dim": 200, "num_threads": 1, "memory": least_memory(graph, dim=200)}
    x, y = (np.asarray(gz.embed(graph, **options, out=tmp_path / f"{i}.gd")) for i in range(2))
    np.testing.assert_array_equal(x, y)


def test_an_array_from_partitions(graph: gz.Graph) -> None:
    options = {**SMALL, "dim": 1000, "num_threads": 1}
    assert auc(gz.embed(graph, **options, memory=2_000_000)) > 0.9  # the result is 1.2 MB, and both vectors are 2.4 MB


def test_an_array_that_does_not_fit(graph: gz.Graph) -> None:
    with pytest.raises(gz.BudgetError, match=r"memory is 1000 bytes, but 300 vectors .* with out='vectors.gd'") as e:
        gz.embed(graph, memory=1000)
    assert e.value.needed_bytes == 4 * NODES * 128


# -- progress, interrupts, kills --------------------------------------------------------------------------------------


def test_progress_is_reported(graph: gz.Graph) -> None:
    seen: list[tuple[str, int, int]] = []
    gz.embed(graph, **SMALL, num_threads=1, progress=lambda *report: seen.append(report))
    assert {phase for phase, _, _ in seen} == {"training"}
    assert all(0 < done <= total == 6 * NODES for _, done, total in seen)


def test_ctrl_c_leaves_no_file(graph: gz.Graph, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        call_with_ctrl_c(lambda: gz.embed(graph, walks_per_node=1000, epochs=1000, out=tmp_path / "x.gd"))
    assert os.listdir(tmp_path) == []
    assert gz.embed(graph, **SMALL).shape == (NODES, 24)  # and the next call works


KILLED = """
import os, signal, sys
import graphzero as gz
def progress(phase, done, total):
    if phase == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
gz.embed(sys.argv[1], dim=200, memory=int(sys.argv[4]), out=sys.argv[2], progress=progress)
"""


@pytest.mark.parametrize("phase", ["training", "writing vectors", "reading vectors"])
def test_a_kill_leaves_no_file(graph: gz.Graph, tmp_path: Path, phase: str) -> None:
    memory = least_memory(graph, dim=200)
    arguments = [graph.path, str(tmp_path / "x.gd"), phase, str(memory)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "line"}, "method is 'line', expected 'node2vec' or 'deepwalk'"),
        ({"method": "deepwalk", "q": 2.0}, "DeepWalk has neither, use method='node2vec'"),
        ({"p": 0.0}, "p is 0, expected a positive, finite number"),
        ({"q": float("nan")}, "q is nan, expected a positive"),
        ({"direction": "both"}, "direction is 'both', expected 'out' or 'in'"),
        ({"direction": "in"}, "direction"),
        ({"weighted": True}, "edges have no weights"),
        ({"learning_rate": 0}, "learning_rate is 0, expected a positive, finite number"),
        ({"learning_rate": float("inf")}, "learning_rate is inf"),
        ({"learning_rate": 50.0}, "training diverged: the vector of node .* learning_rate is 50, try a smaller one"),
        ({"dim": 2**17}, "dim is 131072, expected 1 to 65536"),
        ({"epochs": 2000, "walks_per_node": 2000}, "epochs is 2000, expected 1 to 524"),
        ({"out": "x.csv"}, r"the output is a \.gd file"),
        *[({name: 0}, f"{name} is 0, expected at least 1") for name in (*SMALL, "epochs", "negatives")],
        *[({name: 2**40}, f"{name} is .*, expected") for name in (*SMALL, "epochs", "negatives")],
    ],
)
def test_bad_values_are_refused(graph: gz.Graph, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gz.embed(graph, **options)


@pytest.mark.parametrize(
    "options", [{"dim": 2.5}, {"dim": True}, {"p": "1"}, {"learning_rate": "0.1"}, {"progress": 3}, {"seed": "x"}]
)
def test_bad_types_are_refused(graph: gz.Graph, options: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        gz.embed(graph, **options)


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a Graph, a Dataset or the path"):
        gz.embed(np.zeros((3, 3)))
    with pytest.raises(FileNotFoundError):
        gz.embed(tmp_path / "none.gl")
