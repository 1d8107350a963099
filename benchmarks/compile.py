"""Compiling: edges/s and bytes against GraphZero 0.2, `cp`, and the same compile without a memory limit.

    python benchmarks/compile.py FOLDER [--gz02-python PATH] [--budget] [--ids] [--repeat N] [--json PATH]

FOLDER is made by benchmarks/graph.py (30 M edges as CSV, 2 M rows of 128 float32) and is written to. Every comparison
is made in one run, alternating, best of `--repeat`; only ratios are meaningful. `--budget` writes a
300 M-edge array and compiles it with memory="1GB" in a cgroup of 1.3 GB (root, cgroup v1 or v2), then with
memory="16GB" outside. `--ids` alone reads CSV of ids with 7 and with 9 digits, in turn: MB/s of parsing should hardly
depend on the digits (bar: 0.8). Times include the sync and rename.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graph
import measure
import numpy as np

import graphzero as gz
from graphzero.machine.memory_limit import MemoryLimit, memory_limit

Row = tuple[str, str, str]

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


def run(command: list[str], inside: MemoryLimit | None = None) -> str:
    """Run a command, within a memory limit if one is given; return its output."""
    done = subprocess.run(inside.wrap(command) if inside else command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[:3]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def ours(source: Path, out: Path, memory: str, inside: MemoryLimit | None = None) -> dict[str, Any]:
    seconds, text = timed(lambda: run([sys.executable, "-c", OURS, str(source), str(out), memory], inside))
    return {**json.loads(text), "process_seconds": seconds}


def best(results: list[dict[str, Any]]) -> dict[str, Any]:
    return min(results, key=lambda r: r["seconds"]["total"])


def bench_csv(edges: Path, scratch: Path, peer_python: str | None, repeat: int) -> tuple[list[Row], dict[str, Any]]:
    out, peer_out = scratch / "ours.gl", scratch / "peer.gl"
    mine, peer = [], []
    for _ in range(repeat):
        mine.append(ours(edges, out, "1GB"))
        if peer_python:
            peer.append(timed(lambda: run([peer_python, "-I", "-c", PEER, str(edges), str(peer_out)]))[0])
    top = best(mine)
    total = top["seconds"]["total"]
    figures = {**top, "edges_per_second": top["edges"] / total}
    rate = f"{top['edges'] / total / 1e6:.1f} M edges/s"
    row = (f"{edges.stat().st_size / 1e6:.0f} MB CSV, {top['edges']:,} edges, to .gl", rate, "")
    if not peer:
        return [row], figures
    figures["peer_seconds"] = min(peer)
    figures["times_faster_than_peer"] = min(peer) / total
    figures["whole_process_times_faster"] = min(peer) / min(r["process_seconds"] for r in mine)
    figures["share_of_peer_bytes"] = top["bytes"] / peer_out.stat().st_size
    faster = f"{figures['times_faster_than_peer']:.1f} x GraphZero 0.2.0 ({min(peer):.1f} s)"
    size = (" its file", f"{top['bytes'] / 1e6:.0f} MB", f"{figures['share_of_peer_bytes']:.3f} of 0.2.0's")
    return [(*row[:2], faster), size], figures


def bench_features(features: Path, scratch: Path, repeat: int) -> tuple[list[Row], dict[str, Any]]:
    copy, copy_sync, mine = [], [], []
    target = scratch / "copy.npy"
    for _ in range(repeat):
        copy.append(timed(lambda: run(["cp", str(features), str(target)]))[0])
        copy_sync.append(copy[-1] + timed(lambda: run(["sync", str(target)]))[0])
        mine.append(gz.compile_features(features, scratch / "x.gd", progress=False).seconds["total"])
    size = features.stat().st_size
    figures = {
        "bytes": size,
        "ours_bytes_per_second": size / min(mine),
        "cp_bytes_per_second": size / min(copy),
        "cp_and_sync_bytes_per_second": size / min(copy_sync),
        "share_of_cp": min(copy) / min(mine),
        "share_of_cp_and_sync": min(copy_sync) / min(mine),
    }
    against = f"{figures['share_of_cp']:.2f} of cp, {figures['share_of_cp_and_sync']:.2f} of cp and sync"
    return [(f"{size / 1e9:.2f} GB .npy to .gd, synced", f"{size / min(mine) / 1e9:.2f} GB/s", against)], figures


def make_large(path: Path, edges: int, nodes: int) -> None:
    """A power-law edge array, written block by block."""
    rng = np.random.default_rng(0)
    array = np.lib.format.open_memmap(path, "w+", np.int32, (2, edges))
    for row, power in ((0, 1.8), (1, 2.5)):
        for at in range(0, edges, 10_000_000):
            part = rng.random(min(10_000_000, edges - at)) ** power
            array[row, at : at + len(part)] = (part * nodes).astype(np.int64) * 7919 % nodes
    array.flush()


def bench_budget(scratch: Path, edges: int) -> tuple[list[Row], dict[str, Any]]:
    source, small_out, large_out = scratch / "large.npy", scratch / "large.gl", scratch / "large2.gl"
    make_large(source, edges, edges // 15)
    with memory_limit(1_300_000_000) as group:
        if group is None:
            raise SystemExit("compile: --budget needs a memory cgroup: run as root")
        measure.drop_caches()
        small = ours(source, small_out, "1GB", group)
    measure.drop_caches()
    large = ours(source, large_out, "16GB")
    if not filecmp.cmp(small_out, large_out, shallow=False):
        raise SystemExit("compile: the two files differ")
    rate = {name: r["edges"] / r["seconds"]["total"] for name, r in (("budget", small), ("memory", large))}
    share = rate["budget"] / rate["memory"]
    figures = {"budget": small, "memory": large, "edges_per_second": rate, "share_of_in_memory_rate": share}
    what = f"{small['edges']:,} edges, memory='1GB', in a cgroup of 1.3 GB"
    return [(what, f"{rate['budget'] / 1e6:.1f} M edges/s", f"{share:.2f} of memory='16GB'; equal bytes")], figures


def bench_ids(scratch: Path, edges: int, repeat: int) -> tuple[list[Row], dict[str, Any]]:
    """MB/s of parsing ids of 7 and of 9 digits; the same graph, as the longer ids start at another id_base."""
    ids = np.random.default_rng(0).integers(0, 1_000_000, (edges, 2))
    bases = {7: 1_000_000, 9: 100_000_000}
    rates: dict[int, float] = dict.fromkeys(bases, 0.0)
    for digits, base in bases.items():
        lines = (f"{u},{v}\n" for u, v in (ids + base).tolist())
        (scratch / f"{digits}.csv").write_text("".join(lines))
    for _ in range(repeat):
        for digits, base in bases.items():
            source = scratch / f"{digits}.csv"
            report = gz.compile_graph(source, scratch / "ids.gl", id_base=base, memory="4GB", progress=False)
            rates[digits] = max(rates[digits], source.stat().st_size / report.seconds["reading"])
    ratio = rates[9] / rates[7]
    figures = {"edges": edges, "bytes_per_second": {str(k): v for k, v in rates.items()}, "ratio": ratio, "bar": 0.8}
    rows = [(f"{edges:,} edges of CSV, ids of 7 digits", f"{rates[7] / 1e6:.0f} MB/s", "")]
    rows.append((" ids of 9 digits", f"{rates[9] / 1e6:.0f} MB/s", f"{ratio:.2f} of 7 digits (bar: 0.8)"))
    return rows, figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gz02-python", help="interpreter of a venv with graphzero==0.2.0")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--budget-edges", type=int, default=300_000_000)
    parser.add_argument("--ids", action="store_true", help="measure only the parsing of ids with 7 and 9 digits")
    parser.add_argument("--ids-edges", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    scratch = Path(tempfile.mkdtemp(prefix="graphzero-compile-", dir=folder))
    figures: dict[str, Any] = {}
    try:
        if arguments.ids:
            rows, figures["ids"] = bench_ids(scratch, arguments.ids_edges, arguments.repeat)
        else:
            edges, features = graph.raw(folder)
            rows, figures["csv"] = bench_csv(edges, scratch, arguments.gz02_python, arguments.repeat)
            more, figures["features"] = bench_features(features, scratch, arguments.repeat)
            rows += more
        if arguments.budget:
            more, figures["budget"] = bench_budget(scratch, arguments.budget_edges)
            rows += more
    finally:
        shutil.rmtree(scratch)
    measure.show("Compiling", rows, folder)
    measure.save(arguments.json, figures, folder)


if __name__ == "__main__":
    main()
