"""Negative edges: against a plain Python draw, bit for bit; exclusion, distributions, graphs with little to draw."""

from __future__ import annotations

import bisect
import math
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from glfile import write_container, write_graph
from hypothesis import given
from hypothesis import strategies as st
from sample_oracle import Random, make_key
from scipy import stats
from walk_files import stream, write_edges, write_legacy

import graphzero as gz
from graphzero import _core

FALSE_ALARM = 1e-6  # of each distribution test, were the seed drawn afresh; the seeds here are fixed


class Plain:
    """The rules, one draw at a time, over the rows of an out-file."""

    def __init__(
        self, n: int, edges: list[tuple[int, int]], degree: bool, exponent: float, no_edges: bool, no_self: bool
    ):
        self.n, self.edges, self.degree, self.exponent = n, set(edges), degree, exponent
        self.num_edges, self.no_edges, self.no_self = len(edges), no_edges, no_self
        self.degrees = np.bincount([u for u, _ in edges], minlength=n).tolist()
        self.ends = list(accumulate(self.degrees))
        mass = [(d**exponent if d else 0.0) if degree else 1.0 for d in self.degrees]
        self.below = [0.0, *accumulate(mass)]

    def allowed(self, u: int, v: int) -> bool:
        return not (self.no_self and u == v) and not (self.no_edges and (u, v) in self.edges)

    def node(self, random: Random) -> int | None:
        if not self.degree:
            return random.below(self.n)
        node = bisect.bisect_right(self.ends, random.below(self.ends[-1]))
        if self.exponent == 1:
            return node
        return node if random.unit() < math.pow(self.degrees[node], self.exponent - 1) else None

    def gaps(self, u: int) -> list[tuple[int, int, float]]:
        edges = [v for v in range(self.n) if not self.allowed(u, v)]
        bounds = [-1, *edges, self.n]
        runs = [(a + 1, b) for a, b in pairwise(bounds) if a + 1 < b]
        return [(a, b, self.below[b] - self.below[a]) for a, b in runs]

    def sample(self, index: int, seed: int, source: int | None = None) -> tuple[int, int]:
        random = Random(make_key(seed, stream("neg"), index))
        dense = source is None and self.no_edges and self.num_edges >= self.n**2 * (1 - 1 / 64)
        for _ in range(0 if dense else 2048 if self.degree else 128):
            u = self.node(random) if source is None else source
            v = None if u is None else self.node(random)
            if v is not None and self.allowed(u, v):
                return u, v
        random = Random(make_key(seed, stream("exact"), index))
        u = source
        if u is None:
            rows = [(self.below[u + 1] - self.below[u]) * sum(m for *_, m in self.gaps(u)) for u in range(self.n)]
            sums = list(accumulate(rows))
            u = bisect.bisect_right(sums, random.unit() * sums[-1])
        gaps = self.gaps(u)
        target = random.unit() * sum(m for *_, m in gaps)
        for a, b, mass in gaps:
            if mass == 0:
                continue
            v = bisect.bisect_right(self.below, self.below[a] + target, a + 1, b + 1) - 1
            target -= mass
            if target < 0:
                break
        return u, v


@st.composite
def cases(draw: Any) -> tuple[int, list[tuple[int, int]]]:
    """Graphs of every density, repeated edges and self-loops among them."""
    n = draw(st.integers(2, 7))
    every = [(u, v) for u in range(n) for v in range(n)]
    edges = draw(st.lists(st.sampled_from(every), min_size=1, max_size=3 * n * n))
    return n, edges


@given(
    cases(),
    st.booleans(),
    st.sampled_from([0.5, 0.75, 1.0]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_negatives_are_the_plain_draw(tmp_path_factory, graph, degree, exponent, no_edges, no_self, seed, legacy):
    n, edges = graph
    path = tmp_path_factory.getbasetemp() / "any.gl"
    g = gz.Graph((write_legacy if legacy else write_edges)(path, n, edges))
    plain = Plain(n, edges, degree, exponent, no_edges, no_self)
    options = {"method": "degree" if degree else "uniform", "exponent": exponent, "exclude_edges": no_edges}
    options |= {"exclude_self": no_self, "seed": seed}
    mass = [sum(m for *_, m in plain.gaps(u)) for u in range(n)]
    if any((plain.below[u + 1] - plain.below[u]) * mass[u] > 0 for u in range(n)):
        pairs = g.negative_edges(40, **options)
        assert pairs.T.tolist() == [list(plain.sample(i, seed)) for i in range(40)]
    else:
        with pytest.raises(ValueError, match="no negative edge"):
            g.negative_edges(40, **options)
    sources = [u for u in range(n) if mass[u] > 0]
    pairs = g.negative_edges(3, src=sources, **options)
    assert pairs.T.tolist() == [list(plain.sample(i, seed, sources[i // 3])) for i in range(3 * len(sources))]
    for u in set(range(n)) - set(sources):
        with pytest.raises(ValueError, match=f"node {u} has an edge to every node"):
            g.negative_edges(1, src=[u], **options)


@pytest.fixture(scope="module")
def medium(tmp_path_factory) -> gz.Graph:
    r = np.random.default_rng(3)
    src, dst = (400 * r.random(30_000) ** 2).astype(np.int64), r.integers(0, 400, 30_000)
    path = tmp_path_factory.mktemp("negatives") / "medium.gl"
    return gz.Graph(write_graph(path, 400, src, dst, direction="both"))


@pytest.mark.parametrize("method", ["uniform", "degree"])
@pytest.mark.parametrize("with_src", [False, True])
def test_exact_exclusion_and_threads(medium, method, with_src):
    src = np.random.default_rng(0).integers(0, 400, 9000) if with_src else None
    count = 2 if with_src else 20_000
    want = _core.negative_edges(medium._open(), count, src, method == "degree", seed=5, plain=True, threads=1)
    edges = {(u, v) for u in range(400) for v in medium.get_neighbours(u, direction="out").tolist()}
    assert not edges & set(map(tuple, want.T.tolist()))
    assert (want[0] != want[1]).all()
    if src is not None:
        np.testing.assert_array_equal(want[0], np.repeat(src, 2))
    for threads in (1, 2, 8):
        got = medium.negative_edges(count, src=src, method=method, seed=5, num_threads=threads)
        np.testing.assert_array_equal(got, want)


def test_every_non_edge_is_equally_likely(tmp_path):
    edges = [(u, v) for u in range(6) for v in range(6) if (u * 5 + v * 3) % 4 == 0]
    g = gz.Graph(write_edges(tmp_path / "g.gl", 6, edges))
    pairs = g.negative_edges(60_000, seed=1)
    counts = np.bincount(pairs[0] * 6 + pairs[1], minlength=36).reshape(6, 6)
    free = np.array([[u != v and (u, v) not in edges for v in range(6)] for u in range(6)])
    assert counts[~free].sum() == 0
    assert stats.chisquare(counts[free]).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "holes", [[(0, 1)], [(0, 1), (7, 3), (39, 2)], [(u, (u + 1) % 40) for u in range(40)]], ids=len
)
def test_a_nearly_complete_graph_gives_what_is_left(tmp_path, holes):
    n = 40
    edges = [(u, v) for u in range(n) for v in range(n) if u != v and (u, v) not in holes]
    g = gz.Graph(write_edges(tmp_path / "dense.gl", n, edges))
    pairs = g.negative_edges(200 * len(holes), seed=1)
    counts = np.bincount(pairs[0] * n + pairs[1], minlength=n * n)
    assert set(np.flatnonzero(counts).tolist()) == {u * n + v for u, v in holes}
    if len(holes) > 1:
        assert stats.chisquare(counts[counts > 0]).pvalue > FALSE_ALARM
    given_source = g.negative_edges(5, src=[0], method="degree", seed=1)
    assert given_source.tolist() == [[0] * 5, [1] * 5]


@pytest.mark.parametrize("exponent", [0.75, 1.0])
def test_targets_follow_their_degree(medium, exponent):
    pairs = medium.negative_edges(100_000, src=[0], method="degree", exponent=exponent, exclude_edges=False, seed=2)
    mass = medium.degrees(direction="in").astype(float) ** exponent
    mass[0] = 0  # no pair of a node with itself
    counts = np.bincount(pairs[1], minlength=400)
    assert stats.chisquare(counts[mass > 0], 100_000 * mass[mass > 0] / mass.sum()).pvalue > FALSE_ALARM
    free = {"exclude_edges": False, "exclude_self": False}
    both = medium.negative_edges(100_000, method="degree", exponent=exponent, seed=2, **free)
    expected = medium.degrees(direction="out").astype(float) ** exponent
    expected *= 100_000 / expected.sum()
    order = np.argsort(-expected)  # the rarest count together: a chi-square needs five of each
    few = int((expected >= 5).sum()) - 1
    groups = [np.add.reduceat(x[order], np.arange(few + 1)) for x in (np.bincount(both[0], minlength=400), expected)]
    assert stats.chisquare(*groups).pvalue > FALSE_ALARM


def test_a_hub_with_all_the_degree_ends(tmp_path):
    """By degree, nearly every draw is the hub or one of its edges; what may be drawn is still found, and right."""
    n = 2000
    edges = [(0, v) for v in range(1, n)] + [(1, 2)]
    g = gz.Graph(write_edges(tmp_path / "star.gl", n, edges))
    pairs = g.negative_edges(50, method="degree", exponent=1.0, seed=3)
    assert set(map(tuple, pairs.T.tolist())) == {(1, 0)}  # the only pair of two different nodes with degree, no edge
    with pytest.raises(ValueError, match="node 0 has an edge to every node"):
        g.negative_edges(1, src=[5, 0, 7])


def test_rows_by_target_serve_too(tmp_path):
    r = np.random.default_rng(1)
    src, dst = r.integers(0, 30, 500), r.integers(0, 30, 500)
    g = gz.Graph(write_graph(tmp_path / "in.gl", 30, src, dst, direction="in"))
    pairs = g.negative_edges(5000, seed=1)
    assert not set(zip(src.tolist(), dst.tolist(), strict=True)) & set(map(tuple, pairs.T.tolist()))
    assert not set(zip(src.tolist(), dst.tolist(), strict=True)) & set(
        map(tuple, g.negative_edges(500, method="degree", seed=1).T.tolist())
    )


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("shape", [(30, 30), (30, 12), (12, 30)])
def test_any_rows_give_the_same_negatives(tmp_path, shape, dense):
    """Rows by target need a search in each of them where only an enumeration finds something: the answer is one."""
    r, (sources, targets) = np.random.default_rng(1), shape
    every = np.array([(u, v) for u in range(sources) for v in range(targets)])
    kept = r.random(len(every)) < (0.97 if dense else 0.3)
    kept[(every[:, 0] == 3) & (every[:, 1] != 5)] = True  # a source with one negative, (3, 5)
    kept[(every[:, 0] == 3) & (every[:, 1] == 5)] = False
    edges = np.repeat(every[kept], 2, 0).T
    graphs = {}
    for direction in ("out", "in", "both"):
        gz.compile_graph((edges[0], edges[1]), tmp_path / f"{direction}.gl", direction=direction, num_nodes=shape)
        graphs[direction] = gz.Graph(tmp_path / f"{direction}.gl")
    real, free = set(map(tuple, edges.T.tolist())), {"exclude_self": False}
    src = [u for u in range(sources) if (every[kept][:, 0] == u).sum() < targets]
    for options in ({}, {"method": "degree"}):
        want = graphs["both"].negative_edges(20, src=src, seed=4, **free, **options)
        assert not real & set(map(tuple, want.T.tolist()))
        assert set(want[1][want[0] == 3].tolist()) == {5}
        got = graphs["in"].negative_edges(20, src=src, seed=4, num_threads=2, **free, **options)
        np.testing.assert_array_equal(got, want)
    pairs = {d: g.negative_edges(300, seed=2, **free) for d, g in graphs.items()}
    for found in pairs.values():
        assert not real & set(map(tuple, found.T.tolist()))
        assert found[0].max() < sources
        assert found[1].max() < targets
    np.testing.assert_array_equal(pairs["out"], pairs["both"])
    if shape[0] != shape[1]:
        with pytest.raises(ValueError, match='degrees of both ends; compile the graph with direction="both"'):
            graphs["in"].negative_edges(1, method="degree")
        with pytest.raises(ValueError, match='degrees of targets; compile the graph with direction="in" or "both"'):
            graphs["out"].negative_edges(1, src=[0], method="degree")


def test_a_source_in_rows_by_target_may_have_no_negative(tmp_path):
    g = gz.Graph(write_graph(tmp_path / "in.gl", 4, [1, 1, 1], [0, 2, 3], direction="in"))
    with pytest.raises(ValueError, match="node 1 has an edge to every node"):
        g.negative_edges(1, src=[0, 1])


def test_rectangular_negatives_are_even(tmp_path):
    edges = [(u, v) for u in range(4) for v in range(6) if (u + 2 * v) % 3 == 0]
    gz.compile_graph(edges, tmp_path / "r.gl", direction="in", num_nodes=(4, 6))
    pairs = gz.Graph(tmp_path / "r.gl").negative_edges(40_000, seed=1)
    counts = np.bincount(pairs[0] * 6 + pairs[1], minlength=24)
    every = {(u, v) for u in range(4) for v in range(6)}
    assert {(i // 6, i % 6) for i in np.flatnonzero(counts)} == every - set(edges)
    assert stats.chisquare(counts[counts > 0]).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (IndexError, r"src\[0\] = 400", lambda g: g.negative_edges(1, src=[400])),
        (IndexError, r"src\[1\] = -1", lambda g: g.negative_edges(1, src=[3, -1])),
        (ValueError, "num_samples is -1", lambda g: g.negative_edges(-1)),
        (ValueError, "method is 'best'", lambda g: g.negative_edges(1, method="best")),
        (ValueError, "exponent is 0", lambda g: g.negative_edges(1, method="degree", exponent=0.0)),
        (ValueError, "exponent is 2", lambda g: g.negative_edges(1, method="degree", exponent=2.0)),
        (ValueError, "exponent is nan", lambda g: g.negative_edges(1, method="degree", exponent=float("nan"))),
        (MemoryError, None, lambda g: g.negative_edges(2**60)),
    ],
)
def test_bad_arguments_raise_before_any_work(medium, error, match, call):
    with pytest.raises(error, match=match):
        call(medium)


def test_nothing_asked_and_nothing_there(tmp_path, medium):
    assert medium.negative_edges(0).shape == (2, 0)
    assert medium.negative_edges(3, src=[]).shape == (2, 0)
    empty = gz.Graph(write_edges(tmp_path / "empty.gl", 3, []))
    pairs = empty.negative_edges(50, seed=0)
    assert (pairs[0] != pairs[1]).all()
    with pytest.raises(ValueError, match="no edges"):
        empty.negative_edges(1, method="degree")
    one = gz.Graph(write_edges(tmp_path / "one.gl", 1, []))
    with pytest.raises(ValueError, match="no negative edge"):
        one.negative_edges(1)
    assert one.negative_edges(2, exclude_self=False).tolist() == [[0, 0], [0, 0]]


def test_damaged_rows_are_a_format_error(tmp_path):
    arrays = {"out.indptr": np.array([0, 2**40, 2], np.uint64), "out.indices": np.array([0, 1], np.uint32)}
    g = gz.Graph(write_container(tmp_path / "bad.gl", 2, 2, "out", arrays))
    for method in ("uniform", "degree"):
        with pytest.raises(gz.FormatError, match="verify"):
            g.negative_edges(50, method=method, seed=0)
