"""PyG's objects to datasets and back: every attribute, in its order, with its dtype."""

import gc
import os
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.pyg import FeatureStore, LinkNeighborLoader, NeighborLoader  # noqa: E402

CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")


def plain():
    torch.manual_seed(0)
    return Data(
        x=torch.randn(30, 4),
        half=torch.randn(30, 2).half(),
        brain=torch.randn(30, 3).to(torch.bfloat16),
        pos=torch.randn(30, 2, 3),
        edge_index=torch.randint(0, 30, (2, 120)),
        y=torch.randint(0, 4, (30, 1)),
        train_mask=torch.arange(30) < 10,
        val_mask=torch.arange(30) >= 20,
        extra_mask=torch.arange(30) % 2 == 0,
        many_mask=torch.rand(30, 3) < 0.5,
        edge_weight=torch.rand(120),
        edge_attr=torch.randn(120, 2),
        when=torch.arange(120).flip(0),
    )


def same(a, b):
    assert set(a.keys()) - {"num_nodes"} == set(b.keys()) - {"num_nodes"}
    for name, value in a.items():
        if name != "num_nodes":
            assert value.dtype == b[name].dtype
            assert torch.equal(value, b[name]), name


def test_data_comes_back_as_it_was(tmp_path):
    data = plain()
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds", time_attr="when")
    assert ds.graph.direction == "in"
    assert ds.graph.has_weights
    assert ds.graph.has_times
    assert ds.labels.tolist() == data.y.view(-1).tolist()
    assert sorted(ds.splits) == ["extra", "train", "valid"]
    assert ds.splits["valid"].tolist() == list(range(20, 30))
    ds.verify()
    back = gz.Dataset(tmp_path / "ds").to_pyg()
    assert type(back) is Data
    assert back.num_nodes == 30
    same(data._store, back._store)


def test_hetero_data_comes_back_as_it_was(tmp_path):
    torch.manual_seed(1)
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    data["paper"].test_mask = torch.arange(20) < 5
    data["author"].x, data["author"].age = torch.randn(7, 2), torch.arange(7)
    data["lonely"].num_nodes = 3
    data[CITES].edge_index = torch.randint(0, 20, (2, 60))
    data[CITES].year = torch.randint(1990, 2020, (60,))
    data[WRITES].edge_index = torch.stack([torch.randint(0, 7, (30,)), torch.randint(0, 20, (30,))])
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds")
    back = ds.to_pyg()
    assert type(back) is HeteroData
    assert back.metadata() == data.metadata()
    assert back["lonely"].num_nodes == 3
    for key in (*data.node_types, *data.edge_types):
        same(data[key], back[key])
    one = HeteroData()
    one["paper"].x = data["paper"].x
    one[CITES].edge_index = data[CITES].edge_index
    again = gz.Dataset.from_pyg(one, tmp_path / "one").to_pyg()
    assert again.metadata() == one.metadata()


def test_rows_by_source_on_request_and_temporary_files():
    ds = gz.Dataset.from_pyg(plain(), direction="both")
    assert ds.graph.direction == "both"
    folder = ds.path
    assert os.path.exists(folder)
    x = ds.features["x"].get_tensor()
    del ds
    gc.collect()
    assert not os.path.exists(folder)
    assert x.shape == (30, 4)


def test_a_loader_over_the_dataset_gives_what_one_over_the_data_gives(tmp_path):
    data = plain()
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds")
    options = {"input_nodes": torch.arange(30), "batch_size": 10}
    for a, b in zip(NeighborLoader(data, [-1, -1], **options), NeighborLoader(ds, [-1, -1], **options), strict=True):
        assert torch.equal(a.edge_index, b.edge_index)
        for name in ("x", "half", "brain", "edge_attr", "edge_weight", "n_id", "e_id"):
            assert torch.equal(a[name], b[name])


def test_labels_that_are_no_classes_stay_attributes(tmp_path):
    for y in (torch.randn(5), torch.randint(0, 2, (5, 3)), torch.tensor([3, -7, 1, 1, 0])):
        data = Data(edge_index=torch.tensor([[0], [1]]), y=y, num_nodes=5)
        ds = gz.Dataset.from_pyg(data)
        assert list(ds.features) == ["y"]
        assert torch.equal(ds.to_pyg().y, y)


def test_what_cannot_be_stored_is_named(tmp_path):
    data = Data(
        x=torch.eye(3), edge_index=torch.tensor([[0], [1]]), title="toy", spin=torch.ones(3).to(torch.complex64)
    )
    with pytest.warns(UserWarning, match="omitted.*spin, title|omitted.*title, spin"):
        gz.Dataset.from_pyg(data, tmp_path / "ds")
    with pytest.raises(TypeError, match="got dict"):
        gz.Dataset.from_pyg({}, tmp_path / "no")


def test_datasets_of_other_origin(tmp_path):
    edges = np.array([[0, 1, 2, 2], [1, 2, 0, 2]])
    ds = gz.Dataset.create(tmp_path / "out", (edges[0], edges[1], np.arange(4.0)), splits={"mine": [2]})
    data = ds.to_pyg()
    found = sorted(zip(*data.edge_index.tolist(), data.edge_weight.tolist(), strict=True))
    assert found == sorted(zip(*edges.tolist(), [0.0, 1.0, 2.0, 3.0], strict=True))
    assert data.mine_mask.tolist() == [False, False, True]
    rows = np.arange(4.0)
    undirected = gz.Dataset.create(tmp_path / "un", edges, directed=False, edge_features={"w": rows}, direction="in")
    data = undirected.to_pyg()
    assert data.edge_index.shape == (2, 7)  # each edge both ways, the loop once, with the row of its id
    for (source, target), row in zip(data.edge_index.T.tolist(), data.w.tolist(), strict=True):
        assert {source, target} == set(edges[:, int(row)].tolist())


def shaped(typed):
    """Attributes of three dimensions, of nodes and edges."""
    x, attr = torch.arange(240.0).view(20, 3, 4), torch.arange(240).view(40, 2, 3)
    edge_index = torch.randint(0, 20, (2, 40), generator=torch.Generator().manual_seed(1))
    if not typed:
        return Data(x=x, edge_index=edge_index, edge_attr=attr)
    data = HeteroData({"paper": {"x": x}, "author": {"num_nodes": 20}})
    data[CITES].edge_index, data[CITES].edge_attr = edge_index, attr
    data[WRITES].edge_index, data[WRITES].edge_attr = torch.empty((2, 0), dtype=torch.int64), torch.empty((0, 2, 3))
    return data


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("kind", [NeighborLoader, LinkNeighborLoader, gz.NeighborLoader, gz.LinkNeighborLoader])
def test_rows_of_several_dimensions_are_loaded_as_they_are(tmp_path, typed, kind):
    data = shaped(typed)
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds")
    if kind.__module__.startswith("graphzero.pyg"):
        inputs = {"input_nodes": ("paper", None)} if kind is NeighborLoader else {"edge_label_index": (CITES, None)}
        loader = kind(ds, [2], batch_size=8, **(inputs if typed else {}))
    else:
        inputs = {"input_type": "paper"} if kind is gz.NeighborLoader else {"edge_type": CITES}
        loader = kind(ds, fanouts=[2], batch_size=8, **(inputs if typed else {}))
    for batch in loader:
        node, edge = (batch["paper"], batch[CITES]) if typed else (batch, batch)
        wanted = (data["paper"], data[CITES]) if typed else (data, data)
        assert torch.equal(node.x, wanted[0].x[node.n_id])
        assert torch.equal(edge.edge_attr, wanted[1].edge_attr[edge.e_id])


@pytest.mark.parametrize("typed", [False, True])
def test_stores_have_rows_of_several_dimensions(tmp_path, typed):
    data = shaped(typed)
    ds, x = gz.Dataset.from_pyg(data, tmp_path / "ds"), torch.arange(240.0).view(20, 3, 4)
    rows = pickle.loads(pickle.dumps(ds.nodes[ds.node_types[0]].features["x"]))
    assert rows.shape == (20, 3, 4)
    assert np.array_equal(rows.get_tensor(), x)
    assert np.array_equal(rows.get_data(5), x[5])
    assert torch.equal(rows.gather(torch.tensor([7, 1])), x[[7, 1]])
    assert torch.equal(rows.gather([3], out=torch.empty(1, 3, 4)), x[3:4])
    store = FeatureStore(ds)
    assert torch.equal(store["paper" if typed else "node", "x", torch.tensor([3, 1])], x[[3, 1]])
    assert tuple(store.get_tensor_size(group_name="paper" if typed else "node", attr_name="x")) == (20, 3, 4)
    back = ds.to_pyg()
    for one, other in zip(data.stores, back.stores, strict=True):
        same(one, other)
    again = gz.Dataset.create(tmp_path / "again", ds.graph, features=dict(ds.features))
    assert again.features["x"].shape == (20, 3, 4)


def test_inference_over_rows_of_several_dimensions(tmp_path):
    ds = gz.Dataset.from_pyg(shaped(False), tmp_path / "ds")

    class Model(torch.nn.Module):
        num_layers = 1

        def forward(self, x, edge_index):
            assert x.shape[1:] == (3, 4)
            return x.sum(1)

    gz.inference(Model(), ds.graph, ds.features["x"], tmp_path / "out.gd")
    wanted = torch.arange(240.0).view(20, 3, 4).sum(1)
    assert np.array_equal(gz.FeatureStore(tmp_path / "out.gd").get_tensor(), wanted)


def test_a_wrong_row_shape_is_named(tmp_path):
    gz.Dataset.from_pyg(shaped(False), tmp_path / "ds")
    manifest = tmp_path / "ds" / "dataset.json"
    text = manifest.read_text()
    manifest.write_text(text.replace("3,\n            4", "3,\n            5"))
    assert manifest.read_text() != text
    with pytest.raises(gz.FormatError, match=r"features\.x\.row_shape: .*x\.gd: rows have 12 columns, expected 15"):
        gz.Dataset(tmp_path / "ds").features["x"]


def test_a_single_type_stays_a_type(tmp_path):
    data = HeteroData({"paper": {"x": torch.randn(20, 3), "train_mask": torch.arange(20) < 5}})
    data[CITES].edge_index = torch.randint(0, 20, (2, 60))
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds")
    ids = torch.tensor([3, 1])
    for loader in (
        NeighborLoader(ds, {CITES: [2]}, input_nodes=("paper", ids), batch_size=2),
        gz.NeighborLoader(ds, fanouts={CITES: [2]}, seeds=("paper", ids)),
        gz.NeighborLoader(ds, fanouts=[2], seeds=ids, input_type="paper"),
        gz.NeighborLoader(ds, fanouts=[2], seeds=ids),
    ):
        batch = next(iter(loader))
        assert torch.equal(batch["paper"].x, data["paper"].x[batch["paper"].n_id])
    batch = next(iter(gz.LinkNeighborLoader(ds, fanouts=[2], batch_size=4)))
    assert batch[CITES].edge_label_index.shape == (2, 4)
    assert isinstance(ds.to_pyg(), HeteroData)
    assert gz.reorder(ds, tmp_path / "other", by="degree").is_typed
    plain = gz.Dataset.create(tmp_path / "plain", graphs={CITES: data[CITES].edge_index}, typed=False)
    assert not plain.is_typed
