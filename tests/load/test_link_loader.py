"""Loading around edges: each batch is `sample_links` with the batch's own seed and a plain gather, whatever the way."""

from __future__ import annotations

import pickle

import container_spec as spec
import numpy as np
import pytest
from glfile import write_container
from sample_oracle import make_key
from test_oracle_loader import BATCH, Order

import graphzero as gz

torch = pytest.importorskip("torch")

N, M = 120, 900
FIELDS = ("edge_label_index", "edge_label", "edge_label_time")
FIELDS += ("src_index", "dst_pos_index", "dst_neg_index", "seed_time")
BUYS, BOUGHT, LIKES = ("user", "buys", "item"), ("item", "rev_buys", "user"), ("item", "like", "item")


class World:
    """A graph with times and edge ids on disk, rows for its nodes, and its edges in memory."""

    def __init__(self, folder, direction, edge_ids):
        rng = np.random.default_rng(7)
        self.edges = np.stack([rng.integers(0, N, M), (N * rng.random(M) ** 2).astype(np.int64)])
        self.times, self.x = rng.integers(0, 50, M), rng.normal(size=(N, 6)).astype("float32")
        block = (*self.edges, rng.random(M).astype(np.float32), self.times)
        gz.compile_graph(block, folder / "g.gl", direction=direction, edge_ids=edge_ids, num_nodes=N)
        gz.compile_features(self.x, folder / "x.gd")
        self.graph, self.store = gz.Graph(folder / "g.gl"), gz.FeatureStore(folder / "x.gd")
        self.side = direction if direction != "both" else "in"  # what loaders follow
        row, other = self.edges if self.side == "out" else self.edges[::-1]
        self.order = np.lexsort((np.arange(M), other, row))  # position -> number in the source
        self.by_position = self.edges[:, self.order]
        self.ids = self.order if edge_ids else np.arange(M)  # position -> edge id

    def check(self, loader, edges, fanouts, seed, *, epoch=0, numbers=None, input_ids=None, time=None, **options):
        """Compare an epoch with plain samples around edges[:, positions] and gathers; return what came, in order."""
        seen, expected = [], len(loader)
        for i, batch in enumerate(loader):
            number = i if numbers is None else numbers[i]
            order = Order(edges.shape[1], True, seed, epoch)
            first = number * 64
            places = np.array([order.at(p) for p in range(first, min(first + 64, edges.shape[1]))])
            got = batch.input_id.numpy()
            np.testing.assert_array_equal(got, places if input_ids is None else input_ids[places])
            key = make_key(seed, BATCH, epoch, number)
            own = {"direction": self.side} | ({} if time is None else {"time": time[places]})
            want = self.graph.sample_links(edges[:, places], fanouts, seed=key, **own, **options)
            same(batch, want)
            np.testing.assert_array_equal(batch.x.numpy(), self.x[want.node])
            seen.append(places)
        assert len(seen) == expected > 0
        return np.concatenate(seen)


def same(batch, want):
    names = {"n_id": "node", "e_id": "edge", "edge_index": "edge_index", "batch": "batch"}
    for name, other in (names | {f: f for f in FIELDS}).items():
        value = getattr(want, other)
        assert (name in batch) == (value is not None), name
        if value is not None:
            np.testing.assert_array_equal(batch[name].numpy(), value, name)
    assert batch.num_sampled_nodes == want.num_sampled_nodes
    assert batch.num_sampled_edges == want.num_sampled_edges


@pytest.fixture(scope="module", params=[("out", True), ("in", False), ("both", True)], ids=str)
def world(request, tmp_path_factory):
    return World(tmp_path_factory.mktemp("links"), *request.param)


def loader_of(world, edges, fanouts=(4, 3), **options):
    return gz.LinkNeighborLoader(
        world.graph, world.store, fanouts=list(fanouts), edges=edges, batch_size=64, shuffle=True, **options
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": "binary", "neg_ratio": 1.5, "exclude": "none"},
        {"neg_sampling": "triplet", "neg_ratio": 3, "strict": True},
        {"neg_sampling": "binary", "exclude": "reverse", "neg_method": "degree", "strict": True},
        {"neg_sampling": "triplet", "disjoint": True, "weighted": True},
        {"neg_sampling": "binary", "method": "labor"},
    ],
    ids=str,
)
def test_batches_around_pairs_are_samples_around_them(world, options):
    rng = np.random.default_rng(1)
    edges = np.concatenate([world.edges[:, :200], rng.integers(0, N, (2, 100))], 1)  # some are no edges of the graph
    loader = loader_of(world, edges, seed=5, **options)
    options = {"exclude": "self"} | options
    seen = world.check(loader, edges, [4, 3], 5, **options)
    assert sorted(seen) == list(range(300))
    again = world.check(loader, edges, [4, 3], 5, epoch=1, **options)
    assert seen.tolist() != again.tolist()


def test_arrays_are_read_where_they_are(world, tmp_path):
    for dtype in (np.int64, np.int32):
        np.save(tmp_path / "edges.npy", world.edges.astype(dtype))
        edges = np.load(tmp_path / "edges.npy", mmap_mode="r")
        loader = loader_of(world, edges, seed=5)
        assert all(np.shares_memory(edges, array) for array in loader._edges.ends)
        world.check(loader, world.edges, [4, 3], 5, exclude="self")


@pytest.mark.parametrize("time", [False, True])
def test_all_edges_are_found_in_the_file(world, time):
    loader = loader_of(world, None, seed=2, neg_sampling="binary", time="edges" if time else None)
    assert set(loader._edges.views.values()) == {None}  # no array of edges is made
    own = {"time": world.times[world.order]} if time else {}
    seen = world.check(
        loader, world.by_position, [4, 3], 2, input_ids=world.ids, neg_sampling="binary", exclude="self", **own
    )
    assert sorted(seen) == list(range(M))
    assert len(loader) == 15


def test_billions_of_seed_edges_take_no_memory(tmp_path):
    """A file of 17 billion edges, 64 GB of which are a hole: to copy or to shuffle them would not end."""
    many = 2**34
    header = spec.Header(spec.TOPOLOGY, 4, many, 2, 1)
    header.arrays = [spec.Entry("in.indptr", "uint64", (5,)), spec.Entry("in.indices", "uint32", (many,))]
    spec.lay_out(header)
    with open(tmp_path / "huge.gl", "wb") as f:
        f.write(spec.write_header(header))
        (np.arange(5, dtype=np.uint64) * np.uint64(many // 4)).tofile(f)
        try:
            f.truncate(header.arrays[1].offset + 4 * many)
        except OSError as error:
            pytest.skip(f"no sparse files of this size here: {error}")
    options = {"batch_size": 64, "shuffle": True, "exclude": "none", "memory": "200MB", "num_threads": 1}
    loader = gz.LinkNeighborLoader(gz.Graph(tmp_path / "huge.gl"), fanouts=[3], seed=1, **options)
    assert len(loader) == many // 64
    batches = iter(loader)
    some = [next(batches) for _ in range(3)]
    batches.close()
    ids = torch.cat([batch.input_id for batch in some])
    assert len(set(ids.tolist())) == 192
    assert int(ids.max()) > 2**33
    for batch in some:
        source, target = batch.n_id[batch.edge_label_index]
        assert target.tolist() == (batch.input_id // (many // 4)).tolist()
        assert set(source.tolist()) == {0}


def test_edges_may_be_edge_ids(world):
    ids = np.random.default_rng(0).permutation(world.ids)[:150]
    ids[7] = ids[3]  # an edge twice
    places = {int(e): p for p, e in enumerate(world.ids)}
    edges = world.by_position[:, [places[int(e)] for e in ids]]
    loader = loader_of(world, torch.from_numpy(ids), seed=2, neg_sampling="triplet")
    world.check(loader, edges, [4, 3], 2, neg_sampling="triplet", exclude="self")
    times = world.times[world.order][[places[int(e)] for e in ids]]
    world.check(loader_of(world, ids, seed=2, time="edges"), edges, [4, 3], 2, exclude="self", time=times)
    with pytest.raises(IndexError, match=r"(no edge has the id 900 in|position 900).*g\.gl"):
        loader_of(world, [3, 900])


def test_times_labels_and_a_window(world):
    edges, time = world.edges[:, :100], world.times[:100]
    labels = np.arange(100) % 3
    loader = loader_of(world, edges, seed=3, neg_sampling="binary", time=time, labels=labels)
    for batch in loader:
        ids = batch.input_id.numpy()
        p = len(ids)
        assert batch.edge_label[:p].tolist() == (labels[ids] + 1).tolist()  # 0 is for negatives, as in PyG
        assert batch.edge_label[p:].tolist() == [0] * p
        assert batch.edge_label_time.tolist() == time[ids].tolist() * 2
        assert set(batch.batch.tolist()) == set(range(p))
        assert batch.n_id[batch.edge_label_index[0, :p]].tolist() == edges[0, ids].tolist()
    kept = next(iter(loader_of(world, edges, seed=3, labels=labels)))
    assert kept.edge_label.tolist() == labels[kept.input_id].tolist()  # without negatives 0 means what it says
    in_window = next(iter(loader_of(world, edges, seed=3, fanouts=[-1], time=time, window=5)))
    wide = next(iter(loader_of(world, edges, seed=3, fanouts=[-1], time=time)))
    assert in_window.num_edges < wide.num_edges


def test_labels_of_all_edges_go_by_edge_id(world):
    labels = np.arange(M) + 5
    order = "ids" if world.graph.has_edge_ids else "file"
    for batch in loader_of(world, None, seed=1, labels=labels, edge_order=order):
        assert batch.edge_label.tolist() == labels[batch.input_id].tolist()


def test_ranks_share_the_batches_of_one_process(world):
    edges = world.edges[:, :300]
    for rank in range(2):
        loader = loader_of(world, edges, seed=5, neg_sampling="binary", rank=rank, world_size=2, uneven="keep")
        numbers = list(range(rank, 5, 2))
        world.check(loader, edges, [4, 3], 5, numbers=numbers, neg_sampling="binary", exclude="self")
    later = loader_of(world, edges, seed=5)
    later.set_epoch(4, first_batch=2)
    world.check(later, edges, [4, 3], 5, epoch=4, numbers=[2, 3, 4], exclude="self")
    stats = later.stats()
    assert stats.batches == 3
    assert repr(later).startswith("LinkNeighborLoader(5 batches of 64, fanouts=[4, 3]")


@pytest.mark.parametrize(
    "settings", [{"num_threads": 1}, {"num_threads": 3, "memory": "64MB"}, {"io": "pread", "cache": "on"}], ids=str
)
def test_settings_change_nothing(world, settings):
    loader = loader_of(world, None, seed=9, neg_sampling="triplet", neg_ratio=2, exclude="reverse", **settings)
    options = {"neg_sampling": "triplet", "neg_ratio": 2, "exclude": "reverse"}
    world.check(loader, world.by_position, [4, 3], 9, input_ids=world.ids, **options)


# -- several types --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    rng = np.random.default_rng(4)
    buys = np.stack([rng.integers(0, 50, 400), rng.integers(0, 80, 400)])
    like = rng.integers(0, 80, (2, 200))
    ds = gz.Dataset.create(
        tmp_path_factory.mktemp("typed") / "ds",
        graphs={BUYS: tuple(buys), BOUGHT: tuple(buys[::-1]), LIKES: tuple(like)},
        num_nodes={"user": 50, "item": 80},
        features={t: rng.normal(size=shape).astype("float32") for t, shape in (("user", (50, 3)), ("item", (80, 4)))},
        edge_splits={BUYS: {"train": np.arange(0, 400, 2), "test": buys[:, :30].T}, LIKES: {"test": np.arange(9)}},
        edge_ids=True,
    )
    return ds, buys, like


def check_typed(ds, loader, edges, seed, **options):
    e = loader.edge_type
    for number, batch in enumerate(loader):
        places = batch[e].input_id.numpy()
        key = make_key(seed, BATCH, 0, number)
        want = ds.hetero.sample_links(e, edges[:, places], [4, 3], seed=key, **options)
        for t, nodes in want.node.items():
            np.testing.assert_array_equal(batch[t].n_id.numpy(), nodes)
            np.testing.assert_array_equal(batch[t].x.numpy(), ds.nodes[t].features["x"].gather(nodes))
            if want.batch is not None:
                np.testing.assert_array_equal(batch[t].batch.numpy(), want.batch[t])
        for t, index in want.edge_index.items():
            np.testing.assert_array_equal(batch[t].edge_index.numpy(), index)
        where = {"src_index": e[0], "dst_pos_index": e[2], "dst_neg_index": e[2], "seed_time": e[0]}
        for name in FIELDS:
            value, place = getattr(want, name), batch[where.get(name, e)]
            assert (name in place) == (value is not None), name
            if value is not None:
                np.testing.assert_array_equal(place[name].numpy(), value)
    assert number + 1 == len(loader)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": "binary", "exclude": "reverse", "strict": True},
        {"neg_sampling": "triplet", "neg_ratio": 2},
        {"neg_sampling": "triplet", "disjoint": True, "exclude": "none"},
    ],
    ids=str,
)
def test_typed_batches_are_samples_around_their_edges(typed, options):
    ds, buys, like = typed
    for edges, source in ((buys, ds), (buys, ds.hetero), (like, ds)):
        e = BUYS if edges is buys else LIKES
        features = {t: n.features["x"] for t, n in ds.nodes.items()} if source is ds.hetero else None
        loader = gz.LinkNeighborLoader(
            source, features, fanouts=[4, 3], edges=(e, edges), batch_size=64, shuffle=True, seed=6, **options
        )
        check_typed(ds, loader, edges, 6, **({"exclude": "self"} | options))


def test_splits_of_a_dataset_and_all_edges_of_a_type(typed):
    ds, buys, _ = typed
    make = {"fanouts": [4, 3], "batch_size": 64, "seed": 6}
    train = gz.LinkNeighborLoader(ds, split="train", shuffle=True, **make)
    assert train.edge_type == BUYS
    check_typed(ds, train, buys[:, ::2], 6, exclude="self")
    test = gz.LinkNeighborLoader(ds, split="test", edge_type=BUYS, **make)
    check_typed(ds, test, buys[:, :30], 6, exclude="self")
    every = gz.LinkNeighborLoader(ds, edges=BUYS, shuffle=True, **make)
    assert len(every) == 7
    check_typed(ds, every, buys, 6, exclude="self")  # input_id is the edge id here
    with pytest.raises(ValueError, match=r"'test' exists for several edge types.*choose one with edge_type="):
        gz.LinkNeighborLoader(ds, split="test", **make)
    with pytest.raises(ValueError, match=r"no edge split 'valid'; the dataset has edge splits \('user', 'buys'"):
        gz.LinkNeighborLoader(ds, split="valid", **make)


def test_batches_become_pygs(world, typed):
    pytest.importorskip("torch_geometric")
    plain = next(iter(loader_of(world, world.edges, seed=0, neg_sampling="binary"))).to_pyg()
    assert plain.edge_label_index.shape == (2, 128)
    hetero = next(iter(gz.LinkNeighborLoader(typed[0], split="train", fanouts=[2], neg_sampling="binary"))).to_pyg()
    assert hetero[BUYS].edge_label.shape == (400,)


def test_damaged_rows_are_a_format_error(tmp_path):
    arrays = {"out.indptr": np.array([0, 2**40, 2], np.uint64), "out.indices": np.array([0, 1], np.uint32)}
    path = write_container(tmp_path / "rows.gl", 2, 2, "out", arrays)
    with pytest.raises(gz.FormatError, match=r"rows\.gl.*verify"):
        gz.LinkNeighborLoader(gz.Graph(path), fanouts=[2])
    arrays = {"out.indptr": np.array([0, 1, 2], np.uint64), "out.indices": np.array([1, 7], np.uint32)}
    loader = gz.LinkNeighborLoader(gz.Graph(write_container(tmp_path / "ids.gl", 2, 2, "out", arrays)), fanouts=[2])
    with pytest.raises(gz.FormatError, match=r"ids\.gl.*verify"):
        list(loader)


def test_mistakes_are_named(world, typed):
    ds, *_ = typed
    for match, options in {
        r"edges must have the shape \(2, M\), .*got shape \(3, 2\)": {"edges": np.zeros((3, 2), int)},
        r"labels has shape \(3,\), expected an entry for each of 2 edges": {"labels": [1, 2, 3]},
        r"time has shape \(3,\), expected an entry for each of 2 edges": {"time": [1, 2, 3]},
        "time is 'own', expected a number for each edge, or 'edges'": {"time": "own"},
        "neg_sampling is 'bin'": {"neg_sampling": "bin"},
        "exclude is 'both'": {"exclude": "both"},
        "neg_ratio is -1": {"neg_sampling": "binary", "neg_ratio": -1},
        "neg_method is 'best'": {"neg_method": "best"},
        "split is 'train', but only a Dataset has splits": {"split": "train", "edges": None},
        "pass either split='train' or edges=": {"split": "train"},
        "edge_type is for graphs of several types": {"edge_type": BUYS},
        "window needs time=": {"window": 3},
        "triplets have no labels": {"labels": [1, 2], "neg_sampling": "triplet"},
        "cannot be combined with time=": {"method": "labor", "time": [1, 2]},
    }.items():
        with pytest.raises(ValueError, match=match):
            gz.LinkNeighborLoader(world.graph, **({"fanouts": [2], "edges": [[0, 1], [2, 3]]} | options))
    with pytest.raises(IndexError, match=r"edges\[1\]\[0\] = 120 is out of range for .*g\.gl with 120 nodes"):
        loader_of(world, [[0], [120]])
    with pytest.raises(IndexError, match=r"edges\[0\]\[1\] = 50 is out of range for node type 'user' with 50 nodes"):
        gz.LinkNeighborLoader(ds, fanouts=[2], edges=(BUYS, [[0, 50], [1, 1]]))
    with pytest.raises(ValueError, match=r"the type of the edges is unknown.*\('user', 'buys', 'item'\)"):
        gz.LinkNeighborLoader(ds, fanouts=[2], edges=[[0], [1]])
    with pytest.raises(ValueError, match=r"no edge type \('user', 'bought', 'item'\); the graph has \('user', 'buys'"):
        gz.LinkNeighborLoader(ds, fanouts=[2], edge_type=("user", "bought", "item"))
    with pytest.raises(ValueError, match="drawing by degree needs the degrees of both ends"):
        gz.LinkNeighborLoader(ds, fanouts=[2], edges=BUYS, neg_sampling="binary", neg_method="degree")
    loader = loader_of(world, None)
    with pytest.raises(TypeError, match="a LinkNeighborLoader cannot be pickled"):
        pickle.dumps(loader)
