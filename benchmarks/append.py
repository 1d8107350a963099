"""Appends: how soon 1 % more edges are visible, and what 5 % of edges in deltas cost a loader.

    python benchmarks/append.py FOLDER [--json PATH] [--rounds N] [--only MODE]

The graph is that of benchmarks/graph.py (2 M nodes, 30 M power-law edges, 128 x float32), in FOLDER. `append` adds
300,000 edges of the same kind to a file: with in-rows only, with edge ids, with weights, with rows in both
directions, and undirected; a run counts until a reader that is opened afterwards has found a new edge. Hubs make it
slower, since changed rows are written as a whole: the table says how many edges were written. `load` compares a
loader over 95 % of the edges and five deltas of 1 % with one over the compiled file, alternating, warm: the batches
are the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import graph
import measure
import numpy as np

import graphzero as gz
from graphzero import _core

MORE = graph.EDGES // 100
FANOUTS, BATCH, BATCHES = [15, 10, 5], 1024, 60


def all_edges(folder: Path) -> Any:
    path = folder / "edges.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, np.stack(graph.edges(np.random.default_rng(0))))
    return np.load(path, mmap_mode="r")


KINDS: dict[str, dict[str, Any]] = {
    "in-rows": {"direction": "in"},
    "in-rows, edge ids": {"direction": "in", "edge_ids": True},
    "in-rows, edge ids, weights": {"direction": "in", "edge_ids": True, "weights": True},
    "both directions, edge ids": {"direction": "both", "edge_ids": True},
    "undirected": {"direction": "in", "directed": False},
}


def append(base: Path, out: Path, edges: Any, weights: Any = None, deltas: tuple[str, ...] = ()) -> dict[str, Any]:
    report: dict[str, Any] = _core.write_topology_delta(
        str(base),
        list(deltas),
        str(out),
        num_sources=graph.NODES,
        num_targets=graph.NODES,
        sources=np.ascontiguousarray(edges[0]),
        targets=np.ascontiguousarray(edges[1]),
        weights=weights,
    )
    return report


def measure_appends(folder: Path, rounds: int) -> dict[str, Any]:
    edges = all_edges(folder)
    rng = np.random.default_rng(1)
    more = np.stack([ends[rng.integers(0, graph.EDGES, MORE)] for ends in edges])  # hubs get their share
    figures: dict[str, Any] = {}
    rows = []
    for kind, options in KINDS.items():
        plain = dict(options)
        weighted = bool(plain.pop("weights", False))
        base = folder / "append-base.gl"
        drawn = np.random.default_rng(2).random(graph.EDGES, dtype=np.float32) if weighted else None
        source = (edges[0], edges[1]) if drawn is None else (edges[0], edges[1], drawn)
        gz.compile_graph(source, base, num_nodes=graph.NODES, memory="4GB", **plain)
        gz.Graph(base).preload()
        seconds, report = [], {}
        for _ in range(rounds):
            start = time.perf_counter()
            out = folder / "append-delta.gl"
            report = append(base, out, more, None if drawn is None else drawn[:MORE])
            grown = gz.Graph(base, deltas=[out])
            assert grown.has_edge(int(more[0, -1]), int(more[1, -1]))
            seconds.append(time.perf_counter() - start)
        figures[kind] = {"seconds": statistics.median(seconds), **{k: report[k] for k in ("bytes", "edges_written")}}
        written = f"{report['edges_written'] / 1e6:.1f} M edges, {report['bytes'] / 1e6:.0f} MB written"
        rows.append((kind, f"{statistics.median(seconds):.2f} s", written))
        base.unlink()
        (folder / "append-delta.gl").unlink()
    measure.show("1 % more edges, until they are visible", rows, folder)
    return figures


def measure_loading(folder: Path, rounds: int) -> dict[str, Any]:
    edges = all_edges(folder)
    features = folder / "x.gd"
    if not features.exists():
        rng = np.random.default_rng(3)
        blocks = (rng.standard_normal((100_000, graph.DIM), dtype=np.float32) for _ in range(graph.NODES // 100_000))
        gz.compile_features(blocks, features)
    whole, base = folder / "whole.gl", folder / "base.gl"
    cut = graph.EDGES - 5 * MORE
    gz.compile_graph((edges[0], edges[1]), whole, num_nodes=graph.NODES, direction="in", memory="4GB")
    gz.compile_graph((edges[0][:cut], edges[1][:cut]), base, num_nodes=graph.NODES, direction="in", memory="4GB")
    deltas: list[str] = []
    for i in range(5):
        out = folder / f"delta{i}.gl"
        append(base, out, edges[:, cut + i * MORE : cut + (i + 1) * MORE], deltas=tuple(deltas))
        deltas.append(str(out))
    store = gz.FeatureStore(features)
    graphs = {"compiled": gz.Graph(whole), "5 % in deltas": gz.Graph(base, deltas=deltas)}
    seeds = np.random.default_rng(4).permutation(graph.NODES)[: BATCH * BATCHES]
    for mounted in graphs.values():
        mounted.preload()
    store.preload()
    seconds: dict[str, dict[str, list[float]]] = {"sample": {}, "load": {}}
    os.sync()  # what was just written must not be on its way to the disk meanwhile
    for number in range(rounds + 1):
        for name in list(graphs)[:: 1 if number % 2 else -1]:
            mounted = graphs[name]
            start = time.perf_counter()
            for i in range(20):
                mounted.sample(seeds[i * BATCH : (i + 1) * BATCH], FANOUTS, seed=i)
            sampled = time.perf_counter() - start
            loader = gz.NeighborLoader(mounted, store, seeds=seeds, fanouts=FANOUTS, batch_size=BATCH, seed=number)
            start = time.perf_counter()
            for _ in loader:
                pass
            if number:  # the first one warms up
                seconds["sample"].setdefault(name, []).append(sampled)
                seconds["load"].setdefault(name, []).append(time.perf_counter() - start)
            del loader  # with the rows it holds for a next epoch
    rows, figures = [], {}
    for what, times in seconds.items():
        compiled, grown = (statistics.median(times[name]) for name in graphs)
        figures[what] = {"compiled": compiled, "deltas": grown, "ratio": compiled / grown}
        rows.append((what, f"{compiled / grown:.3f}", f"of the speed of the compiled file ({compiled:.2f} s)"))
    measure.show("A loader with 5 % of the edges in five deltas", rows, folder)
    for path in (whole, base, *map(Path, deltas)):
        path.unlink()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("append", "load"))
    asked = parser.parse_args()
    figures = {}
    if asked.only != "load":
        figures["append"] = measure_appends(asked.folder, asked.rounds)
    if asked.only != "append":
        figures["load"] = measure_loading(asked.folder, asked.rounds)
    measure.save(asked.json, figures, asked.folder)


if __name__ == "__main__":
    main()
