"""One-hop fanouts: against a plain Python draw, bit for bit; what short rows mean; distributions; bad arguments."""

from __future__ import annotations

import threading
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from glfile import write_container, write_graph
from hypothesis import example, given
from hypothesis import strategies as st
from sample_oracle import Random, floyd, make_key, weighted_distinct, weighted_one
from scipy import stats
from walk_files import stream, write_edges, write_legacy, write_unsorted

import graphzero as gz
from graphzero import _core

FALSE_ALARM = 1e-6  # of each distribution test, were the seed drawn afresh; the seeds here are fixed


def plain_row(row: list[tuple[int, float]], node: int, index: int, K: int, pad: int | None, weighted: bool, seed: int):
    """One row of a fanout, and how many of its nodes are distinct edges."""
    random = Random(make_key(seed, stream("fanou"), index))
    sums = list(accumulate(w for _, w in row))
    if weighted:
        heavy = [i for i, (_, w) in enumerate(row) if w > 0]
        if not heavy:
            chosen = []
        else:
            chosen = weighted_distinct(random, [w for _, w in row], K) if len(row) >= K else []
            if len(chosen) < K:
                chosen = heavy
    else:
        chosen = floyd(random, len(row), K) if len(row) >= K else list(range(len(row)))
    distinct = len(chosen)
    while chosen and pad is None and len(chosen) < K:
        chosen = [*chosen, weighted_one(random, sums) if weighted else random.below(len(row))]
    filler = node if pad is None else pad
    return [row[i][0] for i in chosen] + [filler] * (K - len(chosen)), distinct


@st.composite
def graphs(draw: Any) -> tuple[int, list[tuple[int, int]], list[float]]:
    n = draw(st.integers(1, 8))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    weights = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0, 2.0**66]), min_size=len(edges), max_size=len(edges)))
    return n, edges, weights


@example((2, [(0, 0)] * 4 + [(1, 0), (0, 1)], [0.25] * 4 + [0.0, 0.25]), 6, None, True, 1, "sorted")
@given(
    graphs(),
    st.integers(1, 9),
    st.sampled_from([None, -1, 77]),
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.sampled_from(["sorted", "unsorted", "legacy"]),
)
def test_fanout_is_the_plain_draw(tmp_path_factory, graph, K, pad, weighted, seed, kind):
    n, edges, weights = graph
    path = tmp_path_factory.getbasetemp() / "any.gl"
    write = {"sorted": write_edges, "unsorted": write_unsorted, "legacy": write_legacy}[kind]
    g = gz.Graph(write(path, n, edges, weights))
    rows: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for (u, v), w in zip(edges, weights, strict=True):
        rows[u].append((v, w))
    if kind == "sorted":
        rows = [sorted(row, key=lambda x: x[0]) for row in rows]
    nodes = [i % n for i in range(40)]  # more than are in flight together
    want = [plain_row(rows[v], v, i, K, pad, weighted, seed) for i, v in enumerate(nodes)]
    got = g.batch_random_fanout(nodes, K, pad=pad, weighted=weighted, seed=seed)
    assert got.dtype == np.int64
    assert got.tolist() == [row for row, _ in want]
    first = g.sample_neighbours(nodes[0], K, weighted=weighted, seed=seed)
    assert first.tolist() == want[0][0][: want[0][1]]


@pytest.fixture(scope="module")
def medium(tmp_path_factory) -> gz.Graph:
    """3,000 nodes: a hub with 4,000 edges, 500 nodes without any, weights of which a tenth are zero."""
    r = np.random.default_rng(3)
    src = np.concatenate([r.integers(0, 2500, 20_000), np.zeros(4000, np.int64)])
    dst = r.integers(0, 3000, 24_000)
    weights = np.where(r.random(24_000) < 0.1, 0, r.random(24_000)).astype(np.float32)
    path = tmp_path_factory.mktemp("fanout") / "medium.gl"
    return gz.Graph(write_graph(path, 3000, src, dst, weights=weights, direction="both"))


@pytest.mark.parametrize("options", [{}, {"pad": -1}, {"weighted": True}, {"direction": "in"}], ids=str)
@pytest.mark.parametrize("K", [1, 15, 100])
def test_interleaving_and_threads_do_not_show(medium, options, K):
    nodes = np.random.default_rng(0).integers(0, 3000, 4000)
    want = _core.fanout(medium._open(), nodes, K, seed=9, plain=True, threads=1, **options)
    for threads in (1, 2, 8):
        np.testing.assert_array_equal(
            medium.batch_random_fanout(nodes, K, seed=9, num_threads=threads, **options), want
        )


def test_what_short_rows_mean(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "g.gl", 5, [(0, 1), (0, 2), (0, 3), (1, 4), (3, 3)]))
    rows = g.batch_random_fanout([0, 1, 2, 3], 6, seed=0)
    assert rows[0, :3].tolist() == [1, 2, 3]
    assert set(rows[0, 3:].tolist()) <= {1, 2, 3}
    assert rows[1:].tolist() == [[4] * 6, [2] * 6, [3] * 6]
    padded = g.batch_random_fanout([0, 1, 2], 6, pad=-1, seed=0)
    assert padded.tolist() == [[1, 2, 3, -1, -1, -1], [4, -1, -1, -1, -1, -1], [-1] * 6]
    assert sorted(g.batch_random_fanout([0], 3, seed=5)[0].tolist()) == [1, 2, 3]
    assert g.sample_neighbours(0, 10).tolist() == [1, 2, 3]
    assert g.sample_neighbours(2, 10).tolist() == []
    assert g.sample_neighbours(0, 10**15).tolist() == [1, 2, 3]
    assert g.batch_random_fanout([], 4).shape == (0, 4)


def test_a_hub_gives_distinct_edges(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "hub.gl", 10_000, [(0, i) for i in range(1, 10_000)]))
    for K in (15, 200, 5000):
        row = g.batch_random_fanout([0], K, seed=K)[0]
        assert len(np.unique(row)) == K
        assert row.min() >= 1


def test_each_neighbour_is_equally_likely(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "star.gl", 21, [(0, i) for i in range(1, 21)]))
    for K in (1, 5, 19):
        rows = g.batch_random_fanout(np.zeros(40_000, np.int64), K, seed=1)
        counts = np.bincount(rows.ravel(), minlength=21)[1:]
        # Without replacement counts vary less than a multinomial's by (20 - K) / 19: scaled so, it is a chi-square.
        statistic = ((counts - 2000 * K) ** 2 / (2000 * K)).sum() * 19 / (20 - K)
        assert stats.chi2.sf(statistic, 19) > FALSE_ALARM


def test_draws_after_all_neighbours_are_uniform(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "few.gl", 5, [(0, i) for i in range(1, 5)]))
    extra = g.batch_random_fanout(np.zeros(20_000, np.int64), 7, seed=2)[:, 4:]
    assert stats.chisquare(np.bincount(extra.ravel())[1:]).pvalue > FALSE_ALARM


def test_weights_decide(tmp_path):
    weights = np.array([1, 2, 3, 4, 0, 10], np.float32)
    g = gz.Graph(write_edges(tmp_path / "w.gl", 7, [(0, i) for i in range(1, 7)], weights))
    rows = g.batch_random_fanout(np.zeros(50_000, np.int64), 1, weighted=True, seed=3)
    counts = np.bincount(rows.ravel(), minlength=7)[1:]
    assert counts[4] == 0
    heavy = weights > 0
    expected = 50_000 * weights[heavy] / weights.sum()
    assert stats.chisquare(counts[heavy], expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (IndexError, r"start_nodes\[1\] = 3000", lambda g: g.batch_random_fanout([0, 3000], 3)),
        (IndexError, r"start_nodes\[0\] = -5", lambda g: g.batch_random_fanout([-5], 3)),
        (ValueError, "K is 0", lambda g: g.batch_random_fanout([0], 0)),
        (ValueError, "K is -3", lambda g: g.batch_random_fanout([0], -3)),
        (TypeError, "K must be an integer", lambda g: g.batch_random_fanout([0], 1.5)),
        (TypeError, "pad must be an integer", lambda g: g.batch_random_fanout([0], 3, pad=0.5)),
        (ValueError, "out has shape", lambda g: g.batch_random_fanout([0], 3, out=np.empty((3, 1), np.int64))),
        (MemoryError, None, lambda g: g.batch_random_fanout([0], 2**61)),
        (IndexError, "start_node = 3000", lambda g: g.sample_neighbours(3000, 2)),
        (ValueError, "K is 0", lambda g: g.sample_neighbours(0, 0)),
    ],
)
def test_bad_arguments_raise_before_any_work(medium, error, match, call):
    with pytest.raises(error, match=match):
        call(medium)


def test_out_is_filled_and_returned(medium):
    want = medium.batch_random_fanout([1, 2], 5, seed=3)
    out = np.full((2, 5), -7)
    assert medium.batch_random_fanout([1, 2], 5, seed=3, out=out) is out
    np.testing.assert_array_equal(out, want)


def test_damaged_neighbours_are_a_format_error(tmp_path):
    indptr = np.array([0, 4, 4], np.uint64)
    arrays = {"out.indptr": indptr, "out.indices": np.array([0, 1, 2**32 - 1, 1], np.uint32)}
    g = gz.Graph(write_container(tmp_path / "bad.gl", 2, 4, "out", arrays))
    with pytest.raises(gz.FormatError, match=r"indices\[2\] = 4294967295"):
        g.batch_random_fanout([0], 4)


def test_many_threads_share_one_graph(medium):
    nodes = np.arange(3000)
    want = [medium.batch_random_fanout(nodes, 15, seed=s) for s in range(6)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(10):
            if not np.array_equal(medium.batch_random_fanout(nodes, 15, seed=seed), want[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
