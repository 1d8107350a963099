"""compile_graph against a plain oracle, at sizes around every constant of core/compile.

Files are read by FORMAT.md alone. A few seconds by default; GRAPHZERO_SOAK=1 draws thousands. Each run prints how many
graphs were compared.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import container_spec as spec
import numpy as np
import pytest

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
ROUNDS = 400 if SOAK else 6  # for each of the shapes below

# Buckets (2^6, 2^8, 2^10), the small sort (192), least and usual pieces (512 to 65536), radix digits (2^11), pieces of
# a long row (2^12) and of a split bucket (2^14), pages of ids: each with its neighbours.
CONSTANTS = [1, 2, 3] + [c + d for c in (64, 192, 256, 512, 1024, 2048, 4096, 16384, 65536) for d in (-1, 0, 1)]
MEMORY = [1_000_000, 1_500_000, 4_000_000, 16_000_000, 200_000_000]


def rows_of(columns: list[Any], side: str, directed: bool, dedup: bool, self_loops: bool) -> list[Any]:
    """Edges as (row, neighbour, number, weight, time) records in the order of the file, by one sort."""
    src, dst, *carried = columns
    if not self_loops:
        src, dst, *carried = (c[columns[0] != columns[1]] for c in columns)
    if not directed:
        back = src != dst
        src, dst = np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]])
        carried = [np.concatenate([c, c[back]]) for c in carried]
    row, neighbour = (src, dst) if side == "out" else (dst, src)
    order = np.lexsort((carried[0], neighbour, row))  # carried[0] is the number: source order
    found = [c[order] for c in (row, neighbour, *carried)]
    if dedup and len(order):
        first = np.r_[True, (np.diff(found[0]) != 0) | (np.diff(found[1]) != 0)]
        found = [c[first] for c in found]
    return found


def expected_arrays(columns: list[Any], nodes: int, side: str, has: dict[str, bool], **how: bool) -> dict[str, Any]:
    row, neighbour, number, weight, time = rows_of(columns, side, **how)
    indptr = np.r_[0, np.cumsum(np.bincount(row, minlength=nodes))]
    arrays = {"indptr": indptr, "indices": neighbour}
    if has["weights"]:
        arrays["weights"] = weight
        arrays["cumulative"] = np.concatenate(
            [np.cumsum(part, dtype=np.float64) for part in np.split(weight, indptr[1:-1])] or [weight]
        )
    if has["edge_ids"]:
        arrays["edge_ids"] = number
    if has["times"]:
        arrays["times"] = time
        arrays["by_time"] = np.lexsort((time, row)) - np.repeat(indptr[:-1], np.diff(indptr))
    return {f"{side}.{name}": array for name, array in arrays.items()}


def read(path: Path) -> tuple[spec.Header, dict[str, Any]]:
    """The file by its specification: header, digests, arrays."""
    data = path.read_bytes()
    header = spec.read_header(data)
    arrays = {}
    for entry in header.arrays:
        raw = data[entry.offset : entry.offset + entry.bytes]
        assert not any(data[entry.offset + entry.bytes : spec.round_up(entry.offset + entry.bytes)]), "padding"
        arrays[entry.name] = np.frombuffer(raw, entry.dtype)
    return header, arrays


def ends(rng: np.random.Generator, shape: str) -> tuple[Any, Any]:
    """Sources and targets of one random graph."""
    count = int(rng.choice(CONSTANTS))
    rows, columns = int(rng.choice(CONSTANTS)), int(rng.choice(CONSTANTS))
    if shape == "square":
        columns = rows
    src, dst = rng.integers(0, rows, count), rng.integers(0, columns, count)
    if shape == "hub":
        src[rng.random(count) < 0.9] = rows - 1
    if shape == "repeats":
        src[:], dst[:] = src[0], dst[0]
    if shape == "outlier":
        src[-1] = rows * int(rng.choice([1, 2, 1024, 65537]))
    return src, dst


@pytest.mark.parametrize("shape", ["square", "users to items", "items to users", "hub", "repeats", "outlier"])
def test_files_equal_the_oracle(tmp_path: Path, shape: str) -> None:
    compared = spilled = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng([seed, *shape.encode()])
        src, dst = ends(rng, "users to items" if shape == "items to users" else shape)
        if shape == "items to users":
            src, dst = dst, src
        has = {name: bool(rng.integers(2)) for name in ("weights", "times", "edge_ids")}
        how = {name: bool(rng.integers(2)) for name in ("directed", "dedup", "self_loops")}
        direction, threads = str(rng.choice(["out", "in", "both"])), int(rng.integers(1, 4))
        # Multiples of 1/16 add up exactly in double, in any order.
        weight = rng.integers(0, 100, len(src)).astype(np.float32) / 16
        time = rng.integers(-5, 5, len(src)) * int(rng.choice([1, 2**40]))
        nodes = int(max(src.max(), dst.max())) + 1
        declared = None if rng.integers(2) else nodes + int(rng.choice([0, 1, 1000]))
        report = gz.compile_graph(
            (src, dst, weight if has["weights"] else None, time if has["times"] else None),
            tmp_path / "g.gl",
            direction=direction,
            edge_ids=has["edge_ids"],
            num_nodes=declared,
            memory=max(int(rng.choice(MEMORY)), 1_000_000 * threads),
            num_threads=threads,
            **how,
        )
        header, arrays = read(tmp_path / "g.gl")
        assert (header.num_nodes, report.source_edges) == (declared or nodes, len(src)), (shape, seed)
        columns = [src, dst, np.arange(len(src)), weight, time]
        expected: dict[str, Any] = {}
        for side in ("out", "in") if direction == "both" else (direction,):
            expected |= expected_arrays(columns, declared or nodes, side, has, **how)
        assert set(arrays) == set(expected), (shape, seed)
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=f"{shape}, seed {seed}: {name}")
        compared += 1
        spilled += report.spilled_bytes > 0
    print(f"{shape}: {compared} graphs compared, {spilled} of them spilled")


@pytest.mark.parametrize("seed", range(200 if SOAK else 8))
def test_any_budget_and_thread_count_give_the_same_file(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    count, rows, columns = 150_000, int(rng.choice(CONSTANTS)), int(rng.choice(CONSTANTS))
    edges = (
        rng.integers(0, rows, count),
        rng.integers(0, columns, count),
        rng.random(count),
        rng.integers(0, 9, count),
    )
    options: dict[str, Any] = {"direction": "both", "edge_ids": True, "dedup": bool(seed % 2)}
    large = gz.compile_graph(edges, tmp_path / "large.gl", num_threads=1, **options)
    small = gz.compile_graph(edges, tmp_path / "small.gl", memory="2MB", num_threads=2, **options)
    assert (large.spilled_bytes, small.spilled_bytes > 0) == (0, True)
    assert (tmp_path / "small.gl").read_bytes() == (tmp_path / "large.gl").read_bytes()
