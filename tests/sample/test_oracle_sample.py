"""Samples, fanouts, walks and negatives against slow oracles, at sizes around every constant of core/sample.

Fast paths change where a number crosses a constant (a chunk, a table, lanes in flight, a look-back), so sizes are drawn
at, just below and just above those. A short run is part of `make test`; `GRAPHZERO_SOAK=1` runs many more and records
how many.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from glfile import write_graph
from sample_oracle import Rows
from test_fanout import plain_row
from test_walks import plain_walk

import graphzero as gz
from graphzero import _core

ROUNDS = 400 if os.environ.get("GRAPHZERO_SOAK") else 6

# choose, draw and weighted: one word of taken bits and linear look-backs (64), trees of sums (32); fanout: rows in
# flight (32) and narrow draws (64); row_search: a scan (16); prefetches (24, 32).
DEGREES = (0, 1, 15, 16, 17, 23, 24, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025)
FANOUTS = (1, 2, 15, 31, 32, 33, 63, 64, 65, 200)
# expansion: rows of a chunk (256) and rows worth sharing (4096); labels: a table of 1,024 is full at 682.
SEEDS = (1, 2, 255, 256, 257, 511, 512, 513, 682, 683, 1024)
# walk and negatives: lanes in flight (32, 64) and a chunk of 16,384 steps or 4,096 pairs.
BATCHES = (1, 31, 32, 33, 63, 64, 65, 127, 128, 129)
WEIGHTS = (0.0, 0.25, 1.0, 3.0, 1e-20, 1e20)


class World:
    """A random graph whose first nodes have degrees around the constants; rows and columns differ in shape."""

    def __init__(self, path, rng):
        self.num_nodes = int(rng.choice([40, 255, 256, 257, 1025, 1500]))
        degrees = rng.poisson(3, self.num_nodes)
        chosen = rng.choice(DEGREES, 6)
        degrees[: len(chosen)] = chosen
        src = np.repeat(np.arange(self.num_nodes), degrees)
        dst = (self.num_nodes * rng.random(len(src)) ** rng.choice([1, 3])).astype(np.int64)
        order = rng.permutation(len(src))
        src, dst = src[order], dst[order]
        self.weights = rng.choice(WEIGHTS, len(src))
        self.times = rng.integers(-3, 4, len(src))
        edge_ids = bool(rng.integers(2))
        more = {"weights": self.weights, "times": self.times, "edge_ids": edge_ids}
        self.graph = gz.Graph(write_graph(path, self.num_nodes, src, dst, **more))
        self.oracle = Rows(self.num_nodes, src.tolist(), dst.tolist(), **more)
        self.rows = [[(e[0], e[1]) for e in row] for row in self.oracle.rows]
        self.edges = {(u, e[0]) for u, row in enumerate(self.oracle.rows) for e in row}

    def nodes(self, rng, count):
        """Nodes of which half are the ones with chosen degrees."""
        return np.where(rng.random(count) < 0.5, rng.integers(0, 6, count), rng.integers(0, self.num_nodes, count))


def drawn_options(rng) -> dict[str, Any]:
    kind = rng.integers(4)
    if kind == 0:
        return {"method": "labor"}
    options: dict[str, Any] = {"replace": bool(rng.integers(2)), "weighted": bool(rng.integers(2))}
    if kind == 1:
        return options | {"disjoint": True}
    if kind == 2:
        return options | {"temporal": str(rng.choice(["uniform", "last"])), "time": True}
    return options


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_samples(tmp_path, record_property, round_):
    rng = np.random.default_rng([1, round_])
    world, checked = World(tmp_path / "g.gl", rng), 0
    for _ in range(6):
        seeds = world.nodes(rng, int(rng.choice(SEEDS))).tolist()
        first = -1 if rng.random() < 0.2 else int(rng.choice(FANOUTS))
        fanouts = [first, int(rng.integers(0, 3))] if len(seeds) * abs(first) < 20_000 else [first]
        options = drawn_options(rng)
        if "time" in options:
            options["time"] = rng.integers(-4, 5, len(seeds)).tolist()
        seed = int(rng.integers(2**63))
        want = world.oracle.sample(seeds, fanouts, seed=seed, **options)
        for threads in (1, 3):
            got = world.graph.sample(seeds, fanouts, seed=seed, num_threads=threads, **options)
            for name in ("node", "row", "col", "edge", "num_sampled_nodes", "num_sampled_edges"):
                assert np.asarray(getattr(got, name)).tolist() == want[name], (name, fanouts, options, threads)
            checked += 1
    record_property("samples", checked)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_fanouts(tmp_path, record_property, round_):
    rng = np.random.default_rng([2, round_])
    world, checked = World(tmp_path / "g.gl", rng), 0
    for _ in range(8):
        nodes = world.nodes(rng, int(rng.choice(BATCHES))).tolist()
        K, weighted = int(rng.choice(FANOUTS)), bool(rng.integers(2))
        pad = None if rng.integers(2) else -1
        seed = int(rng.integers(2**63))
        want = [plain_row(world.rows[v], v, i, K, pad, weighted, seed)[0] for i, v in enumerate(nodes)]
        for threads in (1, 3):
            options = {"pad": pad, "weighted": weighted, "seed": seed, "num_threads": threads}
            got = world.graph.batch_random_fanout(nodes, K, **options)
            assert got.tolist() == want, (K, options)
            checked += 1
    record_property("fanouts", checked)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_walks(tmp_path, record_property, round_):
    rng = np.random.default_rng([3, round_])
    world, checked = World(tmp_path / "g.gl", rng), 0
    for _ in range(6):
        starts = world.nodes(rng, int(rng.choice(BATCHES)))
        length = int(rng.choice([0, 1, 7, 255, 256, 1023, 1024, 1025]))
        options: dict[str, Any] = {"weighted": bool(rng.integers(2)), "seed": int(rng.integers(2**63))}
        options["p"], options["q"] = rng.choice([0.25, 1.0, 4.0], 2).tolist()
        options["restart"] = float(rng.choice([0.0, 0.2]))
        want = _core.walk(world.graph._open(), starts, length, plain=True, threads=1, **options)
        for threads in (1, 3):
            got = world.graph.batch_random_walk(starts, length, num_threads=threads, **options)
            assert np.array_equal(got, want), (length, options)
            checked += 1
        for i in range(min(3, len(starts))):  # the plain walk of the engine has an oracle too
            assert want[i, :20].tolist() == plain_walk(world.rows, int(starts[i]), i, min(length, 19), **options)
    record_property("walks", checked)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_negatives(tmp_path, record_property, round_):
    rng = np.random.default_rng([4, round_])
    world, checked = World(tmp_path / "g.gl", rng), 0
    for _ in range(6):
        count = int(rng.choice([*BATCHES, 4095, 4096, 4097]))
        by_degree, no_edges, no_self = (bool(rng.integers(2)) for _ in range(3))
        seed = int(rng.integers(2**63))
        want = _core.negative_edges(
            world.graph._open(), count, None, by_degree, 0.75, no_edges, no_self, seed, 1, plain=True
        )
        for threads in (1, 3):
            options = {"exclude_edges": no_edges, "exclude_self": no_self, "seed": seed, "num_threads": threads}
            got = world.graph.negative_edges(count, method="degree" if by_degree else "uniform", **options)
            assert np.array_equal(got, want), (count, options)
            pairs = set(map(tuple, got.T.tolist()))
            assert not (no_edges and pairs & world.edges)
            assert not (no_self and any(u == v for u, v in pairs))
            checked += 1
    record_property("negatives", checked)
