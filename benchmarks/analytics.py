"""PageRank, components and searches: against networkit and SciPy; and on a file that is larger than memory.

    python benchmarks/analytics.py FOLDER [--networkit-python PATH] [--threads 2] [--json PATH]
    python benchmarks/analytics.py --graph FILE.gl [--memory 4GB] [--cgroup] [--json PATH]

FOLDER gets the edges of benchmarks/graph.py (2 M nodes, 30 M edges) and files compiled from them, which are warm.
networkit runs in an interpreter of its own; its loading is the faster of arrays (GraphFromCoo) and its own binary file.
SciPy's breadth_first_order has one thread. Figures are the best of several rounds, in turn.

--graph runs components and PageRank (20 iterations) with a cold cache on any file, each in a process of its own, and
reads the file with the engine's own reader for comparison. It needs root. With --cgroup, the processes are in a control
group of --memory; arrays and buffers get the budget that is left of the limit after the interpreter.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graph
import measure
import numpy as np

import graphzero as gz
from graphzero import analytics
from graphzero.args.sizes import format_size, parse_size

ITERATIONS = 20
INTERPRETER = 250_000_000  # of a control group: Python, NumPy and the page tables

NETWORKIT = """
import json, sys, time
import numpy as np
import networkit as nk
folder, threads, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
nk.setNumberOfThreads(threads)
def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
src, dst = np.load(folder + "/edges.npy")
nodes = int(max(src.max(), dst.max())) + 1
figures = {}
for name, directed in (("directed", True), ("undirected", False)):
    figures[name + " from arrays"], g = timed(lambda: nk.GraphFromCoo((src, dst), n=nodes, directed=directed))
    path = folder + "/" + name + ".nkb"
    nk.writeGraph(g, path, nk.Format.NetworkitBinary)
    figures[name + " from its file"], g = timed(lambda: nk.readGraph(path, nk.Format.NetworkitBinary))
    if directed:
        def pagerank():
            pr = nk.centrality.PageRank(g, damp=0.85, tol=1e-300)
            pr.maxIterations = iterations
            pr.run()
            return pr
        figures["pagerank"] = min(timed(pagerank)[0] for _ in range(3))
        kinds = [nk.components.WeaklyConnectedComponents]
        figures["iterations"] = pagerank().numberOfIterations()
    else:
        kinds = [nk.components.ParallelConnectedComponents, nk.components.ConnectedComponents]
    for kind in kinds:
        found = [timed(lambda: kind(g).run()) for _ in range(3)]
        figures[name + " " + kind.__name__] = min(seconds for seconds, _ in found)
        figures[name + " components"] = found[0][1].numberOfComponents()
print(json.dumps(figures))
"""


def files(folder: Path) -> dict[str, Path]:
    """Compile what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "edges.npy").exists():
        np.save(folder / "edges.npy", np.stack(graph.edges(np.random.default_rng(0))))
    made = {}
    for name, options in {
        "in": {"direction": "in"},
        "out": {"direction": "out"},
        "both": {"direction": "both"},
        "undirected": {"directed": False},
    }.items():
        made[name] = folder / f"{name}.gl"
        if not made[name].exists():
            gz.compile_graph(folder / "edges.npy", made[name], num_nodes=graph.NODES, **options)
        gz.Graph(made[name]).preload()
    return made


def timed(work: Callable[[], Any], rounds: int = 3) -> float:
    return measure.best_of(rounds, work)


def warm(args: argparse.Namespace) -> dict[str, Any]:
    from scipy.sparse import csgraph

    made = files(args.folder)
    options: dict[str, Any] = {"num_threads": args.threads, "progress": False}

    def rank(name: str) -> Callable[[], Any]:
        return lambda: analytics.pagerank(gz.Graph(made[name]), iterations=ITERATIONS, tolerance=0, **options)

    def components(name: str) -> Callable[[], Any]:
        return lambda: analytics.connected_components(gz.Graph(made[name]), **options)

    figures: dict[str, Any] = {f"pagerank {name}": timed(rank(name)) for name in ("in", "both", "out")}
    figures |= {f"components {name}": timed(components(name)) for name in ("in", "both", "undirected")}
    figures |= {
        f"bfs {name}": timed(lambda name=name: analytics.bfs(made[name], 0, **options), 5) for name in ("both", "out")
    }
    figures["bfs undirected"] = timed(lambda: analytics.bfs(made["undirected"], 0, **options), 5)
    figures["strong"] = timed(lambda: analytics.connected_components(made["both"], connection="strong", **options), 1)
    figures["cores"] = timed(lambda: analytics.core_numbers(made["undirected"], **options), 1)
    for name in ("out", "undirected"):
        matrix = gz.Graph(made[name]).to_scipy()
        figures[f"scipy bfs {name}"] = timed(lambda matrix=matrix: csgraph.breadth_first_order(matrix, 0), 3)
    labels = analytics.connected_components(made["undirected"], **options)
    figures["found"] = int(labels.max()) + 1
    return figures


def rows_of(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The table: ours, and how many times as fast that is as the peer."""
    peer = figures.get("networkit")

    def beside(ours: str, name: str, theirs: str) -> str:
        if peer is None:
            return ""
        seconds = min(value for key, value in peer.items() if key.endswith(theirs) and key.startswith(name))
        load = min(peer[f"{name} from arrays"], peer[f"{name} from its file"])
        ratio, loaded = seconds / figures[ours], (load + seconds) / figures[ours]
        return f"{ratio:.1f} times networkit, {loaded:.0f} times with loading"

    def beside_scipy(ours: str, name: str) -> str:
        return f"{figures[f'scipy bfs {name}'] / figures[ours]:.1f} times SciPy (one thread)"

    return [
        ("PageRank, 20 iterations", _s(figures["pagerank in"]), beside("pagerank in", "directed", "pagerank")),
        ("the same, rows by source only", _s(figures["pagerank out"]), ""),
        (
            "weak components, directed",
            _s(figures["components in"]),
            beside("components in", "directed", "ConnectedComponents"),
        ),
        (
            "components, undirected",
            _s(figures["components undirected"]),
            beside("components undirected", "undirected", "ConnectedComponents"),
        ),
        ("breadth-first search, directed", _s(figures["bfs both"]), beside_scipy("bfs both", "out")),
        (
            "breadth-first search, undirected",
            _s(figures["bfs undirected"]),
            beside_scipy("bfs undirected", "undirected"),
        ),
        ("strong components", _s(figures["strong"]), ""),
        ("core numbers, undirected", _s(figures["cores"]), ""),
    ]


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def against(args: argparse.Namespace) -> None:
    figures = warm(args)
    if args.networkit_python:
        peer = measure.run_peer(args.networkit_python, NETWORKIT, args.folder, args.threads, ITERATIONS)
        peer["directed pagerank"] = peer.pop("pagerank")
        assert figures["found"] == peer["undirected components"]
        figures["networkit"] = peer
    measure.show(f"Analytics: 2 M nodes, 30 M edges, warm, {args.threads} threads", rows_of(figures), args.folder)
    measure.save(args.json, figures, args.folder)


def part(args: argparse.Namespace) -> dict[str, Any]:
    """One algorithm on --graph."""
    g = gz.Graph(args.graph)
    memory = parse_size(args.memory) - (INTERPRETER if args.cgroup else 0)
    options: dict[str, Any] = {"memory": memory, "num_threads": args.threads, "progress": False}
    begin = time.perf_counter()
    if args.run == "components":
        labels = analytics.connected_components(g, **options)
        found = {"components": int(labels.max(initial=-1)) + 1}
    elif args.run == "pagerank":
        found = {"sum": float(analytics.pagerank(g, iterations=ITERATIONS, tolerance=0, **options).sum())}
    else:  # a pass that counts self-loops
        found = gz._core.Analytics(g._open(), args.threads, memory, "read", None).edge_facts(0, 0)
    return {"seconds": time.perf_counter() - begin, **found}


def large(args: argparse.Namespace) -> None:
    if args.run:
        print(json.dumps(part(args)))
        return
    import limited

    limit = parse_size(args.memory) if args.cgroup else None
    figures = {name: limited.run(name, limit) for name in ("read", "components", "pagerank")}
    rows = []
    disk = figures["read"].get("seconds", 0.0)
    for name, figure in figures.items():
        if "failed" in figure:
            rows.append((name, "failed", f"{figure}"))
            continue
        passes = ITERATIONS if name == "pagerank" else 1
        peak = f", peak {format_size(figure['group_peak'])}, {figure['kills']} kills" if args.cgroup else ""
        rows.append((name, f"{figure['seconds']:.1f} s", f"{figure['seconds'] / (passes * disk):.2f} x reading{peak}"))
    measure.show(f"Analytics of {args.graph.name}, {args.memory}", rows, args.graph.parent)
    measure.save(args.json, figures, args.graph.parent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--networkit-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--cgroup", action="store_true")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.graph is not None:
        large(args)
    elif args.folder is not None:
        against(args)
    else:
        sys.exit("give a FOLDER or --graph FILE")


if __name__ == "__main__":
    main()
