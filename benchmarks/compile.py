"""Compiling: edges/s and bytes against GraphZero 0.2, `cp`, and ourselves with all the memory we want.

    python benchmarks/compile.py --edges edges.csv --features feat.npy --scratch DIR [--peer-python PATH] [--budget]

Every comparison is made in one run, ours and the other in turn, best of `--repeat`; ratios are what counts. `--budget`
writes a 300 M-edge array to the scratch folder and compiles it with memory="1GB" in a cgroup of 1.3 GB (root, cgroup v1
or v2), then with memory="16GB" outside. Times include the sync and rename; what they take is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PEER = "import sys, graphzero as g; g.convert_csv_to_gl(sys.argv[1], sys.argv[2], directed=True)"
OURS = """
import json, sys, graphzero as gz
r = gz.compile_graph(sys.argv[1], sys.argv[2], memory=sys.argv[3], progress=False)
print(json.dumps({"seconds": r.seconds, "bytes": r.bytes, "edges": r.edges, "spilled": r.spilled_bytes,
                  "peak_memory": r.peak_memory}))
"""


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def run(command: list[str], inside: Path | None = None) -> str:
    """Run a command, in a memory cgroup if one is given; return what it printed."""

    def enter() -> None:
        if inside is not None:
            (inside / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=enter)
    if done.returncode != 0:
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def ours(source: Path, out: Path, memory: str, inside: Path | None = None) -> dict[str, Any]:
    seconds, text = timed(lambda: run([sys.executable, "-c", OURS, str(source), str(out), memory], inside))
    return {**json.loads(text), "process_seconds": seconds}


def best(results: list[dict[str, Any]]) -> dict[str, Any]:
    return min(results, key=lambda r: r["seconds"]["total"])


def bench_csv(args: argparse.Namespace) -> dict[str, Any]:
    out, peer_out = args.scratch / "ours.gl", args.scratch / "peer.gl"
    mine, peer = [], []
    for _ in range(args.repeat):
        mine.append(ours(args.edges, out, "1GB"))
        if args.peer_python:
            peer.append(timed(lambda: run([args.peer_python, "-I", "-c", PEER, str(args.edges), str(peer_out)]))[0])
    top = best(mine)
    total, publish = top["seconds"]["total"], top["seconds"]["publishing"]
    result = {
        "edges": top["edges"],
        "seconds": total,
        "seconds_without_publishing": total - publish,
        "phases": top["seconds"],
        "edges_per_second": top["edges"] / total,
        "bytes": top["bytes"],
        "peak_memory": top["peak_memory"],
    }
    if peer:
        result["peer_seconds"] = min(peer)
        result["times_faster_than_peer"] = min(peer) / total
        result["times_faster_without_publishing"] = min(peer) / (total - publish)
        result["whole_process_times_faster"] = min(peer) / min(r["process_seconds"] for r in mine)
        result["share_of_peer_bytes"] = top["bytes"] / peer_out.stat().st_size
    return result


def bench_features(args: argparse.Namespace) -> dict[str, Any]:
    import graphzero as gz

    copy, copy_sync, mine, writing = [], [], [], []
    for _ in range(args.repeat):
        target = args.scratch / "copy.npy"
        copy.append(timed(lambda t=target: run(["cp", str(args.features), str(t)]))[0])
        copy_sync.append(copy[-1] + timed(lambda t=target: run(["sync", str(t)]))[0])
        report = gz.compile_features(args.features, args.scratch / "x.gd", progress=False)
        mine.append(report.seconds["total"])
        writing.append(report.seconds["writing"])
    size = args.features.stat().st_size
    return {
        "bytes": size,
        "ours_bytes_per_second": size / min(mine),
        "cp_bytes_per_second": size / min(copy),
        "cp_and_sync_bytes_per_second": size / min(copy_sync),
        "share_of_cp": min(copy) / min(mine),
        "share_of_cp_without_publishing": min(copy) / min(writing),
        "share_of_cp_and_sync": min(copy_sync) / min(mine),
    }


def make_large(path: Path, edges: int, nodes: int) -> None:
    """A power-law edge array, written block by block."""
    rng = np.random.default_rng(0)
    array = np.lib.format.open_memmap(path, "w+", np.int32, (2, edges))
    for row, power in ((0, 1.8), (1, 2.5)):
        for at in range(0, edges, 10_000_000):
            part = rng.random(min(10_000_000, edges - at)) ** power
            array[row, at : at + len(part)] = (part * nodes).astype(np.int64) * 7919 % nodes
    array.flush()


def memory_group(limit: int) -> Path | None:
    """Make a cgroup with a memory limit; None where that cannot be done."""
    for root, name in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        try:
            group = root / f"graphzero-bench-{os.getpid()}"
            group.mkdir()
            (group / name).write_text(str(limit))
        except OSError:
            continue
        return group
    return None


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def bench_budget(args: argparse.Namespace) -> dict[str, Any]:
    group = memory_group(1_300_000_000)
    if group is None:
        return {"skipped": "no memory cgroup can be made here (needs root)"}
    source = args.scratch / "large.npy"
    make_large(source, args.budget_edges, args.budget_edges // 15)
    try:
        drop_caches()
        small = ours(source, args.scratch / "large.gl", "1GB", group)
        drop_caches()
        large = ours(source, args.scratch / "large2.gl", "16GB")
        same = run(["cmp", str(args.scratch / "large.gl"), str(args.scratch / "large2.gl")]) == ""
    finally:
        group.rmdir()
    rate = {name: r["edges"] / r["seconds"]["total"] for name, r in (("budget", small), ("memory", large))}
    return {
        "edges": small["edges"],
        "edges_per_second": rate,
        "share_of_in_memory_rate": rate["budget"] / rate["memory"],
        "spilled_bytes": small["spilled"],
        "peak_memory": small["peak_memory"],
        "phases": {"budget": small["seconds"], "memory": large["seconds"]},
        "files_are_equal": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=Path, help="a CSV of src,dst lines")
    parser.add_argument("--features", type=Path, help="a .npy matrix")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peer-python", help="the interpreter of a venv with graphzero==0.2.0")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--budget-edges", type=int, default=300_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    folder = args.scratch / f"graphzero-compile-{os.getpid()}"
    folder.mkdir(parents=True)
    args.scratch = folder
    results: dict[str, Any] = {
        "machine": {"cpu": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    }
    try:
        if args.edges:
            results["csv"] = bench_csv(args)
        if args.features:
            results["features"] = bench_features(args)
        if args.budget:
            results["budget"] = bench_budget(args)
    finally:
        shutil.rmtree(folder)
    for topic, figures in results.items():
        for name, value in figures.items():
            print(f"{topic:10} {name:36} {value if not isinstance(value, float) else f'{value:,.3f}'}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
