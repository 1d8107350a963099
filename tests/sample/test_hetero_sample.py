"""Sampling of typed graphs: bit for bit against a slow oracle, PyG's contract, and what is refused."""

from __future__ import annotations

import pickle
from collections import Counter

import glfile
import numpy as np
import pytest
from hetero_oracle import TypedRows
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_oracle import Rows

import graphzero as gz

COUNTS = {"paper": 60, "author": 45, "venue": 4, "ghost": 7, "empty": 0}
WRITES, CITES, REVIEWS = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("author", "reviews", "paper")
WRITTEN, IN, NEVER = ("paper", "rev_writes", "author"), ("venue", "publishes", "paper"), ("ghost", "haunts", "venue")
EDGES = {WRITES: 300, CITES: 500, REVIEWS: 90, WRITTEN: 300, IN: 60, NEVER: 0}


class World:
    """A typed graph on disk, and the same as plain lists."""

    def __init__(self, folder, edge_ids=False, untimed=()):
        rng = np.random.default_rng(11)
        graphs, rows, written = {}, {}, ()
        for number, (e, count) in enumerate(EDGES.items()):
            src = rng.integers(0, COUNTS[e[0]], count)
            dst = np.minimum(rng.integers(0, COUNTS[e[2]], count), rng.integers(0, COUNTS[e[2]], count))
            if e == WRITTEN:
                src, dst = written[::-1]
            if e == WRITES:
                written = (src, dst)
            weights = (rng.integers(0, 4, count) / 2).astype(np.float32)
            times = None if e in untimed else rng.integers(0, 50, count)
            path = folder / f"{number}.gl"
            block = (src, dst, weights) if times is None else (src, dst, weights, times)
            gz.compile_graph(block, path, direction="in", edge_ids=edge_ids, num_nodes=(COUNTS[e[0]], COUNTS[e[2]]))
            graphs[e] = gz.Graph(path)
            rows[e] = Rows(COUNTS[e[2]], dst, src, weights, times, edge_ids)
        self.graph = gz.HeteroGraph(graphs, num_nodes=COUNTS)
        self.oracle = TypedRows(COUNTS, rows)
        self.node_time = {t: rng.integers(0, 50, n) for t, n in COUNTS.items()}

    def check(self, seeds, fanouts, threads=1, **options):
        per_type = fanouts if isinstance(fanouts, dict) else dict.fromkeys(EDGES, fanouts)
        got = self.graph.sample(seeds, fanouts, num_threads=threads, **options)
        same(got, self.oracle.sample(seeds, per_type, **options))
        return got


def same(got, expected):
    for name in ("node", "row", "col", "edge"):
        assert {t: a.tolist() for t, a in getattr(got, name).items()} == expected[name], name
    batch = None if got.batch is None else {t: a.tolist() for t, a in got.batch.items()}
    assert batch == expected["batch"]
    assert got.num_sampled_nodes == expected["num_sampled_nodes"]
    assert got.num_sampled_edges == expected["num_sampled_edges"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return World(tmp_path_factory.mktemp("mixed"), edge_ids=True, untimed=(WRITES, IN))


SEEDS = {"paper": [3, 0, 59, 3], "author": [7, 8], "venue": [0]}  # a seed twice, several types at once
UNEVEN = {e: [4, 0] for e in EDGES} | {WRITTEN: [0, 3], WRITES: [1, -1]}
MODES = [
    {},
    {"replace": True},
    {"weighted": True},
    {"weighted": True, "replace": True},
    {"disjoint": True},
    {"disjoint": True, "weighted": True},
    {"method": "labor"},
]


@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize("fanouts", [[3, 2], [-1, -1], UNEVEN, [5]])
@pytest.mark.parametrize("kind", ["world", "mixed"])
def test_draws_are_the_oracles(request, kind, fanouts, options):
    found = request.getfixturevalue(kind).check(SEEDS, fanouts, seed=42, **options)
    assert sum(found.num_edges.values()) > 0


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"replace": True}], ids=str)
@pytest.mark.parametrize("temporal", ["uniform", "last"])
@pytest.mark.parametrize("window", [None, 0, 12])
@pytest.mark.parametrize("kind", ["world", "mixed"])
@pytest.mark.parametrize("by", ["edges", "nodes", "own"])
def test_draws_by_time_are_the_oracles(request, kind, by, window, temporal, options):
    world = request.getfixturevalue(kind)
    time = None if by == "own" else {"paper": [20, 30, 49, 5], "author": [25, 49], "venue": [40]}
    ages = None if by == "edges" else {t: world.node_time[t] for t in ("paper", "author", "venue")}
    options = options | {"temporal": temporal, "window": window, "time": time, "node_time": ages}
    world.check(SEEDS, [4, 3], seed=1, **options)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_call_is_the_oracles(world, data):
    pick = data.draw
    seeds = {
        t: pick(st.lists(st.integers(0, n - 1), max_size=6))
        for t, n in pick(st.permutations(list(COUNTS.items())))
        if n and pick(st.booleans())
    }
    hops = pick(st.integers(1, 3))
    fanouts = {e: pick(st.lists(st.integers(-1, 4), min_size=hops, max_size=hops)) for e in EDGES}
    options = dict(pick(st.sampled_from(MODES)))
    world.check(seeds, fanouts, seed=pick(st.integers(0, 2**64 - 1)), threads=pick(st.integers(1, 3)), **options)


def test_threads_do_not_change_the_answer(tmp_path):
    # Large enough that hops are shared out and tables grow.
    rng = np.random.default_rng(0)
    sizes, graphs = {"a": 20_000, "b": 5_000}, {}
    for i, e in enumerate([("a", "x", "b"), ("b", "y", "a"), ("a", "z", "a")]):
        edges = (rng.integers(0, sizes[e[0]], 200_000), rng.integers(0, sizes[e[2]], 200_000))
        gz.compile_graph(edges, tmp_path / f"{i}.gl", direction="in", num_nodes=(sizes[e[0]], sizes[e[2]]))
        graphs[e] = tmp_path / f"{i}.gl"
    g = gz.HeteroGraph(graphs)
    seeds = {"b": np.arange(800), "a": np.arange(0, 20_000, 30)}
    for options in ({}, {"disjoint": True}, {"method": "labor"}):
        one, *others = (g.sample(seeds, [10, 8], seed=5, num_threads=n, **options) for n in (1, 2, 5))
        assert sum(one.num_edges.values()) > 60_000
        for other in others:
            for name in ("node", "row", "col", "edge"):
                for t, array in getattr(one, name).items():
                    np.testing.assert_array_equal(array, getattr(other, name)[t])


@pytest.mark.parametrize("options", [*MODES, {"time": [9, 30, 20]}, {"time": [9, 30, 20], "temporal": "last"}], ids=str)
def test_one_type_of_each_is_the_untyped_graph(tmp_path, options):
    rng = np.random.default_rng(2)
    src, dst, times = rng.integers(0, 50, 600), rng.integers(0, 50, 600), rng.integers(0, 40, 600)
    gz.compile_graph((src, dst, np.ones(600, np.float32), times), tmp_path / "g.gl", direction="both", num_nodes=50)
    g = gz.Graph(tmp_path / "g.gl")
    plain = g.sample([4, 9, 4], [5, 3], seed=8, direction="in", **options)
    time = {"time": {"n": options["time"]}} if "time" in options else {}
    typed = gz.HeteroGraph({("n", "to", "n"): g}).sample({"n": [4, 9, 4]}, [5, 3], seed=8, **options | time)
    for name in ("node", "batch"):
        np.testing.assert_array_equal(getattr(plain, name), (getattr(typed, name) or {"n": None})["n"])
    for name in ("row", "col", "edge", "edge_index"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(typed, name)["n", "to", "n"])
    assert plain.num_sampled_nodes == typed.num_sampled_nodes["n"]
    assert plain.num_sampled_edges == typed.num_sampled_edges["n", "to", "n"]


def test_every_type_is_there_with_a_number_for_every_hop(world):
    found = world.graph.sample({"venue": [1]}, [2, 2, 2], seed=0)
    assert list(found.node) == list(found.num_sampled_nodes) == list(COUNTS)
    assert list(found.row) == list(found.edge_index) == list(EDGES)
    assert all(len(n) == 4 for n in found.num_sampled_nodes.values())
    assert all(n == [0, 0, 0] for n in found.num_sampled_edges.values())  # only ghosts lead to a venue
    assert found.node["author"].tolist() == found.node["empty"].tolist() == []
    assert found.edge_index[WRITES].shape == (2, 0)
    assert found.num_hops == 3
    assert found.batch is None
    deeper = world.graph.sample({"paper": [0]}, [2, 2], seed=0, disjoint=True)
    assert {t: len(b) for t, b in deeper.batch.items()} == deeper.num_nodes
    for e in EDGES:
        assert deeper.edge_index[e].shape == (2, deeper.num_edges[e])
        assert (deeper.row[e] < deeper.num_nodes[e[0]]).all()
        assert (deeper.col[e] < deeper.num_nodes[e[2]]).all()


def test_trees_are_numbered_on_over_the_types(world):
    found = world.graph.sample({"venue": [1, 1], "author": [5], "paper": [2]}, [2], disjoint=True, seed=0)
    seeds = {t: found.batch[t][: found.num_sampled_nodes[t][0]].tolist() for t in ("venue", "author", "paper")}
    assert seeds == {"venue": [0, 1], "author": [2], "paper": [3]}


def test_edge_types_draw_by_themselves_and_edges_are_drawn_evenly(tmp_path):
    # Two edge types with the same rows: their draws are not the same, and each neighbour comes as often as any other.
    src, dst = np.arange(10), np.zeros(10, int)
    for name in ("x.gl", "y.gl"):
        gz.compile_graph((src, dst), tmp_path / name, direction="in", num_nodes=(10, 3))
    x, y = ("a", "x", "b"), ("a", "y", "b")
    g = gz.HeteroGraph({x: tmp_path / "x.gl", y: tmp_path / "y.gl"})
    seen, agree, rounds = {x: Counter(), y: Counter()}, 0, 3000
    for seed in range(rounds):
        found = g.sample({"b": [0]}, [3], seed=seed)
        drawn = {e: found.node["a"][found.row[e]].tolist() for e in (x, y)}
        agree += len(set(drawn[x]) & set(drawn[y]))
        for e in (x, y):
            assert len(set(drawn[e])) == 3
            seen[e].update(drawn[e])
    for e in (x, y):
        assert sum((n - rounds * 0.3) ** 2 / (rounds * 0.3) for n in seen[e].values()) < 28  # 9 degrees, p = 0.001
    assert 0.85 * rounds < agree < 0.95 * rounds  # 3 x 3/10 a round, had they nothing to do with each other
    shared = g.sample({"b": [0]}, [3], seed=1, method="labor")
    assert sorted(shared.row[x]) == sorted(shared.row[y])  # one source type: they agree


def test_wide_ids_keep_all_their_bits(tmp_path):
    many = 2**32 + 5
    indptr = np.array([0, 2, 3], np.uint64)
    indices = np.array([7, many - 1, 2**32], np.uint64)
    header = glfile.spec.Header(glfile.spec.TOPOLOGY, many, 3, 2, 1, minor=1, incompatible=1)
    header.num_targets = 2
    (tmp_path / "w.gl").write_bytes(glfile.spec.build(header, {"in.indptr": indptr, "in.indices": indices}))
    g = gz.HeteroGraph({("far", "to", "near"): tmp_path / "w.gl"})
    assert g.num_nodes == {"far": many, "near": 2}
    for options in ({}, {"disjoint": True}):
        found = g.sample({"near": [1, 0], "far": [2**32]}, [-1], **options)
        assert sorted(found.node["far"].tolist()[1:]) == sorted([*[2**32] * bool(options), 7, many - 1])


def test_undirected_graphs_and_reverses_need_no_second_file(tmp_path):
    gz.compile_graph([(0, 1), (1, 2)], tmp_path / "u.gl", directed=False)
    g = gz.HeteroGraph({("n", "to", "n"): tmp_path / "u.gl"})
    assert g.sample({"n": [1]}, [-1]).node["n"].tolist() == [1, 0, 2]


def test_what_it_is(world):
    g = world.graph
    assert g.num_nodes == COUNTS
    assert g.metadata() == (list(COUNTS), list(EDGES)) == (g.node_types, g.edge_types)
    assert g.num_edges == EDGES
    assert g[WRITES].shape == (45, 60)
    again = pickle.loads(pickle.dumps(g))
    assert again.metadata() == g.metadata()
    first, second = (graph.sample(SEEDS, [2], seed=3) for graph in (g, again))
    np.testing.assert_array_equal(first.node["paper"], second.node["paper"])
    assert "'paper': 60" in repr(g)
    assert repr(g.sample({"paper": [0]}, [0])).startswith("HeteroSubgraph(paper: 1 nodes, author: 0 nodes")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (({"editor": [0]}, [2]), ValueError, "no node type 'editor'; the graph has 'paper', 'author', 'venue'"),
        (({"paper": [60]}, [2]), IndexError, r"seeds\[0\] = 60 is out of range for node type 'paper' with 60"),
        (({"paper": [0]}, {("author", "wrote", "paper"): [2]}), ValueError,
         r"no edge type \('author', 'wrote', 'paper'\); the graph has \('author', 'writes', 'paper'\)"),
        (({"paper": [0]}, {WRITES: [2]}), ValueError, r"fanouts has no entry for edge type \('paper', 'cites'"),
        (({"paper": [0]}, UNEVEN | {IN: [2]}), ValueError, "different numbers of hops"),
        (({"paper": [0]}, [-2]), ValueError, r"fanouts\[0\] is -2"),
        (({"paper": [0]}, []), ValueError, "fanouts is empty"),
        (([0], [2]), TypeError, "seeds must be a dict by node type, got list"),
        (({"paper": [0]}, [2], {"window": 3}), ValueError, "window needs time= or node_time="),
        (({"paper": [0]}, [2], {"time": {"author": [3]}}), ValueError, "no time for the seeds of type 'paper'"),
        (({"paper": [0]}, [2], {"time": {"paper": [3, 4]}}), ValueError, "time of 'paper' has 2 values for 1 seeds"),
        (({"paper": [0]}, [2], {"node_time": {"paper": [3]}, "time": 1}), ValueError,
         "node_time of 'paper' has 1 values, expected one for each of 60 nodes"),
        (({"paper": [0]}, [2], {"method": "labor", "disjoint": True}), ValueError, "cannot be combined with disjoint"),
        (({"paper": [0]}, [2], {"temporal": "first"}), ValueError, "temporal is 'first', expected 'uniform' or 'last'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(world, call, error, message):
    seeds, fanouts, options = (*call, {})[:3]
    with pytest.raises(error, match=message):
        world.graph.sample(seeds, fanouts, **options)


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    gz.compile_graph(([0], [1]), tmp_path / "a.gl", direction="in", num_nodes=(3, 5))
    gz.compile_graph(([0], [1]), tmp_path / "b.gl", direction="out", num_nodes=(4, 5))
    with pytest.raises(ValueError, match=r"b\.gl has 4 source and 5 target nodes, but there are 3 nodes of type 's'"):
        gz.HeteroGraph({("s", "x", "t"): tmp_path / "a.gl", ("s", "y", "t"): tmp_path / "b.gl"})
    with pytest.raises(ValueError, match=r"there are 9 nodes of type 't' \(from num_nodes\)"):
        gz.HeteroGraph({("s", "x", "t"): tmp_path / "a.gl"}, num_nodes={"t": 9})
    out = gz.HeteroGraph({("s", "y", "t"): tmp_path / "b.gl"})
    with pytest.raises(ValueError, match=r"b.gl has rows by source only.*direction=\"in\" or \"both\""):
        out.sample({"t": [0]}, [1])
    with pytest.raises(TypeError, match="an edge type is three names"):
        gz.HeteroGraph({("s", "t"): tmp_path / "a.gl"})
    with pytest.raises(ValueError, match="edges have no weights"):
        gz.HeteroGraph({("s", "x", "t"): tmp_path / "a.gl"}).sample({"t": [0]}, [1], weighted=True)
    with pytest.raises(ValueError, match="no edge type has times and there is no node_time"):
        gz.HeteroGraph({("s", "x", "t"): tmp_path / "a.gl"}).sample({"t": [0]}, [1], time=3)
