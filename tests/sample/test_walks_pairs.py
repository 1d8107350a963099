"""Skip-gram pairs: against the definition, in order, shuffled and limited."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_oracle import MASK, absorb, make_key, mix
from scipy import stats
from walk_files import stream, write_edges

import graphzero as gz

walks_of = st.integers(0, 9).flatmap(
    lambda columns: st.lists(st.lists(st.integers(-1, 4), min_size=columns, max_size=columns), max_size=8)
)


def plain_pairs(walks: list[list[int]], window: int) -> list[tuple[int, int]]:
    pairs = []
    for walk in walks:
        end = next((i for i, node in enumerate(walk) if node < 0), len(walk))
        walk = walk[:end]
        while len(walk) > 1 and walk[-1] == walk[-2]:
            walk = walk[:-1]
        for i, center in enumerate(walk):
            pairs += [(center, walk[j]) for j in range(max(0, i - window), min(len(walk), i + window + 1)) if j != i]
    return pairs


def plain_shuffle(n: int, seed: int) -> list[int]:
    """The core's keyed permutation of range(n)."""
    key = make_key(seed, stream("pairs"))
    keys = [absorb(key, i) for i in range(6)]
    bits = max(8, n.bit_length())
    low_bits = bits // 2
    order = []
    for i in range(n):
        while True:
            low, high = i & ((1 << low_bits) - 1), i >> low_bits
            for a, b in ((0, 1), (2, 3), (4, 5)):
                low ^= mix((high + keys[a]) & MASK) & ((1 << low_bits) - 1)
                high ^= mix((low + keys[b]) & MASK) & ((1 << (bits - low_bits)) - 1)
            i = high << low_bits | low
            if i < n:
                break
        order.append(i)
    return order


@given(walks_of, st.integers(1, 12), st.integers(0, 2**64 - 1), st.integers(0, 80))
def test_pairs_are_the_plain_ones(walks, window, seed, limit):
    matrix = np.array(walks, np.int64).reshape(len(walks), -1 if walks else 0)
    want = plain_pairs(walks, window)
    for threads in (1, 3):
        got = gz.walk_pairs(matrix, window, num_threads=threads)
        assert got.center.dtype == got.context.dtype == np.int64
        assert list(zip(got.center.tolist(), got.context.tolist(), strict=True)) == want
        shuffled = gz.walk_pairs(matrix, window, shuffle=True, seed=seed, num_threads=threads)
        order = [want[i] for i in plain_shuffle(len(want), seed)]
        assert list(zip(shuffled.center.tolist(), shuffled.context.tolist(), strict=True)) == order
        some = gz.walk_pairs(matrix, window, limit=limit, seed=seed, num_threads=threads)
        assert list(zip(some.center.tolist(), some.context.tolist(), strict=True)) == order[:limit]


def test_a_shuffle_loses_nothing_over_many_chunks():
    walks = np.random.default_rng(0).integers(0, 1000, (3000, 12))
    walks[::7, 5:] = -1
    center, context = gz.walk_pairs(walks, 4)
    for threads in (1, 2, 8):
        mixed = gz.walk_pairs(walks, 4, shuffle=True, seed=1, num_threads=threads)
        assert Counter((mixed.center * 1000 + mixed.context).tolist()) == Counter((center * 1000 + context).tolist())
        assert (mixed.center != center).any()


def test_where_a_pair_lands_is_uniform():
    """Chi-square over fixed seeds; false alarm once in a million."""
    walks = [[0, 1, 2, 3]]  # six pairs with window 1
    first = [gz.walk_pairs(walks, 1, shuffle=True, seed=s) for s in range(6000)]
    places = Counter((int(p.center[0]), int(p.context[0])) for p in first)
    assert len(places) == 6
    assert stats.chisquare(list(places.values())).pvalue > 1e-6


def test_dead_ends_and_padding(tmp_path):
    g = gz.Graph(write_edges(tmp_path / "path.gl", 3, [(0, 1), (1, 2)]))
    center, context = gz.walk_pairs(g.batch_random_walk([0, 2], 6), window=2)
    assert list(zip(center.tolist(), context.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    center, context = gz.walk_pairs([[5, 6, -1, 7]], window=3)
    assert (center.tolist(), context.tolist()) == ([5, 6], [6, 5])


def test_what_walks_may_be():
    torch = pytest.importorskip("torch")
    want = gz.walk_pairs([[0, 1, 2]], 1)
    for walks in (torch.tensor([[0, 1, 2]]), np.array([[0, 1, 2]], np.uint8), np.array([[0], [1], [2]], np.int32).T):
        got = gz.walk_pairs(walks, 1)
        assert got.center.tolist() == want.center.tolist()
        assert got.context.tolist() == want.context.tolist()
    assert len(gz.walk_pairs(np.zeros((0, 5), np.int64), 2).center) == 0
    assert len(gz.walk_pairs(np.zeros((5, 0), np.int64), 2).center) == 0


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ValueError, "window is 0", ([[1, 2]], 0)),
        (ValueError, "window is -1", ([[1, 2]], -1)),
        (TypeError, "window must be an integer", ([[1, 2]], 1.5)),
        (ValueError, "two dimensions", ([1, 2], 1)),
        (TypeError, "walks must be integers", ([[1.5, 2]], 1)),
    ],
)
def test_bad_arguments(error, match, arguments):
    with pytest.raises(error, match=match):
        gz.walk_pairs(*arguments)


def test_a_bad_limit():
    with pytest.raises(ValueError, match="limit is -1"):
        gz.walk_pairs([[1, 2]], 1, limit=-1)
