"""Loading from typed graphs: each batch is a sample with the batch's own seed and a plain gather, whatever the way."""

from __future__ import annotations

import glfile
import numpy as np
import pytest
from sample_oracle import make_key
from typed_world import BATCH, CITES, COUNTS, EDGES, IN, World

import graphzero as gz


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
    seeds = np.arange(40)
    loader = gz.NeighborLoader(
        world.ds, seeds=("paper", seeds), fanouts=[2, 1], batch_size=1, seed=2, memory="58MB", cache="on", num_threads=1
    )
    world.check(loader, "paper", seeds, [2, 1], 2)
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


@pytest.mark.parametrize(
    "options", [{}, {"weighted": True, "replace": True}, {"disjoint": True}, {"time": 60}], ids=str
)
def test_a_single_type_is_sampled_as_a_graph_without_types(tmp_path, options):
    """In the core it is one: only such a graph is sampled for many batches at once where it does not fit."""
    rng = np.random.default_rng(0)
    edges, rows = rng.integers(0, 300, (2, 3000)), rng.standard_normal((300, 4), dtype=np.float32)
    given = {"weights": rng.random(3000, dtype=np.float32), "times": rng.integers(0, 100, 3000), "direction": "in"}
    typed = gz.Dataset.create(tmp_path / "typed", graphs={CITES: edges}, features={"paper": rows}, **given)
    plain = gz.Dataset.create(tmp_path / "plain", edges, features=rows, **given)
    common = {"fanouts": [4, 3], "batch_size": 32, "shuffle": True, "seed": 3, **options}
    for one, other in zip(gz.NeighborLoader(typed, **common), gz.NeighborLoader(plain, **common), strict=True):
        same(one, other, "n_id", "edge_index", "e_id", "x", "input_id", *(["batch"] if "batch" in other else []))
    for one, other in zip(
        gz.LinkNeighborLoader(typed, neg_sampling="binary", exclude="self", **common),
        gz.LinkNeighborLoader(plain, neg_sampling="binary", exclude="self", **common),
        strict=True,
    ):
        same(one, other, "n_id", "edge_index", "x", "edge_label_index", "edge_label", "input_id")
    with pytest.raises(IndexError, match=r"seeds\[0\] = 300 is out of range for .*paper__cites__paper\.gl"):
        gz.NeighborLoader(typed, seeds=[300], fanouts=[2])


def same(typed, plain, *names):
    found = dict(typed["paper"]) | dict(typed[CITES])
    for name in names:
        np.testing.assert_array_equal(found[name], plain[name], err_msg=name)
