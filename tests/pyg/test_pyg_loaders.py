"""graphzero.pyg's loaders: PyG's arguments and batches, by the native loader where it can be."""

import gc
import glob
import os
import tempfile
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.nn import SAGEConv, to_hetero  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import graphzero as gz  # noqa: E402
import graphzero.pyg  # noqa: E402
from graphzero.pyg import LinkNeighborLoader, NeighborLoader, NeighborSampler  # noqa: E402

CITES = ("paper", "cites", "paper")


def small_data(nodes=60, edges=400):
    torch.manual_seed(0)
    return Data(
        x=torch.randn(nodes, 3),
        edge_index=torch.randint(0, nodes, (2, edges)),
        y=torch.randint(0, 4, (nodes,)),
        train_mask=torch.arange(nodes) % 3 == 0,
        edge_attr=torch.arange(edges).float().view(-1, 1),
        pos=torch.randn(nodes, 2, 2),
        name="toy",
        waves=torch.randn(nodes, dtype=torch.complex64),
    )


def test_every_attribute_of_data_is_in_the_batch():
    data = small_data()
    loader = NeighborLoader(data, [4, 4], input_nodes=data.train_mask, batch_size=8)
    assert loader.native
    seen = []
    for batch in loader:
        assert type(batch) is Data
        for name in ("x", "y", "train_mask", "pos", "waves"):
            assert torch.equal(batch[name], data[name][batch.n_id])
            assert batch[name].dtype == data[name].dtype
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert batch.name == "toy"
        assert batch.num_nodes == len(batch.n_id)
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])  # of a mask: the nodes, as PyG has it
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        seen.append(batch.n_id[: batch.batch_size])
    assert torch.equal(torch.cat(seen), data.train_mask.nonzero().view(-1))
    assert len(loader) == 3
    assert data.x.shape == (60, 3)  # what was given is as it was


def test_whole_neighbourhoods_are_those_of_pygs_loader():
    data = small_data()
    index = torch.tensor([5, 9, 5, 30])
    ours = list(NeighborLoader(data, [-1, -1], input_nodes=index, batch_size=3))
    pygs = list(NodeLoader(data, NeighborSampler(data, [-1, -1]), index, batch_size=3))
    for a, b in zip(ours, pygs, strict=True):
        assert set(a.keys()) == set(b.keys())
        for name in ("n_id", "e_id", "edge_index", "x", "edge_attr", "input_id"):
            assert torch.equal(a[name], b[name])
        assert (a.batch_size, a.num_sampled_nodes, a.num_sampled_edges) == (
            b.batch_size,
            b.num_sampled_nodes,
            b.num_sampled_edges,
        )


def test_a_dataset_is_loaded_as_it_lies(tmp_path):
    data = small_data()
    ds = gz.Dataset.create(
        tmp_path / "ds",
        data.edge_index,
        features={"x": data.x},
        labels=data.y,
        splits={"train": data.train_mask},
        edge_features={"edge_attr": data.edge_attr},
        direction="in",
        num_nodes=60,
    )
    loader = NeighborLoader(ds, [4, 4], input_nodes=ds.splits["train"], batch_size=8, memory="64MB")
    assert loader.native
    for batch in loader:
        assert type(batch) is Data
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert loader.stats().batches == 3
    # The same through PyG's loader, where the native one cannot be used.
    loader = NeighborLoader(ds, [4, 4], subgraph_type="induced", batch_size=30)
    assert "subgraph_type" in loader.why_not_native
    for batch in loader:
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    with pytest.raises(ValueError, match="native"):
        loader.stats()


def test_rows_by_source_are_refused(tmp_path):
    ds = gz.Dataset.create(tmp_path / "ds", np.array([[0, 1], [1, 2]]), direction="out")
    with pytest.raises(ValueError, match=r'out-rows only.*direction="in"'):
        NeighborLoader(ds, [2])


def test_torchs_seed_and_a_generator_repeat_epochs():
    data = small_data()
    loader = NeighborLoader(data, [2, 2], batch_size=16, shuffle=True)

    def epoch():
        return torch.cat([batch.e_id for batch in loader])

    torch.manual_seed(3)
    first, second = epoch(), epoch()
    torch.manual_seed(3)
    assert torch.equal(epoch(), first)
    assert not torch.equal(first, second)
    makes = [NeighborLoader(data, [2], shuffle=True, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert [b.n_id.tolist() for b in makes[0]] == [b.n_id.tolist() for b in makes[1]]


def test_options_for_workers_are_explained_once(monkeypatch):
    monkeypatch.setattr(graphzero.pyg._native, "_warned", set())
    data = small_data()
    with pytest.warns(UserWarning, match="num_workers=2 is ignored: batches are built by native threads"):
        loader = NeighborLoader(data, [2], num_workers=2, persistent_workers=True, pin_memory=True)
    assert loader.num_workers == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeighborLoader(data, [2], num_workers=2, persistent_workers=True, pin_memory=True)


def test_transforms_and_sampler_transforms():
    data = small_data()
    loader = NeighborLoader(data, [2], batch_size=20, transform=lambda batch: batch.n_id)
    assert all(isinstance(n_id, torch.Tensor) for n_id in loader)
    loader = NeighborLoader(data, [2], batch_size=20, transform_sampler_output=lambda out: out)
    assert not loader.native
    assert len(list(loader)) == 3


def test_a_loader_is_called_with_positions():
    data = small_data()
    batch = NeighborLoader(data, [2], input_nodes=torch.tensor([9, 8, 7]))([2, 0])
    assert batch.n_id[:2].tolist() == [7, 9]


def test_times_of_edges_and_of_nodes():
    data = small_data()
    data.edge_time = torch.arange(400) % 20
    loader = NeighborLoader(
        data, [-1], torch.tensor([3, 4, 5]), torch.tensor([5, 9, 2]), time_attr="edge_time", batch_size=2
    )
    assert loader.native
    for batch in loader:
        assert (batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all()
    data.time = torch.arange(60)
    loader = NeighborLoader(data, [-1], torch.tensor([30, 40]), time_attr="time", batch_size=2)
    assert loader.native
    for batch in loader:
        assert type(batch) is Data
        assert (batch.time <= batch.time[:2][batch.batch]).all()
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert batch.num_edges > 0
    with pytest.raises(ValueError, match="input_time"):
        NeighborLoader(data, [2], time_attr="edge_time")
    with pytest.raises(ValueError, match="time_attr"):
        NeighborLoader(data, [2], input_time=torch.tensor([1]))


def test_weights():
    data = small_data()
    data.weight = (torch.arange(400) % 2).float()
    loader = NeighborLoader(data, [3], weight_attr="weight", batch_size=60)
    assert loader.native
    (batch,) = loader
    assert (batch.weight == 1).all()


def test_typed_batches_feed_a_typed_model():
    torch.manual_seed(0)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(40, 4), torch.randn(20, 4)
    data["paper"].y = torch.randint(0, 3, (40,))
    data[CITES].edge_index = torch.randint(0, 40, (2, 200))
    data["author", "writes", "paper"].edge_index = torch.stack(
        [torch.randint(0, 20, (90,)), torch.randint(0, 40, (90,))]
    )
    data["paper", "by", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = torch.nn.ModuleList([SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 3)])

        def forward(self, x, edge_index):
            x = self.convs[0](x, edge_index).relu()
            return self.convs[1](x, edge_index)

    model = to_hetero(Model(), data.metadata())
    data[CITES].year = torch.arange(200)
    loader = NeighborLoader(data, [3, 3], input_nodes=("paper", torch.arange(40) < 30), batch_size=10)
    assert loader.native
    for batch in loader:
        assert type(batch) is HeteroData
        assert torch.equal(batch["paper"].y, data["paper"].y[batch["paper"].n_id])
        assert torch.equal(batch[CITES].year, batch[CITES].e_id)
        assert torch.equal(batch["paper"].input_id, batch["paper"].n_id[:10])
        stored = data[CITES].edge_index[:, batch[CITES].e_id]
        assert torch.equal(batch["paper"].n_id[batch[CITES].edge_index], stored)
        assert torch.equal(batch["author"].x, data["author"].x[batch["author"].n_id])
        out = model(batch.x_dict, batch.edge_index_dict)
        assert out["paper"][: batch["paper"].batch_size].shape == (10, 3)


def test_links_with_negatives_over_data_and_dataset(tmp_path):
    data = small_data()
    ds = gz.Dataset.create(tmp_path / "ds", data.edge_index, features=data.x, direction="in", num_nodes=60)
    labels = data.edge_index[:, :50]
    for source in (data, ds):
        loader = LinkNeighborLoader(source, [3], edge_label_index=labels, neg_sampling="binary", batch_size=20)
        assert loader.native
        assert len(loader) == 3
        for batch in loader:
            assert torch.equal(batch.x, data.x[batch.n_id])
            pairs = batch.n_id[batch.edge_label_index]
            assert torch.equal(pairs[:, batch.edge_label == 1], labels[:, batch.input_id])
            assert (batch.edge_label == 0).sum() == len(batch.input_id)
            assert "batch_size" not in batch
        weights = NegativeSampling("triplet", 2, dst_weight=(torch.arange(60) < 5).float())
        loader = LinkNeighborLoader(source, [3], edge_label_index=labels, neg_sampling=weights, batch_size=20)
        assert loader.why_not_native == "negatives are drawn by weights"
        assert all(batch.n_id[batch.dst_neg_index].max() < 5 for batch in loader)
    with pytest.raises(ValueError, match="'edge_label_time' is not set"):
        LinkNeighborLoader(data, [2], time_attr="time")


def test_edges_of_a_batch_are_sampled_as_pyg_does():
    """PyG lets a model see the edges of its batch; gz.LinkNeighborLoader leaves them out."""
    data = small_data()
    batches = LinkNeighborLoader(data, [-1], batch_size=50)
    assert all(torch.isin(batch.input_id, batch.e_id).all() for batch in batches)


def test_typed_triplets(tmp_path):
    data = HeteroData()
    torch.manual_seed(0)
    data["user"].x, data["item"].x = torch.randn(30, 2), torch.randn(20, 3)
    buys = ("user", "buys", "item")
    data[buys].edge_index = torch.stack([torch.randint(0, 30, (80,)), torch.randint(0, 20, (80,))])
    ds = gz.Dataset.from_pyg(data, tmp_path / "ds")
    for source in (data, ds):
        options = {"edge_label_index": (buys, data[buys].edge_index), "neg_sampling": "triplet", "batch_size": 16}
        loader = LinkNeighborLoader(source, [2, 2], **options)
        assert loader.native
        for batch in loader:
            assert type(batch) is HeteroData
            known = data[buys].edge_index[:, batch[buys].input_id]
            assert torch.equal(batch["user"].n_id[batch["user"].src_index], known[0])
            assert torch.equal(batch["item"].n_id[batch["item"].dst_pos_index], known[1])
            assert batch["item"].dst_neg_index.shape == (16,)
            assert torch.equal(batch["item"].x, data["item"].x[batch["item"].n_id])


def test_layers_may_be_trimmed():
    data = small_data()
    conv = SAGEConv(3, 3)
    for batch in NeighborLoader(data, [3, 3], batch_size=12):
        wanted = conv(conv(batch.x, batch.edge_index), batch.edge_index)[: batch.batch_size]
        x, edge_index = batch.x, batch.edge_index
        for layer in range(2):
            x, edge_index, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
        assert torch.allclose(x[: batch.batch_size], wanted, atol=1e-6)


def test_loaders_of_one_object_share_files_that_go_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def files():
        return len(glob.glob(os.path.join(tmp_path, "graphzero-pyg-*")))

    data = small_data()
    train = NeighborLoader(data, [2])
    made = files()
    test = NeighborLoader(data, [3, 3])
    assert made == files() == 6  # edges, x, y, train_mask, edge_attr, pos
    iterator = iter(test)
    next(iterator)
    del train, test, iterator
    gc.collect()
    assert files() == 0


def test_ranks_load_what_they_are_given(monkeypatch):
    """PyG's scripts cut the seeds by rank themselves: a loader that did so too would skip most of them."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda *_: 4)
    loader = NeighborLoader(small_data(), [2], batch_size=10)
    assert sum(batch.batch_size for batch in loader) == 60


# Inductor compiles C++, which takes a minute on a busy machine: `make soak` has it.
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"] if os.environ.get("GRAPHZERO_SOAK") else ["aot_eager"])
def test_models_compile(backend):
    """Forward and backward of a compiled layer over our batches, whose sizes change from one to the next."""
    torch._dynamo.reset()
    conv, plain = SAGEConv(3, 4), SAGEConv(3, 4)
    plain.load_state_dict(conv.state_dict())
    compiled = torch.compile(conv, backend=backend, dynamic=True)
    for batch in NeighborLoader(small_data(), [3], batch_size=20):
        wanted, found = plain(batch.x, batch.edge_index), compiled(batch.x, batch.edge_index)
        assert torch.allclose(found, wanted, atol=1e-5)
        for out in (found, wanted):
            out.square().sum().backward()
    for one, other in zip(conv.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-4)
