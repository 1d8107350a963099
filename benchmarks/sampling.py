"""Multi-hop sampling: against torch-sparse, on one and two threads, at hubs, by weight, and cold.

    python benchmarks/sampling.py FOLDER [--pyg-python PATH] [--cold PATH.gl] [--json PATH] [--rounds N] [--only MODE]

FOLDER is made by benchmarks/graph.py (2 M nodes, 30 M edges); [15, 10, 5] for 1,024 seeds, warm. The peer runs in its
own interpreter, alternating with GraphZero; figures are medians of all rounds. --cold samples a large .gl (created if
missing: 20 M nodes, 640 M edges, 2.7 GB) with the cache dropped, through look-ahead and through plain
page faults: needs root. It then samples many batches of it together, in a control group that holds half of the file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import disk
import graph
import measure
import numpy as np

import graphzero as gz
from graphzero.machine.memory_limit import memory_limit

FANOUTS, SEEDS, BATCHES = [15, 10, 5], 1024, 20

# torch-sparse's sampler on the same rows, one thread; seconds and edges per batch.
PYG = """
import importlib.util, json, os, statistics, sys, time
import numpy as np
import torch
folder, seeds, batches, fanouts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
package = importlib.util.find_spec("torch_sparse").submodule_search_locations[0]
torch.ops.load_library(os.path.join(package, "_neighbor_sample_cpu.so"))
torch.set_num_threads(1)
indptr, indices = torch.from_numpy(np.load(folder + "/indptr.npy")), torch.from_numpy(np.load(folder + "/indices.npy"))
ids = torch.from_numpy(np.load(folder + "/seeds.npy"))
times, edges = [], 0
for b in range(batches + 1):
    start = time.perf_counter()
    node, row, col, edge = torch.ops.torch_sparse.neighbor_sample(
        indptr, indices, ids[b * seeds : (b + 1) * seeds], fanouts, False, True)
    if b:
        times.append(time.perf_counter() - start)
        edges += len(edge)
print(json.dumps({"seconds": statistics.median(times), "edges": edges / batches}))
"""

# One cold call in a process of its own; seconds, and bytes from the disk.
COLD = (
    f"""{disk.ADVISE}"""
    + """
import json, sys, time
import numpy as np
import graphzero as gz
from graphzero import _core
g, io, seeds = gz.Graph(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ids = np.random.default_rng(7).integers(0, g.num_nodes, seeds)
if io == "random":
    io = "mmap"
    advise_random(sys.argv[1])
def read_bytes():
    return int(open("/proc/self/io").read().split("read_bytes: ")[1].split()[0])
before = read_bytes()
start = time.perf_counter()
plain = (False, False, False, None, "uniform", "uniform", None)
edges = _core.sample_hood(g._open(), ids, json.loads(sys.argv[4]), *plain, 1, 0, io, None, False)[2]
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "edges": len(edges), "bytes": read_bytes() - before}))
"""
)

# Batches in groups of `group`, cold, in a control group of this process; 0 is batch by batch with look-ahead.
MERGED = """
import json, resource, sys, time
import numpy as np
import graphzero as gz
from graphzero import _core
g, group, batches, seeds, fanouts = gz.Graph(sys.argv[1]), *map(json.loads, sys.argv[2:6])
ids = np.random.default_rng(7).integers(0, g.num_nodes, (batches, seeds))
def read_bytes():
    return int(open("/proc/self/io").read().split("read_bytes: ")[1].split()[0])
before, scratch, edges = read_bytes(), 0, 0
start = time.perf_counter()
if group == 0:
    for b in range(batches):
        edges += g.sample(ids[b], fanouts, seed=b).num_edges
else:
    for b in range(0, batches, group):
        made, facts = _core.sample_merged(g._topology, list(ids[b : b + group]), list(range(b, b + group)), fanouts)
        scratch = max(scratch, facts["scratch_bytes"])
        edges += sum(len(m[2]) for m in made)
        del made
seconds = time.perf_counter() - start
times = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"ms": 1e3 * seconds / batches, "mb": (read_bytes() - before) / batches / 1e6, "edges": edges,
                  "cpu_ms": 1e3 * (times.ru_utime + times.ru_stime) / batches, "scratch": scratch}))
"""


def batch_times(work: Callable[[int], Any], batches: int = BATCHES) -> list[float]:
    """Seconds of each batch, after one to warm up."""
    times = []
    for b in range(batches + 1):
        start = time.perf_counter()
        work(b)
        times.append(time.perf_counter() - start)
    return times[1:]


def warm(
    folder: Path, g: gz.Graph, pyg_python: str | None, rounds: int
) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
    """The main figure, its variants, and the peer, in turn."""
    ids = np.load(folder / "seeds.npy")
    g.preload()
    ways: dict[str, dict[str, Any]] = {
        "1 thread": {"num_threads": 1},
        "2 threads": {"num_threads": 2},
        "replace": {"num_threads": 1, "replace": True},
        "disjoint": {"num_threads": 1, "disjoint": True},
        "labor": {"num_threads": 1, "method": "labor"},
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    sizes: dict[str, gz.Subgraph] = {}
    peer: list[float] = []
    for _ in range(rounds):
        for name, options in ways.items():

            def work(b: int, name: str = name, options: dict[str, Any] = options) -> None:
                sizes[name] = g.sample(ids[b * SEEDS : (b + 1) * SEEDS], FANOUTS, seed=b, **options)

            times[name] += batch_times(work, 5 if name == "labor" else BATCHES)
        if pyg_python:
            graph.csr_for_torch(folder)
            peer.append(measure.run_peer(pyg_python, PYG, folder, SEEDS, 5, FANOUTS)["seconds"])
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    ratios = {"2 threads : 1 thread": medians["1 thread"] / medians["2 threads"]}
    against = {"2 threads": f"x{ratios['2 threads : 1 thread']:.2f} of 1 thread"}
    if peer:
        ratios["1 thread : torch-sparse"] = statistics.median(peer) / medians["1 thread"]
        against["1 thread"] = (
            f"x{ratios['1 thread : torch-sparse']:.1f} of torch-sparse ({1 / statistics.median(peer):.2f}/s)"
        )
    rows = [
        (f"{FANOUTS} x {SEEDS:,}, {name}", f"{1 / medians[name]:.1f} batches/s",
         against.get(name, f"{sizes[name].num_nodes:,} nodes, {sizes[name].num_edges:,} edges"))
        for name in ways
    ]  # fmt: skip
    return rows, {"seconds": medians, "ratios": ratios}


def hubs() -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
    """15 of a hub's neighbours, and 15 by weight: the time must not follow the degree."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for degree in (1_000, 100_000, 5_000_000):
            path = Path(folder) / f"{degree}.gl"
            edges = np.stack([np.zeros(degree, np.int64), np.arange(degree)])
            gz.compile_graph(edges, path, num_nodes=degree, weights=np.ones(degree, np.float32))
            g = gz.Graph(path)
            for name, options in (("uniform", {}), ("weighted", {"weighted": True})):
                g.sample([0], [15], seed=0, **options)
                work = lambda g=g, options=options: [g.sample([0], [15], seed=s, **options) for s in range(200)]  # noqa: E731
                figures[f"{name}, degree {degree:,}"] = measure.best_of(10, work) / 200
    rows = [(f"hub, K = 15, {name}", f"{seconds * 1e6:.1f} us", "") for name, seconds in figures.items()]
    return rows, figures


def large(path: Path, nodes: int = 20_000_000, edges: int = 640_000_000) -> None:
    """Make the graph of the cold figures, block by block."""

    def blocks() -> Any:
        rng = np.random.default_rng(0)
        for _ in range(edges // 10_000_000):
            source = (nodes * rng.random(10_000_000) ** 2).astype(np.int64)
            yield np.stack([source, rng.integers(0, nodes, 10_000_000)])

    gz.compile_graph(blocks(), path, num_nodes=nodes, memory="2GB", progress=None)


def cold(path: Path, rounds: int) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
    """The same call with the cache dropped, with look-ahead and by page faults; the best of all rounds.

    A large batch needs most pages of the file, which is then read whole either way: the disk's bandwidth is the limit.
    """
    rows, figures = [], {}
    for seeds in (16, 64, 128, SEEDS):
        best: dict[str, Any] = {}
        for _ in range(rounds):
            for io in ("auto", "mmap", "random"):
                measure.drop_caches()
                run = measure.run_peer(sys.executable, COLD, path, io, seeds, FANOUTS)
                best[io] = min(run, best.get(io, run), key=lambda r: r["seconds"])
        ours = best["auto"]
        ratios = {io: best[io]["seconds"] / ours["seconds"] for io in ("random", "mmap")}
        figures[f"{seeds} seeds"] = best | {"ratio": ratios["mmap"], "ratio_random": ratios["random"]}
        against = ", ".join(
            f"x{ratios[io]:.1f} of {name} ({best[io]['seconds']:.2f} s, {best[io]['bytes'] / 1e6:,.0f} MB)"
            for io, name in (("random", "faults with MADV_RANDOM"), ("mmap", "plain faults"))
        )
        rows.append((f"cold, {path.stat().st_size / 1e9:.1f} GB, {seeds:,} seeds",
                     f"{ours['seconds']:.3f} s, {ours['bytes'] / 1e6:,.0f} MB", against))  # fmt: skip
    return rows, figures


def merged(path: Path, batches: int = 128) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
    """Batches of a file that does not fit: one by one, and in groups whose pages are read once."""
    rows, figures = [], {}
    fanouts, size = [10, 5], path.stat().st_size
    with memory_limit(max(size // 2, 600_000_000)) as limit:
        if limit is None:
            raise SystemExit("cannot create a control group; run as root")
        for group in (0, 1, 8, 32, 128):
            measure.drop_caches()
            arguments = [path, group, batches if group != 1 else batches // 4, SEEDS, fanouts]
            command = limit.wrap([sys.executable, "-c", MERGED, *map(str, arguments)])
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            run = figures[f"groups of {group}" if group else "one by one"] = json.loads(done.stdout)
            against = f"{run['mb']:,.1f} MB read, {run['cpu_ms']:.1f} ms of CPU"
            if group:
                before = figures["one by one"]
                run["ratio"] = before["ms"] / run["ms"]
                against += f", x{run['ratio']:.1f} of one by one, {run['scratch'] / 1e6:,.0f} MB of scratch"
            rows.append((f"{fanouts} x {SEEDS:,}, {size / 1e9:.1f} GB in {limit.limit / 1e9:.1f}, "
                         + (f"groups of {group}" if group else "one by one"),
                         f"{run['ms']:.1f} ms a batch", against))  # fmt: skip
    return rows, figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyg-python", help="an interpreter with torch and torch_sparse")
    parser.add_argument("--cold", type=Path, help="a .gl file for the cold figures; made when it is missing")
    parser.add_argument("--only", choices=["warm", "hubs", "cold", "merged"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    rows: list[tuple[str, str, str]] = []
    figures: dict[str, Any] = {}
    if arguments.only in (None, "warm"):
        more, figures["warm"] = warm(
            folder, gz.Graph(graph.compiled(folder)[0]), arguments.pyg_python, arguments.rounds
        )
        rows += more
    if arguments.only in (None, "hubs"):
        more, figures["hubs"] = hubs()
        rows += more
    if arguments.cold and arguments.only in (None, "cold"):
        if not arguments.cold.exists():
            large(arguments.cold)
        more, figures["cold"] = cold(arguments.cold.resolve(), arguments.rounds)
        rows += more
    if arguments.cold and arguments.only in (None, "merged"):
        if not arguments.cold.exists():
            large(arguments.cold)
        more, figures["merged"] = merged(arguments.cold.resolve())
        rows += more
    measure.show("Multi-hop sampling (xN: so many times faster)", rows, folder)
    measure.save(arguments.json, figures, folder)


if __name__ == "__main__":
    main()
