"""Appends: a dataset that grew is the dataset that would have been compiled at once."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from appended import CITES, WRITES, WRITTEN, Grown, GrownTypes, same_data, same_graph

import graphzero as gz


@pytest.mark.parametrize("direction", ["in", "out", "both"])
@pytest.mark.parametrize("directed", [True, False])
def test_a_dataset_that_grew_is_the_one_compiled_at_once(tmp_path: Path, direction: str, directed: bool) -> None:
    source = Grown(tmp_path, direction, directed)
    found = source.base()
    for steps in (1, 2, 3):
        found = source.step(found, steps)
        same_data(found, source.whole(steps))
        found.verify()


def test_a_graph_without_edge_ids_grows_too(tmp_path: Path) -> None:
    source = Grown(tmp_path, plain=True)
    same_data(source.grown(), source.whole())


def test_types_grow_together_and_reverses_follow(tmp_path: Path) -> None:
    source = GrownTypes(tmp_path)
    found = source.grown()
    assert set(found.edge_types) == {WRITES, CITES, WRITTEN, ("paper", "rev_cites", "paper")}
    same_data(found, source.whole())
    found.verify()


def test_types_lose_edges_with_their_reverses(tmp_path: Path) -> None:
    source = GrownTypes(tmp_path)
    ds = source.grown()
    author, paper = (int(end) for end in source.ends[WRITES][:, 0])
    parallel = int((source.ends[WRITES] == [[author], [paper]]).all(axis=0).sum())
    now = ds.append(remove_edges={WRITES: [(author, paper)]}).dataset
    assert now.edges[WRITES].num_edges == now.edges[WRITTEN].num_edges == 900 - parallel
    assert not now.graphs[WRITTEN].has_edge(paper, author)
    now = now.append(remove_edges={WRITES: now.graphs[WRITES].get_edge_ids(5)}).dataset
    assert len(now.graphs[WRITES].get_neighbours(5)) == 0
    now = now.append(remove_nodes={"author": [7]}).dataset
    assert len(now.graphs[WRITTEN].get_neighbours(7)) == 0
    assert now.edges[CITES].num_edges == 700
    now.verify()
    for what in ("edges", "remove_edges"):
        with pytest.raises(ValueError, match=r"has the reverses of .* and changes with it"):
            now.append(**{what: {WRITTEN: [(0, 1)]}})
    with pytest.raises(ValueError, match=r"no node type 'papers'.*did you mean 'paper'"):
        now.append(nodes={"papers": 1})
    with pytest.raises(TypeError, match="edges must be a dict by edge type"):
        now.append(edges=[(0, 1)])


def test_compact_leaves_the_files_of_a_compile(tmp_path: Path) -> None:
    source = Grown(tmp_path)
    ds, whole = source.grown(), source.whole()
    report = ds.compact()
    assert report.deltas > 0
    assert not report.dataset.info["deltas"]
    same_data(report.dataset, whole)
    assert Path(report.dataset.graph.path).read_bytes() == Path(whole.graph.path).read_bytes()
    assert Path(report.dataset.features["x"].path).read_bytes() == Path(whole.features["x"].path).read_bytes()
    assert json.loads((tmp_path / "grown" / "dataset.json").read_text())["version"] == "1.3"
    named = {os.path.relpath(path, tmp_path / "grown") for path in report.dataset.files} | {"dataset.json"}
    assert {str(p.relative_to(tmp_path / "grown")) for p in (tmp_path / "grown").rglob("*") if p.is_file()} == named
    again = report.dataset.compact()
    assert again.deltas == 0
    same_data(
        report.dataset.append(edges=np.array([[0], [1]]), weights=[1.0], times=[3], edge_features=[[0.0, 0.0]]).dataset,
        _plus_one(source),
    )


def _plus_one(source: Grown) -> gz.Dataset:
    source.src, source.dst = np.append(source.src, 0), np.append(source.dst, 1)
    source.weights, source.times = np.append(source.weights, np.float32(1)), np.append(source.times, 3)
    source.edge_attr = np.concatenate([source.edge_attr, np.zeros((1, 2), np.float32)])
    source.edges = (*source.edges[:3], source.edges[3] + 1)
    return source.whole()


def test_an_open_dataset_keeps_what_it_opened(tmp_path: Path) -> None:
    source = Grown(tmp_path)
    ds = source.base()
    before = {"edges": ds.graph.num_edges, "rows": ds.features["x"].shape, "row": ds.graph.get_neighbours(0).tolist()}
    grown = source.step(ds, 1)
    grown = source.step(grown, 2)
    compacted = grown.compact().dataset
    after = {"edges": ds.graph.num_edges, "rows": ds.features["x"].shape, "row": ds.graph.get_neighbours(0).tolist()}
    assert after == before
    same_data(grown, source.whole(2))
    same_data(compacted, grown)
    with pytest.raises(gz.StorageError, match="changed after it was opened; open it again"):
        ds.append(edges=np.array([[0], [1]]), weights=[1.0], times=[1], edge_features=[[0.0, 0.0]])
    with pytest.raises(gz.StorageError, match="was replaced after it was opened"):
        pickle.loads(pickle.dumps(ds))
    assert pickle.loads(pickle.dumps(compacted)).num_nodes == compacted.num_nodes


def test_stores_pickle_with_what_was_appended(tmp_path: Path) -> None:
    ds = Grown(tmp_path).grown()
    graph, store = pickle.loads(pickle.dumps((ds.graph, ds.features["x"])))
    same_graph(graph, ds.graph)
    np.testing.assert_array_equal(store.get_tensor(), ds.features["x"].get_tensor())


def test_the_report_and_what_info_says(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 2]]), features=np.eye(3))
    report = ds.append(edges=[(0, 3), (3, 4)], features=np.ones((2, 3)))
    assert (report.nodes, report.edges, report.edges_removed) == (2, 2, 0)
    assert report.bytes == sum(os.path.getsize(path) for path in report.files) > 0
    assert "2 nodes, 2 edges added" in str(report)
    assert list(report.dataset.info["deltas"]) == ["graph.gl", "features/x.gd"]
    assert report.dataset.info["version"] == "2.0"
    assert report.dataset.nbytes == ds.nbytes + report.bytes
    assert report.dataset.graph.get_neighbours(3).tolist() == [4]
    removed = report.dataset.append(remove_edges=[(0, 1)])
    assert (removed.edges, removed.edges_removed) == (0, 1)
    assert not removed.dataset.graph.has_edge(0, 1)


def test_nothing_to_append(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 2]]))
    manifest = (tmp_path / "d" / "dataset.json").read_bytes()
    with pytest.raises(ValueError, match="nothing to append; pass one of edges=, nodes="):
        ds.append()
    report = ds.append(edges=np.empty((2, 0), np.int64), nodes=0)
    assert (report.nodes, report.edges, report.files) == (0, 0, [])
    assert (tmp_path / "d" / "dataset.json").read_bytes() == manifest


def test_isolated_nodes_and_missing_labels(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 2]]), labels=[0, 1, 1], splits={"train": [0, 2]})
    now = ds.append(nodes=2, splits="train").dataset
    assert (now.num_nodes, now.graph.num_nodes, now.graph.num_edges) == (5, 5, 2)
    assert now.labels.tolist() == [0, 1, 1, -1, -1]
    assert now.splits["train"].tolist() == [0, 2, 3, 4]
    now = now.append(edges=[(0, 6)]).dataset  # no rows are needed, so an edge may name new nodes
    assert (now.num_nodes, len(now.labels)) == (7, 7)


def test_a_split_takes_older_nodes_in_order(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 2]]), num_nodes=6, splits={"a": [3], "b": [0, 5]})
    now = ds.append(splits={"a": [1, 4], "b": []}).dataset
    assert now.splits["a"].tolist() == [1, 3, 4]
    assert now.splits["b"].tolist() == [0, 5]
    now = now.append(remove_nodes=[0, 4]).dataset
    assert {name: ids.tolist() for name, ids in now.splits.items()} == {"a": [1, 3], "b": [5]}
    assert (now.num_nodes, now.graph.num_edges) == (6, 1)


def test_removed_edges_leave_splits_and_both_directions(tmp_path: Path) -> None:
    edges = np.array([[0, 1, 1, 2, 0], [1, 2, 2, 3, 3]])
    ds = gz.Dataset.create(
        tmp_path / "d", edges, direction="both", edge_features=np.arange(5.0), edge_splits={"t": [0, 1, 2, 4]}
    )
    now = ds.append(remove_edges=np.array([[1], [2]])).dataset
    assert now.graph.num_edges == 3
    assert now.edge_splits["t"].tolist() == [0, 4]
    now = now.append(remove_edges=[4], edges=[(1, 2)], edge_features=[9.0]).dataset
    assert now.graph.get_edge_ids(1, direction="out").tolist() == [5]
    assert now.edge_features["edge_attr"].gather([5]).tolist() == [9.0]
    assert now.edge_splits["t"].tolist() == [0]
    assert now.graph.get_neighbours(0, direction="out").tolist() == [1]


def test_a_graph_without_duplicates_and_self_loops_stays_so(tmp_path: Path) -> None:
    edges = np.array([[0, 1, 0, 3], [1, 2, 1, 3]])
    options: dict[str, Any] = {"dedup": True, "self_loops": False, "edge_features": np.arange(4.0)}
    ds = gz.Dataset.create(tmp_path / "d", edges, **options)
    report = ds.append(edges=[(2, 3), (0, 1), (2, 2), (2, 3)], edge_features=[4.0, 5.0, 6.0, 7.0])
    assert (report.edges, report.duplicates_dropped, report.self_loops_dropped) == (1, 2, 1)
    more = np.concatenate([edges, np.array([[2, 0, 2, 2], [3, 1, 2, 3]])], axis=1)
    same_data(report.dataset, gz.Dataset.create(tmp_path / "e", more, **{**options, "edge_features": np.arange(8.0)}))


ROWS = {"features": np.ones((1, 3)), "edges": np.array([[0], [3]])}
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"edges": np.array([[0], [9]])}, IndexError, r"edges\[0\] is 9, expected a node from 0 to 3"),
    ({"edges": np.array([[0], [-1]])}, IndexError, r"edges\[0\] is -1"),
    ({"edges": np.array([[0.5], [1.0]])}, TypeError, "edges must be integers or strings, got dtype float64"),
    ({"edges": np.zeros((3, 3), int)}, ValueError, r"edges has shape \(3, 3\), expected \(2, E\)"),
    ({"edges": [("a", "b")]}, TypeError, "found 'a', expected integers, since ids are not mapped"),
    ({"edges": (np.array([0]), np.array([1]), np.ones(1))}, ValueError, "edges have weights, but the graph has none"),
    ({"features": np.ones((1, 2))}, ValueError, r"features\['x'\] has shape \(1, 2\), expected \(n, 3\)"),
    ({"features": {"z": np.ones((1, 3))}}, ValueError, "no feature 'z'; the dataset has 'x'"),
    ({"features": np.array([["a", "b", "c"]])}, TypeError, "text"),
    ({"features": None, "nodes": 1}, ValueError, "there are 1 new nodes, so 'x' needs a row for each"),
    ({"nodes": 2}, ValueError, r"features\['x'\] has 1 rows, expected 2, one per new node"),
    ({"nodes": -1}, ValueError, "nodes is -1, expected at least 0"),
    ({"nodes": 1.5}, TypeError, "expected a number of new nodes"),
    ({"labels": [7]}, ValueError, r"labels\[0\] is 7, expected less than 2; pass num_classes=8"),
    ({"labels": [0, 1]}, ValueError, r"labels has 2 rows, expected 1"),
    ({"labels": [0.5]}, ValueError, "found labels for regression"),
    ({"splits": {"nope": [3]}}, ValueError, "no such split; the dataset has 'train'"),
    ({"splits": {"train": [77]}}, IndexError, "77"),
    ({"splits": {"train": [0]}}, ValueError, "node 0 is in the split already"),
    ({"edge_features": np.ones(1)}, ValueError, "no edge feature 'edge_attr'"),
    ({"edge_splits": {"a": [0]}}, ValueError, "no such edge split"),
    ({"remove_edges": [(0, 2)]}, ValueError, "there is no edge from 0 to 2"),
    ({"remove_edges": np.array([0])}, ValueError, "the graph stores no edge ids; pass pairs of nodes"),
    ({"remove_nodes": [44]}, IndexError, "44"),
    ({"num_classes": 0}, ValueError, "num_classes is 0"),
    ({"memory": "lots"}, ValueError, "lots"),
    ({"num_threads": "two"}, TypeError, "num_threads"),
    ({"progress": 3}, TypeError, "progress"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "error", "message"), BAD)
def test_a_bad_argument_changes_nothing(
    tmp_path: Path, bad: dict[str, Any], error: type[Exception], message: str
) -> None:
    folder = tmp_path / "d"
    ds = gz.Dataset.create(
        folder, np.array([[0, 1], [1, 2]]), features=np.eye(3), labels=[0, 1, 1], splits={"train": [0]}
    )
    before = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(error, match=message):
        ds.append(**{**ROWS, **bad})
    assert {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_more_classes_when_they_are_asked_for(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 2]]), labels=[0, 1, 1])
    now = ds.append(nodes=1, labels=[4], num_classes=6).dataset
    assert (now.num_classes, now.labels.tolist()) == (6, [0, 1, 1, 4])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool"])
def test_rows_of_every_type(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows = (
        rng.integers(0, 2, (700, 3)).astype(np.float32)
        if dtype in ("bool", "uint8", "int64")
        else rng.standard_normal((700, 3))
    )
    edges = np.array([[0], [1]])
    ds = gz.Dataset.create(tmp_path / "d", edges, features=rows[:600], dtype=dtype)
    now = ds.append(features=rows[600:680]).dataset.append(features=rows[680:]).dataset
    store = now.features["x"]
    assert (store.dtype_name, store.shape) == (dtype, (700, 3))
    expected = gz.Dataset.create(tmp_path / "e", edges, features=rows, num_nodes=700, dtype=dtype).features["x"]
    if dtype == "int8":  # the factors stay those of the first rows
        np.testing.assert_allclose(store.gather(np.arange(700), dtype="float32"), rows, atol=0.1)
    else:
        np.testing.assert_array_equal(store.get_tensor(), expected.get_tensor())


def test_rows_of_several_dimensions(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((9, 2, 3)).astype(np.float32)
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0], [1]]), features=rows[:5])
    now = ds.append(features=rows[5:]).dataset
    np.testing.assert_array_equal(now.features["x"].get_tensor(), rows)
