"""Walks: against a plain Python walk, draw by draw; their invariants; bad arguments; threads and forks."""

from __future__ import annotations

import bisect
import multiprocessing
import os
import threading
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
import pytest
from glfile import write_container, write_graph
from hypothesis import given
from hypothesis import strategies as st
from sample_oracle import Random, make_key
from waiting import PATIENCE
from walk_files import stream, write_edges, write_legacy, write_unsorted

import graphzero as gz
from graphzero import _core

Row = list[tuple[int, float]]  # (neighbour, weight) in the file's order


def rows_of(num_nodes: int, edges: list[tuple[int, int]], weights: list[float] | None, sort: bool = True) -> list[Row]:
    rows: list[Row] = [[] for _ in range(num_nodes)]
    for i, (u, v) in enumerate(edges):
        rows[u].append((v, 1.0 if weights is None else float(np.float32(weights[i]))))
    return [sorted(row, key=lambda x: x[0]) if sort else row for row in rows]


def plain_walk(
    rows: list[Row],
    start: int,
    index: int,
    length: int,
    *,
    p: float = 1.0,
    q: float = 1.0,
    weighted: bool = False,
    restart: float = 0.0,
    seed: int = 0,
) -> list[int]:
    """One walk of a batch, as the documentation tells it."""
    random = Random(make_key(seed, stream("walk"), index))
    near = [{v for v, _ in row} for row in rows]
    most = max(1 / p, 1.0, 1 / q)
    walk, previous = [start], None

    def bias(x: int) -> float:
        return 1 / p if x == previous else 1.0 if x in near[previous] else 1 / q

    while len(walk) <= length:
        node = walk[-1]
        if restart > 0 and random.unit() < restart:
            walk.append(start)
            previous = None
            continue
        row = rows[node]
        sums = list(accumulate(w for _, w in row))
        if not row or (weighted and not sums[-1] > 0):
            walk.append(node)
            continue
        for refusals in range(10**6):
            if refusals == 64 + min(len(row), 1024):
                shares = [((w if weighted else 1.0) * bias(x)) for x, w in row]
                position = bisect.bisect_right(list(accumulate(shares)), random.unit() * sum(shares))
                break
            position = bisect.bisect_right(sums, random.unit() * sums[-1]) if weighted else random.below(len(row))
            if previous is None or (p == 1 and q == 1):
                break
            if random.unit() * most < bias(row[position][0]):
                break
        walk.append(row[position][0])
        previous = node
    return walk


@st.composite
def graphs(draw: Any) -> tuple[int, list[tuple[int, int]], list[float]]:
    """Any small multigraph: self-loops, repeated edges, isolated nodes, zero weights."""
    n = draw(st.integers(1, 12))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    weights = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=len(edges), max_size=len(edges)))
    return n, edges, weights


parameters = st.fixed_dictionaries(
    {
        "p": st.sampled_from([1.0, 0.25, 4.0, 1e-6]),
        "q": st.sampled_from([1.0, 0.5, 2.0, 1e6]),
        "weighted": st.booleans(),
        "restart": st.sampled_from([0.0, 0.3, 1.0]),
        "seed": st.integers(0, 2**64 - 1),
    }
)


@given(graphs(), parameters, st.integers(0, 9), st.sampled_from(["sorted", "unsorted", "legacy"]))
def test_walks_are_the_plain_walk_draw_by_draw(tmp_path_factory, graph, options, length, kind):
    n, edges, weights = graph
    path = tmp_path_factory.getbasetemp() / "any.gl"
    write = {"sorted": write_edges, "unsorted": write_unsorted, "legacy": write_legacy}[kind]
    write(path, n, edges, weights)
    rows = rows_of(n, edges, weights, sort=kind == "sorted")
    starts = [i % n for i in range(70)]  # more than are in flight together
    walks = gz.Graph(path).batch_random_walk(starts, length, num_threads=1, **options)
    assert walks.dtype == np.int64
    assert walks.tolist() == [plain_walk(rows, s, i, length, **options) for i, s in enumerate(starts)]


@pytest.fixture(scope="module")
def medium(tmp_path_factory) -> gz.Graph:
    """A graph with a hub, leaves without edges, repeated edges and zero weights: 3,000 nodes, 24,000 edges."""
    r = np.random.default_rng(3)
    n = 3000
    src = np.concatenate([r.integers(0, 2500, 20_000), np.zeros(4000, np.int64)])
    dst = np.concatenate([np.minimum((n * r.random(20_000) ** 2).astype(np.int64), n - 1), r.integers(0, n, 4000)])
    weights = np.where(r.random(24_000) < 0.1, 0, r.random(24_000)).astype(np.float32)
    path = tmp_path_factory.mktemp("walks") / "medium.gl"
    return gz.Graph(write_graph(path, n, src, dst, weights=weights, direction="both"))


KINDS = [
    {},
    {"restart": 0.2},
    {"weighted": True},
    {"p": 0.5, "q": 2.0},
    {"p": 4.0, "q": 0.25, "weighted": True, "restart": 0.05},
    {"q": 0.5, "direction": "in"},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_interleaving_threads_and_chunks_do_not_show(medium, options):
    starts = np.random.default_rng(0).integers(0, medium.num_nodes, 5000)
    want = _core.walk(medium._open(), starts, 20, seed=11, plain=True, threads=1, **options)
    for threads in (1, 2, 8):
        got = medium.batch_random_walk(starts, 20, seed=11, num_threads=threads, **options)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_every_step_is_an_edge_a_stay_at_a_dead_end_or_a_restart(medium, options):
    starts = np.arange(0, 3000, 3)
    walks = medium.batch_random_walk(starts, 12, seed=5, **options)
    direction = options.get("direction")
    weighted = options.get("weighted", False)
    rows: dict[int, set[int]] = {}
    for walk in walks.tolist():
        for u, v in pairwise(walk):
            if u not in rows:
                near = medium.get_neighbours(u, direction=direction)
                keep = medium.get_weights(u, direction=direction) > 0 if weighted else slice(None)
                rows[u] = set(near[keep].tolist())
            assert v in rows[u] or (not rows[u] and v == u) or ("restart" in options and v == walk[0])
    np.testing.assert_array_equal(walks[:, 0], starts)


def test_a_longer_walk_begins_with_the_shorter_one(medium):
    starts = np.arange(500)
    long = medium.batch_random_walk(starts, 30, 0.5, 2.0, seed=1)
    np.testing.assert_array_equal(medium.batch_random_walk(starts, 7, 0.5, 2.0, seed=1), long[:, :8])


def test_equal_starts_walk_independently_and_seeds_matter(medium):
    walks = medium.batch_random_walk_uniform([7] * 400, 6, seed=1)
    assert len({tuple(w) for w in walks.tolist()}) > 200
    assert (walks != medium.batch_random_walk_uniform([7] * 400, 6, seed=2)).any()


def test_without_a_seed_calls_differ_and_a_generator_advances(medium):
    starts = [1, 2, 3] * 20
    assert (medium.batch_random_walk_uniform(starts, 8) != medium.batch_random_walk_uniform(starts, 8)).any()
    a, b = gz.Generator(5), gz.Generator(5)
    first, second = (medium.batch_random_walk_uniform(starts, 8, seed=a) for _ in range(2))
    assert (first != second).any()
    np.testing.assert_array_equal(first, medium.batch_random_walk_uniform(starts, 8, seed=b))
    np.testing.assert_array_equal(second, medium.batch_random_walk_uniform(starts, 8, seed=b))


def test_p_and_q_of_one_are_the_uniform_walk(medium):
    starts = np.arange(300)
    np.testing.assert_array_equal(
        medium.batch_random_walk(starts, 9, p=1, q=1, seed=3), medium.batch_random_walk_uniform(starts, 9, seed=3)
    )


# -- degenerate graphs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "weighted"), list(product([1.0, 0.5], [False, True])))
def test_degenerate_graphs(tmp_path, p, weighted):
    lonely = gz.Graph(write_edges(tmp_path / "one.gl", 1, [], []))
    assert lonely.batch_random_walk([0, 0], 3, p, weighted=weighted).tolist() == [[0] * 4] * 2
    loop = gz.Graph(write_edges(tmp_path / "loop.gl", 1, [(0, 0)], [2.0]))
    assert loop.batch_random_walk([0], 3, p, weighted=weighted).tolist() == [[0] * 4]
    path = gz.Graph(write_edges(tmp_path / "path.gl", 4, [(0, 1), (1, 2)], [1, 1]))
    walks = path.batch_random_walk([0, 3], 4, p, weighted=weighted)
    assert walks.tolist() == [[0, 1, 2, 2, 2], [3, 3, 3, 3, 3]]
    assert path.batch_random_walk([], 4, p, weighted=weighted).shape == (0, 5)
    assert path.batch_random_walk([2, 0], 0, p, weighted=weighted).tolist() == [[2], [0]]


def test_zero_weights_are_dead_ends_and_never_walked(tmp_path):
    edges = [(0, 1), (0, 2), (1, 0), (2, 0)]
    g = gz.Graph(write_edges(tmp_path / "w.gl", 3, edges, [0, 1, 1, 0]))
    walks = g.batch_random_walk([0] * 50 + [1] * 50, 3, weighted=True, seed=0)
    assert walks.tolist() == [[0, 2, 2, 2]] * 50 + [[1, 0, 2, 2]] * 50


def test_a_tiny_p_without_a_way_back_ends(tmp_path):
    n = 50
    cycle = [(i, (i + k) % n) for i in range(n) for k in (1, 2, 3)]  # no edge leads back: 1/p is never taken
    g = gz.Graph(write_edges(tmp_path / "cycle.gl", n, cycle))
    walks = g.batch_random_walk(np.arange(n), 20, p=1e-300, q=1.0, seed=1)
    assert set(np.unique((walks[:, 1:] - walks[:, :-1]) % n).tolist()) == {1, 2, 3}


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["p", "q"])
def test_p_and_q_must_be_positive_numbers(medium, name, bad):
    with pytest.raises(ValueError, match=f"{name} is .*positive"):
        medium.batch_random_walk([0], 3, **{name: bad})


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (IndexError, r"start_nodes\[1\] = 3000", lambda g: g.batch_random_walk([0, 3000], 3)),
        (IndexError, r"start_nodes\[0\] = -1", lambda g: g.batch_random_walk_uniform([-1], 3)),
        (ValueError, "walk_length is -1", lambda g: g.batch_random_walk([0], -1)),
        (TypeError, "walk_length must be an integer", lambda g: g.batch_random_walk([0], 2.5)),
        (TypeError, "start_nodes must be integers", lambda g: g.batch_random_walk([0.5], 2)),
        (ValueError, "restart is 1.5", lambda g: g.batch_random_walk([0], 3, restart=1.5)),
        (ValueError, "restart is nan", lambda g: g.batch_random_walk([0], 3, restart=float("nan"))),
        (ValueError, "direction is 'up'", lambda g: g.batch_random_walk([0], 3, direction="up")),
        (ValueError, "num_threads is -2", lambda g: g.batch_random_walk([0], 3, num_threads=-2)),
        (MemoryError, None, lambda g: g.batch_random_walk([0], 2**61)),
        (ValueError, r"out has shape \(1, 3\), expected \(1, 4\)", lambda g: walk_into(g, np.empty((1, 3), np.int64))),
        (TypeError, "out has dtype int32", lambda g: walk_into(g, np.empty((1, 4), np.int32))),
        (ValueError, "contiguous", lambda g: walk_into(g, np.empty((1, 8), np.int64)[:, ::2])),
        (ValueError, "writable", lambda g: walk_into(g, np.broadcast_to(np.int64(0), (1, 4)))),
        (TypeError, "out must be", lambda g: walk_into(g, [[0] * 4])),
    ],
)
def test_bad_arguments_raise_before_any_work(medium, error, match, call):
    with pytest.raises(error, match=match):
        call(medium)


def walk_into(g: gz.Graph, out: Any) -> Any:
    return g.batch_random_walk([0], 3, out=out)


def test_weights_that_are_not_there(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "plain.gl", 2, [(0, 1)]))
    with pytest.raises(ValueError, match="no weights"):
        g.batch_random_walk([0], 3, weighted=True)


def test_out_is_filled_and_returned(medium):
    torch = pytest.importorskip("torch")
    want = medium.batch_random_walk([1, 2], 5, seed=3)
    out = np.full((2, 6), -7)
    assert medium.batch_random_walk([1, 2], 5, seed=3, out=out) is out
    np.testing.assert_array_equal(out, want)
    tensor = torch.zeros((2, 6), dtype=torch.int64)
    assert medium.batch_random_walk(torch.tensor([1, 2]), 5, seed=3, out=tensor) is tensor
    np.testing.assert_array_equal(tensor.numpy(), want)


# -- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"q": 0.5}, {"weighted": True}, {"weighted": True, "p": 0.5}], ids=str)
@pytest.mark.parametrize("fault", ["indices", "indptr", "falling", "cumulative"])
def test_damaged_rows_are_a_format_error_never_a_wild_read(tmp_path, fault, options):
    n = 64
    indptr = np.arange(n + 1, dtype=np.uint64) * 4
    indices = np.tile(np.arange(4, dtype=np.uint32), n)
    weights = np.ones(4 * n, np.float32)
    cumulative = np.tile(np.arange(1.0, 5.0), n)
    if fault == "indices":
        indices[::3] = 2**31
    elif fault == "indptr":
        indptr[2:] = 2**60
    elif fault == "falling":
        indptr[1::2] = 0
    else:
        cumulative[:] = np.nan
    arrays = {"out.indptr": indptr, "out.indices": indices, "out.weights": weights, "out.cumulative": cumulative}
    g = gz.Graph(write_container(tmp_path / "bad.gl", n, 4 * n, "out", arrays))
    if fault == "cumulative" and "weighted" not in options:
        g.batch_random_walk(np.arange(n), 5, **options)
        return
    with pytest.raises(gz.FormatError, match="verify"):
        g.batch_random_walk(np.arange(n), 5, seed=0, **options)


# -- threads and processes --------------------------------------------------------------------------------------------


def test_many_threads_share_one_graph(medium):
    starts = np.arange(3000)
    want = {s: medium.batch_random_walk(starts, 10, 1.0, 0.5, seed=s) for s in range(8)}
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(5):
            if not np.array_equal(medium.batch_random_walk(starts, 10, 1.0, 0.5, seed=seed), want[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def in_child(queue: Any, graph: gz.Graph) -> None:
    queue.put(graph.batch_random_walk(np.arange(3000), 10, seed=4, num_threads=2).sum().item())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_walks_after_fork(medium):
    want = medium.batch_random_walk(np.arange(3000), 10, seed=4, num_threads=2).sum().item()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue, medium))
    child.start()
    assert queue.get(timeout=PATIENCE) == want
    child.join(PATIENCE)
    assert child.exitcode == 0
