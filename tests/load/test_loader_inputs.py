"""What a loader is given: edge features that follow their edge, labels of every dtype, files that change under it."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

NODES, EDGES = 500, 4000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(8)
    edges = rng.integers(0, NODES, (2, EDGES))
    gz.compile_graph(edges, folder / "ids.gl", num_nodes=NODES, edge_ids=True)
    gz.compile_graph(edges, folder / "plain.gl", num_nodes=NODES)
    gz.compile_graph(edges, folder / "in.gl", num_nodes=NODES, direction="in")
    gz.compile_features({"x": np.arange(NODES, dtype=np.float32).reshape(-1, 1)}, folder / "n.gd")
    gz.compile_features({"x": np.arange(EDGES, dtype=np.float32).reshape(-1, 1)}, folder / "e.gd")
    gz.compile_features({"x": np.arange(EDGES - 1, dtype=np.float32)}, folder / "short.gd")
    return folder, edges


def load(folder, graph="ids.gl", features=None, **options):
    settings = {"fanouts": [5, 3], "batch_size": 50, "seed": 2, "memory": "100MB", "num_threads": 2}
    return gz.NeighborLoader(gz.Graph(folder / graph), features, **(settings | options))


def test_edge_rows_follow_their_edge_or_are_refused(files):
    folder, (src, dst) = files
    rows = gz.FeatureStore(folder / "e.gd")
    for batch in load(folder, edge_features=rows):
        e_id = batch.edge_attr[:, 0].long()
        assert torch.equal(e_id, batch.e_id)
        assert np.array_equal(src[e_id], batch.n_id[batch.edge_index[1]])
        assert np.array_equal(dst[e_id], batch.n_id[batch.edge_index[0]])
    with pytest.raises(ValueError, match=r"plain\.gl was compiled without edge ids.*edge_ids=True, or pass edge_order"):
        load(folder, "plain.gl", edge_features=rows)


def test_edge_rows_in_the_order_of_the_file(files):
    folder, _ = files
    g = gz.Graph(folder / "plain.gl")
    indptr, indices = g.csr()
    source = np.repeat(np.arange(NODES), np.diff(indptr))
    rows = gz.FeatureStore(folder / "e.gd")
    for batch in load(folder, "plain.gl", edge_features=rows, edge_order="file"):
        place = batch.edge_attr[:, 0].long()
        assert np.array_equal(source[place], batch.n_id[batch.edge_index[1]])
        assert np.array_equal(indices[place], batch.n_id[batch.edge_index[0]])
    with pytest.raises(ValueError, match=r"short\.gd: 'x' has 3999 rows, .*plain\.gl has 4000 edges"):
        load(folder, "plain.gl", edge_features=gz.FeatureStore(folder / "short.gd"), edge_order="file")
    with pytest.raises(ValueError, match=r"ids\.gl has edge ids"):
        load(folder, edge_features=rows, edge_order="file")
    with pytest.raises(ValueError, match="edge_order is 'mine', expected 'ids' or 'file'"):
        load(folder, edge_order="mine")


def test_too_few_edge_rows_are_told_at_once(files):
    folder, _ = files
    with pytest.raises(ValueError, match=r"short\.gd: 'x' has 3999 rows, .*ids\.gl has edge ids up to 3999"):
        load(folder, edge_features=gz.FeatureStore(folder / "short.gd"))


def test_too_few_edge_rows_for_a_large_graph_are_told_by_the_batch_that_needs_them(tmp_path):
    """The ids of a large graph are not read through beforehand."""
    edges = (1 << 20) + 1
    gz.compile_graph(np.arange(2 * edges).reshape(2, -1) % 100, tmp_path / "g.gl", edge_ids=True)
    gz.compile_features(np.zeros((1, 1), dtype=np.float32), tmp_path / "e.gd")
    g, rows = gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(tmp_path / "e.gd")
    loader = gz.NeighborLoader(g, fanouts=[3], edge_features=rows, memory="100MB")
    with pytest.raises(IndexError, match=r"out of range for .*e\.gd with 1 rows"):
        list(loader)


def test_names_of_node_and_edge_features_differ(files):
    folder, _ = files
    nodes, edges = gz.FeatureStore(folder / "n.gd"), gz.FeatureStore(folder / "e.gd")
    with pytest.raises(ValueError, match=r"both have the name 'x' \(.*n\.gd and .*e\.gd\).*pass a dict"):
        load(folder, features=[nodes], edge_features=[edges])
    with pytest.raises(ValueError, match="both have the name 'edge_attr'"):
        load(folder, features={"edge_attr": nodes}, edge_features=edges)
    batch = next(iter(load(folder, features=[nodes], edge_features={"w": edges})))
    assert torch.equal(batch.x[:, 0].long(), batch.n_id)
    assert torch.equal(batch.w[:, 0].long(), batch.e_id)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float16", "int64", "uint8", "float32", "int32"])
@pytest.mark.parametrize("columns", [None, 3])
def test_labels_from_a_store_are_numbers(files, tmp_path, dtype, columns):
    folder, _ = files
    rng = np.random.default_rng(1)
    shape = (NODES,) if columns is None else (NODES, columns)
    floats = dtype in ("bfloat16", "float16", "float32", "int8")
    values = rng.standard_normal(shape).astype(np.float32) if floats else rng.integers(0, 99, shape)
    gz.compile_features(values, tmp_path / "y.gd", dtype=dtype)  # int8 of floats is scaled
    store = gz.FeatureStore(tmp_path / "y.gd")
    tolerance = {"bfloat16": 0.02, "int8": 0.02, "float16": 0.002}.get(dtype, 0)
    for batch in load(folder, labels=store):
        seeds = batch.n_id[: batch.batch_size].numpy()
        assert batch.y.shape == values[seeds].shape
        assert np.allclose(batch.y.float().numpy(), values[seeds], rtol=tolerance, atol=tolerance)


def cut(path):
    with path.open("r+b") as file:
        file.truncate(4096)  # the header stays


@pytest.mark.parametrize("how", ["store", "view", "tensor"])
def test_labels_of_a_file_that_was_cut_raise(files, tmp_path, how):
    folder, _ = files
    gz.compile_features(np.ones(NODES, dtype=np.int64), tmp_path / "y.gd")
    store = gz.FeatureStore(tmp_path / "y.gd")
    view = store.get_tensor()
    labels = {"store": store, "view": view, "tensor": torch.from_numpy(view)}[how]
    loader = load(folder, labels=labels)
    assert next(iter(loader)).y.tolist() == [1] * 50
    del store
    cut(tmp_path / "y.gd")
    with pytest.raises(gz.StorageError, match=r"y\.gd|labels is a view"):
        list(loader)


@pytest.mark.parametrize("name", ["seeds", "time"])
def test_seeds_and_times_in_a_file_that_was_cut_raise(files, tmp_path, name):
    _, edges = files
    gz.compile_graph(edges, tmp_path / "g.gl", num_nodes=NODES, times=np.zeros(EDGES, dtype=np.int64))
    gz.compile_features(np.arange(1, NODES), tmp_path / "s.gd")
    view = gz.FeatureStore(tmp_path / "s.gd").get_tensor()
    given = {"seeds": np.arange(1, NODES), name: view}
    loader = gz.NeighborLoader(gz.Graph(tmp_path / "g.gl"), fanouts=[2], batch_size=50, memory="100MB", **given)
    assert next(iter(loader)).n_id[:50].tolist() == list(range(1, 51))
    cut(tmp_path / "s.gd")
    with pytest.raises(gz.StorageError, match=f"{name} is a view of a file"):
        list(loader)


def test_seeds_and_times_from_stores(files, tmp_path):
    _, edges = files
    gz.compile_graph(edges, tmp_path / "g.gl", num_nodes=NODES, times=np.zeros(EDGES, dtype=np.int64))
    seeds = np.arange(100)[::-1]
    gz.compile_features({"ids": seeds.astype(np.int32), "when": seeds, "x": np.ones(100)}, tmp_path / "s.gd")
    store = gz.FeatureStore(tmp_path / "s.gd")
    g = gz.Graph(tmp_path / "g.gl")
    loader = gz.NeighborLoader(g, fanouts=[2], seeds=store["ids"], time=store["when"], memory="100MB")
    (batch,) = loader
    assert batch.n_id[:100].tolist() == batch.seed_time.tolist() == seeds.tolist()
    with pytest.raises(TypeError, match=r"seeds must be a vector of integers.*float64"):
        gz.NeighborLoader(g, fanouts=[2], seeds=store["x"])
    cut(tmp_path / "s.gd")
    with pytest.raises(gz.StorageError, match=r"s\.gd"):
        gz.NeighborLoader(g, fanouts=[2], seeds=store["ids"])


def test_the_loader_says_which_edges_it_follows(files):
    folder, (src, dst) = files
    into, out = load(folder, "in.gl"), load(folder, "plain.gl")
    assert (into.direction, out.direction) == ("in", "out")
    assert "along 'in' edges" in repr(into)
    pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
    for loader in (into, out):
        batch = next(iter(loader))
        neighbour, node = batch.n_id[batch.edge_index].tolist()
        followed = (neighbour, node) if loader.direction == "in" else (node, neighbour)
        assert set(zip(*followed, strict=True)) <= pairs
