"""Batches with padded nodes: of few sizes, and without their padding those of a loader that pads nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from loader_kinds import KINDS, loader_kinds

import graphzero as gz
from graphzero.load.device import tier

torch = pytest.importorskip("torch")
NODES = 20_000


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return gz.synthesize(tmp_path_factory.mktemp("padded") / "data", nodes=NODES, edges=300_000, dim=8, seed=0)


def make(data, **extra):
    options = {"fanouts": [10, 5, 5], "batch_size": 200, "seed": 1, "shuffle": True, "memory": "80MB", "num_threads": 2}
    return gz.NeighborLoader(data, **options | extra)


def padded(count: int) -> int:
    """The least number of six binary digits, and zeros behind them, that is not below `count`."""
    digits = bin(count)[2:]
    if len(digits) <= 6 or "1" not in digits[6:]:
        return count
    return (int(digits[:6], 2) + 1) << (len(digits) - 6)


def places(plain: Any, there: Any) -> list[int]:
    """Where each node of a batch is in the padded one; checks the counts of hops."""
    found, begin = [], 0
    counts = there.num_sampled_nodes
    assert len(counts) == len(there.num_padding_nodes) == len(plain.num_sampled_nodes)
    assert counts[0] == plain.num_sampled_nodes[0]
    for hop, (before, after, padding) in enumerate(
        zip(plain.num_sampled_nodes, counts, there.num_padding_nodes, strict=True)
    ):
        assert after == before + padding
        found += range(begin, begin + before)
        begin += after
        assert hop == 0 or begin == padded(begin - padding)
    assert begin == there.num_nodes
    return found


def check_nodes(plain: Any, there: Any) -> Any:
    """Compare what two batches have of one node type, and return where nodes are in the padded one."""
    place = torch.tensor(places(plain, there), dtype=torch.int64)
    assert torch.equal(there.n_id[place], plain.n_id)
    assert set(there.n_id.tolist()) == set(plain.n_id.tolist())
    by_id = {int(i): row for i, row in zip(plain.n_id, plain["x"], strict=True)} if "x" in plain else {}
    if by_id:
        assert torch.equal(there["x"], torch.stack([by_id[int(i)] for i in there.n_id]))
    for name, value in plain:
        if name in ("y", "input_id", "edge_label_index", "edge_label", "batch_size"):
            assert torch.equal(torch.as_tensor(there[name]), torch.as_tensor(value)), name
    return place


def check_edges(plain: Any, there: Any, sources: Any, targets: Any) -> None:
    assert torch.equal(there.edge_index[0], sources[plain.edge_index[0]])
    assert torch.equal(there.edge_index[1], targets[plain.edge_index[1]])
    assert torch.equal(there.e_id, plain.e_id)
    assert there.num_sampled_edges == plain.num_sampled_edges


def check(plain: Any, there: Any) -> None:
    if isinstance(plain, gz.Batch):
        place = check_nodes(plain, there)
        check_edges(plain, there, place, place)
        return
    assert (plain.node_types, plain.edge_types) == (there.node_types, there.edge_types)
    of_type = {key: check_nodes(plain[key], there[key]) for key in plain.node_types}
    for key in plain.edge_types:
        check_edges(plain[key], there[key], of_type[key[0]], of_type[key[2]])
        for name in ("edge_label_index", "edge_label", "input_id"):
            if name in plain[key]:
                assert torch.equal(there[key][name], plain[key][name]), name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "labor", "batch_dependency": 4},
        {"replace": True},
        {"fanouts": [-1, 3]},
        {"fanouts": [4, 0, 3]},
        {"fanouts": [0]},
        {"batch_size": 1},
        {"batch_size": 1025, "num_threads": 1},
        {"io": "pread", "memory": "30MB", "cache": "on"},
    ],
)
def test_without_padding_batches_are_the_same(data, options):
    for a, b in itertools.islice(zip(make(data, **options), make(data, pad_nodes=True, **options), strict=True), 20):
        check(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fanout", [2, 30])
def test_every_kind_of_loader_pads(tmp_path, kind, fanout):
    loader = loader_kinds(tmp_path)[kind]
    options = {"fanouts": [fanout, fanout], "batch_size": 70}
    for a, b in zip(loader(**options), loader(**options, pad_nodes=True), strict=True):
        check(a, b)


def test_seeds_that_are_nodes_of_other_types_alone_leave_a_type_empty(tmp_path):
    loader = loader_kinds(tmp_path)["typed"]
    for batch in loader(fanouts=[0], pad_nodes=True):
        counts = [batch[key].num_nodes for key in batch.node_types]
        assert sorted(counts)[:-1] == [0] * (len(counts) - 1)


def test_batches_have_few_sizes(data):
    sizes = {(b.num_nodes, *np.cumsum(b.num_sampled_nodes)) for b in make(data)}
    few = {(b.num_nodes, *np.cumsum(b.num_sampled_nodes)) for b in make(data, pad_nodes=True)}
    assert len(sizes) > 90
    assert len(few) < 30  # of four numbers each
    assert len({size[0] for size in few}) < 8


@pytest.mark.parametrize("rows", [100, 5000, NODES])
def test_rows_on_a_device_are_those_of_padded_nodes(data, monkeypatch, rows):
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    seeds = {"seeds": np.arange(4000)}
    there = make(data, pad_nodes=True, device="cpu", gpu_memory=rows * 32, **seeds)
    here, plain = make(data, pad_nodes=True, **seeds), make(data, **seeds)
    for a, b, c in zip(here, there, plain, strict=True):
        check(c, b)
        for name, value in a:
            assert torch.equal(torch.as_tensor(b[name]), torch.as_tensor(value)), name
    assert there.stats().device["x"]["rows"] == there.stats().nodes


def test_a_window_holds_rows_of_padded_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    data = gz.synthesize(tmp_path / "data", nodes=20_000, edges=60_000, dim=512, seed=0)
    small = {"batch_size": 16, "fanouts": [6, 6], "num_threads": 1, "seeds": np.arange(1000)}
    for device in ({}, {"device": "cpu", "gpu_memory": "2MB"}):
        plain, there = make(data, **small), make(data, memory="36MB", cache="on", pad_nodes=True, **small, **device)
        for _ in range(2):
            for a, b in zip(plain, there, strict=True):
                check(a, b)
        assert there.stats().plan["ways"]["x"] == "window"


def test_a_model_computes_the_same_for_the_seeds(data):
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    for kind in (geometric.GraphSAGE, geometric.GCN, geometric.GAT):
        model = kind(8, 16, num_layers=3, out_channels=4).double()
        for a, b in itertools.islice(zip(make(data), make(data, pad_nodes=True), strict=True), 2):
            for trims in (False, True):
                out = []
                for batch in (a, b):
                    counts = batch.num_sampled_nodes, batch.num_sampled_edges
                    names = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")
                    trimmed = dict(zip(names, counts, strict=True)) if trims else {}
                    out.append(model(batch.x.double(), batch.edge_index, **trimmed)[: batch.batch_size])
                assert torch.allclose(*out, atol=1e-12)


def test_disjoint_trees_are_not_padded(data, tmp_path):
    with pytest.raises(ValueError, match=r"pad_nodes .* cannot be combined with disjoint=True"):
        make(data, pad_nodes=True, disjoint=True)
    edges = np.random.default_rng(0).integers(0, 50, (2, 300))
    gz.compile_graph(edges, tmp_path / "g.gl", num_nodes=50, times=np.arange(300), direction="in")
    with pytest.raises(ValueError, match=r"pad_nodes .* cannot be combined with times"):
        gz.NeighborLoader(gz.Graph(tmp_path / "g.gl"), fanouts=[2], time=100, pad_nodes=True)


def test_the_padding_is_named_only_where_it_is(data):
    first = next(iter(make(data)))
    assert "num_padding_nodes" not in first
    assert "num_padding_nodes=" in repr(next(iter(make(data, pad_nodes=True))))
