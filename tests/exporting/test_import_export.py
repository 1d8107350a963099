"""The way back out: what is exported is what was imported."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz

RNG = np.random.default_rng(2)
EDGES = RNG.integers(0, 30, (2, 80))
W = RNG.random(80).astype(np.float32)
X = RNG.standard_normal((30, 3)).astype(np.float32)
Y = RNG.integers(-1, 4, 30)


@pytest.fixture(params=["in", "out"])
def dataset(tmp_path, request):
    splits = {"train": np.arange(10), "test": np.arange(20, 30)}
    made = gz.import_dataset(
        (EDGES[0], EDGES[1], W), tmp_path / "ds", features=X, labels=Y, splits=splits, direction=request.param
    )
    return made.dataset


def edges_of(src, dst, weights):
    return sorted(zip(np.asarray(src).tolist(), np.asarray(dst).tolist(), np.asarray(weights).tolist(), strict=True))


def test_npy_files_come_back_the_same(tmp_path, dataset):
    made = gz.export_dataset(dataset, tmp_path / "files", format="npy")
    assert [p.rpartition("/")[2] for p in made] == [
        "edge_index.npy",
        "weights.npy",
        "x.npy",
        "labels.npy",
        "splits.npz",
    ]
    edges, weights = np.load(made[0]), np.load(made[1])
    assert edges_of(*edges, weights) == edges_of(*EDGES, W)
    again = gz.import_dataset(
        (edges[0], edges[1], weights), tmp_path / "again", features=made[2], labels=made[3], splits=made[4]
    ).dataset
    np.testing.assert_array_equal(again.features["x"].get_tensor(), X)
    assert again.labels.tolist() == Y.tolist()
    assert {k: v.tolist() for k, v in again.splits.items()} == {k: v.tolist() for k, v in dataset.splits.items()}


def test_parquet_files_hold_edges_and_nodes(tmp_path, dataset):
    parquet = pytest.importorskip("pyarrow.parquet")
    edges, nodes = (parquet.read_table(p) for p in gz.export_dataset(dataset, tmp_path / "files"))
    assert edges_of(edges["src"], edges["dst"], edges["weight"]) == edges_of(*EDGES, W)
    assert nodes["id"].to_pylist() == list(range(30))
    np.testing.assert_array_equal(np.array(nodes["x"].to_pylist(), np.float32), X)
    assert nodes["label"].to_pylist() == Y.tolist()
    assert nodes["split"].to_pylist() == ["train"] * 10 + [""] * 10 + ["test"] * 10
    again = gz.import_dataset(tmp_path / "files" / "edges.parquet", tmp_path / "again").dataset
    assert again.graph.num_edges == 80


def test_parquet_has_the_original_ids(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "e.csv").write_text("src,dst\nbash,libc6\n")
    gz.import_dataset(tmp_path / "e.csv", tmp_path / "ds")
    _, nodes = gz.export_dataset(tmp_path / "ds", tmp_path / "files")
    assert parquet.read_table(nodes)["original"].to_pylist() == ["bash", "libc6"]


def test_scipy_shares_the_file(dataset):
    sparse = pytest.importorskip("scipy.sparse")
    want = sparse.coo_matrix((W, tuple(EDGES)), shape=(30, 30)).toarray()
    matrix = dataset.graph.to_scipy()
    assert matrix.format == ("csr" if dataset.graph.direction == "out" else "csc")
    np.testing.assert_allclose(matrix.toarray(), want)
    assert np.shares_memory(matrix.indices, dataset.graph.csr()[1])
    np.testing.assert_allclose(matrix @ np.ones(30), want.sum(1), rtol=1e-5)


def test_networkx_has_names_labels_and_weights(tmp_path, dataset):
    pytest.importorskip("networkx")
    graph = dataset.to_networkx()
    assert sorted((u, v, d["weight"]) for u, v, d in graph.edges(data=True)) == edges_of(*EDGES, W)
    assert [graph.nodes[i].get("label", -1) for i in range(30)] == Y.tolist()
    with pytest.raises(ValueError, match="more than 5"):
        dataset.to_networkx(most_nodes=5)
    (tmp_path / "e.csv").write_text("src,dst\nbash,libc6\n")
    assert list(gz.import_dataset(tmp_path / "e.csv", tmp_path / "n").dataset.to_networkx().edges()) == [
        ("bash", "libc6")
    ]


def test_the_command_lists_what_it_made(tmp_path, dataset):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    result = CliRunner().invoke(app, ["export", str(tmp_path / "ds"), str(tmp_path / "files"), "--format", "npy"])
    assert result.exit_code == 0, result.output
    assert "edge_index.npy" in result.output
