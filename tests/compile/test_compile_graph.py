"""compile_graph against a NumPy oracle: every option, budgets that force spilling and splitting, any thread count."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core


@dataclass
class Edges:
    src: Any
    dst: Any
    weights: Any = None
    times: Any = None

    def blocks(self) -> tuple[Any, ...]:
        return (self.src, self.dst, self.weights, self.times)


def pick(keep: Any, *columns: Any) -> list[Any]:
    return [None if c is None else c[keep] for c in columns]


def oracle(e: Edges, n: int, side: str, directed: bool = True, dedup: bool = False, self_loops: bool = True) -> Any:
    """The arrays of one side, by sorting everything at once."""
    columns = [e.src, e.dst, np.arange(len(e.src)), e.weights, e.times]
    if not self_loops:
        columns = pick(columns[0] != columns[1], *columns)
    if not directed:
        two_way = columns[0] != columns[1]
        back = pick(two_way, *columns)
        back[0], back[1] = back[1], back[0]
        columns = [None if a is None else np.concatenate([a, b]) for a, b in zip(columns, back, strict=True)]
    if side == "in":
        columns[0], columns[1] = columns[1], columns[0]
    columns = pick(np.lexsort((columns[2], columns[1], columns[0])), *columns)
    row, neighbour = columns[:2]
    if dedup and len(row):
        columns = pick(np.r_[True, (row[1:] != row[:-1]) | (neighbour[1:] != neighbour[:-1])], *columns)
    indptr = np.r_[0, np.cumsum(np.bincount(columns[0], minlength=n))]
    return indptr, *columns[1:]


def check(path: Path, e: Edges, n: int, direction: str, edge_ids: bool, **options: Any) -> None:
    _core.verify(str(path))  # cumulative, by_time, digests, order
    file = _core.Topology.open(str(path))
    have = {a["name"] for a in file.info["arrays"]}
    for side in ("out", "in") if direction == "both" else (direction,):
        indptr, neighbours, numbers, weights, times = oracle(e, n, side, **options)
        np.testing.assert_array_equal(file.array(f"{side}.indptr"), indptr)
        np.testing.assert_array_equal(file.array(f"{side}.indices"), neighbours)
        for name, expected in (("edge_ids", numbers if edge_ids else None), ("weights", weights), ("times", times)):
            assert (f"{side}.{name}" in have) == (expected is not None)
            if expected is not None:
                np.testing.assert_array_equal(file.array(f"{side}.{name}"), expected)


def random_edges(rng: np.random.Generator, count: int, n: int, shape: str) -> Edges:
    src, dst = rng.integers(0, n, count), rng.integers(0, n, count)
    if shape in ("hub", "one edge"):
        src[:] = 0
    if shape == "one edge":
        dst[:] = n - 1
    if shape == "outlier" and count:
        src //= 64
        dst //= 64
        src[-1] = n - 1
    return Edges(
        src,
        dst,
        rng.random(count).astype(np.float32) if rng.integers(2) else None,
        rng.integers(-9, 50, count) if rng.integers(2) else None,
    )


@pytest.mark.parametrize("shape", ["uniform", "hub", "one edge", "outlier"])
@pytest.mark.parametrize("memory", ["2MB", "1GB"])
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_oracle(tmp_path: Path, shape: str, memory: str, num_threads: int, seed: int) -> None:
    rng = np.random.default_rng([seed, num_threads, len(memory), len(shape)])
    n = int(rng.choice([1, 3, 100, 20_000]))
    e = random_edges(rng, int(rng.integers(20_000, 90_000)), n, shape)
    options = {name: bool(rng.integers(2)) for name in ("directed", "dedup", "self_loops")}
    direction, edge_ids = str(rng.choice(["out", "in", "both"])), bool(rng.integers(2))
    out = tmp_path / "g.gl"
    memory_bytes = 1 << 20 if memory == "2MB" and num_threads == 1 else "1GB" if memory == "1GB" else 2 << 20
    report = gz.compile_graph(
        e.blocks(),
        out,
        num_nodes=n,
        direction=direction,
        edge_ids=edge_ids,
        memory=memory_bytes,
        num_threads=num_threads,
        **options,
    )
    check(out, e, n, direction, edge_ids, **options)
    assert (report.nodes, report.source_edges) == (n, len(e.src))
    assert os.listdir(tmp_path) == ["g.gl"]  # nothing but the file
    loops = int(np.sum(e.src == e.dst))
    assert report.self_loops_dropped == (0 if options["self_loops"] else loops)


def test_spills_and_stays_within_its_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 50_000, (2, 1_500_000))
    small = gz.compile_graph((src, dst), tmp_path / "small.gl", memory="4MB", num_threads=2)
    large = gz.compile_graph((src, dst), tmp_path / "large.gl", memory="1GB", num_threads=1)
    assert small.spilled_bytes > 4_000_000
    assert large.spilled_bytes == 0
    assert small.peak_memory <= 4_400_000
    assert (tmp_path / "small.gl").read_bytes() == (tmp_path / "large.gl").read_bytes()


edge_lists = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=60)


@given(edge_lists, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_small_graphs(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[int, int]],
    directed: bool,
    dedup: bool,
    self_loops: bool,
) -> None:
    out = tmp_path_factory.mktemp("small") / "g.gl"
    options = {"directed": directed, "dedup": dedup, "self_loops": self_loops}
    report = gz.compile_graph(
        edges, out, direction="both", edge_ids=True, num_threads=1, memory="8MB", allow_empty=True, **options
    )
    columns = np.array(edges, dtype=np.int64).reshape(-1, 2)
    n = int(columns.max()) + 1 if edges else 0
    assert report.nodes == n
    check(out, Edges(columns[:, 0], columns[:, 1]), n, "both", True, **options)
    if dedup:
        keys = {(min(e), max(e)) if not directed else e for e in edges if self_loops or e[0] != e[1]}
        kept = sum(1 for e in edges if self_loops or e[0] != e[1])
        assert report.duplicates_dropped == kept - len(keys)


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("users", [1, 7, 63, 64, 65, 1000, 1023, 1024, 1025])
@pytest.mark.parametrize("items", [1024, 1025, 2049, 5000, 100_000])
def test_rows_that_end_long_before_the_nodes_do(tmp_path: Path, users: int, items: int, direction: str) -> None:
    """Users to items: the largest row id is far below the number of nodes, which nobody declared."""
    rng = np.random.default_rng([users, items])
    e = Edges(rng.integers(0, users, 300), rng.integers(0, items, 300))
    e.dst[0] = items - 1
    n = int(max(e.src.max(), e.dst.max())) + 1
    for num_threads, memory in ((1, "1MB"), (2, "20MB"), (1, "1GB")):  # each another number of buckets
        out = tmp_path / "g.gl"
        report = gz.compile_graph(
            (e.src, e.dst), out, direction=direction, edge_ids=True, memory=memory, num_threads=num_threads
        )
        assert report.nodes == n
        check(out, e, n, direction, True)
