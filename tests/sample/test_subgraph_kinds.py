"""Subgraphs with both ways of each edge, or all edges between their nodes, and HGT's sampler: against plain ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_oracle import Random, make_key, weighted_distinct
from scipy import stats
from test_exclude import World, edges_of
from test_hetero_sample import CITES, COUNTS, EDGES, SEEDS, WRITES, WRITTEN
from test_hetero_sample import World as TypedWorld
from walk_files import stream

import graphzero as gz


@pytest.fixture(scope="module", params=["out", "in"])
def world(request, tmp_path_factory):
    return World(tmp_path_factory.mktemp("kinds") / "g.gl", request.param)


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return TypedWorld(tmp_path_factory.mktemp("typed"))


def between(rows, targets, sources, gone=()):
    """All edges of `rows` from `sources` to `targets`: (row, col, edge) in order."""
    return [
        (sources.index(e[0]), i, e[3])
        for i, v in enumerate(targets)
        for e in rows[v]
        if e[0] in sources and (v, e[0]) not in gone
    ]


def turned(edges, others, ids=True):
    """Each (row, col) once, by col and row; the first edge stands for all, those of `others` are turned round."""
    found = {}
    for row, col, edge in [*edges, *((c, r, e if ids else -1) for r, c, e in others)]:
        found.setdefault((col, row), edge)
    return [(row, col, edge) for (col, row), edge in sorted(found.items())]


def listed(row, col, edge):
    return list(zip(row.tolist(), col.tolist(), edge.tolist(), strict=True))


@pytest.mark.parametrize("fanouts", [[3, 2], [4], [0]])
@pytest.mark.parametrize("threads", [1, 2])
def test_induced_subgraphs_have_all_edges_between_their_nodes(world, fanouts, threads):
    seeds = [0, 9, 39, 0]
    plain = world.graph.sample(seeds, fanouts, seed=3)
    got = world.graph.sample(seeds, fanouts, seed=3, subgraph="induced", num_threads=threads)
    node = got.node.tolist()
    assert node == plain.node.tolist()
    assert listed(got.row, got.col, got.edge) == between(world.oracle.rows, node, node)
    assert set(plain.edge.tolist()) <= set(got.edge.tolist())
    assert got.num_sampled_nodes == plain.num_sampled_nodes
    assert got.num_sampled_edges == []
    assert got.num_hops == len(fanouts)
    np.testing.assert_array_equal(got.edge_index, [got.row, got.col])


def test_induced_subgraphs_leave_excluded_edges_out(world):
    gone = np.stack([world.src[:200], world.dst[:200]])
    got = world.graph.sample([0, 1, 2], [5, 5], seed=1, subgraph="induced", exclude_edges=gone)
    pairs = set(map(tuple, (gone if world.direction == "out" else gone[::-1]).T.tolist()))
    node = got.node.tolist()
    want = between(world.oracle.rows, node, node, pairs)
    assert listed(got.row, got.col, got.edge) == want
    assert len(want) < len(between(world.oracle.rows, node, node))


@pytest.mark.parametrize("options", [{}, {"disjoint": True}, {"time": 20}, {"replace": True}], ids=str)
def test_bidirectional_subgraphs_have_each_edge_and_its_reverse(world, options):
    plain = world.graph.sample([0, 5, 7], [4, 3], seed=3, **options)
    got = world.graph.sample([0, 5, 7], [4, 3], seed=3, subgraph="bidirectional", **options)
    edges = listed(plain.row, plain.col, plain.edge)
    assert listed(got.row, got.col, got.edge) == turned(edges, edges)
    pairs = set(zip(got.row.tolist(), got.col.tolist(), strict=True))
    assert pairs == {(c, r) for r, c in pairs}
    assert len(pairs) == got.num_edges > plain.num_edges / 2


def test_bidirectional_is_what_pyg_makes(world):
    torch = pytest.importorskip("torch")
    sampler = pytest.importorskip("torch_geometric.sampler")
    plain = world.graph.sample([0, 5, 7], [4, 3], seed=3)
    got = world.graph.sample([0, 5, 7], [4, 3], seed=3, subgraph="bidirectional")
    arrays = {name: torch.from_numpy(getattr(plain, name)) for name in ("node", "row", "col", "edge")}
    want = sampler.SamplerOutput(**arrays, batch=None).to_bidirectional()
    assert got.row.tolist() == want.row.tolist()
    assert got.col.tolist() == want.col.tolist()


def test_typed_induced_subgraphs(typed):
    got = typed.graph.sample(SEEDS, [3, 2], seed=2, subgraph="induced")
    assert {t: n.tolist() for t, n in got.node.items()} == {
        t: n.tolist() for t, n in typed.graph.sample(SEEDS, [3, 2], seed=2).node.items()
    }
    for e in EDGES:
        targets, sources = got.node[e[2]].tolist(), got.node[e[0]].tolist()
        want = between(typed.oracle.relations[e].rows, targets, sources)
        assert listed(got.row[e], got.col[e], got.edge[e]) == want
    assert got.num_edges[CITES] > 0
    gone = {CITES: edges_of(typed, CITES, 300)}
    fewer = typed.graph.sample(SEEDS, [3, 2], seed=2, subgraph="induced", exclude_edges=gone)
    pairs = set(map(tuple, gone[CITES].T.tolist()))
    node = fewer.node["paper"]
    taken = zip(node[fewer.row[CITES]].tolist(), node[fewer.col[CITES]].tolist(), strict=True)
    assert not pairs & set(taken)


def test_typed_bidirectional_subgraphs(tmp_path, typed):
    graphs = {e: typed.graph[e] for e in (WRITES, WRITTEN, CITES)}
    g = gz.HeteroGraph(graphs)
    seeds = {"paper": [3, 0, 59], "author": [7]}
    plain, got = (g.sample(seeds, [3, 2], seed=2, subgraph=kind) for kind in ("directional", "bidirectional"))
    parts = {e: listed(plain.row[e], plain.col[e], plain.edge[e]) for e in graphs}
    for e, other in ((WRITES, WRITTEN), (WRITTEN, WRITES), (CITES, CITES)):
        assert listed(got.row[e], got.col[e], got.edge[e]) == turned(parts[e], parts[other], ids=e == other)
    forth = set(zip(got.row[WRITES].tolist(), got.col[WRITES].tolist(), strict=True))
    back = set(zip(got.col[WRITTEN].tolist(), got.row[WRITTEN].tolist(), strict=True))
    assert forth == back
    with pytest.raises(ValueError, match=r"no \('paper', 'rev_reviews', 'author'\) for \('author', 'reviews', 'paper'"):
        typed.graph.sample(seeds, [3], subgraph="bidirectional")
    with pytest.raises(ValueError, match=r"no \(.author., .writes., .paper.\) for \(.paper., .rev_writes., .author.\)"):
        gz.HeteroGraph({WRITTEN: typed.graph[WRITTEN]}).sample({"author": [7]}, [3], subgraph="bidirectional")


def test_kinds_that_cannot_be(world, typed):
    for graph, seeds in ((world.graph, [0]), (typed.graph, {"paper": [0]})):
        with pytest.raises(ValueError, match="subgraph is 'both', expected 'directional', 'bidirectional'"):
            graph.sample(seeds, [2], subgraph="both")
        with pytest.raises(ValueError, match="cannot be combined with disjoint=True"):
            graph.sample(seeds, [2], subgraph="induced", disjoint=True)
        with pytest.raises(ValueError, match="cannot be combined with time="):
            graph.sample(seeds, [2], subgraph="induced", time=3)


# -- HGT ------------------------------------------------------------------------------------------------------------


def hgt(world, seeds, counts, seed):
    """The sampler as its docstring describes it."""
    types = list(COUNTS)
    node = {t: list(seeds.get(t, [])) for t in types}
    budget = {t: {} for t in types}  # in the order that nodes were met
    num, fresh = {t: [len(node[t])] for t in types}, {t: list(dict.fromkeys(node[t])) for t in types}
    for hop in range(len(next(iter(counts.values())))):
        for e, rows in world.oracle.relations.items():
            for v in fresh[e[2]]:
                for edge in rows.rows[v]:
                    if edge[0] not in node[e[0]]:
                        budget[e[0]][edge[0]] = budget[e[0]].get(edge[0], 0.0) + 1.0 / len(rows.rows[v])
        for number, t in enumerate(types):
            known, k = list(budget[t]), counts[t][hop]
            if k >= len(known):
                drawn = list(range(len(known)))
            else:
                random = Random(make_key(seed, stream("hgt"), hop, number))
                drawn = weighted_distinct(random, [b * b for b in budget[t].values()], k) if k else []
            fresh[t] = [known[i] for i in drawn]
            for v in fresh[t]:
                del budget[t][v]
            node[t] += fresh[t]
            num[t].append(len(fresh[t]))
    return node, num


def check_hgt(world, seeds, counts, seed, threads=1):
    got = world.graph.sample_hgt(seeds, counts, seed=seed, num_threads=threads)
    per_type = counts if isinstance(counts, dict) else dict.fromkeys(COUNTS, counts)
    node, num = hgt(world, seeds, per_type, seed)
    assert {t: n.tolist() for t, n in got.node.items()} == node
    assert got.num_sampled_nodes == num
    for e in EDGES:
        want = between(world.oracle.relations[e].rows, node[e[2]], node[e[0]])
        assert listed(got.row[e], got.col[e], got.edge[e]) == want
    return got


UNEVEN = {"paper": [3, 40], "author": [5, 0], "venue": [1, 1], "ghost": [0, 0], "empty": [0, 0]}


@pytest.mark.parametrize("counts", [[4, 3], [1, 1, 1], [200], UNEVEN], ids=str)
def test_hgt_is_the_oracles(typed, counts):
    for seeds in (SEEDS, {"paper": [0]}, {"author": [4], "ghost": [1]}):
        got = check_hgt(typed, seeds, counts, seed=8)
    assert got.batch is None


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_hgt_call_is_the_oracles(typed, data):
    types = [t for t, n in COUNTS.items() if n and data.draw(st.booleans())]
    seeds = {t: data.draw(st.lists(st.integers(0, COUNTS[t] - 1), max_size=5)) for t in types}
    counts = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=3))
    check_hgt(typed, seeds, counts, data.draw(st.integers(0, 2**64 - 1)), data.draw(st.integers(1, 2)))


def test_hgt_draws_by_the_square_of_the_budget(tmp_path):
    """Neighbours 0 to 3 of a node with 1, 2, 3 and 4 edges to it: budgets 0.1 to 0.4."""
    src = np.repeat(np.arange(4), [1, 2, 3, 4])
    gz.compile_graph((src, np.zeros(10, int)), tmp_path / "g.gl", direction="in", num_nodes=(4, 1))
    g = gz.HeteroGraph({("a", "to", "b"): tmp_path / "g.gl"})
    seen = Counter(int(g.sample_hgt({"b": [0]}, [1], seed=s).node["a"][0]) for s in range(6000))
    expected = np.array([1, 4, 9, 16]) / 30 * 6000
    assert stats.chisquare([seen[i] for i in range(4)], expected).pvalue > 1e-6


def test_hgt_mistakes_are_named(typed):
    g = typed.graph
    with pytest.raises(ValueError, match="num_samples has no entry for node type 'author'"):
        g.sample_hgt({"paper": [0]}, {"paper": [1]})
    with pytest.raises(ValueError, match="no node type 'editor'; the graph has 'paper'"):
        g.sample_hgt({"editor": [0]}, [1])
    with pytest.raises(ValueError, match="num_samples of 'paper' has -1"):
        g.sample_hgt({"paper": [0]}, [-1])
    with pytest.raises(ValueError, match="num_samples is empty"):
        g.sample_hgt({"paper": [0]}, [])
    with pytest.raises(ValueError, match="different numbers of hops"):
        g.sample_hgt({"paper": [0]}, {t: [1] * (1 + i) for i, t in enumerate(COUNTS)})
    with pytest.raises(IndexError, match=r"seeds\[0\] = 60 is out of range for node type 'paper'"):
        g.sample_hgt({"paper": [60]}, [1])
