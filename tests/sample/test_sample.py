"""Multi-hop sampling against the plain oracle, bit for bit, and against PyG's contract."""

from __future__ import annotations

import itertools
import os
import threading

import numpy as np
import pytest
from glfile import write_container, write_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_oracle import Rows

import graphzero as gz


def as_dict(s):
    lists = {k: getattr(s, k).tolist() for k in ("node", "row", "col", "edge")}
    lists["batch"] = None if s.batch is None else s.batch.tolist()
    return lists | {"num_sampled_nodes": s.num_sampled_nodes, "num_sampled_edges": s.num_sampled_edges}


class Case:
    """One graph as a file and as plain rows."""

    def __init__(self, path, num_nodes, src, dst, **more):
        self.graph = gz.Graph(write_graph(path, num_nodes, src, dst, **more))
        self.rows = Rows(num_nodes, list(map(int, src)), list(map(int, dst)), **more)
        self.num_nodes = num_nodes

    def check(self, seeds, fanouts, **options):
        expected = self.rows.sample(seeds, fanouts, **options)
        for threads in (1, 2, 8):
            assert as_dict(self.graph.sample(seeds, fanouts, num_threads=threads, **options)) == expected
        return expected


def power_law(num_nodes, num_edges, rng):
    src = (num_nodes * rng.random(num_edges) ** 2).astype(np.int64)
    return src, (num_nodes * rng.random(num_edges) ** 3).astype(np.int64)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    rng = np.random.default_rng(0)
    src, dst = power_law(300, 5000, rng)
    weights = rng.integers(0, 4, 5000) * rng.random(5000).astype(np.float32)
    return Case(tmp_path_factory.mktemp("g") / "g.gl", 300, src, dst, weights=weights,
                times=rng.integers(0, 50, 5000), edge_ids=True)  # fmt: skip


OPTIONS = [
    *({"replace": r, "weighted": w, "disjoint": d} for r, w, d in itertools.product([False, True], repeat=3)),
    {"method": "labor"},
    *({"time": 20, "temporal": t, "weighted": w, "replace": r} for t, w, r in itertools.product(
        ["uniform", "last"], [False, True], [False, True])),
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()))
@pytest.mark.parametrize("fanouts", [[3, 2, 2], [-1, 1], [0, 3], [40, 70]])
def test_the_engine_draws_what_the_oracle_draws(case, options, fanouts):
    seeds = [5, 0, 299, 5, 17]
    if "time" in options:
        options = options | {"time": [20, 3, 50, 49, 0]}
    for seed in (0, 2**64 - 1):
        case.check(seeds, fanouts, seed=seed, **options)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 12))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    weights = draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 1e-30, 1e30]), min_size=len(edges), max_size=len(edges))
    )
    times = draw(st.lists(st.integers(-3, 3), min_size=len(edges), max_size=len(edges)))
    return n, [a for a, _ in edges], [b for _, b in edges], weights, times


@settings(max_examples=150)
@given(st.data(), graphs(), st.lists(st.integers(-1, 5), min_size=1, max_size=4), st.integers(0, 2**64 - 1))
def test_any_graph_any_options(tmp_path_factory, data, graph, fanouts, seed):
    n, src, dst, weights, times = graph
    case = Case(tmp_path_factory.mktemp("h") / "g.gl", n, src, dst, weights=weights, times=times)
    seeds = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    options = dict(data.draw(st.sampled_from(OPTIONS)))
    if "time" in options:
        options["time"] = data.draw(st.lists(st.integers(-4, 4), min_size=len(seeds), max_size=len(seeds)))
    s = case.check(seeds, fanouts, seed=seed, **options)
    check_invariants(case, s, seeds, fanouts, options)


def check_invariants(case, s, seeds, fanouts, options):
    """What must hold of any sample, said without the oracle's way of drawing."""
    node, batch = s["node"], s["batch"]
    assert node[: len(seeds)] == seeds
    assert (s["num_sampled_nodes"][0], sum(s["num_sampled_nodes"])) == (len(seeds), len(node))
    assert sum(s["num_sampled_edges"]) == len(s["edge"]) == len(s["row"]) == len(s["col"])
    keys = list(zip(batch or [0] * len(node), node, strict=True))
    fresh = keys[len(seeds) :]
    assert len(set(fresh)) == len(fresh)  # labels are a bijection, repeated seeds apart
    assert not set(fresh) & set(keys[: len(seeds)])
    by_position = {e[4]: (u, e[0]) for u, row in enumerate(case.rows.rows) for e in row}
    for r, c, e in zip(s["row"], s["col"], s["edge"], strict=True):
        assert by_position[e] == (node[c], node[r])
        if batch is not None:
            assert batch[r] == batch[c]
    edge_end, first, last = 0, 0, len(seeds)
    for hop, count in enumerate(s["num_sampled_edges"]):
        edges = list(zip(s["col"], s["edge"], strict=True))[edge_end : edge_end + count]
        assert all(first <= c < last for c, _ in edges)  # a hop expands what the hop before met
        if not options.get("replace"):
            assert len(set(edges)) == len(edges)
        for c in range(first, last):
            row = case.rows.rows[node[c]]
            taken, degree = sum(x == c for x, _ in edges), len(row)
            if options.get("weighted") and "time" not in options:
                degree = sum(e[1] > 0 for e in row)
            if "time" in options:
                assert taken <= (degree if fanouts[hop] < 0 else fanouts[hop])
            elif options.get("replace") and degree and fanouts[hop] >= 0:
                assert taken == fanouts[hop]
            else:
                assert taken == (degree if fanouts[hop] < 0 else min(degree, fanouts[hop]))
        edge_end, first, last = edge_end + count, last, last + s["num_sampled_nodes"][hop + 1]


LARGE = [
    {},
    {"disjoint": True},
    {"replace": True},
    {"method": "labor"},
    {"weighted": True},
    {"weighted": True, "replace": True},
    {"time": np.arange(2000)},
    {"time": np.arange(2000), "weighted": True},
]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Hops of tens of thousands of edges, which threads share; a third of the weights is zero."""
    rng = np.random.default_rng(1)
    src, dst = power_law(20_000, 400_000, rng)
    weights = rng.integers(0, 3, len(src)).astype(np.float32)
    times = rng.integers(0, 2000, len(src))
    path = tmp_path_factory.mktemp("large") / "g.gl"
    return write_graph(path, 20_000, src, dst, weights=weights, times=times, edge_ids=True), src, dst


@pytest.mark.parametrize("options", LARGE, ids=lambda o: "-".join(o) or "plain")
def test_large_batches_agree_on_any_number_of_threads_and_from_a_cold_file(large, options):
    g = gz.Graph(large[0])
    seeds = np.random.default_rng(2).integers(0, 20_000, 2000)
    one = as_dict(g.sample(seeds, [10, 8], seed=3, num_threads=1, **options))
    assert one["num_sampled_edges"][1] > 40_000
    for threads in (2, 3, 8):
        assert as_dict(g.sample(seeds, [10, 8], seed=3, num_threads=threads, **options)) == one
    if hasattr(os, "posix_fadvise"):
        for threads in (1, 2):
            del g  # a mapped page is not given up
            with large[0].open("rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            g = gz.Graph(large[0])
            assert as_dict(g.sample(seeds, [10, 8], seed=3, num_threads=threads, **options)) == one


def test_a_large_batch_is_what_the_oracle_says(large):
    path, src, dst = large
    seeds = np.random.default_rng(2).integers(0, 20_000, 2000)
    rows = Rows(20_000, src.tolist(), dst.tolist())
    sampled = as_dict(gz.Graph(path).sample(seeds, [10, 8], seed=3, num_threads=2))
    expected = rows.sample(seeds.tolist(), [10, 8], seed=3)
    order = np.lexsort((dst, src))
    assert sampled == expected | {"edge": order[expected["edge"]].tolist()}


def test_what_a_node_draws_does_not_depend_on_its_batch(case):
    alone = case.graph.sample([17], [5], seed=9)
    together = case.graph.sample([3, 17, 8], [5], seed=9)
    assert together.edge[together.col == 1].tolist() == alone.edge.tolist()


def test_a_repeated_seed_keeps_both_places_and_draws_the_same(case):
    s = case.graph.sample([4, 4], [3], seed=1)
    assert s.node[:2].tolist() == [4, 4]
    assert s.num_sampled_nodes[0] == 2
    assert s.edge[s.col == 0].tolist() == s.edge[s.col == 1].tolist()


def test_edge_index_is_row_above_col_in_one_piece(case):
    s = case.graph.sample([4, 7, 1], [3, 3], seed=1)
    assert s.edge_index.flags.c_contiguous
    assert s.edge_index.tolist() == [s.row.tolist(), s.col.tolist()]
    weighted = case.graph.sample([4, 7, 1], [3, 3], seed=1, weighted=True)
    assert weighted.edge_index.flags.c_contiguous
    assert repr(s) == f"Subgraph(num_nodes={s.num_nodes:,}, num_edges={s.num_edges:,}, num_hops=2)"


def test_torch_shares_the_memory(case):
    torch = pytest.importorskip("torch")
    s = case.graph.sample(torch.tensor([4, 7, 1]), [3, 3], seed=torch.Generator().manual_seed(0), disjoint=True)
    t = s.to_torch()
    assert t["n_id"].data_ptr() == s.node.ctypes.data
    assert t["edge_index"].dtype == torch.int64
    assert t["edge_index"].tolist() == s.edge_index.tolist()
    assert t["batch"].tolist() == s.batch.tolist()


def test_seeds_repeat_and_generators_advance(case):
    def sample(seed):
        return as_dict(case.graph.sample([1, 2, 3], [2, 2], seed=seed))

    assert sample(5) == sample(5)
    assert sample(None) != sample(None)
    rng = gz.Generator(5)
    first, second = sample(rng), sample(rng)
    assert first != second
    rng.position = 0
    assert sample(rng) == first


@pytest.mark.parametrize(("num_nodes", "src", "dst"), [
    (1, [], []),
    (1, [0], [0]),
    (1, [0] * 9, [0] * 9),
    (50, [], []),
    (50, [0] * 49, list(range(1, 50))),
    (50, list(range(1, 50)), [0] * 49),
], ids=["one node", "self-loop", "self-loops", "no edges", "hub out", "hub in"])  # fmt: skip
def test_degenerate_graphs(tmp_path, num_nodes, src, dst):
    case = Case(tmp_path / "g.gl", num_nodes, src, dst)
    for seeds in ([], [0], [num_nodes - 1, 0, 0], list(range(num_nodes))):
        for fanouts in ([1], [3, 2], [-1, -1, 5], [0], [100, 100]):
            for options in ({}, {"replace": True}, {"disjoint": True}, {"method": "labor"}):
                case.check(seeds, fanouts, seed=2, **options)


def test_no_seeds_and_times_is_an_empty_disjoint_subgraph(case):
    s = case.graph.sample([], [3], time=[])
    assert s.batch is not None
    assert s.edge_index.shape == (2, 0)
    assert s.num_sampled_nodes == [0, 0]


def test_both_directions(tmp_path):
    g = gz.Graph(write_graph(tmp_path / "g.gl", 4, [0, 0, 1], [1, 2, 3], direction="both", edge_ids=True))
    assert g.sample([0], [-1]).node.tolist() == [0, 1, 2]
    inward = g.sample([3], [-1, -1], direction="in")
    assert inward.node.tolist() == [3, 1, 0]
    assert inward.edge.tolist() == [2, 0]


@pytest.mark.parametrize(("error", "match", "seeds", "fanouts", "options"), [
    (IndexError, r"seeds\[1\] = -1", [0, -1], [2], {}),
    (IndexError, r"seeds\[0\] = 300", [300], [2], {}),
    (ValueError, "fanouts is empty", [0], [], {}),
    (ValueError, r"fanouts\[1\] is -2", [0], [1, -2], {}),
    (TypeError, r"fanouts\[0\] must be an integer", [0], [1.5], {}),
    (TypeError, "seeds must be integers", [0.5], [1], {}),
    (ValueError, "temporal is 'first'", [0], [1], {"temporal": "first"}),
    (ValueError, "method is 'best'", [0], [1], {"method": "best"}),
    (ValueError, "direction is 'up'", [0], [1], {"direction": "up"}),
    (ValueError, "direction 'in' is not in the file", [0], [1], {"direction": "in"}),
    (ValueError, "labor.*replace", [0], [1], {"method": "labor", "replace": True}),
    (ValueError, "labor.*weighted", [0], [1], {"method": "labor", "weighted": True}),
    (ValueError, "labor.*disjoint", [0], [1], {"method": "labor", "disjoint": True}),
    (ValueError, "labor.*time", [0], [1], {"method": "labor", "time": 3}),
    (ValueError, "time has 2 values for 1 seeds", [0], [1], {"time": [1, 2]}),
    (ValueError, "num_threads is -1", [0], [1], {"num_threads": -1}),
    (ValueError, "expected 0 to 2\\^64", [0], [1], {"seed": -1}),
])  # fmt: skip
def test_bad_arguments_raise_before_work(case, error, match, seeds, fanouts, options):
    with pytest.raises(error, match=match):
        case.graph.sample(seeds, fanouts, **options)


def test_a_file_without_times_or_weights_says_so(tmp_path):
    g = gz.Graph(write_graph(tmp_path / "g.gl", 3, [0], [1]))
    with pytest.raises(ValueError, match="no times; compile"):
        g.sample([0], [1], time=3)
    with pytest.raises(ValueError, match="no times; compile"):
        g.sample([], [1], time=[])
    with pytest.raises(ValueError, match="no weights; compile"):
        g.sample([0], [1], weighted=True)


def arrays_of(**changes):
    arrays = {
        "out.indptr": np.array([0, 3, 4], np.uint64),
        "out.indices": np.array([0, 1, 1, 0], np.uint32),
        "out.weights": np.ones(4, np.float32),
        "out.cumulative": np.array([1, 2, 3, 1], np.float64),
        "out.times": np.arange(4),
        "out.by_time": np.array([0, 1, 2, 0], np.uint32),
    }
    return arrays | {f"out.{k}": np.asarray(v, arrays[f"out.{k}"].dtype) for k, v in changes.items()}


@pytest.mark.parametrize(("changes", "options", "match"), [
    ({"indptr": [0, 9, 4]}, {}, "row 0 spans 0 to 9"),
    ({"indptr": [3, 1, 4]}, {}, "row 0 spans 3 to 1"),
    ({"indices": [0, 1, 7, 0]}, {}, r"indices\[2\] = 7 is past num_nodes = 2"),
    ({"by_time": [0, 9, 9, 0]}, {"time": 5}, r"by_time\[\d\] = 9 is past a row of 3"),
    ({"cumulative": [1, 2, np.nan, 1]}, {"weighted": True}, "weights sum to nan"),
])  # fmt: skip
def test_a_damaged_file_is_an_error_not_a_crash(tmp_path, changes, options, match):
    g = gz.Graph(write_container(tmp_path / "g.gl", 2, 4, "out", arrays_of(**changes)))
    with pytest.raises(gz.FormatError, match=match):
        g.sample([0], [2 if "cumulative" in changes else -1], **options)  # a row that is taken whole needs no sums


@settings(max_examples=60)
@given(st.lists(st.floats(), min_size=3, max_size=3), st.integers(0, 9), st.booleans(), st.integers(1, 3))
def test_sums_of_any_bits_stay_inside_the_row(tmp_path_factory, sums, seed, replace, fanout):
    path = tmp_path_factory.mktemp("d") / "g.gl"
    g = gz.Graph(write_container(path, 2, 4, "out", arrays_of(cumulative=[*sums, 1.0])))
    try:
        s = g.sample([0], [fanout], weighted=True, replace=replace, seed=seed)
    except gz.FormatError:
        return
    assert all(0 <= e < 3 for e in s.edge)


@pytest.mark.parametrize("fanout", [-1, 5, 8])
def test_a_row_taken_whole_has_all_its_positive_edges(tmp_path, fanout):
    """Running sums do not rise by 1 beside 1e20, so they cannot say which edges there are."""
    weights = [1.0, 1e20, 1.0, 0.0, 1e-20]
    case = Case(tmp_path / "g.gl", 6, [0] * 5, [1, 2, 3, 4, 5], weights=weights, times=[5, 4, 3, 2, 1])
    assert case.graph.sample([0], [fanout], weighted=True).edge.tolist() == [0, 1, 2, 4]
    assert case.graph.sample([0], [fanout], weighted=True, time=5).edge.tolist() == [4, 2, 1, 0]
    assert case.graph.batch_random_fanout([0], 5, pad=-1, weighted=True)[0].tolist() == [1, 2, 3, 5, -1]
    drawn = case.graph.sample([0], [3], weighted=True, seed=3).edge.tolist()
    assert drawn[0] == 1
    assert sorted(drawn) == [0, 1, 2]  # 1e-20 beside 1 and 1 is the one left over


def test_weights_without_sums_draw_the_same(tmp_path):
    """Files from GraphZero 0.2 keep no running sums: the row is summed when it is drawn from."""
    arrays = arrays_of(weights=[1, 2, 3, 4], cumulative=[1, 3, 6, 4])
    with_sums = gz.Graph(write_container(tmp_path / "a.gl", 2, 4, "out", arrays))
    del arrays["out.cumulative"]
    without = gz.Graph(write_container(tmp_path / "b.gl", 2, 4, "out", arrays))
    for replace in (False, True):
        for seed in range(20):
            options = {"weighted": True, "replace": replace, "seed": seed}
            assert as_dict(without.sample([0, 1], [2, 2], **options)) == as_dict(
                with_sums.sample([0, 1], [2, 2], **options)
            )


def test_threads_may_call_at_once(case):
    expected = [as_dict(case.graph.sample([1, 2, 3], [5, 5], seed=s, num_threads=2)) for s in range(40)]
    wrong = []

    def work():
        for seed in range(40):
            if as_dict(case.graph.sample([1, 2, 3], [5, 5], seed=seed, num_threads=2)) != expected[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_samples_too(tmp_path):
    rng = np.random.default_rng(1)
    src, dst = power_law(20_000, 200_000, rng)
    g = gz.Graph(write_graph(tmp_path / "g.gl", 20_000, src, dst))
    seeds = np.arange(4000)
    expected = as_dict(g.sample(seeds, [10, 10], seed=3, num_threads=4))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if as_dict(g.sample(seeds, [10, 10], seed=3, num_threads=4)) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
