"""Loading from typed graphs: each batch is a sample with the batch's own seed and a plain gather, whatever the way."""

from __future__ import annotations

import copy
import pickle

import glfile
import numpy as np
import pytest
from sample_oracle import make_key

import graphzero as gz

torch = pytest.importorskip("torch")

BATCH = 0x6261746368
COUNTS = {"paper": 300, "author": 140, "venue": 4, "ghost": 7, "empty": 0}
WRITES, CITES, REVIEWS = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("author", "reviews", "paper")
WRITTEN, IN, NEVER = ("paper", "rev_writes", "author"), ("venue", "publishes", "paper"), ("ghost", "haunts", "venue")
EDGES = {WRITES: 900, CITES: 1500, REVIEWS: 200, WRITTEN: 900, IN: 300, NEVER: 0}


class World:
    """A typed dataset on disk, and its rows in memory. Some types have no features, no edges or no nodes."""

    def __init__(self, folder, widths=(24, 7)):
        rng = np.random.default_rng(3)
        graphs = {e: [rng.integers(0, COUNTS[e[k]], n) for k in (0, 2)] for e, n in EDGES.items()}
        graphs[WRITTEN] = graphs[WRITES][::-1]
        self.rows = {
            "paper": {"x": rng.normal(size=(300, widths[0])).astype("float32")},
            "author": {"x": rng.normal(size=(140, widths[1])).astype("float16"), "age": rng.integers(0, 90, 140)},
            "ghost": {"x": rng.normal(size=(7, 3)).astype("float32")},
            WRITES: {"edge_attr": rng.normal(size=(900, 5)).astype("float32")},
            CITES: {"edge_attr": rng.normal(size=(1500, 2)).astype("float32"), "kind": rng.integers(0, 3, 1500)},
        }
        self.labels = {t: rng.integers(0, 4, COUNTS[t]) for t in ("paper", "author")}
        self.splits = {
            "paper": {"train": np.sort(rng.permutation(300)[:150]), "test": np.arange(9)},
            "author": {"test": np.arange(0, 140, 3)},
        }
        blocks = {}
        for e, (src, dst) in graphs.items():
            weights, times = rng.random(len(src)).astype(np.float32), rng.integers(0, 50, len(src))
            blocks[e] = (src, dst, weights, times)
        self.node_time = {t: rng.integers(0, 50, n) for t, n in COUNTS.items()}
        self.ds = gz.Dataset.create(
            folder, graphs=blocks, num_nodes=COUNTS, labels=self.labels, splits=self.splits,
            features={t: named for t, named in self.rows.items() if isinstance(t, str)},
            edge_features={e: named for e, named in self.rows.items() if isinstance(e, tuple)},
        )  # fmt: skip

    def check(self, loader, input_type, ids, fanouts, seed, *, epoch=0, numbers=None, **sample):
        """Compare an epoch with plain samples and gathers; return its batches."""
        batches, seen = [], []
        for number, batch in enumerate(loader):
            number = number if numbers is None else numbers[number]
            place = batch[input_type]
            input_id = place.input_id.numpy()
            seeds = ids[input_id]
            options = dict(sample)
            if "time" in options:
                options["time"] = {input_type: options["time"][input_id]}
            key = make_key(seed, BATCH, epoch, number)
            got = self.ds.hetero.sample({input_type: seeds}, fanouts, seed=key, **options)
            same(batch, got, self.rows)
            assert place.batch_size == len(seeds)
            assert place.n_id[: len(seeds)].tolist() == seeds.tolist()
            if input_type in self.labels:
                assert place.y.tolist() == self.labels[input_type][seeds].tolist()
            batches.append(batch)
            seen += input_id.tolist()
        assert len(batches) == len(loader)
        return batches, seen


def same(batch, got, rows):
    """A batch has the arrays of a sample, with the rows of its nodes and edges, and nothing else."""
    own = {"y", "input_id", "batch_size", "seed_time"}
    assert batch.metadata() == (list(got.node), list(got.edge))
    for t, node in got.node.items():
        data = batch[t]
        assert data.n_id.tolist() == node.tolist()
        assert data.num_sampled_nodes == got.num_sampled_nodes[t]
        assert ("batch" in data) == (got.batch is not None)
        if got.batch is not None:
            assert data.batch.tolist() == got.batch[t].tolist()
        named = rows.get(t, {})
        assert set(data.keys()) - own == {"n_id", "num_sampled_nodes", *named, *(["batch"] if got.batch else [])}
        for name, values in named.items():
            assert torch.equal(data[name], torch.from_numpy(values[node])), (t, name)
    for e, edge in got.edge.items():
        data = batch[e]
        assert data.e_id.tolist() == edge.tolist()
        assert data.edge_index.tolist() == got.edge_index[e].tolist()
        assert data.num_sampled_edges == got.num_sampled_edges[e]
        named = rows.get(e, {})
        assert set(data.keys()) == {"edge_index", "e_id", "num_sampled_edges", *named}
        for name, values in named.items():
            assert torch.equal(data[name], torch.from_numpy(values[edge])), (e, name)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("typed") / "ds")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cache": "off"},
        {"cache": "on"},
        {"io": "mmap"},
        {"io": "pread"},
        {"io": "uring"},
        {"io": "pread", "cache": "off"},
        {"memory": "300MB", "num_threads": 4, "prefetch": 9},
    ],
    ids=str,
)
def test_every_way_gives_the_batches_of_plain_samples_and_gathers(world, options):
    loader = gz.NeighborLoader(world.ds, split="train", fanouts=[4, 3], batch_size=32, shuffle=True, seed=9, **options)
    assert loader.input_type == "paper"
    ids = world.splits["paper"]["train"]
    for epoch in range(2):
        _, seen = world.check(loader, "paper", ids, [4, 3], 9, epoch=epoch)
        assert sorted(seen) == list(range(len(ids)))


def test_read_windows_are_shared_by_types(tmp_path):
    """Rows that do not fit the budget are read in file order for many batches, for each type that needs it."""
    world = World(tmp_path / "ds", widths=(16000, 32000))
    loader = gz.NeighborLoader(
        world.ds, split="train", fanouts=[2, 1], batch_size=1, seed=2, memory="58MB", cache="on", num_threads=1
    )
    world.check(loader, "paper", world.splits["paper"]["train"], [2, 1], 2)
    plan = loader.stats().plan
    assert plan["ways"]["paper.x"] == plan["ways"]["author.x"] == "window", plan["why"]
    assert plan["ways"]["ghost.x"] == "whole", plan["why"]  # small ones are copied: a sweep has buffers of its own
    assert sum(w["budget_bytes"] for w in plan["windows"].values()) <= plan["held_rows_bytes"]
    assert plan["windows"]["paper.x"]["bytes_read"] > 0


@pytest.mark.parametrize("input_type", ["paper", "author", "venue", "ghost", "empty"])
def test_seeds_of_every_type(world, input_type):
    loader = gz.NeighborLoader(world.ds, input_type=input_type, fanouts=[-1, 2], batch_size=50, seed=1)
    batches, _ = world.check(loader, input_type, np.arange(COUNTS[input_type]), [-1, 2], 1)
    assert len(batches) == -(-COUNTS[input_type] // 50)


SAMPLES = [
    {"replace": True},
    {"weighted": True},
    {"disjoint": True},
    {"method": "labor"},
    {"weighted": True, "replace": True, "disjoint": True},
]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_options_of_sampling_pass_through(world, sample):
    ids = world.splits["paper"]["train"]
    fanouts = {key: [3, 2] for key in EDGES} | {CITES: [0, 5], IN: [-1, 0]}
    loader = gz.NeighborLoader(world.ds, seeds=("paper", ids), fanouts=fanouts, batch_size=40, seed=4, **sample)
    world.check(loader, "paper", ids, fanouts, 4, **sample)


@pytest.mark.parametrize("sample", [{}, {"window": 9}, {"temporal": "last"}], ids=str)
def test_times_of_seeds_edges_and_nodes(world, sample):
    ids = world.splits["paper"]["train"]
    time = np.arange(len(ids)) % 50
    common = {"fanouts": [3, 2], "batch_size": 40, "seed": 4, "shuffle": True}
    for given in (time, {"paper": time}):
        loader = gz.NeighborLoader(world.ds, split="train", time=given, **common, **sample)
        batches, _ = world.check(loader, "paper", ids, [3, 2], 4, time=time, **sample)
        assert all(b["paper"].seed_time.tolist() == time[b["paper"].input_id].tolist() for b in batches)
    loader = gz.NeighborLoader(world.ds, split="train", node_time=world.node_time, **common, **sample)
    world.check(loader, "paper", ids, [3, 2], 4, node_time=world.node_time, **sample)
    everyone = gz.NeighborLoader(world.ds, input_type="author", node_time=world.node_time, **common, **sample)
    world.check(everyone, "author", np.arange(140), [3, 2], 4, node_time=world.node_time, **sample)


def test_ranks_epochs_and_resuming(world):
    ids = world.splits["paper"]["train"]
    common = {"fanouts": [3], "batch_size": 20, "seed": 6, "shuffle": True, "split": "train"}
    whole = [b["paper"].n_id.tolist() for b in gz.NeighborLoader(world.ds, **common)]
    for rank in range(3):
        loader = gz.NeighborLoader(world.ds, rank=rank, world_size=3, uneven="keep", **common)
        numbers = list(range(8))[rank::3]
        world.check(loader, "paper", ids, [3], 6, numbers=numbers)
        loader.set_epoch(0, first_batch=6)
        rest = [b["paper"].n_id.tolist() for b in loader]
        assert rest == whole[6:][rank::3]
        assert loader.epoch == 1


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
    with pytest.raises(KeyError, match="no node type 'reader', the batch has 'paper', 'author'"):
        batch["reader"]
    with pytest.raises(
        KeyError, match=r"no edge type \('a', 'b', 'c'\), the batch has \('author', 'writes', 'paper'\)"
    ):
        batch["a", "b", "c"]
    with pytest.raises(AttributeError, match="no type of the batch has 'z', types have"):
        _ = batch.z_dict
    with pytest.raises(AttributeError, match=r"what a type has is batch\[type\].x"):
        _ = batch.x
    with pytest.raises(AttributeError, match="there is no 'z' here, but x"):
        _ = batch["paper"].z
    batch.note = torch.ones(2)
    for other in (batch.to("cpu"), copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        assert torch.equal(other["paper"].x, batch["paper"].x)
        assert other["paper"].batch_size == 16
        assert torch.equal(other.note, batch.note)
    assert repr(batch).startswith("HeteroBatch(\n  paper={x=[")
    moved = batch.to("meta")
    assert {t.device.type for t in moved._tensors()} == {"meta"}


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


def test_a_time_window_on_one_graph(tmp_path):
    rng = np.random.default_rng(0)
    src, dst, times = rng.integers(0, 40, 400), rng.integers(0, 40, 400), rng.integers(0, 50, 400)
    gz.compile_graph((src, dst), tmp_path / "g.gl", num_nodes=40, direction="in", times=times)
    graph, seed_time = gz.Graph(tmp_path / "g.gl"), np.full(40, 30)
    typed = gz.HeteroGraph({("n", "to", "n"): graph})
    for batch in gz.NeighborLoader(graph, fanouts=[5], time=seed_time, window=10, batch_size=40, seed=1):
        key = make_key(1, BATCH, 0, 0)
        got = typed.sample({"n": np.arange(40)}, [5], time={"n": seed_time}, window=10, seed=key)
        assert batch.n_id.tolist() == got.node["n"].tolist()
        assert batch.edge_index.tolist() == got.edge_index["n", "to", "n"].tolist()


def test_wide_ids(tmp_path):
    """A type of more than 2^32 nodes, of which a few are named."""
    many = 2**32 + 9
    indptr, indices = np.array([0, 1, 3], np.uint64), np.array([7, 2**32, many - 1], np.uint64)
    header = glfile.spec.Header(glfile.spec.TOPOLOGY, many, 3, 2, 1, minor=1, incompatible=1)
    header.num_targets = 2
    (tmp_path / "w.gl").write_bytes(glfile.spec.build(header, {"in.indptr": indptr, "in.indices": indices}))
    graph = gz.HeteroGraph({("far", "to", "near"): tmp_path / "w.gl"})
    for cache in ("auto", "on"):
        loader = gz.NeighborLoader(graph, input_type="near", fanouts=[-1], batch_size=2, seed=0, cache=cache)
        (batch,) = loader
        assert batch["far"].n_id.tolist() == [7, 2**32, many - 1]
    (batch,) = gz.NeighborLoader(graph, seeds=("far", [2**32]), fanouts=[-1], seed=0)
    assert batch["far"].n_id.tolist() == [2**32]
    assert batch["near"].n_id.tolist() == []


MISTAKES = [
    ({}, ValueError, r"of which type are the seeds\?.* the graph has node types 'paper', 'author'"),
    ({"split": "valid"}, ValueError, "no split 'valid', the dataset has splits 'paper': train, test; 'author': test"),
    ({"split": "test"}, ValueError, "split 'test' is of several node types, 'paper', 'author': choose one with input_"),
    ({"split": "train", "input_type": "author"}, ValueError, "no split 'train' of node type 'author'"),
    ({"split": "train", "input_type": "reader"}, ValueError, "no node type 'reader', the dataset has 'paper'"),
    ({"split": "train", "seeds": [1]}, ValueError, "give either split='train' or seeds="),
    ({"input_type": "reader"}, ValueError, "no node type 'reader', the graph has 'paper', 'author'"),
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
    ({"input_type": "paper", "features": {"reader": None}}, ValueError, "no node type 'reader', the graph has"),
    ({"input_type": "paper", "features": [1]}, TypeError, "features must be a dict by node type, as in"),
    ({"input_type": "paper", "features": {"paper": {"n_id": 1}}}, TypeError, "type 'paper': feature 'n_id' must be a"),
    ({"input_type": "paper", "edge_features": {("a", "b", "c"): None}}, ValueError, r"no edge type \('a', 'b', 'c'\)"),
    ({"input_type": "paper", "fanouts": {WRITES: [2]}}, ValueError, "fanouts has no entry for edge type"),
    ({"input_type": "paper", "direction": "out"}, ValueError, "typed graphs are sampled along 'in' edges"),
    ({"input_type": "paper", "window": 3}, ValueError, "window needs time= or node_time="),
    ({"input_type": "paper", "node_time": {"author": np.zeros(140, int)}}, ValueError, "no time for the seeds: give"),
    ({"input_type": "paper", "node_time": {"paper": [1, 2]}}, ValueError, "node_time of 'paper' has 2 values"),
    ({"input_type": "paper", "time": [1, 2]}, ValueError, "time has 2 entries, seeds has 300"),
    ({"input_type": "paper", "method": "labor", "replace": True}, ValueError, "cannot be combined with replace=True"),
]


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_name_the_type_and_what_there_is(world, options, error, message):
    with pytest.raises(error, match=message):
        gz.NeighborLoader(world.ds, **({"fanouts": [2]} | options))


def test_features_of_a_type_must_have_its_rows(world):
    features = {"paper": world.ds.nodes["author"].features["x"]}
    with pytest.raises(ValueError, match="'x' has 140 rows, node type 'paper' has 300 nodes"):
        gz.NeighborLoader(world.ds, features, input_type="paper", fanouts=[2])
    with pytest.raises(ValueError, match="feature name 'n_id' is taken"):
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
