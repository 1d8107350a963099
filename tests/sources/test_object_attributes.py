"""Attributes of graph objects: those that are not imported are in the report. And folders that are no datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphzero as gz


def test_attributes_of_networkx_graphs(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_node("a", age=3, club="x")
    graph.add_edge("a", "b", weight=2.0, kind="f", since=3)
    expected = [
        "edge attributes: weight 'weight'",
        "not imported: node attributes 'age', 'club'; nodes=, a table with a row per node, keeps them",
        "not imported: edge attributes 'kind', 'since'; edge_features= keeps them",
    ]
    report = gz.import_dataset(graph, tmp_path / "out")
    assert report.graph.columns == expected
    assert all(line in str(report) for line in expected)
    numbered = nx.convert_node_labels_to_integers(graph)
    assert gz.compile_graph(numbered, tmp_path / "g.gl").columns == expected
    assert "not imported" not in str(gz.import_dataset(nx.path_graph(3), tmp_path / "plain"))


def test_attributes_of_igraph_graphs(tmp_path: Path) -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(edges=[(0, 1), (1, 2)])
    graph.vs["name"], graph.vs["age"], graph.es["kind"] = ["a", "b", "c"], [1, 2, 3], ["f", "g"]
    said = str(gz.import_dataset(graph, tmp_path / "out"))
    assert "not imported: node attributes 'age'; nodes=" in said
    assert "not imported: edge attributes 'kind'; edge_features=" in said


def test_paths_that_are_no_datasets(tmp_path: Path) -> None:
    with pytest.raises(gz.MissingFileError, match=r"nope: no such folder, expected a dataset; Dataset\.create"):
        gz.Dataset(tmp_path / "nope")
    with pytest.raises(gz.MissingFileError, match=r"the folder has no dataset\.json, so it is not a dataset"):
        gz.Dataset(tmp_path)
