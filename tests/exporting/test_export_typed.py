"""The way back out of datasets with types and edge features: files and streams that come back the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

RNG = np.random.default_rng(8)
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
EDGES = {
    WRITES: np.stack([RNG.integers(0, 6, 20), RNG.integers(0, 9, 20)]),
    CITES: np.stack([RNG.integers(0, 9, 30), RNG.integers(0, 9, 30)]),
}
X = RNG.standard_normal((9, 4)).astype(np.float32)
YEAR = np.arange(2000, 2009, dtype=np.int32)
KIND, ROWS = RNG.integers(0, 5, 20), RNG.standard_normal((20, 2)).astype(np.float32)
W, T = RNG.random(30).astype(np.float32), np.arange(30) + 1000


@pytest.fixture
def dataset(tmp_path: Path) -> gz.Dataset:
    return gz.Dataset.create(
        tmp_path / "ds",
        graphs={WRITES: EDGES[WRITES], CITES: (*EDGES[CITES], W, T)},
        num_nodes={"author": 7, "paper": 9},
        features={"paper": {"x": X, "year": YEAR}},
        labels={"paper": np.arange(9) % 3},
        splits={"paper": {"train": [0, 1, 2], "test": [8]}},
        edge_features={WRITES: {"kind": KIND, "rows": ROWS}},
        edge_splits={WRITES: {"train": [0, 5, 7], "test": [1]}, CITES: {"held": [[0, 1], [2, 3], [4, 5]]}},
    )


def carried(data: Any) -> list[tuple[Any, ...]]:
    """Every edge with all that belongs to it, whatever its id."""
    graph, found = data.graph, []
    splits = {int(e): name for name, ids in data.splits.items() if ids.ndim == 1 for e in ids}
    for v in range(graph.num_targets):
        near = graph.get_neighbours(v)
        ids = graph.get_edge_ids(v) if graph.has_edge_ids else np.full(len(near), -1)
        weights = graph.get_weights(v).tolist() if graph.has_weights else [None] * len(near)
        times = graph.get_times(v).tolist() if graph.has_times else [None] * len(near)
        for u, e, w, t in zip(near.tolist(), ids.tolist(), weights, times, strict=True):
            rows = [tuple(np.atleast_1d(store.gather([e])[0]).tolist()) for store in data.features.values()]
            found.append((u, v, w, t, tuple(rows), splits.get(e)))
    return sorted(found, key=repr)


def same(one: gz.Dataset, two: gz.Dataset) -> None:
    assert one.metadata() == two.metadata()
    for t, node in one.nodes.items():
        other = two.nodes[t]
        assert (node.num_nodes, node.num_classes) == (other.num_nodes, other.num_classes)
        for name, store in node.features.items():
            np.testing.assert_array_equal(store.get_tensor(), other.features[name].get_tensor())
            assert store.dtype == other.features[name].dtype
        if node.num_classes:
            assert node.labels.tolist() == other.labels.tolist()
        assert {n: i.tolist() for n, i in node.splits.items()} == {n: i.tolist() for n, i in other.splits.items()}
    for t, edge in one.edges.items():
        assert carried(edge) == carried(two.edges[t])
    two.verify()


def test_parquet_files_and_their_description_come_back_the_same(tmp_path: Path, dataset: gz.Dataset) -> None:
    pytest.importorskip("pyarrow")
    made = gz.export_dataset(dataset, tmp_path / "files")
    assert [str(Path(p).relative_to(tmp_path / "files")) for p in made] == [
        "edges/author__writes__paper.parquet",
        "edges/paper__cites__paper.parquet",
        "splits/paper__cites__paper/held.parquet",
        "nodes/author.parquet",
        "nodes/paper.parquet",
        "tables.json",
    ]
    same(dataset, gz.import_dataset(tmp_path / "files" / "tables.json", tmp_path / "again").dataset)


def test_parquet_files_have_the_ids_of_the_source(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"src": ["ann", "bob", "ann"], "dst": [30, 10, 20], "qty": [1, 2, 3]})
    spec = {
        "nodes": {"item": {"ids": "map"}},
        "edges": [{"type": "user bought item", "table": table, "features": ["qty"]}],
    }
    ds = gz.import_dataset(spec, tmp_path / "ds").dataset
    gz.export_dataset(ds, tmp_path / "files")
    edges = parquet.read_table(tmp_path / "files" / "edges" / "user__bought__item.parquet").to_pydict()
    assert sorted(zip(edges["src"], edges["dst"], edges["qty"], strict=True)) == [
        ("ann", 20, 3),
        ("ann", 30, 1),
        ("bob", 10, 2),
    ]
    again = gz.import_dataset(tmp_path / "files" / "tables.json", tmp_path / "again").dataset
    assert again.ids["user"].to_dense(["bob"]).tolist() == ds.ids["user"].to_dense(["bob"]).tolist()
    assert again.ids["item"].to_original([0]).tolist() == [30]


def test_npy_files_of_each_type(tmp_path: Path, dataset: gz.Dataset) -> None:
    files = tmp_path / "files"
    gz.export_dataset(dataset, files, format="npy")
    load = lambda name: np.load(files / f"{name}.npy")  # noqa: E731
    cites = load("paper__cites__paper/edge_index")
    again = gz.Dataset.create(
        tmp_path / "again",
        graphs={
            WRITES: load("author__writes__paper/edge_index"),
            CITES: (*cites, load("paper__cites__paper/weights"), load("paper__cites__paper/times")),
        },
        num_nodes={"author": 7},
        features={"paper": {"x": load("paper/x"), "year": load("paper/year")}},
        labels={"paper": load("paper/labels")},
        splits={"paper": dict(np.load(files / "paper" / "splits.npz"))},
        edge_features={WRITES: {n: load(f"author__writes__paper/{n}") for n in ("kind", "rows")}},
    )
    for t in (WRITES, CITES):
        assert [row[:-1] for row in carried(again.edges[t])] == [row[:-1] for row in carried(dataset.edges[t])]
    assert again.labels.tolist() == dataset.labels.tolist()
    held = np.load(files / "paper__cites__paper" / "edge_splits.npz")["held"]
    assert held.tolist() == dataset.edges[CITES].splits["held"].tolist()


def test_edges_are_a_stream_of_arrow_batches(dataset: gz.Dataset) -> None:
    pa = pytest.importorskip("pyarrow")
    graph = dataset.graphs[CITES]
    table = pa.table(graph)  # by __arrow_c_stream__
    assert table.schema.names == ["src", "dst", "weight", "time"]
    found = sorted(zip(*(table[name].to_pylist() for name in table.schema.names), strict=True))
    assert found == sorted(zip(*EDGES[CITES].tolist(), W.tolist(), T.tolist(), strict=True))
    rows = pa.table(dataset.edges[WRITES].to_arrow()).to_pydict()
    assert list(rows) == ["src", "dst", "kind", "rows", "split"]
    want = zip(*EDGES[WRITES].tolist(), KIND.tolist(), ROWS.tolist(), strict=True)
    assert sorted(zip(rows["src"], rows["dst"], rows["kind"], rows["rows"], strict=True)) == sorted(want)
    assert sorted(filter(None, rows["split"])) == ["test", "train", "train", "train"]


def test_a_graph_is_a_source_for_another_file(tmp_path: Path, dataset: gz.Dataset) -> None:
    gz.compile_graph(dataset.graphs[WRITES], tmp_path / "out.gl", direction="out")
    graph = gz.Graph(tmp_path / "out.gl")
    assert (graph.shape, graph.has_edge_ids, graph.direction) == ((7, 9), True, "out")


def test_streams_of_graphs_without_edges(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    gz.compile_graph(np.empty((2, 0), np.int64), tmp_path / "g.gl", num_nodes=3)
    assert pa.table(gz.Graph(tmp_path / "g.gl")).num_rows == 0
    ds = gz.Dataset.create(
        tmp_path / "ds", graphs={WRITES: np.empty((2, 0), np.int64)}, num_nodes={"author": 1, "paper": 2}
    )
    gz.export_dataset(ds, tmp_path / "npy", format="npy")
    assert np.load(tmp_path / "npy" / "author__writes__paper" / "edge_index.npy").shape == (2, 0)


def test_networkx_refuses_types(dataset: gz.Dataset) -> None:
    pytest.importorskip("networkx")
    with pytest.raises(ValueError, match="one node type and one edge type; to_pyg supports several"):
        dataset.to_networkx()


def test_what_npy_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "ds", graphs={CITES: EDGES[CITES]}, features={"paper": X}, dtype="bfloat16")
    with pytest.raises(gz.InputError, match=r"bfloat16, which \.npy does not support"):
        gz.export_dataset(ds, tmp_path / "out", format="npy")
    assert not (tmp_path / "out").exists()


def test_typed_datasets_come_back_from_pyg(tmp_path: Path, dataset: gz.Dataset) -> None:
    pytest.importorskip("torch_geometric")
    again = gz.import_dataset(dataset.to_pyg(), tmp_path / "again").dataset
    for t, edge in dataset.edges.items():
        strip = [row[:-1] for row in carried(edge)]
        assert [row[:-1] for row in carried(again.edges[t])] == strip
    np.testing.assert_array_equal(again.nodes["paper"].features["x"].get_tensor(), X)
    assert again.nodes["paper"].labels.tolist() == dataset.labels.tolist()
    assert again.nodes["author"].num_nodes == 7


def test_features_in_int8_are_exported_as_the_numbers_they_stand_for(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "ds", EDGES[CITES], features=X, dtype="int8")
    gz.export_dataset(ds, tmp_path / "npy", format="npy")
    rows = np.load(tmp_path / "npy" / "x.npy")
    np.testing.assert_array_equal(rows, ds.features["x"].gather(np.arange(9), dtype="float32"))
    assert np.abs(rows - X).max() < 0.05
