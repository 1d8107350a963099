"""graphzero.pyg's FeatureStore and GraphStore: PyG's loaders over files, and edge attributes by edge id."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import TensorAttr  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.pyg import FeatureStore, GraphStore, NeighborSampler  # noqa: E402

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


@pytest.fixture
def plain(tmp_path):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (2, 300))
    return edges, gz.Dataset.create(
        tmp_path / "plain",
        edges,
        features={"x": rng.random((50, 4), dtype="float32"), "half": rng.random((50, 2)).astype("float16")},
        labels=rng.integers(0, 3, 50),
        edge_features={"edge_attr": np.arange(300, dtype="float32")},
        num_nodes=50,
        direction="in",
    )


@pytest.fixture
def typed(tmp_path):
    rng = np.random.default_rng(1)
    edges = {
        WRITES: np.stack([rng.integers(0, 20, 90), rng.integers(0, 30, 90)]),
        CITES: rng.integers(0, 30, (2, 100)),
    }
    return edges, gz.Dataset.create(
        tmp_path / "typed",
        graphs=edges,
        features={"paper": {"x": rng.random((30, 4), dtype="float32")}, "author": {"z": np.eye(20, dtype="float32")}},
        labels={"paper": rng.integers(0, 3, 30)},
        edge_features={CITES: {"year": np.arange(100)}},
        num_nodes={"paper": 30, "author": 20},
    )


def test_every_kind_of_index(plain):
    _, ds = plain
    store = FeatureStore(ds)
    x = torch.from_numpy(np.array(ds.features["x"].get_tensor()))
    mask = torch.zeros(50, dtype=torch.bool)
    mask[[3, 9]] = True
    for index in (None, slice(None), slice(2, 9, 3), torch.tensor([4, 4, 0]), np.array([1, 2]), mask, 7):
        wanted = x if index is None else x[index]
        assert torch.equal(store._get_tensor(TensorAttr(None, "x", index)), wanted)
        assert store._get_tensor_size(TensorAttr(None, "x", index)) == tuple(wanted.shape)
    assert store.get_tensor(None, "half", index=torch.tensor([1])).dtype == torch.float16
    assert store.get_tensor_size(None, "nothing") is None
    with pytest.raises(KeyError, match=r"no attribute 'z'.*\['x', 'half', 'y'\]"):
        store.get_tensor(None, "z", index=None)
    with pytest.raises(IndexError):
        store.get_tensor(None, "x", index=torch.tensor([50]))
    with pytest.raises(TypeError, match="read-only"):
        store.put_tensor(x, None, "w", index=None)


def test_attributes_are_listed_without_those_of_edges(plain, typed):
    store = FeatureStore(plain[1])
    listed = store.get_all_tensor_attrs()
    assert [(a.group_name, a.attr_name) for a in listed] == [(None, "x"), (None, "half"), (None, "y")]
    listed[0].index = torch.tensor([1])  # as PyG does
    assert not store.get_all_tensor_attrs()[0].is_set("index")
    named = {(a.group_name, a.attr_name) for a in FeatureStore(typed[1]).get_all_tensor_attrs()}
    assert named == {("paper", "x"), ("paper", "y"), ("author", "z"), (CITES, "year")}


def test_pygs_loader_over_files(plain):
    edges, ds = plain
    store = FeatureStore(ds)
    sampler = NeighborSampler(ds, [4, 4])
    nodes = torch.arange(0, 50, 2)
    loader = NodeLoader((store, GraphStore(ds)), sampler, nodes, transform=store.join_edges, batch_size=10)
    seen = []
    for batch in loader:
        assert np.array_equal(batch.x, ds.features["x"].gather(batch.n_id))
        assert np.array_equal(batch.y, ds.labels[batch.n_id])
        assert torch.equal(batch.edge_attr, batch.e_id.float())  # by edge id, never by node id
        assert np.array_equal(edges[:, batch.e_id], batch.n_id[batch.edge_index])
        seen.append(batch.n_id[: batch.batch_size])
    assert torch.equal(torch.cat(seen), nodes)


def test_pygs_typed_loaders_over_files(typed):
    edges, ds = typed
    store, graph = FeatureStore(ds), GraphStore(ds)
    sampler = NeighborSampler((store, graph), [3, 3])
    for batch in NodeLoader((store, graph), sampler, "paper", transform=store.join_edges, batch_size=10):
        assert np.array_equal(batch["author"].z, np.eye(20, dtype="float32")[batch["author"].n_id])
        assert np.array_equal(batch["paper"].y, ds.nodes["paper"].labels[batch["paper"].n_id])
        assert torch.equal(batch[CITES].year, batch[CITES].e_id)
        assert "year" not in batch[WRITES]
    for batch in LinkLoader((store, graph), sampler, WRITES, batch_size=30, neg_sampling="binary"):
        source, target = batch[WRITES].edge_label_index[:, batch[WRITES].edge_label == 1]
        pairs = set(zip(batch["author"].n_id[source].tolist(), batch["paper"].n_id[target].tolist(), strict=True))
        assert pairs <= set(map(tuple, edges[WRITES].T.tolist()))


def test_edges_come_in_the_layout_of_the_file(tmp_path, plain):
    edges, _ = plain
    for direction, layout in (("in", "csc"), ("out", "csr")):
        gz.compile_graph(edges, tmp_path / f"{direction}.gl", direction=direction, num_nodes=50)
        store = GraphStore(gz.Graph(tmp_path / f"{direction}.gl"))
        (attr,) = store.get_all_edge_attrs()
        assert (attr.edge_type, attr.layout.value, attr.size) == (None, layout, (50, 50))
        row, col, _ = store.coo()
        assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == sorted(map(tuple, edges.T.tolist()))
    with pytest.raises(KeyError):
        store.get_edge_index(CITES, "csr")
    with pytest.raises(TypeError, match="read-only"):
        store.put_edge_index((row, col), None, "coo")
    with pytest.raises(ValueError, match="out-rows only"):
        NeighborSampler((FeatureStore(), store), [2])


def test_stores_of_single_files(tmp_path):
    gz.compile_features({"x": np.eye(3, dtype="float32"), "year": np.arange(3)}, tmp_path / "n.gd")
    gz.compile_features(np.array([[0.5], [127.0], [64.0]]), tmp_path / "e.gd", name="w", dtype="int8")
    nodes, edges = gz.FeatureStore(tmp_path / "n.gd"), gz.FeatureStore(tmp_path / "e.gd")
    store = FeatureStore(nodes, edges=edges)
    assert [a.attr_name for a in store.get_all_tensor_attrs()] == ["x", "year"]
    assert store.get_tensor(("node", "to", "node"), "w", index=None).dtype == torch.float32  # scaled on the way
    assert store.get_tensor(None, "year", index=torch.tensor([2])).tolist() == [2]
    by_type = FeatureStore({"paper": nodes, "author": {"x": nodes}}, edges={CITES: edges})
    assert len(by_type.get_all_tensor_attrs()) == 4
    again = pickle.loads(pickle.dumps(by_type))
    assert torch.equal(again.get_tensor("paper", "x", index=None), torch.eye(3))
    with pytest.raises(TypeError, match="must be a gz"):
        FeatureStore({"paper": {"x": 3}})


def test_temporal_sampling_reads_node_times_from_the_store(tmp_path):
    edges = np.array([[0, 1, 2], [3, 3, 3]])
    ds = gz.Dataset.create(tmp_path / "t", edges, features={"time": np.arange(4)}, direction="in", num_nodes=4)
    sampler = NeighborSampler(ds, [-1], time_attr="time")
    loader = NodeLoader(
        (FeatureStore(ds), GraphStore(ds)), sampler, torch.tensor([3]), input_time=torch.tensor([1]), batch_size=1
    )
    (batch,) = loader
    assert sorted(batch.n_id.tolist()) == [0, 1, 3]
    assert batch.seed_time.tolist() == [1]
