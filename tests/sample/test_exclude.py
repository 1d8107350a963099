"""Edges that a sample must not take: bit for bit against the oracle in every mode, typed and not, and evenly drawn."""

from __future__ import annotations

import numpy as np
import pytest
from glfile import write_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_oracle import Rows
from scipy import stats
from test_hetero_sample import CITES, EDGES, SEEDS, WRITES, WRITTEN, same
from test_hetero_sample import World as TypedWorld
from walk_files import write_legacy

import graphzero as gz
from graphzero import _core

N = 40
ALARM = 1e-6
MODES = [
    {},
    {"replace": True},
    {"weighted": True},
    {"weighted": True, "replace": True},
    {"disjoint": True},
    {"method": "labor"},
    {"time": 25},
    {"time": 25, "temporal": "last"},
    {"time": 25, "weighted": True},
]


class World:
    """A graph with hubs and many parallel edges, rows by source or by target."""

    def __init__(self, path, direction):
        rng = np.random.default_rng(5)
        self.src, self.dst = (N * rng.random(900) ** 2).astype(np.int64), (N * rng.random(900) ** 2).astype(np.int64)
        more = {"weights": rng.integers(0, 4, 900) / 2, "times": rng.integers(0, 40, 900), "edge_ids": True}
        self.graph = gz.Graph(write_graph(path, N, self.src, self.dst, direction=direction, **more))
        ends = (self.src, self.dst) if direction == "out" else (self.dst, self.src)
        self.oracle, self.direction = Rows(N, *(e.tolist() for e in ends), **more), direction

    def check(self, seeds, fanouts, edges, reverse=False, threads=1, **options):
        source, target = np.asarray(edges, np.int64).reshape(2, -1)
        got = self.graph.sample(
            seeds, fanouts, exclude_edges=(source, target), exclude_reverse=reverse, num_threads=threads, **options
        )
        pairs = set(zip(source.tolist(), target.tolist(), strict=True))
        pairs |= {(v, u) for u, v in pairs} if reverse else set()
        if "time" in options:
            options = options | {"time": [options["time"]] * len(seeds)}
        rows = pairs if self.direction == "out" else {(v, u) for u, v in pairs}
        want = self.oracle.sample(seeds, fanouts, exclude=rows, **options)
        for name in ("node", "row", "col", "edge", "num_sampled_nodes", "num_sampled_edges"):
            assert np.asarray(getattr(got, name)).tolist() == want[name], name
        taken = set(zip(self.src[got.edge].tolist(), self.dst[got.edge].tolist(), strict=True))
        assert not taken & pairs
        return got


@pytest.fixture(scope="module", params=["out", "in"])
def world(request, tmp_path_factory):
    return World(tmp_path_factory.mktemp("exclude") / "g.gl", request.param)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_what_is_drawn_is_the_oracles(world, options, reverse):
    some = np.stack([world.src[:60], world.dst[:60]])
    for fanouts in ([3, 2], [-1, 4], [30, 2]):
        assert world.check([0, 1, 5, 0, 39], fanouts, some, reverse, seed=9, **options).num_edges > 0


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_call_is_the_oracles(world, data):
    pick = data.draw
    node = st.integers(0, N - 1)
    seeds = pick(st.lists(node, min_size=1, max_size=6))
    edges = pick(st.lists(st.one_of(st.tuples(node, node), st.sampled_from(list(zip(world.src, world.dst))))))  # noqa: B905
    options = dict(pick(st.sampled_from(MODES)))
    fanouts = pick(st.lists(st.integers(-1, 30), min_size=1, max_size=3))
    ends = np.array(edges, np.int64).reshape(-1, 2).T
    world.check(seeds, fanouts, ends, pick(st.booleans()), pick(st.integers(1, 3)), seed=pick(st.integers(0, 99)),
                **options)  # fmt: skip


def test_a_node_whose_edges_are_all_excluded_gives_none(world):
    own = world.src == 0 if world.direction == "out" else world.dst == 0
    edges = np.stack([world.src[own], world.dst[own]])
    for options in MODES:
        assert world.check([0], [5, 5], edges, seed=1, **options).num_edges == 0
        assert world.check([0], [-1], edges[:, 2:], seed=1, **options).num_nodes >= 1


def test_what_remains_is_drawn_evenly(tmp_path):
    """20,000 nodes with the neighbours 0 to 7, of which 1 (twice) and 4 are excluded: every pair of the others."""
    n, row = 20_000, [0, 1, 1, 2, 3, 4, 5]
    src, dst = np.repeat(np.arange(n), 7), np.tile(row, n)
    g = gz.Graph(write_graph(tmp_path / "s.gl", n, src, dst))
    edges = np.stack([np.repeat(np.arange(n), 2), np.tile([4, 1], n)])
    s = g.sample(np.arange(n), [2], seed=3, exclude_edges=edges)
    drawn = np.sort(np.array(row)[s.edge % 7].reshape(n, 2), 1)
    counts = np.bincount(drawn[:, 0] * 6 + drawn[:, 1], minlength=36)
    assert counts[[0 * 6 + 1, 1 * 6 + 2, 2 * 6 + 4]].sum() == 0
    assert np.count_nonzero(counts) == 6
    assert stats.chisquare(counts[counts > 0]).pvalue > ALARM
    with_all = g.sample(np.arange(n), [2], seed=3)
    assert stats.chisquare(np.bincount(with_all.edge % 7, minlength=7)).pvalue > ALARM  # the control: all are drawn


def test_an_undirected_edge_is_excluded_both_ways(tmp_path):
    gz.compile_graph([(0, 1), (1, 2), (2, 0)], tmp_path / "u.gl", directed=False)
    g = gz.Graph(tmp_path / "u.gl")
    for edge in ([[0], [1]], [[1], [0]]):
        found = g.sample([0, 1], [-1], exclude_edges=edge)
        assert found.node.tolist() == [0, 1, 2]
        assert found.num_edges == 2


def test_rows_in_no_order_are_searched_too(tmp_path):
    rng = np.random.default_rng(1)
    edges = [(int(u), int(v)) for u, v in rng.integers(0, 9, (90, 2))]
    g = gz.Graph(write_legacy(tmp_path / "old.gl", 9, edges))
    gone = edges[:20]
    found = g.sample(np.arange(9), [-1], exclude_edges=np.array(gone).T)
    kept = [(int(found.node[c]), int(found.node[r])) for r, c in zip(found.row, found.col, strict=True)]
    assert sorted(kept) == sorted(e for e in edges if e not in gone)


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("replace", [False, True])
def test_merged_batches_leave_the_same_edges_out(world, io, replace):
    edges = np.stack([world.src[:80], world.dst[:80]])
    seeds = [np.array([0, 1, 2]), np.array([7, 0]), np.array([39])]
    made, _ = _core.sample_merged(
        world.graph._open(), seeds, [4, 5, 6], [6, 4], replace=replace, io=io, past_page_cache=io != "mmap",
        exclude=(edges[0], edges[1]),
    )  # fmt: skip
    for batch, key, found in zip(seeds, [4, 5, 6], made, strict=True):
        want = world.graph.sample(batch, [6, 4], seed=key, replace=replace, exclude_edges=edges)
        assert want.num_edges > 0
        for a, b in zip(found[:3], (want.node, want.edge_index, want.edge), strict=True):
            np.testing.assert_array_equal(a, b)
        assert found[4:] == (want.num_sampled_nodes, want.num_sampled_edges)


# -- several types --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return TypedWorld(tmp_path_factory.mktemp("typed"))


def edges_of(world, edge_type, count):
    """The first edges in the rows of a type: sources above targets."""
    rows = world.oracle.relations[edge_type].rows
    return np.array([(e[0], v) for v, row in enumerate(rows) for e in row][:count]).T


@pytest.mark.parametrize("options", [*MODES[:6], {"time": 25}, {"time": 25, "window": 9, "temporal": "last"}], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_typed_draws_are_the_oracles(typed, options, reverse):
    gone = {WRITES: edges_of(typed, WRITES, 70), CITES: edges_of(typed, CITES, 90)}
    got = typed.graph.sample(SEEDS, [4, 3], seed=6, exclude_edges=gone, exclude_reverse=reverse, **options)
    pairs = {e: set(map(tuple, ends[::-1].T.tolist())) for e, ends in gone.items()}
    if reverse:
        pairs[WRITTEN] = {(u, v) for v, u in pairs[WRITES]}
        pairs[CITES] |= {(u, v) for v, u in pairs[CITES]}
    if "time" in options:
        options = options | {"time": {t: [25] * len(ids) for t, ids in SEEDS.items()}}
    per_type = {e: [4, 3] for e in EDGES}
    same(got, typed.oracle.sample(SEEDS, per_type, seed=6, exclude=pairs, **options))


def test_mistakes_are_named(world, typed):
    def sample(edges, **options):
        return typed.graph.sample({"paper": [0]}, [2], exclude_edges=edges, **options)

    with pytest.raises(ValueError, match=r"exclude_edges must have the shape \(2, M\), .*got shape \(3, 2\)"):
        world.graph.sample([0], [2], exclude_edges=np.zeros((3, 2), int))
    with pytest.raises(ValueError, match="exclude_edges has 2 sources and 1 targets"):
        world.graph.sample([0], [2], exclude_edges=([0, 1], [1]))
    with pytest.raises(IndexError, match=r"exclude_edges\[0\]\[1\] = 40 is out of range"):
        world.graph.sample([0], [2], exclude_edges=([0, 40], [1, 1]))
    with pytest.raises(TypeError, match=r"exclude_edges\[0\] must be integers"):
        world.graph.sample([0], [2], exclude_edges=([0.5], [1]))
    with pytest.raises(TypeError, match="exclude_edges must be a dict by edge type, got list"):
        sample([[0], [1]])
    with pytest.raises(ValueError, match=r"no edge type \('a', 'b', 'c'\); the graph has \('author', 'writes'"):
        sample({("a", "b", "c"): [[0], [1]]})
    with pytest.raises(ValueError, match=r"no edge type \('paper', 'rev_reviews', 'author'\) for the reverse of"):
        sample({("author", "reviews", "paper"): [[0], [1]]}, exclude_reverse=True)
