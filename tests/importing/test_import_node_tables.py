"""Node tables: ids, features, labels and splits out of one table, joined to edges by id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphzero as gz

COLUMNS: dict[str, Any] = {
    "name": ["bash", "apt", "zsh", "alone"],
    "size": [1.5, 2.5, 3.5, 4.5],
    "age": [1, 2, 3, 4],
    "section": ["shells", "admin", "shells", "misc"],
    "label": ["a", "b", None, "a"],
    "split": ["train", "val", "test", "train"],
}


def tables(kind: str, folder: Any) -> Any:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({**COLUMNS, "emb": pa.array([[i, i + 0.5] for i in range(4)], pa.list_(pa.float32()))})
    if kind == "arrow":
        return table
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(COLUMNS)
    if kind == "csv":
        from pyarrow import csv

        csv.write_csv(table.drop_columns("emb"), folder / "nodes.csv")
        return folder / "nodes.csv"
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, folder / "nodes.parquet")
    return folder / "nodes.parquet"


@pytest.mark.parametrize("kind", ["arrow", "pandas", "parquet", "csv"])
def test_a_node_table_becomes_features_labels_and_splits(tmp_path, kind):
    (tmp_path / "edges.csv").write_text("src,dst\nzsh,bash\napt,bash\n")
    report = gz.import_dataset(tmp_path / "edges.csv", tmp_path / "out", nodes=tables(kind, tmp_path))
    ds = report.dataset
    assert ds.ids.to_original(np.arange(4)) == COLUMNS["name"]
    assert ds.graph.get_neighbours(0).tolist() == [1, 2]
    assert ds.features["columns_number"].get_tensor().tolist() == [[1.5, 1], [2.5, 2], [3.5, 3], [4.5, 4]]
    (node,) = ds.nodes.values()
    assert [node.columns["section"].names[i] for i in ds.features["columns_category"].get_tensor()[:, 0]] == [
        *("shells", "(other)", "shells", "misc")  # "admin" is in no training row
    ]
    assert ds.labels.tolist() == [0, 1, -1, 0]
    assert ds.info["about"]["classes"] == ["a", "b"]
    assert {k: v.tolist() for k, v in ds.splits.items()} == {"test": [2], "train": [0, 3], "valid": [1]}
    if "emb" in ds.features:
        assert ds.features["emb"].get_tensor().tolist() == [[i, i + 0.5] for i in range(4)]


def test_numbered_nodes_need_no_map_and_columns_may_be_named(tmp_path):
    nodes = {"n": np.arange(3), "a": np.array([1.0, 2, 3]), "b": np.array([4.0, 5, 6]), "kind": np.array([0, 1, 1])}
    picked = {"id": "n", "label": "kind", "features": ["b"]}
    ds = gz.import_dataset([(0, 1)], tmp_path / "out", nodes=nodes, node_columns=picked).dataset
    assert not ds.ids.mapped
    assert ds.features["x"].get_tensor().tolist() == [[4], [5], [6]]
    assert ds.labels.tolist() == [0, 1, 1]
    assert ds.num_nodes == 3


def test_ids_that_are_missing_or_doubled_are_told(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\nzsh,bash\nfish,bash\n")
    with pytest.raises(gz.InputError, match="1 ids in the edges have no row in the node table, such as 'fish'"):
        gz.import_dataset(tmp_path / "edges.csv", tmp_path / "out", nodes={"id": ["bash", "zsh"], "v": [1, 2]})
    with pytest.raises(gz.InputError, match="'zsh' is a duplicate"):
        gz.import_dataset(tmp_path / "edges.csv", tmp_path / "out", nodes={"id": ["zsh", "zsh"], "v": [1, 2]})
    assert not (tmp_path / "out").exists()
