"""Imports say what they found: rows of isolated nodes, budgets, labels of text, full disks, codes of missing values."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

EDGES = np.array([[0, 1], [1, 2]])


@pytest.mark.parametrize("kind", ["array", "npy", "text", "gd"])
@pytest.mark.parametrize("graph", ["edges", "file", "csv"])
def test_rows_beyond_the_last_edge_are_isolated_nodes(tmp_path: Path, kind: str, graph: str) -> None:
    x: Any = np.arange(10, dtype=np.float32).reshape(5, 2)
    edges: Any = EDGES
    if graph == "file":
        edges = tmp_path / "g.gl"
        gz.compile_graph(EDGES, edges, direction="in", edge_ids=True)
    elif graph == "csv":
        edges = tmp_path / "e.csv"
        edges.write_text("0,1\n1,2\n")
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
    elif kind == "gd":
        gz.compile_features(x, tmp_path / "x.gd")
    elif kind == "text":
        (tmp_path / "x.txt").write_text("".join(f"{i},{a},{b}\n" for i, (a, b) in enumerate(x)))
    source = x if kind == "array" else tmp_path / {"npy": "x.npy", "gd": "x.gd", "text": "x.txt"}[kind]
    made = gz.Dataset.create(tmp_path / "made", edges, features=source)
    imported = gz.import_dataset(edges, tmp_path / "imported", features=source).dataset
    for dataset in (made, imported):
        assert (dataset.num_nodes, dataset.graph.num_edges) == (5, 2)
        assert np.array_equal(np.asarray(dataset.features["x"].get_tensor()), x)
    with pytest.raises(ValueError, match=r"num_nodes|3 rows|5 rows"):
        gz.Dataset.create(tmp_path / "few", np.array([[0], [7]]), features=source)


def test_labels_of_text_are_told(tmp_path: Path) -> None:
    for make in (gz.Dataset.create, lambda out, edges, **o: gz.import_dataset(edges, out, **o)):
        with pytest.raises(TypeError, match="labels must be numbers, found text such as 'cat'"):
            make(tmp_path / "ds", EDGES, labels=["cat", "dog", "cat"])
    with pytest.raises(TypeError, match="x must be numbers, found text such as 'a'"):
        gz.compile_features(np.array([["a", "b"]]), tmp_path / "x.gd")


@pytest.mark.parametrize("features", [False, True, "c", 3, {"x": None}, [False]])
def test_a_description_says_which_columns(tmp_path: Path, features: Any) -> None:
    spec = {
        "nodes": {"n": {"table": {"id": [0, 1], "c": [1.0, 2.0]}, "features": features}},
        "edges": {"n to n": {"src": [0], "dst": [1]}},
    }
    with pytest.raises(gz.InputError, match=r"nodes\.n\.features: found .*, expected"):
        gz.import_dataset(spec, tmp_path / "ds")
    with pytest.raises(gz.InputError, match=r"node_columns\['features'\]: found .*, expected"):
        gz.import_dataset(
            EDGES, tmp_path / "ds", nodes={"id": [0, 1, 2], "c": [1, 2, 3]}, node_columns={"features": features}
        )


def test_a_row_that_does_not_fit_the_budget(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "big.npz", edge_index=EDGES, x=np.zeros((3, 1 << 20), np.float32))
    with pytest.raises(gz.BudgetError, match=r"x: a row takes 4\.\d* MB and three rows must fit.*memory='12"):
        gz.import_dataset(tmp_path / "big.npz", tmp_path / "ds", memory="8MB", num_threads=1)


def test_a_parquet_row_that_does_not_fit_the_budget(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = pa.array([np.zeros(1 << 18, np.float32)] * 3, pa.list_(pa.float32()))
    parquet.write_table(pa.table({"id": [0, 1, 2], "x": rows}), tmp_path / "n.parquet")
    with pytest.raises(gz.BudgetError, match=r"n\.parquet: a row takes about 1\.\d* MB, .* pass memory='17"):
        gz.import_dataset(EDGES, tmp_path / "ds", nodes=tmp_path / "n.parquet", memory="4MB", num_threads=1)
    assert gz.import_dataset(EDGES, tmp_path / "ds", nodes=tmp_path / "n.parquet", memory="32MB").nodes == 3


def test_batches_of_parquet_follow_the_budget(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from graphzero.sources.tables import as_table

    names = pa.array([f"{i:0200d}" for i in range(20_000)])
    parquet.write_table(pa.table({"a": names}), tmp_path / "t.parquet")
    for memory in (1 << 20, 4 << 20):
        table = as_table(tmp_path / "t.parquet", memory)
        assert table is not None
        sizes = [batch.nbytes for (batch,) in table.batches(["a"])]
        assert len(sizes) > 1
        assert max(sizes) <= memory // 3


def test_a_full_disk_names_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    ends = np.arange(400_000)
    spec = {"edges": {"n to n": {"src": ends, "dst": ends}}}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(gz.StorageError, match=r"ds\.importing.*: writing the edges of 'n__to__n' failed: File too"):
            gz.import_dataset(spec, tmp_path / "ds")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_missing_values_are_not_learned_from(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from graphzero.train import Trainer, TrainOptions

    table: dict[str, Any] = {"id": np.arange(4), "label": ["a", "b", "", "a"], "split": ["train"] * 3 + ["valid"]}
    table |= {"x": [0.0, 1.0, 2.0, 3.0], "colour": ["r", "", "g", "r"]}
    ring = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    dataset = gz.import_dataset(ring, tmp_path / "ds", nodes=table).dataset
    assert dataset.labels.tolist() == [0, 1, -1, 0]
    assert np.asarray(dataset.features["columns_category"].get_tensor()).ravel().tolist()[1] == -1
    with pytest.raises(ValueError, match="split 'train' has 1 nodes without a label"):
        Trainer(dataset, TrainOptions(epochs=1))
