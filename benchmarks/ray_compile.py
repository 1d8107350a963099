"""Compiling on a Ray cluster: two workers of one CPU against one, the file against that of one machine.

    python benchmarks/ray_compile.py FOLDER [--edges N] [--nodes N] [--memory SIZE] [--repeat N] [--json PATH]

Parquet files of N edges (default: 300 M) are created in FOLDER if they do not exist. Clusters of one and of two
CPUs compile them in turn, best of `--repeat`; the ratio of their times is compared with a bar of 1.3. Each cluster is
started and warmed before the clock runs. The most anonymous memory that one worker held is sampled every 200 ms. The
files are compared with that of `graphzero.compile_graph`, byte for byte.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz

FILES, GROUP = 16, 1 << 20


def make_edges(folder: Path, edges: int, nodes: int) -> Path:
    """Parquet files of random edges: sources skewed as those of real graphs, targets uniform."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = folder / f"edges-{edges}-{nodes}"
    if out.exists():
        return out
    making = out.with_suffix(".making")
    making.mkdir(parents=True, exist_ok=True)
    each = -(-edges // FILES)
    for number in range(FILES):
        rng = np.random.default_rng(number)
        left = max(0, min(each, edges - number * each))
        schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
        with pq.ParquetWriter(making / f"{number:03}.parquet", schema, compression="snappy") as writer:
            for at in range(0, left, GROUP):
                count = min(GROUP, left - at)
                src = (rng.random(count) ** 2 * nodes).astype(np.int64)
                writer.write_table(pa.table({"src": src, "dst": rng.integers(0, nodes, count)}))
    making.rename(out)
    return out


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()[1])
        yield pid


class WorkerMemory:
    """The most anonymous memory of one of Ray's workers below this process, while it is watched."""

    def __init__(self) -> None:
        self.most = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            for entry in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if not Path("/proc", entry, "cmdline").read_bytes().startswith(b"ray::"):
                        continue
                    if os.getpid() not in ancestors(int(entry)):
                        continue
                    status = Path("/proc", entry, "status").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                for line in status.splitlines():
                    if line.startswith("RssAnon:"):
                        self.most = max(self.most, int(line.split()[1]) * 1024)


def compile_once(source: str, warm: str, out: str, workers: int, memory: str) -> None:
    """Start a cluster, warm it, compile, and print the figures, in a separate process."""
    os.environ.update(RAY_worker_niceness="0")  # otherwise Ray lowers the priority of its workers
    import ray

    import graphzero.ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    graphzero.ray.compile_graph(warm, out, memory=memory, progress=False)
    with WorkerMemory() as watched:
        report = graphzero.ray.compile_graph(source, out, memory=memory, progress=False)
    print(json.dumps({"seconds": report.seconds, "engine": report.peak_memory, "worker": watched.most}))
    ray.shutdown()


def run_once(source: Path, warm: Path, out: Path, workers: int, memory: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", str(source), str(warm), str(out), str(workers), memory]
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    if sys.argv[1:2] == ["--once"]:
        source, warm, out, workers, memory = sys.argv[2:]
        compile_once(source, warm, out, int(workers), memory)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--edges", type=int, default=300_000_000)
    parser.add_argument("--nodes", type=int, default=0, help="default: a tenth of the edges")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    nodes = args.nodes or max(1000, args.edges // 10)
    source, warm = make_edges(args.folder, args.edges, nodes), make_edges(args.folder, 100_000, 10_000)
    here = gz.compile_graph(source, args.folder / "here.gl", memory=args.memory, progress=False)
    print(f"one machine: {here.seconds['total']:.1f} s")
    best: dict[int, dict[str, Any]] = {}
    for _ in range(args.repeat):
        for workers in (1, 2):
            out = args.folder / f"ray{workers}.gl"
            found = run_once(source, warm, out, workers, args.memory)
            same = filecmp.cmp(out, args.folder / "here.gl", shallow=False)
            if not same:
                raise SystemExit(f"{out} differs from the file of one machine")
            phases = ", ".join(f"{phase} {s:.1f} s" for phase, s in found["seconds"].items() if phase != "total")
            print(
                f"{workers} worker(s): {found['seconds']['total']:.1f} s ({phases}), byte-equal, "
                f"a worker held {found['worker'] / 1e6:.0f} MB, the engine {found['engine'] / 1e6:.0f} MB of it"
            )
            if workers not in best or found["seconds"]["total"] < best[workers]["seconds"]["total"]:
                best[workers] = found
    ratio = best[1]["seconds"]["total"] / best[2]["seconds"]["total"]
    print(f"two workers are {ratio:.2f} times as fast as one (bar: 1.3)")
    if args.json:
        args.json.write_text(json.dumps({"edges": args.edges, "one": best[1], "two": best[2], "ratio": ratio}))


if __name__ == "__main__":
    main()
