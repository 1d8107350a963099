"""Typed batches as PyG's HeteroData, what loaders take from datasets, and mistakes that name the type."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from typed_world import CITES, COUNTS, EDGES, WRITES, WRITTEN, World

import graphzero as gz
from graphzero.load.device import DeviceBatches

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("typed") / "ds")


def tensors_of(batch):
    return [value for _, data in batch for _, value in data if isinstance(value, torch.Tensor)]


def test_parts_given_by_hand_replace_those_of_a_dataset(world):
    graph, ds = world.ds.hetero, world.ds
    features = {"paper": ds.nodes["paper"].features["x"], "author": {"old": ds.nodes["author"].features["age"]}}
    edges = {CITES: [ds.edges[CITES].features["kind"]]}
    y = {"paper": torch.from_numpy(world.labels["paper"])}
    loaders = [
        gz.NeighborLoader(graph, features, edge_features=edges, labels=y, input_type="paper", fanouts=[2], seed=1),
        gz.NeighborLoader(ds, features, edge_features=edges, labels=y["paper"], seeds=("paper", None), fanouts=[2]),
    ]
    for loader in loaders:
        batch = next(iter(loader))
        assert set(batch.x_dict) == {"paper"}
        assert set(batch.old_dict) == {"author"}
        assert set(batch.kind_dict) == {CITES}
        assert torch.equal(batch["author"].old, torch.from_numpy(world.rows["author"]["age"])[batch["author"].n_id])
        assert torch.equal(batch["paper"].y, y["paper"][batch["paper"].n_id[: batch["paper"].batch_size]])
    bare = next(iter(gz.NeighborLoader(ds, {}, edge_features={}, input_type="author", fanouts=[2], seed=1)))
    assert "x" not in bare["paper"]
    assert "edge_attr" not in bare[CITES]
    assert "y" in bare["author"]
    mask = np.arange(300) % 7 == 0
    masked = gz.NeighborLoader(graph, seeds=("paper", mask), fanouts=[1], seed=1)
    assert next(iter(masked))["paper"].batch_size == mask.sum()


def test_half_floats_are_converted_by_type(world):
    loader = gz.NeighborLoader(world.ds, split="train", fanouts=[3], dtype="float32", seed=1)
    batch = next(iter(loader))
    assert batch["author"].x.dtype == torch.float32
    assert batch["author"].age.dtype == torch.int64
    expected = world.rows["author"]["x"].astype("float32")[batch["author"].n_id]
    assert torch.equal(batch["author"].x, torch.from_numpy(expected))


def test_a_batch_reads_like_heterodata(world):
    batch = next(iter(gz.NeighborLoader(world.ds, split="train", fanouts=[3, 2], batch_size=16, seed=1)))
    assert list(batch.edge_index_dict) == list(EDGES)
    assert list(batch.n_id_dict) == list(COUNTS)
    assert batch.num_sampled_nodes_dict["paper"][0] == 16
    assert batch.num_nodes == sum(len(n) for n in batch.n_id_dict.values())
    assert batch.num_edges == sum(len(e) for e in batch.e_id_dict.values())
    assert batch[WRITES].num_edges == len(batch[WRITES].e_id)
    assert batch["paper"].num_nodes == len(batch["paper"].n_id)
    assert "paper" in batch
    assert WRITES in batch
    assert "reader" not in batch
    with pytest.raises(KeyError, match="no node type 'reader'; the batch has 'paper', 'author'"):
        batch["reader"]
    with pytest.raises(
        KeyError, match=r"no edge type \('a', 'b', 'c'\); the batch has \('author', 'writes', 'paper'\)"
    ):
        batch["a", "b", "c"]
    with pytest.raises(AttributeError, match="no type of the batch has 'z'; they have"):
        _ = batch.z_dict
    with pytest.raises(AttributeError, match=r"attributes belong to types: batch\[type\].x"):
        _ = batch.x
    with pytest.raises(AttributeError, match="no attribute 'z'; this type has x"):
        _ = batch["paper"].z
    batch.note = torch.ones(2)
    for other in (batch.to("cpu"), copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        assert torch.equal(other["paper"].x, batch["paper"].x)
        assert other["paper"].batch_size == 16
        assert torch.equal(other.note, batch.note)
    assert repr(batch).startswith("HeteroBatch(\n  paper={x=[")
    moved = batch.to("meta")
    assert {t.device.type for t in tensors_of(moved)} == {"meta"}


def test_pygs_heterodata_shares_the_memory(world):
    geometric = pytest.importorskip("torch_geometric")
    batch = next(iter(gz.NeighborLoader(world.ds, split="train", fanouts=[3, 2], batch_size=16, seed=1)))
    data = batch.to_pyg()
    assert isinstance(data, geometric.data.HeteroData)
    assert isinstance(batch.to_hetero_data(), type(data))
    assert data.metadata() == batch.metadata()
    assert data["empty"].num_nodes == 0
    assert data["paper"].num_nodes == batch["paper"].num_nodes
    shared = 0
    for key, values in batch:
        for name, value in values:
            if isinstance(value, torch.Tensor):
                assert data[key][name].data_ptr() == value.data_ptr()
                shared += 1
    assert shared > 20
    used = (WRITES, WRITTEN)
    conv = geometric.nn.HeteroConv({e: geometric.nn.SAGEConv((-1, -1), 4) for e in used})
    out = conv({k: v.float() for k, v in data.x_dict.items()}, {e: data.edge_index_dict[e] for e in used})
    assert out["paper"].shape == (batch["paper"].num_nodes, 4)


def test_untyped_datasets_give_plain_batches(tmp_path):
    rng = np.random.default_rng(0)
    ds = gz.Dataset.create(
        tmp_path / "ds", rng.integers(0, 50, (2, 300)), num_nodes=50, features=rng.normal(size=(50, 4)),
        labels=rng.integers(0, 3, 50), splits={"train": np.arange(30)}, edge_features={"w": rng.normal(size=(300, 2))},
    )  # fmt: skip
    by_hand = gz.NeighborLoader(
        ds.graph, dict(ds.features), edge_features=dict(ds.edge_features), labels=ds.labels,
        seeds=ds.splits["train"], fanouts=[3, 2], batch_size=8, seed=5, shuffle=True,
    )  # fmt: skip
    found = gz.NeighborLoader(ds, split="train", fanouts=[3, 2], batch_size=8, seed=5, shuffle=True)
    assert found.input_type is None
    for a, b in zip(by_hand, found, strict=True):
        assert isinstance(b, gz.Batch)
        assert a.keys() == b.keys()
        assert all(torch.equal(v, b[k]) if isinstance(v, torch.Tensor) else v == b[k] for k, v in a)
    assert len(gz.NeighborLoader(ds, fanouts=[2], batch_size=1)) == 50


MISTAKES = [
    ({}, ValueError, r"the type of the seeds is unknown.* the graph has node types 'paper', 'author'"),
    ({"split": "valid"}, ValueError, "no split 'valid'; the dataset has splits 'paper': train, test; 'author': test"),
    (
        {"split": "test"},
        ValueError,
        "split 'test' exists for several node types, 'paper', 'author'; choose one",
    ),
    ({"split": "train", "input_type": "author"}, ValueError, "no split 'train' of node type 'author'"),
    ({"split": "train", "input_type": "reader"}, ValueError, "no node type 'reader'; the dataset has 'paper'"),
    ({"split": "train", "seeds": [1]}, ValueError, "pass either split='train' or seeds="),
    ({"input_type": "reader"}, ValueError, "no node type 'reader'; the graph has 'paper', 'author'"),
    (
        {"seeds": ("paper", [1]), "input_type": "author"},
        ValueError,
        "seeds are of type 'paper', but input_type is 'aut",
    ),
    ({"seeds": {"paper": [1], "author": [1]}}, ValueError, r"seeds are of types \['paper', 'author'\], expected one"),
    ({"seeds": ("paper", [300])}, IndexError, r"seeds\[0\] = 300 is out of range for node type 'paper' with 300 nodes"),
    ({"seeds": ("paper", np.ones(3, bool))}, ValueError, r"mask of shape \(3,\), expected \(300,\)"),
    ({"input_type": "paper", "labels": {"reader": [1]}}, ValueError, "no node type 'reader'"),
    ({"input_type": "paper", "labels": {"paper": [1]}}, ValueError, "labels has shape"),
    ({"input_type": "paper", "features": {"reader": None}}, ValueError, "no node type 'reader'; the graph has"),
    ({"input_type": "paper", "features": [1]}, TypeError, "features must be a dict by node type, as in"),
    ({"input_type": "paper", "features": {"paper": {"n_id": 1}}}, TypeError, "type 'paper': feature 'n_id' must be a"),
    ({"input_type": "paper", "edge_features": {("a", "b", "c"): None}}, ValueError, r"no edge type \('a', 'b', 'c'\)"),
    ({"input_type": "paper", "fanouts": {WRITES: [2]}}, ValueError, "fanouts has no entry for edge type"),
    ({"input_type": "paper", "direction": "out"}, ValueError, "typed graphs are sampled along 'in' edges"),
    ({"input_type": "paper", "window": 3}, ValueError, "window needs time= or node_time="),
    ({"input_type": "paper", "node_time": {"author": np.zeros(140, int)}}, ValueError, "no time for the seeds; pass"),
    ({"input_type": "paper", "node_time": {"paper": [1, 2]}}, ValueError, "node_time of 'paper' has 2 values"),
    ({"input_type": "paper", "time": [1, 2]}, ValueError, "time has 2 values for 300 seeds, expected one per seed"),
    ({"input_type": "paper", "method": "labor", "replace": True}, ValueError, "cannot be combined with replace=True"),
]


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_name_the_type_and_what_there_is(world, options, error, message):
    with pytest.raises(error, match=message):
        gz.NeighborLoader(world.ds, **({"fanouts": [2]} | options))


def test_features_of_a_type_must_have_its_rows(world):
    features = {"paper": world.ds.nodes["author"].features["x"]}
    with pytest.raises(ValueError, match="'x' has 140 rows, but node type 'paper' has 300 nodes"):
        gz.NeighborLoader(world.ds, features, input_type="paper", fanouts=[2])
    with pytest.raises(ValueError, match="feature name 'n_id' is reserved"):
        gz.NeighborLoader(world.ds, {"author": {"n_id": features["paper"]}}, input_type="paper", fanouts=[2])


def test_what_only_typed_graphs_take(world, tmp_path):
    gz.compile_graph([(0, 1)], tmp_path / "g.gl")
    graph = gz.Graph(tmp_path / "g.gl")
    for name, value in (("input_type", "paper"), ("node_time", {}), ("split", "train")):
        with pytest.raises(ValueError, match=name):
            gz.NeighborLoader(graph, fanouts=[2], **{name: value})
    with pytest.raises(ValueError, match="a dict of fanouts is for graphs of several types"):
        gz.NeighborLoader(graph, fanouts={WRITES: [2]})
    gz.compile_graph([(0, 1)], tmp_path / "out.gl", direction="out")
    with pytest.raises(ValueError, match="has rows by source only"):
        gz.NeighborLoader(gz.HeteroGraph({CITES: tmp_path / "out.gl"}), input_type="paper", fanouts=[2])


class Elsewhere:
    """A device whose copies are done at once: the meta device has shapes and no memory."""

    most_bytes = 2**40

    def __init__(self, *_):
        self.arrived = 0

    def start(self, batch, tier):
        return batch.to("meta"), None

    def wait(self, copy):
        return 0.25

    def arrive(self, batch, copy):
        self.arrived += 1

    def mark_used(self):
        return None

    def is_done(self, copy):
        return True

    is_used = is_done


def test_typed_batches_pass_the_copying_stage(world):
    """The stage that copies, with a device that stands in for CUDA: bytes and counts of all types."""
    loader = gz.NeighborLoader(world.ds, split="train", fanouts=[3, 2], batch_size=30, seed=1)
    expected = list(loader)
    loader.set_epoch(0)
    stage = DeviceBatches(iter(loader), Elsewhere())
    moved = list(stage)
    stage.stop()
    assert [b["paper"].x.shape for b in moved] == [b["paper"].x.shape for b in expected]
    assert {t.device.type for b in moved for t in tensors_of(b)} == {"meta"}
    stats = stage.stats()
    assert stats["nodes"] == sum(b.num_nodes for b in expected)
    assert stats["edges"] == sum(b.num_edges for b in expected)
    assert stats["copy_to_device_bytes"] == sum(t.numel() * t.element_size() for b in expected for t in tensors_of(b))
