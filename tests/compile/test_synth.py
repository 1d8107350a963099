"""Synthetic graphs: the same seed the same data, degrees a power law, communities, features worth averaging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphzero.compile.permutation import Shuffle
from graphzero.compile.synth import PRESETS, SyntheticGraph, plan

GOLDEN_EDGES = 5445746606648052799  # of the graph below; a change breaks everyone's seeds


def edges_of(graph: SyntheticGraph) -> tuple[np.ndarray, np.ndarray]:
    blocks = list(graph.edge_blocks())
    return tuple(np.concatenate([block[i] for block in blocks]) for i in range(2))


@pytest.fixture(scope="module")
def graph() -> SyntheticGraph:
    return SyntheticGraph(nodes=20_000, edges=300_000, dim=32, classes=8, seed=3)


@pytest.fixture(scope="module")
def edges(graph: SyntheticGraph) -> tuple[np.ndarray, np.ndarray]:
    return edges_of(graph)


# -- the shuffle ------------------------------------------------------------------------------------------------------


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_shuffle_is_a_bijection_and_backward_undoes_it(size: int, seed: int) -> None:
    shuffle = Shuffle(size, np.random.default_rng(seed))
    ids = np.arange(size)
    there = shuffle.forward(ids)
    assert np.array_equal(np.sort(there), ids)
    assert np.array_equal(shuffle.backward(there), ids)


def test_shuffle_spreads_ranges_over_all_ids() -> None:
    shuffle = Shuffle(1_000_000, np.random.default_rng(0))
    ids = np.sort(shuffle.forward(np.arange(10_000)))  # one range of a hundredth
    counts = np.histogram(ids, bins=50, range=(0, 1_000_000))[0]
    assert 100 < counts.min() <= counts.max() < 300  # 200 each, were it random


def test_shuffle_of_more_than_32_bits() -> None:
    shuffle = Shuffle(2**40 + 7, np.random.default_rng(0))
    ids = np.array([0, 1, 2**39, 2**40 + 6])
    there = shuffle.forward(ids)
    assert np.array_equal(shuffle.backward(there), ids)
    assert there.max() < 2**40 + 7


# -- edges ------------------------------------------------------------------------------------------------------------


@given(
    nodes=st.integers(2, 400),
    edges=st.integers(0, 3000),
    communities=st.integers(1, 8),
    homophily=st.floats(0, 1),
    power=st.floats(2.05, 5),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=50)
def test_edges_are_as_many_as_asked_in_range_and_no_loops(
    nodes: int, edges: int, communities: int, homophily: float, power: float, seed: int
) -> None:
    communities = min(communities, nodes)
    graph = SyntheticGraph(
        nodes, edges, 4, classes=1, communities=communities, homophily=homophily, power=power, seed=seed
    )
    blocks = list(graph.edge_blocks())
    assert sum(len(src) for src, _ in blocks) == edges
    for src, dst in blocks:
        assert src.dtype == dst.dtype == np.int64
        assert min(src.min(), dst.min()) >= 0
        assert max(src.max(), dst.max()) < nodes
        assert (src != dst).all()


def test_same_seed_same_edges_and_another_seed_others(edges: tuple[np.ndarray, np.ndarray]) -> None:
    again = edges_of(SyntheticGraph(nodes=20_000, edges=300_000, dim=32, classes=8, seed=3))
    assert all(np.array_equal(a, b) for a, b in zip(edges, again, strict=True))
    other = edges_of(SyntheticGraph(nodes=20_000, edges=300_000, dim=32, classes=8, seed=4))
    assert not np.array_equal(edges[1], other[1])


def test_edges_do_not_change_between_releases(edges: tuple[np.ndarray, np.ndarray]) -> None:
    src, dst = edges
    mix = np.uint64(0x9E3779B97F4A7C15)
    digest = int(((src.astype(np.uint64) * mix) ^ dst.astype(np.uint64)).sum(dtype=np.uint64))
    assert digest == GOLDEN_EDGES


@pytest.mark.parametrize("side", [0, 1], ids=["out", "in"])
def test_degrees_follow_the_power_law(edges: tuple[np.ndarray, np.ndarray], side: int) -> None:
    degrees = np.sort(np.bincount(edges[side], minlength=20_000))[::-1]
    # Hill's estimate over the tail: 1 + 1 / mean(log(degree / smallest of the tail)).
    tail = degrees[:1000].astype(float)
    exponent = 1 + 1 / np.mean(np.log(tail / tail[-1]))
    assert 2.4 < exponent < 3.0  # asked: 2.7
    assert degrees[0] > 50 * np.median(degrees)


def test_a_higher_power_has_smaller_hubs() -> None:
    most = [np.bincount(edges_of(SyntheticGraph(5000, 50_000, 4, power=power))[1]).max() for power in (2.3, 2.7, 4.0)]
    assert most[0] > most[1] > most[2]


@pytest.mark.parametrize("homophily", [0.0, 0.5, 0.9])
def test_homophily_is_what_was_asked(homophily: float) -> None:
    graph = SyntheticGraph(20_000, 200_000, 4, classes=8, homophily=homophily)
    src, dst = edges_of(graph)
    classes = graph.classes_of(np.arange(graph.nodes))
    share = np.bincount(classes) / graph.nodes
    expected = homophily + (1 - homophily) * (share**2).sum()
    assert (classes[src] == classes[dst]).mean() == pytest.approx(expected, abs=0.01)


def test_weights_are_positive_and_at_most_one() -> None:
    blocks = list(SyntheticGraph(100, 5000, 4, classes=4, weights=True).edge_blocks())
    weights = np.concatenate([w for _, _, w in blocks])
    assert weights.dtype == np.float32
    assert 0 < weights.min() < 0.01
    assert 0.99 < weights.max() <= 1


def test_memory_does_not_grow_with_the_edges() -> None:
    few_nodes = SyntheticGraph(nodes=50, edges=10**12, dim=4, classes=4)  # a block is a block even for hubs
    blocks = few_nodes.edge_blocks()
    assert max(len(next(blocks)[0]) for _ in range(5)) <= 1 << 16
    blocks.close()


# -- features, labels, splits -----------------------------------------------------------------------------------------


def test_labels_and_splits_agree_and_have_exact_sizes() -> None:
    graph = SyntheticGraph(10_001, 0, 4, classes=7, splits={"train": 0.2, "valid": 0.1, "test": 0.05})
    labels = np.concatenate(list(graph.label_blocks()))
    splits = {name: np.concatenate(list(graph.split_blocks(name))) for name in graph.splits}
    assert (
        {name: len(ids) for name, ids in splits.items()}
        == graph.split_sizes
        == {
            "train": 2000,
            "valid": 1000,
            "test": 500,
        }
    )
    together = np.concatenate(list(splits.values()))
    assert len(np.unique(together)) == len(together) == (labels >= 0).sum()
    assert (labels[together] == graph.classes_of(together)).all()
    assert set(labels) == set(range(-1, 7))
    assert all((np.diff(ids) > 0).all() for ids in splits.values())


def test_the_mean_over_neighbours_tells_the_class_far_better_than_the_row(
    graph: SyntheticGraph, edges: tuple[np.ndarray, np.ndarray]
) -> None:
    x = np.concatenate(list(graph.feature_blocks()))
    y = graph.classes_of(np.arange(graph.nodes))
    total = np.zeros_like(x)
    np.add.at(total, edges[0], x[edges[1]])
    around = total / np.maximum(np.bincount(edges[0], minlength=graph.nodes), 1)[:, None]
    own, neighbours = linear_accuracy(x, y), linear_accuracy(np.hstack([x, around]), y)
    assert 0.3 < own < 0.5
    assert neighbours > own + 0.3


def linear_accuracy(x: np.ndarray, y: np.ndarray) -> float:
    """Accuracy on the second half of ridge regression to one-hot classes on the first half."""
    half = len(x) // 2
    x = np.hstack([x, np.ones((len(x), 1), dtype=x.dtype)])
    targets = np.eye(y.max() + 1)[y[:half]]
    w = np.linalg.solve(x[:half].T @ x[:half] + np.eye(x.shape[1]), x[:half].T @ targets)
    return float(((x[half:] @ w).argmax(1) == y[half:]).mean())


# -- what is asked for ------------------------------------------------------------------------------------------------


def test_a_preset_is_scaled_with_its_splits() -> None:
    graph, undirected = plan(None, None, None, "papers100M", 0.01, None, {})
    assert (graph.nodes, graph.edges, graph.dim, graph.classes) == (1_110_600, 16_156_859, 128, 172)
    assert graph.split_sizes == {"train": 12_072, "valid": 1_253, "test": 2_143}
    assert not undirected


def test_a_core_receives_most_edges_and_has_the_splits() -> None:
    options = {"nodes": 5003, "edges": 100_000, "dim": 4, "classes": 7, "homophily": 1.0}
    graph = SyntheticGraph(**options, core=0.1, core_edges=0.8, splits={"train": 0.05, "test": 0.03})
    dst = edges_of(graph)[1]
    sizes = np.sort(np.bincount(dst, minlength=5003))[::-1]
    expected = 0.8 + 0.2 * 0.1 ** (0.7 / 1.7)  # the other edges follow the power law of all nodes
    assert abs(sizes[:507].sum() / dst.size - expected) < 0.02
    train, test = (np.concatenate(list(graph.split_blocks(name))) for name in ("train", "test"))
    assert (train.size, test.size, np.intersect1d(train, test).size) == (250, 150, 0)
    popular = np.bincount(dst, minlength=5003)
    assert popular[train].mean() > 3 * popular.mean()  # 8 times, all of them in the core
    labels = np.concatenate(list(graph.label_blocks()))
    assert np.array_equal(np.flatnonzero(labels >= 0), np.sort(np.concatenate([train, test])))


@pytest.mark.parametrize("core", [0.001, 0.3, 0.9999])
def test_splits_that_a_core_cannot_hold_go_on_outside(core: float) -> None:
    graph = SyntheticGraph(1001, 0, 4, classes=5, core=core)
    found = np.concatenate([ids for name in graph.split_sizes for ids in graph.split_blocks(name)])
    assert np.array_equal(np.sort(found), np.arange(1001))


def test_a_preset_without_its_core_is_the_plain_graph() -> None:
    options = {"nodes": 3000, "edges": 20_000}
    plain = plan(*options.values(), 4, "papers100M", 1.0, None, {"core": 1.0})[0]
    assert np.array_equal(edges_of(plain), edges_of(SyntheticGraph(**options, dim=4, classes=172)))


def test_what_is_given_beside_a_preset_wins() -> None:
    graph, undirected = plan(1000, None, 8, "products", 0.001, False, {"seed": 5, "classes": None})
    assert (graph.nodes, graph.dim, graph.seed, graph.classes) == (1000, 8, 5, 47)
    assert not undirected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 1}, "nodes is 1"),
        ({"edges": -1}, "edges is -1"),
        ({"dim": 0}, "dim is 0"),
        ({"classes": 0}, "classes is 0"),
        ({"classes": 101}, "classes is 101, expected 1 to 100"),
        ({"communities": 3}, "communities is 3, expected 16"),
        ({"homophily": 1.1}, "homophily is 1.1"),
        ({"power": 2.0}, "power is 2.0"),
        ({"power": float("nan")}, "power is nan"),
        ({"core": 0.0}, "core is 0.0"),
        ({"core": 1.5}, "core is 1.5"),
        ({"core_edges": -0.1}, "core_edges is -0.1"),
        ({"core_power": 1.0}, "core_power is 1.0"),
        ({"signal": -1.0}, "signal is -1.0"),
        ({"seed": -1}, "seed is -1"),
        ({"splits": {"train": 0.9, "test": 0.2}}, "splits is"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SyntheticGraph(**{"nodes": 100, "edges": 10, "dim": 4, **options})


def test_unknown_presets_and_options_are_refused() -> None:
    with pytest.raises(ValueError, match=f"preset is 'cora', expected one of {', '.join(PRESETS)}, mag"):
        plan(None, None, None, "cora", 1, None, {})
    with pytest.raises(TypeError, match="no option 'colour'"):
        plan(10, 10, None, None, 1, None, {"colour": 1})
    with pytest.raises(ValueError, match="nodes and edges are required"):
        plan(10, None, None, None, 1, None, {})
