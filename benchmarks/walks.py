"""Walks, one-hop fanouts, pairs and negatives: against GraphZero 0.2.0, torch_cluster, and our own plain loops.

    python benchmarks/walks.py FOLDER [--gz02-python PATH] [--pyg-python PATH] [--cold PATH.gl] [--json PATH]

FOLDER is made by benchmarks/graph.py (2 M nodes, 30 M edges) and warm. Peers run in interpreters of their own, in turn
with ours, and every figure is the best of all rounds. "Plain" is one walk after the other, one step after the other, on
one thread: the same draws, the same result, without prefetching.

--cold makes the same calls over a large .gl (benchmarks/sampling.py makes it: 20 M nodes, 640 M edges, 2.7 GB) with the
cache dropped, through look-ahead and through page faults (default advice and MADV_RANDOM), each in a process of its
own; medians. Needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import disk
import graph
import measure
import numpy as np
import sampling

import graphzero as gz
from graphzero import _core

STARTS, LENGTH, SEEDS, K = 100_000, 10, 1024, 15
STEPS = STARTS * LENGTH

# What GraphZero 0.2.0 does with the same graph, in its own format; seconds.
GZ02 = """
import json, os, sys, time
import numpy as np
import graphzero as gz
folder, starts, length, seeds, k = sys.argv[1], *map(int, sys.argv[2:])
path = folder + "/gz02.gl"
if not os.path.exists(path):
    gz.convert_csv_to_gl(folder + "/edges.csv", path, directed=True)
g = gz.Graph(path)
ids = np.load(folder + "/seeds.npy")
walks, few = ids[:starts].astype(np.uint64), ids[:seeds].astype(np.uint64)
def best(repeat, work):
    times = []
    for _ in range(repeat):
        start = time.perf_counter(); work(); times.append(time.perf_counter() - start)
    return min(times)
print(json.dumps({
    "uniform": best(5, lambda: g.batch_random_walk_uniform(walks, length)),
    "node2vec": best(3, lambda: g.batch_random_walk(walks, length, 1.0, 0.5)),
    "fanout": best(200, lambda: g.batch_random_fanout(few, k)),
}))
"""

# torch_cluster's CSR op, loaded without the package's Python, which wants SciPy; seconds.
PYG = """
import importlib.util, json, os, sys, time
import numpy as np
import torch
folder, starts, length = sys.argv[1], *map(int, sys.argv[2:])
package = importlib.util.find_spec("torch_cluster").submodule_search_locations[0]
torch.ops.load_library(os.path.join(package, "_rw_cpu.so"))
torch.set_num_threads(len(os.sched_getaffinity(0)))
indptr, indices = torch.from_numpy(np.load(folder + "/indptr.npy")), torch.from_numpy(np.load(folder + "/indices.npy"))
ids = torch.from_numpy(np.load(folder + "/seeds.npy"))[:starts]
def best(repeat, work):
    times = []
    for _ in range(repeat):
        start = time.perf_counter(); work(); times.append(time.perf_counter() - start)
    return min(times)
walk = torch.ops.torch_cluster.random_walk
figures = {
    "uniform": best(5, lambda: walk(indptr, indices, ids, length, 1.0, 1.0)),
    "node2vec": best(3, lambda: walk(indptr, indices, ids, length, 1.0, 0.5)),
}
print(json.dumps(figures))
"""

NEGATIVES = 200_000

# One cold call; seconds, bytes read from the disk, major page faults, and a checksum of the result.
COLD = (
    f"""{disk.ADVISE}"""
    + """
import json, resource, sys, time
import numpy as np
import graphzero as gz
from graphzero import _core
path, call, count, io = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
g = gz.Graph(path)
if io == "random":
    io = "mmap"
    g._open()
    advise_random(path)
file, ids, how = g._open(), np.random.default_rng(7).integers(0, g.num_nodes, count), {"seed": 1, "io": io}
calls = {
    "fanout": lambda: _core.fanout(file, ids, 15, **how),
    "weighted fanout": lambda: _core.fanout(file, ids, 15, weighted=True, **how),
    "uniform walks": lambda: _core.walk(file, ids, 10, **how),
    "weighted walks": lambda: _core.walk(file, ids, 10, weighted=True, **how),
    "node2vec walks": lambda: _core.walk(file, ids, 10, 1.0, 0.5, **how),
    "negatives": lambda: _core.negative_edges(file, count, **how),
    "negatives by degree": lambda: _core.negative_edges(file, count, None, True, **how),
    "sample_neighbours": lambda: np.concatenate([_core.neighbours(file, int(i), 15, **how) for i in ids]),
}
def bytes_read():
    return next(int(line.split()[1]) for line in open("/proc/self/io") if line.startswith("read_bytes"))
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
before, faults_before, start = bytes_read(), faults(), time.perf_counter()
result = calls[call]()
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": bytes_read() - before, "faults": faults() - faults_before,
                  "sum": int(np.dot(result.ravel(), np.arange(1, result.size + 1)))}))
"""
)
COLD_CALLS: dict[str, tuple[int, ...]] = {
    "fanout": (64, 1024, 16_384, 262_144),
    "uniform walks": (64, 1024, 16_384, 100_000),
    "node2vec walks": (64, 1024, 16_384),
    "negatives": (64, 1024, 16_384, NEGATIVES),
    "negatives by degree": (64, 1024, 16_384),
    "sample_neighbours": (1, 64),
}
COLD_WEIGHTED: dict[str, tuple[int, ...]] = {
    "weighted fanout": (64, 1024, 16_384),
    "weighted walks": (64, 1024, 16_384),
}


def ours(folder: Path, g: gz.Graph) -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    ids = np.load(folder / "seeds.npy")
    starts, few = ids[:STARTS], ids[:SEEDS].copy()
    file = g._open()
    buffer = np.empty((STARTS, LENGTH + 1), np.int64)
    walks = g.batch_random_walk_uniform(starts, LENGTH, seed=0)
    return {
        "uniform": lambda: g.batch_random_walk_uniform(starts, LENGTH),
        "uniform, out=": lambda: g.batch_random_walk_uniform(starts, LENGTH, out=buffer),
        "uniform, 1 thread": lambda: g.batch_random_walk_uniform(starts, LENGTH, num_threads=1),
        "uniform, plain": lambda: _core.walk(file, starts, LENGTH, threads=1, plain=True),
        "node2vec": lambda: g.batch_random_walk(starts, LENGTH, 1.0, 0.5),
        "node2vec, 1 thread": lambda: g.batch_random_walk(starts, LENGTH, 1.0, 0.5, num_threads=1),
        "node2vec, plain": lambda: _core.walk(file, starts, LENGTH, 1.0, 0.5, threads=1, plain=True),
        "fanout": lambda: g.batch_random_fanout(few, K),
        "fanout, plain": lambda: _core.fanout(file, few, K, threads=1, plain=True),
        "pairs": lambda: gz.walk_pairs(walks, 5),
        "pairs, shuffled": lambda: gz.walk_pairs(walks, 5, shuffle=True),
        "negatives": lambda: g.negative_edges(NEGATIVES),
        "negatives, degree": lambda: g.negative_edges(NEGATIVES, method="degree"),
        "negatives, degree, plain": lambda: _core.negative_edges(file, NEGATIVES, None, True, threads=1, plain=True),
        "negatives, plain": lambda: _core.negative_edges(file, NEGATIVES, threads=1, plain=True),
    }


REPEAT = {"fanout": 300, "fanout, plain": 100}


def least(into: dict[str, float], figures: dict[str, float]) -> None:
    for name, seconds in figures.items():
        into[name] = min(seconds, into.get(name, float("inf")))


def report(mine: dict[str, float], gz02: dict[str, float], pyg: dict[str, float], folder: Path) -> dict[str, Any]:
    """Print the table and return the ratios: how many times faster ours is."""
    ratios = {}

    def ratio(name: str, other: float | None, of: float) -> str:
        if other is None:
            return ""
        ratios[name] = other / of
        return f"{other / of:.1f} x {name.split(': ')[1]}"

    def steps(name: str) -> str:
        return f"{STEPS / mine[name] / 1e6:.1f} M steps/s"

    rows = []
    for kind in ("uniform", "node2vec"):
        peers = [
            ratio(f"{kind}: 0.2.0", gz02.get(kind), mine[kind]),
            ratio(f"{kind}: torch_cluster", pyg.get(kind), mine[kind]),
        ]
        rows.append((f"{kind} walks", steps(kind), ", ".join(filter(None, peers))))
        one = f"{kind}, 1 thread"
        rows.append((f"  {one}", steps(one), ratio(f"{kind}: plain loop", mine[f"{kind}, plain"], mine[one])))
    rows.append(("  uniform, out=", steps("uniform, out="), ""))
    rows.append(
        (
            f"fanout, K = {K}, {SEEDS:,} seeds",
            f"{mine['fanout'] * 1e6:.0f} us",
            ", ".join(
                filter(
                    None,
                    [
                        ratio("fanout: 0.2.0", gz02.get("fanout"), mine["fanout"]),
                        ratio("fanout: plain loop", mine["fanout, plain"], mine["fanout"]),
                    ],
                )
            ),
        )
    )
    pairs = 80 * STARTS
    for name in ("pairs", "pairs, shuffled"):
        rows.append((name, f"{pairs / mine[name] / 1e6:.0f} M/s", ""))
    for name in ("negatives", "negatives, degree"):
        against = ratio(f"{name}: plain loop", mine[f"{name}, plain"], mine[name])
        rows.append((name, f"{NEGATIVES / mine[name] / 1e6:.2f} M/s", against))
    measure.show("Walks (warm)", rows, folder)
    return ratios


def warm(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Ours and the peers, in turn; prints their table."""
    g = gz.Graph(arguments.graph or graph.compiled(folder)[0])
    g.preload()
    graph.csr_for_torch(folder)
    mine: dict[str, float] = {}
    gz02: dict[str, float] = {}
    pyg: dict[str, float] = {}
    for _ in range(arguments.rounds):
        least(mine, {name: measure.best_of(REPEAT.get(name, 5), work) for name, work in ours(folder, g).items()})
        if arguments.gz02_python:
            least(gz02, measure.run_peer(arguments.gz02_python, GZ02, folder, STARTS, LENGTH, SEEDS, K))
        if arguments.pyg_python:
            least(pyg, measure.run_peer(arguments.pyg_python, PYG, folder, STARTS, LENGTH))
    ratios = report(mine, gz02, pyg, folder)
    seconds = {"ours": mine, "graphzero 0.2.0": gz02, "torch_cluster": pyg}
    return {"seconds": seconds, "ratios": ratios}


def cold(path: Path, rounds: int) -> dict[str, Any]:
    """Print what look-ahead brings over plain faults, for batches that touch few of the pages and for some that touch
    most: those read the whole file either way."""
    rows, figures = [], {}
    for call, counts in (COLD_CALLS | (COLD_WEIGHTED if gz.Graph(path).has_weights else {})).items():
        for count in counts:
            ways: dict[str, list[dict[str, Any]]] = {"auto": [], "mmap": [], "random": []}
            for _ in range(rounds):
                for io, runs in ways.items():
                    measure.drop_caches()
                    runs.append(measure.run_peer(sys.executable, COLD, path, call, count, io))
            if len({run["sum"] for runs in ways.values() for run in runs}) != 1:
                raise RuntimeError(f"{call}, {count}: results depend on how pages are read")
            medians = {
                io: {key: statistics.median(run[key] for run in runs) for key in ("seconds", "bytes", "faults")}
                for io, runs in ways.items()
            }
            ahead, plain, advised = medians["auto"], medians["mmap"], medians["random"]
            ratio, ratio_random = (way["seconds"] / ahead["seconds"] for way in (plain, advised))
            figures[f"{call}, {count}"] = medians | {"ratio": ratio, "ratio_random": ratio_random}
            rows.append(
                (
                    f"{call}, {count:,}",
                    f"{ahead['seconds'] * 1e3:.1f} ms",
                    f"x{ratio_random:.1f} of faults with MADV_RANDOM ({advised['seconds'] * 1e3:.0f} ms), "
                    f"x{ratio:.1f} of plain faults ({plain['seconds'] * 1e3:.0f} ms); "
                    f"{ahead['bytes'] / 1e6:,.1f} MB read ({plain['bytes'] / 1e6:,.0f} MB)",
                )
            )
    size = path.stat().st_size / 1e9
    measure.show(f"Walks, cold, {size:.1f} GB (calls of so many nodes; walks of 10 steps, K = {K})", rows, path.parent)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gz02-python", help="an interpreter that has graphzero==0.2.0")
    parser.add_argument("--pyg-python", help="an interpreter that has torch and torch_cluster")
    parser.add_argument("--graph", type=Path, help="the .gl file, where it is not FOLDER/graph.gl")
    parser.add_argument("--cold", type=Path, help="a .gl file for the cold figures; made when it is missing")
    parser.add_argument("--only", choices=["warm", "cold"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    figures: dict[str, Any] = {"threads": len(os.sched_getaffinity(0))}
    if arguments.only in (None, "warm"):
        figures |= warm(folder, arguments)
    if arguments.cold and arguments.only in (None, "cold"):
        if not arguments.cold.exists():
            sampling.large(arguments.cold)
        figures["cold"] = cold(arguments.cold.resolve(), arguments.rounds)
    measure.save(arguments.json, figures, folder)


if __name__ == "__main__":
    main()
