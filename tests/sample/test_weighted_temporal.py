"""Weights and times together: every combination of how edges are drawn, against the plain samplers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hetero_oracle import TypedRows
from sample_oracle import Rows

import graphzero as gz

N, M = 25, 200
A, B = ("u", "to", "v"), ("v", "back", "u")
COMBINATIONS = list(itertools.product([False, True], ["uniform", "last"], [False, True]))
SEEDS, TIMES = [3, 0, 11, 3], [9, 4, 0, 6]


class World:
    """Edges of which half weigh nothing, in a row order of choice."""

    def __init__(self, folder: Path, direction: str = "in", timed: bool = True, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        edges = rng.integers(0, N, (2, M))
        weights, times = rng.choice([0, 0, 1, 3], M).astype("float32"), rng.integers(0, 10, M)
        more = {"weights": weights, "times": times if timed else None, "edge_ids": True}
        self.path = folder / f"{seed}.gl"
        gz.compile_graph(edges, self.path, direction=direction, num_nodes=N, **more)
        row, other = edges if direction == "out" else edges[::-1]
        self.rows = Rows(N, row.tolist(), other.tolist(), **more)


def equal(found: Any, wanted: dict[str, Any]) -> None:
    for name in ("node", "row", "col", "edge", "batch"):
        got, want = getattr(found, name), wanted[name]
        for key in got if isinstance(got, dict) else [None]:
            mine, plain = (got, want) if key is None else (got[key], want[key])
            np.testing.assert_array_equal(mine, plain, f"{name} {key}")


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize(("weighted", "temporal", "replace"), COMBINATIONS)
def test_one_graph(tmp_path: Path, weighted: bool, temporal: str, replace: bool, direction: str) -> None:
    world = World(tmp_path, direction)
    options = {"weighted": weighted, "temporal": temporal, "replace": replace, "time": TIMES, "seed": 5}
    for fanouts in ([1, 2], [3, 3], [-1, 2], [40]):
        found = gz.Graph(world.path).sample(SEEDS, fanouts, **options)
        equal(found, world.rows.sample(SEEDS, fanouts, **options))


@pytest.mark.parametrize("kind", ["edge", "node", "both"])
@pytest.mark.parametrize(("weighted", "temporal", "replace"), COMBINATIONS)
def test_types(tmp_path: Path, weighted: bool, temporal: str, replace: bool, kind: str) -> None:
    worlds = {e: World(tmp_path, timed=kind != "node", seed=i) for i, e in enumerate((A, B))}
    times = np.random.default_rng(1).integers(0, 8, (2, N))
    options: dict[str, Any] = {"weighted": weighted, "temporal": temporal, "replace": replace, "seed": 5}
    options |= {"time": {"v": TIMES}} | ({} if kind == "edge" else {"node_time": {"u": times[0], "v": times[1]}})
    graph = gz.HeteroGraph({e: world.path for e, world in worlds.items()})
    oracle = TypedRows({"u": N, "v": N}, {e: world.rows for e, world in worlds.items()})
    for fanouts in ([1, 2], [3, 3], [-1, 2]):
        found = graph.sample({"v": SEEDS}, {A: fanouts, B: fanouts}, **options)
        equal(found, oracle.sample({"v": SEEDS}, {A: fanouts, B: fanouts}, **options))


def test_edges_of_weight_zero_take_no_place_among_the_latest(tmp_path: Path) -> None:
    edges = np.array([[1, 2, 3, 4, 5, 6], [0] * 6])
    more = {"weights": np.array([1, 1, 1, 1, 0, 0], "float32"), "times": np.arange(6), "edge_ids": True}
    gz.compile_graph(edges, tmp_path / "g.gl", direction="in", **more)
    found = gz.Graph(tmp_path / "g.gl").sample([0], [2], time=[10], weighted=True, temporal="last")
    assert sorted(found.edge.tolist()) == [2, 3]
