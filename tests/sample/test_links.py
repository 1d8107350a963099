"""Sampling around edges: seeds, negatives and places bit for bit against a plain oracle, typed and not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_oracle import link_seeds
from test_exclude import World, edges_of
from test_hetero_sample import CITES, COUNTS, EDGES, IN, WRITES, WRITTEN, same
from test_hetero_sample import World as TypedWorld

import graphzero as gz

N = 40
NEGATIVES = [(None, 1), ("binary", 1), ("binary", 0.4), ("binary", 2.5), ("triplet", 1), ("triplet", 3)]


@pytest.fixture(scope="module", params=["out", "in"])
def world(request, tmp_path_factory):
    return World(tmp_path_factory.mktemp("links") / "g.gl", request.param)


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return TypedWorld(tmp_path_factory.mktemp("typed"))


def check_fields(got, fields):
    for name in ("edge_label_index", "edge_label_time", "src_index", "dst_pos_index", "dst_neg_index", "seed_time"):
        found = getattr(got, name)
        assert (None if found is None else found.tolist()) == fields.get(name), name


def check(world, links, fanouts, *, negatives, ratio, exclude="none", strict=False, time=None, threads=1, **options):
    """Compare a call on the untyped graph with the oracle."""
    real = set(zip(world.src.tolist(), world.dst.tolist(), strict=True))
    got = world.graph.sample_links(
        np.array(links, np.int64).reshape(-1, 2).T, fanouts, neg_sampling=negatives, neg_ratio=ratio, strict=strict,
        exclude=exclude, time=time, num_threads=threads, **options,
    )  # fmt: skip
    disjoint = options.get("disjoint", False) or time is not None
    sides, trees, fields = link_seeds(
        links, (N, N), real, negatives=negatives, ratio=ratio, strict=strict, disjoint=disjoint, time=time,
        seed=options["seed"],
    )  # fmt: skip
    check_fields(got, fields)
    gone = set(links) if exclude != "none" else set()
    gone |= {(v, u) for u, v in links} if exclude == "reverse" else set()
    when = None if time is None else [time[i] for i in trees]
    rows = gone if world.direction == "out" else {(v, u) for u, v in gone}
    want = world.oracle.sample(sides["source"], fanouts, exclude=rows, time=when, **options)
    if disjoint:
        want["batch"] = [trees[b] for b in want["batch"]]
    for name in ("node", "row", "col", "edge", "batch", "num_sampled_nodes", "num_sampled_edges"):
        found = getattr(got, name)
        assert (None if found is None else np.asarray(found).tolist()) == want[name], name
    return got


@pytest.mark.parametrize(("negatives", "ratio"), NEGATIVES)
@pytest.mark.parametrize("exclude", ["none", "self", "reverse"])
@pytest.mark.parametrize("options", [{}, {"disjoint": True}, {"weighted": True}, {"method": "labor"}], ids=str)
def test_batches_are_the_oracles(world, negatives, ratio, exclude, options):
    links = [*zip(world.src[:9].tolist(), world.dst[:9].tolist(), strict=True), (0, 0), (0, 1)]
    got = check(world, links, [4, 3], negatives=negatives, ratio=ratio, exclude=exclude, seed=5, **options)
    assert got.num_edges > 0
    if "disjoint" not in options:
        assert len(set(got.node.tolist())) == got.num_nodes  # each end once


@pytest.mark.parametrize(("negatives", "ratio"), NEGATIVES)
def test_times_go_to_both_ends_and_to_negatives(world, negatives, ratio):
    links = list(zip(world.src[:7].tolist(), world.dst[:7].tolist(), strict=True))
    time = [10, 39, 25, 3, 17, 30, 8]
    check(world, links, [4, 3], negatives=negatives, ratio=ratio, time=time, seed=2)
    check(world, links, [4, 3], negatives=negatives, ratio=ratio, time=time, seed=2, exclude="self", temporal="last")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_batch_is_the_oracles(world, data):
    pick = data.draw
    node = st.integers(0, N - 1)
    links = pick(st.lists(st.tuples(node, node), max_size=8))
    negatives, ratio = pick(st.sampled_from(NEGATIVES))
    options = pick(st.sampled_from([{}, {"disjoint": True}, {"replace": True}]))
    exclude = pick(st.sampled_from(["none", "self", "reverse"]))
    options = options | {"strict": pick(st.booleans()), "seed": pick(st.integers(0, 2**64 - 1))}
    options = options | {"threads": pick(st.integers(1, 2)), "exclude": exclude}
    check(world, links, pick(st.sampled_from([[3], [2, 2]])), negatives=negatives, ratio=ratio, **options)


def test_strict_negatives_are_no_edges_and_by_degree_follow_the_degrees(world):
    links = np.stack([world.src[:20], world.dst[:20]])
    real = set(zip(world.src.tolist(), world.dst.tolist(), strict=True))
    for negatives in ("binary", "triplet"):
        for method in ("uniform", "degree"):
            got = world.graph.sample_links(
                links, [2], neg_sampling=negatives, neg_ratio=9, strict=True, neg_method=method, seed=1
            )
            if negatives == "binary":
                pairs = got.node[got.edge_label_index[:, 20:]].T.tolist()
            else:
                sources, others = got.node[got.src_index].tolist(), got.node[got.dst_neg_index].tolist()
                pairs = [(u, v) for u, vs in zip(sources, others, strict=True) for v in vs]
            assert len(pairs) == 180
            assert not real & set(map(tuple, pairs))
            want = world.graph.negative_edges(
                9 if negatives == "triplet" else 180, src=links[0] if negatives == "triplet" else None, method=method,
                seed=1,
            )  # fmt: skip
            assert [list(p) for p in pairs] == want.T.tolist()


def test_labels_are_those_given_and_zeros(world):
    edges = np.array([[0, 1, 2], [3, 4, 5]])
    sample = world.graph.sample_links
    assert sample(edges, [1]).edge_label is None
    plain = sample(edges, [1], neg_sampling="binary", neg_ratio=2)
    assert plain.edge_label.dtype == np.float32
    assert plain.edge_label.tolist() == [1, 1, 1] + [0] * 6
    assert sample(edges, [1], labels=[4, 0, 2]).edge_label.tolist() == [4, 0, 2]
    assert sample(edges, [1], labels=[4, 1, 2], neg_sampling="binary").edge_label.tolist() == [4, 1, 2, 0, 0, 0]
    assert sample(edges, [1], labels=np.ones((3, 2)), neg_sampling="binary").edge_label.shape == (6, 2)
    assert repr(plain).startswith("LinkSubgraph(num_nodes=")


# -- several types --------------------------------------------------------------------------------------------------


def check_typed(world, edge_type, links, fanouts, *, negatives, ratio, exclude="none", strict=False, time=None,
                node_time=None, **options):  # fmt: skip
    got = world.graph.sample_links(
        edge_type, np.array(links).T, fanouts, neg_sampling=negatives, neg_ratio=ratio, strict=strict,
        exclude=exclude, time=time, node_time=node_time, **options,
    )  # fmt: skip
    source, _, target = edge_type
    disjoint, one_type = options.get("disjoint", False) or time is not None, source == target
    ages = tuple((node_time or {}).get(t) for t in (source, target))
    sides, trees, fields = link_seeds(
        links, (COUNTS[source], COUNTS[target]), set(map(tuple, edges_of(world, edge_type, None).T.tolist())),
        negatives=negatives, ratio=ratio, strict=strict, one_type=one_type, disjoint=disjoint, time=time,
        node_time=ages, seed=options["seed"],
    )  # fmt: skip
    check_fields(got, fields)
    gone = {}
    if exclude != "none":
        gone[edge_type] = {(v, u) for u, v in links}
    if exclude == "reverse" and one_type:
        gone[edge_type] |= set(links)
    if exclude == "reverse" and not one_type:
        gone[{WRITES: WRITTEN, WRITTEN: WRITES}[edge_type]] = set(links)
    seeds = {source: sides["source"]} | ({} if one_type else {target: sides["target"]})
    when = None
    if time is not None:
        when, left = {}, list(trees)
        for t, nodes in seeds.items():
            when[t] = [time[left.pop(0)] for _ in nodes]
    want = world.oracle.sample(
        seeds, dict.fromkeys(EDGES, fanouts), exclude=gone, time=when, node_time=node_time, **options
    )
    if disjoint:
        want["batch"] = {t: [trees[b] for b in batch] for t, batch in want["batch"].items()}
    same(got, want)
    return got


@pytest.mark.parametrize(("negatives", "ratio"), NEGATIVES)
@pytest.mark.parametrize("edge_type", [WRITES, WRITTEN, CITES])
@pytest.mark.parametrize(
    "options",
    [{}, {"exclude": "self", "strict": True}, {"exclude": "reverse", "disjoint": True}, {"exclude": "reverse"}],
    ids=str,
)
def test_typed_batches_are_the_oracles(typed, edge_type, negatives, ratio, options):
    links = [tuple(e) for e in edges_of(typed, edge_type, 11).T.tolist()]
    got = check_typed(typed, edge_type, links, [4, 3], negatives=negatives, ratio=ratio, seed=3, **options)
    assert sum(got.num_edges.values()) > 0


@pytest.mark.parametrize(("negatives", "ratio"), NEGATIVES)
@pytest.mark.parametrize("by_node", [False, True])
def test_typed_times(typed, negatives, ratio, by_node):
    links = [tuple(e) for e in edges_of(typed, WRITES, 6).T.tolist()]
    ages = {t: typed.node_time[t] for t in ("paper", "author", "venue")} if by_node else None
    time = [20, 30, 49, 12, 33, 40]
    got = check_typed(
        typed, WRITES, links, [4, 3], negatives=negatives, ratio=ratio, seed=3, time=time, node_time=ages, window=30
    )
    if by_node and negatives == "binary":  # no negative is newer than its edge
        for side, t in enumerate(("author", "paper")):
            ends = got.node[t][got.edge_label_index[side, 6:]]
            assert (ages[t][ends] <= got.edge_label_time[6:]).all()


def test_where_nobody_is_early_enough_the_earliest_is_the_negative(typed):
    links = edges_of(typed, IN, 2)
    ages = {"paper": np.arange(100, 160)[::-1].copy()}
    got = typed.graph.sample_links(IN, links, [1], neg_sampling="triplet", time=5, node_time=ages, seed=0)
    assert got.node["paper"][got.dst_neg_index].tolist() == [59, 59]


def test_mistakes_are_named(world, typed):
    edges = [[0, 1], [2, 3]]
    for match, options in {
        "neg_sampling is 'bin', expected 'binary', 'triplet' or None": {"neg_sampling": "bin"},
        "exclude is 'all', expected 'none', 'self' or 'reverse'": {"exclude": "all"},
        "neg_method is 'best', expected 'uniform' or 'degree'": {"neg_method": "best"},
        "neg_ratio is 0, expected more than 0": {"neg_sampling": "binary", "neg_ratio": 0},
        "neg_ratio is 1.5, expected a whole number": {"neg_sampling": "triplet", "neg_ratio": 1.5},
        r"labels has shape \(3,\), expected one label per edge \(2\)": {"labels": [1, 2, 3]},
        "triplets have no labels": {"labels": [1, 2], "neg_sampling": "triplet"},
        "time has 3 values for 2 edges": {"time": [1, 2, 3]},
        "method 'labor' .* cannot be combined with disjoint=True": {"method": "labor", "disjoint": True},
    }.items():
        with pytest.raises(ValueError, match=match):
            world.graph.sample_links(edges, [2], **options)
    with pytest.raises(IndexError, match=r"edges\[0\]\[1\] = 40 is out of range for .*g\.gl with 40 nodes"):
        world.graph.sample_links([[0, 40], [1, 1]], [2])
    with pytest.raises(IndexError, match=r"edges\[1\]\[0\] = 60 is out of range for node type 'paper' with 60"):
        typed.graph.sample_links(WRITES, [[0], [60]], [2])
    with pytest.raises(ValueError, match=r"no edge type \('author', 'wrote', 'paper'\); the graph has"):
        typed.graph.sample_links(("author", "wrote", "paper"), edges, [2])
    with pytest.raises(ValueError, match=r"no edge type \('paper', 'rev_publishes', 'venue'\) for the reverse of"):
        typed.graph.sample_links(IN, [[0], [1]], [2], exclude="reverse")
    with pytest.raises(ValueError, match="node_time needs time="):
        typed.graph.sample_links(IN, [[0], [1]], [2], node_time={"paper": np.zeros(60, int)})


def test_no_edges_give_an_empty_batch(world):
    for negatives, ratio in NEGATIVES:
        got = world.graph.sample_links(np.zeros((2, 0), int), [2], neg_sampling=negatives, neg_ratio=ratio)
        assert got.num_nodes == got.num_edges == 0


def test_many_edges_give_the_same_for_any_number_of_threads(tmp_path):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 5000, 60_000), rng.integers(0, 5000, 60_000)
    gz.compile_graph((src, dst), tmp_path / "g.gl", direction="in", num_nodes=5000)
    g = gz.Graph(tmp_path / "g.gl")
    links = np.stack([src[:3000], dst[:3000]])
    one, two = (
        g.sample_links(links, [8, 4], neg_sampling="binary", neg_ratio=2, strict=True, exclude="reverse", seed=4,
                       num_threads=n)
        for n in (1, 2)
    )  # fmt: skip
    assert one.num_edges > 20_000
    for name in ("node", "edge_index", "edge", "edge_label_index"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
