"""One model on PyG's loader with a plain sampler and on ours: equal neighbourhoods, equal chances, equal accuracy."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from pyg_reference import ReferenceSampler  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.nn import SAGEConv, to_hetero  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.pyg import LinkNeighborLoader, NeighborLoader, NeighborSampler  # noqa: E402

CLASSES = 4


class Sage(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 16), SAGEConv((-1, -1), out)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def communities(nodes=400, edges=4000, seed=0):
    """A graph whose classes show in its edges, and hardly in its features."""
    torch.manual_seed(seed)
    y = torch.arange(nodes) % CLASSES
    source = torch.randint(0, nodes, (edges,))
    mates = torch.randint(0, nodes // CLASSES, (edges,)) * CLASSES + y[source]
    target = torch.where(torch.rand(edges) < 0.8, mates, torch.randint(0, nodes, (edges,)))
    x = torch.nn.functional.one_hot(y, CLASSES) * 0.7 + torch.randn(nodes, CLASSES)
    return Data(x=x, y=y, edge_index=torch.stack([source, target]))


def typed_communities():
    plain = communities()
    data = HeteroData()
    data["paper"].x, data["paper"].y = plain.x, plain.y
    data["author"].x = torch.zeros(100, 2)
    data["paper", "cites", "paper"].edge_index = plain.edge_index
    writes = torch.stack([torch.randint(0, 100, (600,)), torch.randint(0, 400, (600,))])
    data["author", "writes", "paper"].edge_index = writes
    data["paper", "by", "author"].edge_index = writes.flip(0)
    return data


def same_batches(ours, plain):
    for a, b in zip(ours, plain, strict=True):
        for name in ("num_sampled_nodes", "num_sampled_edges"):
            if isinstance(a, Data):
                assert a[name] == b[name]
            else:
                assert a.collect(name) == b.collect(name)
        for one, other in zip(a.node_stores, b.node_stores, strict=True):
            assert set(one.n_id.tolist()) == set(other.n_id.tolist())
        for one, other in zip(a.edge_stores, b.edge_stores, strict=True):
            assert sorted(one.e_id.tolist()) == sorted(other.e_id.tolist())


def test_whole_neighbourhoods_are_equal():
    data, typed = communities(), typed_communities()
    index = torch.tensor([3, 50, 51, 99])
    same_batches(
        NeighborLoader(data, [-1, -1], index, batch_size=2),
        NodeLoader(data, ReferenceSampler(data, [-1, -1]), index, batch_size=2),
    )
    same_batches(
        NeighborLoader(typed, [-1, -1], ("paper", index), batch_size=2),
        NodeLoader(typed, ReferenceSampler(typed, [-1, -1]), ("paper", index), batch_size=2),
    )


@pytest.mark.parametrize("hops", [[3], [3, 2]])
def test_sampled_neighbourhoods_have_equal_chances(hops):
    """How often each edge is taken, in 3000 draws: ours against the plain sampler, edge by edge."""
    data = Data(
        edge_index=torch.tensor([[1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 9], [0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 3]]), num_nodes=10
    )
    torch.manual_seed(0)
    draws = 3000

    def shares(loader):
        taken = torch.zeros(data.num_edges)
        for batch in loader:
            taken += torch.bincount(batch.e_id, minlength=data.num_edges)
        return taken / draws

    seeds = torch.zeros(draws, dtype=torch.long)
    ours = shares(NeighborLoader(data, hops, seeds, batch_size=1))
    plain = shares(NodeLoader(data, ReferenceSampler(data, hops), seeds, batch_size=1))
    assert torch.allclose(ours, plain, atol=0.05)  # 4 sigma of the difference of two shares of 0.5
    assert torch.allclose(ours[:6], torch.full((6,), 0.5), atol=0.04)


def trained(model, data, loader, epochs=4):
    torch.manual_seed(1)
    for parameter in model.parameters():
        if not isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            parameter.data.normal_(0, 0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            if isinstance(batch, Data):
                out, y, count = model(batch.x, batch.edge_index), batch.y, batch.batch_size
            else:
                part = batch["paper"]
                out, y, count = model(batch.x_dict, batch.edge_index_dict)["paper"], part.y, part.batch_size
            cross_entropy(out[:count], y[:count]).backward()
            optimizer.step()
    with torch.no_grad():
        if isinstance(data, Data):
            return (model(data.x, data.edge_index)[200:].argmax(1) == data.y[200:]).float().mean().item()
        out = model(data.x_dict, data.edge_index_dict)["paper"]
        return (out[200:].argmax(1) == data["paper"].y[200:]).float().mean().item()


def ready(model, *inputs):
    with torch.no_grad():
        model(*inputs)  # gives lazy layers their shapes
    return model


def test_accuracy_is_equal_on_one_type():
    data, index = communities(), torch.arange(200)
    options = {"batch_size": 50, "shuffle": True}
    ours = trained(ready(Sage(CLASSES), data.x, data.edge_index), data, NeighborLoader(data, [5, 5], index, **options))
    plain_loader = NodeLoader(data, ReferenceSampler(data, [5, 5]), index, **options)
    plain = trained(ready(Sage(CLASSES), data.x, data.edge_index), data, plain_loader)
    assert min(ours, plain) > 0.65  # 0.25 by chance
    assert abs(ours - plain) < 0.08  # 200 test nodes: 0.03 is one standard deviation


def test_accuracy_is_equal_on_several_types():
    data, index = typed_communities(), ("paper", torch.arange(200))
    options = {"batch_size": 50, "shuffle": True}

    def fresh():
        return ready(to_hetero(Sage(CLASSES), data.metadata()), data.x_dict, data.edge_index_dict)

    ours = trained(fresh(), data, NeighborLoader(data, [5, 5], index, **options))
    plain = trained(fresh(), data, NodeLoader(data, ReferenceSampler(data, [5, 5]), index, **options))
    assert min(ours, plain) > 0.6
    assert abs(ours - plain) < 0.1


def test_link_prediction_is_equal():
    data = communities()
    labels, held_out = data.edge_index[:, :3000], data.edge_index[:, 3000:]
    data.edge_index = labels
    options = {"edge_label_index": labels, "neg_sampling": "binary", "batch_size": 500, "shuffle": True}

    def score(loader):
        torch.manual_seed(2)
        model = ready(Sage(16), data.x, data.edge_index)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(4):
            for batch in loader:
                optimizer.zero_grad()
                z = model(batch.x, batch.edge_index)
                a, b = batch.edge_label_index
                binary_cross_entropy_with_logits((z[a] * z[b]).sum(1), batch.edge_label).backward()
                optimizer.step()
        with torch.no_grad():
            z = model(data.x, data.edge_index)
            right = (z[held_out[0]] * z[held_out[1]]).sum(1)
            wrong = (z[held_out[0]] * z[torch.randint(0, 400, (1000,))]).sum(1)
            return (right > wrong).float().mean().item()

    ours = score(LinkNeighborLoader(data, [5, 5], **options))
    plain = score(LinkLoader(data, ReferenceSampler(data, [5, 5]), **options))
    assert min(ours, plain) > 0.65
    assert abs(ours - plain) < 0.08


def test_a_lightning_module_trains_on_our_batches(tmp_path):
    lightning = pytest.importorskip("lightning")
    data = communities()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = ready(Sage(CLASSES), data.x, data.edge_index)
            self.seen = []

        def step(self, batch):
            out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
            return cross_entropy(out, batch.y[: batch.batch_size])

        def training_step(self, batch, _):
            self.seen.append(batch.batch_size)
            return self.step(batch)

        def validation_step(self, batch, _):
            self.log("loss", self.step(batch), batch_size=batch.batch_size)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=tmp_path, **quiet)
    module = Module()
    train = NeighborLoader(data, [5, 5], torch.arange(200), batch_size=64, shuffle=True, num_workers=2)
    trainer.fit(module, train, NeighborLoader(data, [5, 5], torch.arange(200, 400), batch_size=100))
    assert module.seen == [64, 64, 64, 8] * 2
    assert trainer.callback_metrics["loss"] < 1.4


def test_a_sampler_serves_a_mapping_of_loaders():
    data = communities()
    sampler = NeighborSampler(data, [2])
    loaders = [NodeLoader(data, sampler, torch.arange(k), batch_size=k) for k in (3, 5)]
    assert [next(iter(loader)).batch_size for loader in loaders] == [3, 5]


def sorted_edges(data):
    from torch_geometric import EdgeIndex

    return EdgeIndex(data.edge_index, sparse_size=(data.num_nodes, data.num_nodes), sort_order="col").validate()


@pytest.mark.parametrize(
    "options", [{}, {"replace": True}, {"method": "labor"}, {"pad_nodes": True}, {"shuffle": True}, {"disjoint": True}]
)
def test_edges_of_a_batch_are_sorted_by_target(tmp_path, options):
    data = gz.synthesize(tmp_path / "data", nodes=2000, edges=20_000, dim=8, seed=0)
    model = Sage(CLASSES)
    for batch in gz.NeighborLoader(data, fanouts=[5, 3], batch_size=100, seed=0, **options):
        torch.testing.assert_close(model(batch.x, sorted_edges(batch)), model(batch.x, batch.edge_index))
    for batch in gz.LinkNeighborLoader(data, fanouts=[5, 3], batch_size=1000, neg_sampling="binary", seed=0):
        sorted_edges(batch)


def test_edges_of_each_type_are_sorted_by_target(tmp_path):
    data = gz.synthesize(tmp_path / "data", preset="mag", scale=0.001, seed=0)
    for batch in gz.NeighborLoader(data, split="train", fanouts=[5, 4, 3], batch_size=100, shuffle=True, seed=0):
        for kind in batch.edge_types:
            targets = batch[kind].edge_index[1]
            assert bool((targets[1:] >= targets[:-1]).all()), kind
