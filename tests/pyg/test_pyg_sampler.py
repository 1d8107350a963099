"""graphzero.pyg.NeighborSampler against PyG's contract: what its loaders and layers expect of a sampler's output."""

import copy
import gc
import glob
import multiprocessing
import os
import pickle
import tempfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import LinkLoader, NeighborLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput  # noqa: E402
from torch_geometric.testing import MyFeatureStore, MyGraphStore  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.pyg import NeighborSampler  # noqa: E402

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def random_data(nodes=60, edges=400, seed=0):
    torch.manual_seed(seed)
    edge_index = torch.randint(0, nodes, (2, edges))
    return Data(x=torch.randn(nodes, 3), edge_index=edge_index, edge_attr=torch.arange(edges), num_nodes=nodes)


def random_hetero(seed=0):
    torch.manual_seed(seed)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(40, 3), torch.randn(25, 2)
    data[WRITES].edge_index = torch.stack([torch.randint(0, 25, (120,)), torch.randint(0, 40, (120,))])
    data[CITES].edge_index = torch.randint(0, 40, (2, 150))
    return data


def nodes_of(sampler, ids, time=None, input_type=None):
    return sampler.sample_from_nodes(
        NodeSamplerInput(torch.arange(len(ids)), torch.tensor(ids), time=time, input_type=input_type)
    )


def check_edges(out, edge_index):
    """Every sampled edge is the edge of its id."""
    assert torch.equal(edge_index[0][out.edge], out.node[out.row])
    assert torch.equal(edge_index[1][out.edge], out.node[out.col])


def test_nodes_are_the_seeds_and_then_their_neighbourhood():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [4, 3]), [5, 9, 5])
    assert out.node[:3].tolist() == [5, 9, 5]
    check_edges(out, data.edge_index)
    assert len(out.num_sampled_nodes) == 3
    assert len(out.num_sampled_edges) == 2
    assert out.num_sampled_nodes[0] == 3
    assert sum(out.num_sampled_nodes) == len(out.node)
    assert sum(out.num_sampled_edges) == len(out.row)
    first = out.col[: out.num_sampled_edges[0]]
    assert first.max() < 3
    assert first.bincount(minlength=3).max() <= 4
    assert out.metadata[0].tolist() == [0, 1, 2]
    assert out.metadata[1] is None
    assert out.batch is None


def test_a_fanout_of_minus_one_takes_every_edge():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [-1]), [7, 30])
    wanted = torch.isin(data.edge_index[1], torch.tensor([7, 30])).nonzero().view(-1)
    assert out.edge.sort().values.tolist() == wanted.tolist()


def test_edge_attributes_follow_their_edges_through_pygs_loader():
    data = random_data()
    loader = NodeLoader(data, NeighborSampler(data, [3, 3]), input_nodes=torch.arange(20), batch_size=8)
    for batch in loader:
        assert torch.equal(batch.edge_attr, batch.e_id)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])


def test_no_hops_give_the_seeds_alone():
    data = random_data()
    out = nodes_of(NeighborSampler(data, []), [3, 4])
    assert (out.node.tolist(), out.row.tolist(), out.num_sampled_nodes, out.num_sampled_edges) == ([3, 4], [], [2], [])
    hetero = random_hetero()
    typed = nodes_of(NeighborSampler(hetero, {WRITES: [], CITES: []}), [3], input_type="paper")
    assert typed.num_sampled_nodes["paper"] == [1]
    assert typed.row[CITES].numel() == 0


def test_every_type_has_an_entry_for_every_hop():
    out = nodes_of(NeighborSampler(random_hetero(), [2, 2]), [1, 2], input_type="author")
    assert set(out.node) == {"paper", "author"}
    assert set(out.row) == {WRITES, CITES}
    assert out.num_sampled_nodes == {"paper": [0, 0, 0], "author": [2, 0, 0]}
    assert out.num_sampled_edges == {WRITES: [0, 0], CITES: [0, 0]}


def test_typed_edges_are_the_edges_of_their_ids():
    data = random_hetero()
    out = nodes_of(NeighborSampler(data, {WRITES: [3, 2], CITES: [2, 0]}), [0, 1, 2], input_type="paper")
    for edge_type in (WRITES, CITES):
        stored = data[edge_type].edge_index[:, out.edge[edge_type]]
        assert torch.equal(stored[0], out.node[edge_type[0]][out.row[edge_type]])
        assert torch.equal(stored[1], out.node[edge_type[2]][out.col[edge_type]])
    assert out.num_sampled_edges[CITES][1] == 0


def test_trees_of_disjoint_seeds_do_not_meet():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [3, 3], disjoint=True), [1, 1, 2])
    assert torch.equal(out.batch[out.row], out.batch[out.col])
    assert out.batch[:3].tolist() == [0, 1, 2]
    check_edges(out, data.edge_index)


def test_induced_subgraphs_have_every_edge_between_their_nodes():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [3, 3], subgraph_type="induced"), [1, 2])
    check_edges(out, data.edge_index)
    inside = torch.isin(data.edge_index, out.node).all(dim=0)
    assert out.edge.sort().values.tolist() == inside.nonzero().view(-1).tolist()
    assert out.num_sampled_nodes is None
    hetero = random_hetero()
    typed = nodes_of(NeighborSampler(hetero, [2, 2], subgraph_type="induced"), [1, 2], input_type="paper")
    for edge_type in (WRITES, CITES):
        source, target = hetero[edge_type].edge_index
        both = torch.isin(source, typed.node[edge_type[0]]) & torch.isin(target, typed.node["paper"])
        assert typed.edge[edge_type].sort().values.tolist() == both.nonzero().view(-1).tolist()
    with pytest.raises(ValueError, match="disjoint"):
        nodes_of(NeighborSampler(data, [3], subgraph_type="induced", disjoint=True), [1])


def test_bidirectional_subgraphs_have_both_ways():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [3, 3], subgraph_type="bidirectional"), [1, 2])
    there = set(zip(out.row.tolist(), out.col.tolist(), strict=True))
    assert there == {(b, a) for a, b in there}


def test_backward_samples_the_targets():
    data = random_data()
    out = nodes_of(NeighborSampler(data, [-1], sample_direction="backward"), [7])
    check_edges(out, data.edge_index)
    assert out.edge.sort().values.tolist() == (data.edge_index[0] == 7).nonzero().view(-1).tolist()
    hetero = random_hetero()
    typed = nodes_of(NeighborSampler(hetero, [-1], sample_direction="backward"), [4], input_type="author")
    assert set(typed.row) == {WRITES, CITES}
    written = (hetero[WRITES].edge_index[0] == 4).nonzero().view(-1)
    assert typed.edge[WRITES].sort().values.tolist() == written.tolist()
    with pytest.raises(NotImplementedError, match="backward"):
        NeighborSampler(data, [1], time_attr="time", sample_direction="backward")


def test_node_times_keep_the_future_out():
    data = random_data()
    data.time = torch.arange(60)
    sampler = NeighborSampler(data, [-1, -1], time_attr="time")
    out = nodes_of(sampler, [20, 40])  # a seed's time is its own unless given
    seeds = out.node[:2]
    assert (data.time[out.node] <= data.time[seeds][out.batch]).all()
    early = nodes_of(sampler, [20, 40], time=torch.tensor([5, 7]))
    others = early.node[2:]
    assert (data.time[others] <= torch.tensor([5, 7])[early.batch[2:]]).all()
    latest = nodes_of(NeighborSampler(data, [1], time_attr="time", temporal_strategy="last"), [59])
    sources = data.edge_index[0][data.edge_index[1] == 59]
    assert latest.node[latest.row].item() == sources[data.time[sources].argmax()]


def test_edge_times_keep_the_future_out():
    data = random_data()
    data.edge_time = torch.arange(400) % 50
    sampler = NeighborSampler(data, [-1, -1], time_attr="edge_time")
    out = nodes_of(sampler, [1, 2], time=torch.tensor([10, 30]))
    assert (data.edge_time[out.edge] <= torch.tensor([10, 30])[out.batch[out.col]]).all()
    with pytest.raises(ValueError, match="input_time"):
        nodes_of(sampler, [1])
    with pytest.raises(ValueError, match="neither"):
        NeighborSampler(data, [1], time_attr="nothing")
    data.odd = torch.rand(400)
    with pytest.raises(TypeError, match="integers"):
        NeighborSampler(data, [1], time_attr="odd")


def test_weights_decide_and_types_without_them_are_even():
    data = random_hetero()
    data[CITES].weight = (torch.arange(150) % 3 == 0).float()
    out = nodes_of(NeighborSampler(data, [5], weight_attr="weight"), list(range(40)), input_type="paper")
    assert (out.edge[CITES] % 3 == 0).all()
    assert set(out.edge[WRITES].tolist()) - set(range(0, 120, 3))  # those have no weights
    data["paper"].time, data["author"].time = torch.arange(40), torch.arange(25)
    with pytest.raises(ValueError, match="temporal"):
        NeighborSampler(data, [5], weight_attr="weight", time_attr="time")


@pytest.mark.parametrize("disjoint", [False, True])
def test_links_and_their_negatives(disjoint):
    data = random_data()
    inputs = EdgeSamplerInput(torch.arange(6), data.edge_index[0, :6], data.edge_index[1, :6])
    sampler = NeighborSampler(data, [2, 2], disjoint=disjoint)
    out = sampler.sample_from_edges(inputs, NegativeSampling("binary", 2.0))
    input_id, label_index, label, time = out.metadata
    assert torch.equal(out.node[label_index][:, :6], data.edge_index[:, :6])
    assert label.tolist() == [1] * 6 + [0] * 12
    assert label_index.shape == (2, 18)
    assert input_id.tolist() == list(range(6))
    assert time is None
    if disjoint:
        assert out.batch.max() == 5
    check_edges(out, data.edge_index)
    out = sampler.sample_from_edges(inputs, NegativeSampling("triplet", 2))
    _, source, positive, negative, _ = out.metadata
    assert torch.equal(out.node[source], data.edge_index[0, :6])
    assert torch.equal(out.node[positive], data.edge_index[1, :6])
    assert negative.shape == (6, 2)


def test_typed_links_through_pygs_loader():
    data = random_hetero()
    sampler = NeighborSampler(data, [2, 2])
    for batch in LinkLoader(data, sampler, edge_label_index=WRITES, batch_size=32, neg_sampling="binary"):
        positive = batch[WRITES].edge_label == 1
        source, target = batch[WRITES].edge_label_index[:, positive]
        known = data[WRITES].edge_index[:, batch[WRITES].input_id]
        assert torch.equal(batch["author"].n_id[source], known[0])
        assert torch.equal(batch["paper"].n_id[target], known[1])


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_edge_ids_are_places_in_the_store_in_any_layout(layout):
    data = random_data()
    order = torch.argsort(data.edge_index[1 if layout == "csc" else 0], stable=True)
    edge_index = data.edge_index[:, order] if layout != "coo" else data.edge_index
    counts = torch.bincount(edge_index[1 if layout == "csc" else 0], minlength=60)
    pointers = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    stored = {"coo": edge_index, "csc": (edge_index[0], pointers), "csr": (pointers, edge_index[1])}[layout]
    graph, features = MyGraphStore(), MyFeatureStore()
    graph.put_edge_index(stored, edge_type=None, layout=layout, size=(60, 60), is_sorted=layout == "csc")
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    out = nodes_of(NeighborSampler((features, graph), [-1, 2]), [3, 4])
    check_edges(out, edge_index)


def test_files_are_sampled_as_they_are(tmp_path):
    data = random_data()
    for direction in ("in", "out", "both"):
        gz.compile_graph(
            data.edge_index, tmp_path / f"{direction}.gl", direction=direction, edge_ids=True, num_nodes=60
        )
    wanted = nodes_of(NeighborSampler(data, [-1, -1]), [3])
    for name in ("in", "both"):
        out = nodes_of(NeighborSampler(gz.Graph(tmp_path / f"{name}.gl"), [-1, -1]), [3])
        assert torch.equal(out.node, wanted.node)
        assert torch.equal(out.edge, wanted.edge)
    with pytest.raises(ValueError, match=r'out-rows only.*direction="in"'):
        NeighborSampler(gz.Graph(tmp_path / "out.gl"), [2])
    backward = nodes_of(NeighborSampler(gz.Graph(tmp_path / "out.gl"), [-1], sample_direction="backward"), [3])
    check_edges(backward, data.edge_index)
    ds = gz.Dataset.create(tmp_path / "ds", gz.Graph(tmp_path / "in.gl"), features=data.x)
    assert torch.equal(nodes_of(NeighborSampler(ds, [-1, -1]), [3]).edge, wanted.edge)
    typed = gz.HeteroGraph({CITES: tmp_path / "both.gl"})
    assert torch.equal(nodes_of(NeighborSampler(typed, [-1, -1]), [3], input_type="paper").edge[CITES], wanted.edge)
    with pytest.raises(ValueError, match="no weights"):
        NeighborSampler(gz.Graph(tmp_path / "in.gl"), [2], weight_attr="weight")
    with pytest.raises(ValueError, match="no times"):
        NeighborSampler(gz.Graph(tmp_path / "in.gl"), [2], time_attr="time")
    with pytest.raises(ValueError, match="got int"):
        NeighborSampler(3, [2])


def temporary_folders():
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "graphzero-pyg-*")))


def test_temporary_files_are_shared_and_go_with_the_last_sampler(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = random_data()
    first, second = NeighborSampler(data, [2]), NeighborSampler(data, [3, 3])
    assert len(temporary_folders()) == 1
    twin = copy.deepcopy(first)
    del first, second
    gc.collect()
    assert len(temporary_folders()) == 1
    assert len(nodes_of(twin, [1]).node) > 1
    data.edge_index[0, 0] += 1  # another graph from now on
    third = NeighborSampler(data, [2])
    assert len(temporary_folders()) == 2
    del twin, third
    gc.collect()
    assert not temporary_folders()


def test_temporary_files_of_a_worker_go_when_it_ends(tmp_path, monkeypatch):
    """A forked worker ends without atexit; what it inherited belongs to its parent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = random_data()
    kept = [NeighborSampler(data, [2])]

    def work():
        kept.append(NeighborSampler(random_data(seed=1), [2]))
        assert len(temporary_folders()) == 2

    worker = multiprocessing.get_context("fork").Process(target=work)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert len(temporary_folders()) == 1
    assert len(nodes_of(kept[0], [1]).node) > 1


def test_a_cache_folder_is_used_again(tmp_path):
    data = random_data()
    sampler = NeighborSampler(data, [2], cache_dir=tmp_path)
    (path,) = tmp_path.glob("*/0.gl")
    made = path.stat().st_mtime_ns
    del sampler
    gc.collect()
    again = NeighborSampler(data.clone(), [2], cache_dir=tmp_path)
    assert path.stat().st_mtime_ns == made
    check_edges(nodes_of(again, [1, 2]), data.edge_index)
    data.edge_index[0, 0] = (data.edge_index[0, 0] + 1) % 60
    NeighborSampler(data, [2], cache_dir=tmp_path)
    assert len(list(tmp_path.glob("*/0.gl"))) == 2


def test_a_sampler_pickles_as_its_files(tmp_path):
    data = random_data(5000, 100_000)
    sampler = NeighborSampler(data, [3])
    raw = pickle.dumps(sampler)
    assert len(raw) < 20_000  # the edges alone are 1.6 MB
    check_edges(nodes_of(pickle.loads(raw), [1, 2]), data.edge_index)


def test_torchs_seed_repeats_a_run():
    data = random_data()
    sampler = NeighborSampler(data, [3, 3])
    torch.manual_seed(5)
    first, second = nodes_of(sampler, [1, 2, 3]), nodes_of(sampler, [1, 2, 3])
    torch.manual_seed(5)
    assert torch.equal(nodes_of(sampler, [1, 2, 3]).edge, first.edge)
    assert not np.array_equal(first.edge.numpy(), second.edge.numpy())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_sample_the_same_files(method):
    data = random_data()
    sampler = NeighborSampler(data, [-1, -1])
    options = {"num_workers": 1, "multiprocessing_context": method, "persistent_workers": True}
    loader = NodeLoader(data, sampler, input_nodes=torch.arange(12), batch_size=4, **options)
    alone = NodeLoader(data, sampler, input_nodes=torch.arange(12), batch_size=4)
    for _ in range(2):  # the workers of the first epoch serve the second
        for batch, wanted in zip(loader, alone, strict=True):
            assert torch.equal(batch.n_id, wanted.n_id)
            assert torch.equal(batch.edge_index, wanted.edge_index)
            assert torch.equal(batch.x, wanted.x)
    del loader
    gc.collect()
    assert os.path.exists(sampler._mounted.graph.path)  # a worker that ends does not remove its parent's files


def test_pygs_neighbor_loader_takes_it():
    data = random_data()
    loader = NeighborLoader(data, num_neighbors=[1], neighbor_sampler=NeighborSampler(data, [2, 2]), batch_size=30)
    assert sum(batch.batch_size for batch in loader) == 60
