"""Datasets of several node and edge types: made, opened, verified, and refused where parts do not fit."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

RNG = np.random.default_rng(3)
AUTHORS, PAPERS, FIELDS = 7, 10, 4
WRITES, CITES, TOPIC = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "topic", "field")
EDGES: dict[tuple[str, str, str], Any] = {
    WRITES: np.stack([RNG.integers(0, AUTHORS, 25), RNG.integers(0, PAPERS, 25)]),
    CITES: np.stack([RNG.integers(0, PAPERS, 30), RNG.integers(0, PAPERS, 30)]),
    TOPIC: np.stack([RNG.integers(0, PAPERS, 12), RNG.integers(0, FIELDS, 12)]),
}
X = RNG.standard_normal((PAPERS, 3)).astype(np.float32)
Y = RNG.integers(0, 3, PAPERS)
YEAR = RNG.integers(2000, 2020, 25).astype(np.int32)
COUNTS = {"author": AUTHORS, "field": FIELDS}


def create(folder: Path, **changes: Any) -> gz.Dataset:
    given: dict[str, Any] = {
        "graphs": EDGES,
        "num_nodes": COUNTS,
        "features": {"paper": {"x": X, "time": np.arange(PAPERS)}, "field": np.eye(FIELDS, dtype=np.float32)},
        "labels": {"paper": Y},
        "splits": {"paper": {"train": [3, 1, 2], "test": np.arange(PAPERS) == 9}},
        "edge_features": {WRITES: {"year": YEAR}},
        "edge_splits": {CITES: {"train": [5, 0], "held": [[0, 1], [2, 3], [9, 9]]}},
    }
    return gz.Dataset.create(folder, **{**given, **changes})


def edges_of(graph: gz.Graph) -> list[tuple[int, int]]:
    rows = range(graph.num_targets)
    return sorted((int(u), v) for v in rows for u in graph.get_neighbours(v, direction="in"))


def pairs(edges: Any) -> list[tuple[int, int]]:
    return sorted(map(tuple, np.asarray(edges).T.tolist()))


def test_every_part_is_there(tmp_path: Path) -> None:
    create(tmp_path / "ds")
    ds = gz.Dataset(tmp_path / "ds")
    assert ds.metadata() == (["author", "field", "paper"], [WRITES, CITES, TOPIC])
    assert {t: data.num_nodes for t, data in ds.nodes.items()} == {"author": 7, "field": 4, "paper": 10}
    for edge_type, edges in EDGES.items():
        graph = ds.edges[edge_type].graph
        assert graph is ds.graphs[edge_type] is ds.graphs["__".join(edge_type)]
        assert graph.direction == "in"
        assert edges_of(graph) == pairs(edges)
    assert np.array_equal(ds.nodes["paper"].features["x"].get_tensor(), X)
    assert np.array_equal(ds.nodes["field"].features["x"].get_tensor(), np.eye(FIELDS))
    assert list(ds.nodes["author"].features) == []
    assert (ds.num_classes, ds.labels.tolist()) == (3, Y.tolist())  # the labelled type is the default
    assert {name: ids.tolist() for name, ids in ds.splits.items()} == {"train": [1, 2, 3], "test": [9]}
    assert ds.edges[CITES].splits["train"].tolist() == [0, 5]
    assert ds.edges[CITES].splits["held"].tolist() == [[0, 1], [2, 3], [9, 9]]
    assert ds.edges["author__writes__paper"].features["year"].get_tensor().tolist() == YEAR.tolist()
    assert ds.verify()["files"] == len(ds.files) == 12


def test_edge_features_follow_their_edges(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds")
    data = ds.edges[WRITES]
    year = data.features["year"].get_tensor()
    for paper in range(PAPERS):
        for author, e in zip(data.graph.get_neighbours(paper), data.graph.get_edge_ids(paper), strict=True):
            assert EDGES[WRITES][:, e].tolist() == [author, paper]
            assert year[e] == YEAR[e]
    assert data.num_ids == 25
    assert not ds.edges[TOPIC].graph.has_edge_ids


def test_the_whole_graph_is_sampled_together(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds")
    assert ds.hetero is ds.hetero
    assert ds.hetero.metadata() == ds.metadata()
    assert ds.hetero.num_nodes == {"author": 7, "field": 4, "paper": 10}
    found = ds.hetero.sample({"paper": np.arange(PAPERS)}, [-1], seed=1)
    assert len(found.row[WRITES]) == 25


def test_a_dict_of_edge_types_is_taken_in_the_place_of_the_graph(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "ds", {WRITES: EDGES[WRITES]})
    assert ds.edge_types == [WRITES]
    assert ds.nodes["author"].num_nodes == EDGES[WRITES][0].max() + 1


def test_counts_nobody_declared_are_the_largest_that_an_edge_type_needs(tmp_path: Path) -> None:
    edges = {
        ("a", "to", "b"): [(0, 1), (2, 0)],
        ("b", "in", "b"): [(0, 5), (5, 5)],
        ("b", "back", "a"): iter([(np.array([3, 0]), np.array([0, 4]))]),
    }
    ds = gz.Dataset.create(tmp_path / "ds", graphs=edges, edge_features={("b", "back", "a"): np.array([7, 8])})
    assert ds.hetero.num_nodes == {"a": 5, "b": 6}
    assert edges_of(ds.graphs["b__back__a"]) == [(0, 4), (3, 0)]
    assert ds.graphs["b__back__a"].get_edge_ids(0).tolist() == [0]
    assert ds.edges["b__back__a"].num_ids == 2
    ds.verify()


def test_reverse_relations_share_the_rows_of_their_edges(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds", reverse=True)
    assert ds.edge_types[3:] == [
        ("paper", "rev_writes", "author"),
        ("paper", "rev_cites", "paper"),
        ("field", "rev_topic", "paper"),
    ]
    for edge_type, edges in EDGES.items():
        back = ds.graphs[edge_type[2], f"rev_{edge_type[1]}", edge_type[0]]
        assert edges_of(back) == pairs(edges[::-1])
    back, data = ds.edges["paper", "rev_writes", "author"], ds.edges[WRITES]
    assert back.features["year"].path == data.features["year"].path
    for author in range(AUTHORS):
        for paper, e in zip(back.graph.get_neighbours(author), back.graph.get_edge_ids(author), strict=True):
            assert EDGES[WRITES][:, e].tolist() == [author, paper]
    ds.verify()


def test_compiled_files_are_linked_in_or_compiled_again_to_fit(tmp_path: Path) -> None:
    gz.compile_graph(EDGES[WRITES], tmp_path / "w.gl", num_nodes=(AUTHORS, PAPERS), direction="in", edge_ids=True)
    gz.compile_graph(EDGES[CITES], tmp_path / "c.gl", direction="out")  # sampling needs rows by target
    graphs = {WRITES: tmp_path / "w.gl", CITES: gz.Graph(tmp_path / "c.gl")}
    ds = gz.Dataset.create(
        tmp_path / "ds", graphs=graphs, features={"paper": X}, edge_features={WRITES: {"year": YEAR}}
    )
    assert os.path.samefile(ds.graphs[WRITES].path, tmp_path / "w.gl")
    assert ds.graphs[CITES].direction == "in"
    assert edges_of(ds.graphs[CITES]) == pairs(EDGES[CITES])
    assert ds.edges[WRITES].num_ids == 25
    ds.verify()


def test_options_of_one_edge_type_and_of_all(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("paper,author,w\n1,0,0.5\n0,2,0.25\n")
    ds = gz.Dataset.create(
        tmp_path / "ds",
        graphs={WRITES: tmp_path / "w.csv", CITES: EDGES[CITES]},
        columns={WRITES: ("author", "paper")},
        weights={WRITES: "w"},
        direction="both",
    )
    assert edges_of(ds.graphs[WRITES]) == [(0, 1), (2, 0)]
    assert ds.graphs[WRITES].get_weights(1, direction="in").tolist() == [0.5]
    assert {graph.direction for graph in ds.graphs.values()} == {"both"}


def test_homogeneous_datasets_have_edge_features_and_splits_too(tmp_path: Path) -> None:
    edges = EDGES[CITES]
    rows = np.arange(60, dtype=np.float32).reshape(30, 2)
    ds = gz.Dataset.create(tmp_path / "ds", edges, edge_features=rows, edge_splits={"train": np.arange(30) < 20})
    assert ds.edge_types == [("node", "to", "node")]
    assert not ds.is_typed
    assert np.array_equal(ds.edge_features["edge_attr"].get_tensor(), rows)
    assert ds.edge_splits["train"].tolist() == list(range(20))
    assert ds.graph.has_edge_ids
    ds.verify()
    again = gz.Dataset.create(tmp_path / "again", ds.graph, edge_features=ds.edge_features)
    assert again.edges[ds.edge_types[0]].num_ids == 30
    bare = gz.Dataset.create(tmp_path / "bare", edges, edge_splits={"test": edges})
    assert bare.edge_splits["test"].tolist() == edges.T.tolist()
    assert not bare.graph.has_edge_ids
    with pytest.raises(ValueError, match=r"no edge ids, so rows cannot be matched .* edge_ids=True"):
        gz.Dataset.create(tmp_path / "no", bare.graph, edge_features=rows)
    assert not (tmp_path / "no").exists()


def test_reordered_nodes_keep_their_edge_splits(tmp_path: Path) -> None:
    edges = EDGES[CITES]
    splits = {"ids": [4, 2], "pairs": edges[:, 5:9]}
    ds = gz.Dataset.create(tmp_path / "ds", edges, edge_splits=splits, direction="in")
    new = gz.reorder(ds, tmp_path / "new", by="degree")
    assert new.edge_splits["ids"].tolist() == [2, 4]
    assert new.ids.to_original(new.edge_splits["pairs"].reshape(-1)).reshape(-1, 2).tolist() == edges[:, 5:9].T.tolist()
    assert new.edge_splits["pairs"].tolist() != edges[:, 5:9].T.tolist()
    new.verify()


def test_repr_info_and_pickle(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds")
    assert repr(ds).startswith(
        "Dataset('ds', nodes author: 7, field: 4 (x), paper: 10 (x, time); edges author-writes-paper: 25, "
    )
    assert ds.info["edge_types"]["paper__cites__paper"] == {"edges": 30, "features": [], "splits": ["train", "held"]}
    json.dumps(ds.info)
    assert pickle.loads(pickle.dumps(ds)).metadata() == ds.metadata()
    assert "num_edges=25" in repr(ds.edges[WRITES])


def test_unknown_types_are_told_with_those_there_are(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds")
    with pytest.raises(KeyError, match=r"no edge type \('author', 'wrote', 'paper'\); the dataset has \('author'"):
        ds.edges["author", "wrote", "paper"]
    with pytest.raises(KeyError, match="no edge type 'author__wrote__paper'; the dataset has 'author__writes"):
        ds.graphs["author", "wrote", "paper"]


def test_reorder_says_that_it_takes_one_type(tmp_path: Path) -> None:
    ds = create(tmp_path / "ds")
    with pytest.raises(ValueError, match=r"has 3 node types \(author, field, paper\); reorder supports only one"):
        gz.reorder(ds, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"graphs": {}}, TypeError, "graphs must be a dict of edge types"),
        ({"graphs": {("a", "b"): [(0, 0)]}}, TypeError, "an edge type is three names"),
        ({"graphs": {("a", "b/c", "d"): [(0, 0)]}}, ValueError, "'b/c' is not a valid name"),
        ({"graph": [(0, 1)]}, TypeError, "either graph, the edges of one type, or graphs"),
        ({"num_nodes": 5}, TypeError, "num_nodes must be a dict by node type"),
        ({"num_nodes": {**COUNTS, "paper": 9}}, ValueError, r"features\['paper'\]\['x'\] has 10 rows, expected 9"),
        (
            {"num_nodes": {**COUNTS, "author": 3}},
            gz.InputError,
            r"\('author', 'writes', 'paper'\): edge 0: found src 5, expected a node id from 0 to 2",
        ),
        ({"features": {"papr": X}}, ValueError, "features: no node type 'papr'; the edge types have 'author'"),
        ({"features": X}, TypeError, "features must be a dict by node type"),
        ({"labels": {"paper": Y[:4]}}, ValueError, r"labels\['paper'\] has 4 rows, expected 10"),
        ({"labels": {"paper": Y - 5}}, ValueError, r"labels\['paper'\]\[\d\] is -5"),
        (
            {"splits": {"paper": {"train": [10]}}},
            IndexError,
            r"splits\['paper'\]\['train'\]\[0\] = 10 is out of range",
        ),
        ({"splits": {"paper": [1]}}, TypeError, r"splits\['paper'\] must be a dict by name"),
        ({"edge_features": {("a", "b", "c"): YEAR}}, ValueError, r"no edge type \('a', 'b', 'c'\); the dataset has"),
        ({"edge_features": {WRITES: YEAR[:5]}}, ValueError, "has 5 rows, expected 25, one per edge of the source"),
        ({"edge_splits": {CITES: {"t": [30]}}}, IndexError, r"\[0\] = 30 is out of range for 30 edges"),
        (
            {"edge_splits": {WRITES: {"t": [[6, 9], [7, 0]]}}},
            IndexError,
            r"\[:, 0\]\[1\] = 7 is out of range",
        ),
        ({"edge_splits": {CITES: {"t": [0.5]}}}, TypeError, "must be integers"),
        ({"num_classes": 2}, ValueError, "expected less than num_classes = 2"),
        ({"directed": False}, ValueError, "directed=False needs edges within one node type"),
        ({"ids": {"paper": "nowhere.gd"}}, OSError, "no id map"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_old_dataset_stays(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    create(tmp_path / "ds")
    before = {path: path.read_bytes() for path in (tmp_path / "ds").rglob("*") if path.is_file()}
    with pytest.raises(error, match=message):
        create(tmp_path / "ds", overwrite=True, **changes)
    assert {path: path.read_bytes() for path in (tmp_path / "ds").rglob("*") if path.is_file()} == before
    with pytest.raises(error, match=message):
        create(tmp_path / "new", **changes)
    assert not (tmp_path / "new").exists()


def test_a_typed_dataset_replaces_another_by_one_rename(tmp_path: Path) -> None:
    old = create(tmp_path / "ds")
    new = create(tmp_path / "ds", overwrite=True, labels={"paper": np.zeros(PAPERS, int)})
    assert (old.labels.tolist(), new.labels.tolist()) == (Y.tolist(), [0] * PAPERS)
    assert sorted(os.listdir(tmp_path / "ds"))[0] == "dataset.json"
    assert len(os.listdir(tmp_path / "ds")) == 2
    new.verify()


# -- faults that only the files can tell ------------------------------------------------------------------------------


def edit(folder: Path, change: Any) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    change(manifest)
    (folder / "dataset.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m["nodes"]["author"].update(count=8),
            "has 7 source and 10 target nodes, expected 8 of 'author' and",
        ),
        (lambda m: m["edges"]["author__writes__paper"].update(count=24), "year.gd has 25 rows, expected 24, one per"),
        (
            lambda m: m["edges"]["paper__cites__paper"].update(count=3),
            r"edges.paper__cites__paper.splits.train\[1\] = 5|edge_ids",
        ),
        (
            lambda m: m["edges"]["paper__cites__paper"]["splits"]["held"].update(file="features/paper/x.gd", array="x"),
            "expected int64: a vector of edge ids, or pairs",
        ),
    ],
)
def test_verify_finds_parts_that_disagree(tmp_path: Path, change: Any, message: str) -> None:
    create(tmp_path / "ds")
    edit(tmp_path / "ds", change)
    with pytest.raises(gz.FormatError, match=message):
        gz.Dataset(tmp_path / "ds").verify()


def test_the_command_says_what_is_in_it(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    create(tmp_path / "ds")
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "ds")])
    assert shown.exit_code == 0, shown.output
    for words in ("nodes author", "edges author__writes__paper", "edge feature year", "25 int32", "edge split held"):
        assert words in shown.output
    checked = CliRunner().invoke(app, ["verify", str(tmp_path / "ds")])
    assert "ok (12 files" in checked.output
