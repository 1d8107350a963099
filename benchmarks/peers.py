"""GraphZero beside PyG and GraphBolt, out of core: the same graph, the same cgroup, one after the other; under 10 min.

    python benchmarks/peers.py FOLDER --pyg-python PYTHON --dgl-python PYTHON [--scale 0.05] [--limit 2GB]
                               [--seconds 60] [--json PATH]

FOLDER gets the preset papers100M at `--scale` (3.3 GB at 0.05, float32, and once more as int8) unless it is there, and
its topology as .npy for the others. Every run loads an epoch of the train split, [10, 10, 10] x 1,024, batches
discarded, in a process of its own with a cold page cache, in a control group with the limit:

    PyG         NeighborLoader with torch-sparse, rows by np.memmap with MADV_RANDOM
    GraphBolt   DGL 2.1, the newest on PyPI, which has no DiskBasedFeature: rows by np.memmap with MADV_RANDOM; and all
                of it in RAM, outside of the limit
    GraphZero   NeighborLoader, memory="auto": float32, int8, and LABOR with dependent batches

The others hold the topology in RAM and are stopped after `--seconds`: an epoch is then extrapolated from the later half
of their batches, when the page cache is filled. GraphZero runs two epochs, and the second is shown: its window is
filled too. Published figures of systems that keep features on disk are printed below, with their machines. A peer
whose interpreter is not given is left out. It needs root, for the control group and for emptying the page cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import disk
import measure
import numpy as np
from limited import ENVIRONMENT
from peer_loaders import deliver

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size
from graphzero.machine.memory_limit import MemoryLimit, memory_limit

Options = argparse.Namespace
Figures = dict[str, Any]
FANOUTS, BATCH = [10, 10, 10], 1024
OURS: dict[str, dict[str, Any]] = {"float32": {}, "int8": {}, "labor": {"method": "labor", "batch_dependency": 32}}
# ogbn-papers100M on one machine with a disk, an epoch of 1.2 M seeds, training on a GPU included.
PUBLISHED = [
    ("Ginex", "99.6 s", "[10, 10, 10] x 1,000; 8 GB, 8 cores, V100, PM1725b"),
    ("plain mmap, by Ginex's authors", "216 s", "the same machine"),
    ("GraphBolt, disk and a 10 GB cache", "97 s", "[10, 10, 10] x 1,024; 13 GB of topology in RAM, 32 vCPU, A10G"),
    ("GraphBolt, LABOR, dependent batches", "57.6 s", "the same machine"),
    ("DiskGNN, 5 GB cache", "76.3 s", "[10, 15, 20] x 1,024; 108 s of packing before, GPU"),
    ("MariusGNN, by DiskGNN's authors", "205 s", "[10, 15, 20] x 1,024; DiskGNN's machine"),
    ("DGL over mmap, by DiskGNN's authors", "5,522 s", "[10, 15, 20] x 1,024; DiskGNN's machine"),
]


class Watch:
    """What the processes of a group hold at most, and have read from disks."""

    def __init__(self, group: MemoryLimit) -> None:
        self._folder = group.folder
        self._read: dict[str, int] = {}  # by process
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self.sample()

    def sample(self) -> int:
        """Look now; return the bytes that were read so far."""
        with suppress(OSError):
            words = dict(line.split() for line in (self._folder / "memory.stat").read_text().splitlines())
            held = int(words.get("rss") or words.get("anon") or 0) + int(words.get("shmem", 0))
            self.most = max(self.most, held)
            for pid in (self._folder / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
                    self._read[pid] = next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))
        return sum(self._read.values())

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def watched(command: list[str], limit: int) -> Figures:
    """Run a program that calls `deliver`, in a group; return its figures and the group's."""
    measure.drop_caches()
    with memory_limit(limit) as group:
        if group is None:
            raise SystemExit("peers.py: cannot make a control group: run as root")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(group.wrap(command), env=ENVIRONMENT, **pipes)
        watch, reports = Watch(group), []
        for line in process.stdout or ():
            if line.startswith("{"):  # DGL greets there
                reports.append(json.loads(line) | {"read": watch.sample()})
                with suppress(BrokenPipeError):
                    print(file=process.stdin, flush=True)
        code = process.wait()
        watch.stop()
        found = {"kills": group.kills, "held": watch.most, "group_peak": group.peak or 0}
    if code != 0 or len(reports) < 3:
        return found | {"failed": f"exit code {code}, {max(0, len(reports) - 1)} batches"}
    return found | figures_of(reports)


def figures_of(reports: list[Figures]) -> Figures:
    """Rows a second, and seconds and bytes of an epoch, by the second epoch or the later half of an unfinished run."""
    batches, count = reports[0]["batches"], len(reports) - 1
    first = batches if count == 2 * batches else count // 2
    since, last = reports[first], reports[-1]
    seconds, rows = last["at"] - since["at"], sum(batch["rows"] for batch in reports[first + 1 :])
    share = batches / (count - first)
    return {
        "batches": count,
        "rows_a_batch": rows / (count - first),
        "rows_a_second": rows / seconds,
        "epoch_seconds": seconds * share,
        "epoch_bytes": (last["read"] - since["read"]) * share,
        "first_epoch": reports[batches]["at"] if count >= batches else None,
        "whole": count == 2 * batches,
    }


def ours(args: Options) -> None:
    """Load two epochs in this process."""
    ds = gz.Dataset(args.folder / ("int8" if args.run == "int8" else "float32"))
    loader = gz.NeighborLoader(
        ds, split="train", fanouts=FANOUTS, batch_size=BATCH, shuffle=True, seed=0, dtype="float32", **OURS[args.run]
    )
    deliver(((len(batch.x) for batch in loader) for _ in range(2)), len(loader), args.seconds)


def made(args: Options) -> gz.Dataset:
    """Return the graph, created where it is missing, with its topology as PyG and DGL load it."""
    for dtype in ("float32", "int8"):
        if not (args.folder / dtype / "dataset.json").exists():
            gz.synthesize(args.folder / dtype, preset="papers100M", scale=args.scale, dtype=dtype, memory="2GB")
    ds = gz.Dataset(args.folder / "float32")
    if not (args.folder / "train.npy").exists():
        indptr, indices = ds.graph.csr()
        for name, array in (("indptr", indptr), ("indices", indices), ("labels", ds.labels)):
            np.save(args.folder / f"{name}.npy", array.astype(np.int64))
        np.save(args.folder / "train.npy", ds.splits["train"])
    return ds


def commands(args: Options, ds: gz.Dataset) -> dict[str, tuple[str, list[str], int]]:
    """The runs: a remark, the command, and the limit of its group."""
    limit, store = parse_size(args.limit), ds.features["x"]
    offset = next(array["offset"] for array in store.info["arrays"] if array["name"] == store.name)
    rows = {"rows": store.path, "offset": offset, "nodes": ds.num_nodes, "columns": store.feature_dim}
    common = rows | {"fanouts": ",".join(map(str, FANOUTS)), "batch-size": BATCH, "seconds": args.seconds}
    options = [f"--{name}={value}" for name, value in common.items()]
    program = str(Path(__file__).with_name("peer_loaders.py"))
    runs = {}
    if args.pyg_python:
        command = [args.pyg_python, program, "pyg", str(args.folder), *options]
        runs["PyG, torch-sparse, np.memmap"] = "", command, limit
    if args.dgl_python:
        command = [args.dgl_python, program, "graphbolt", str(args.folder), *options]
        runs["GraphBolt 2.1, np.memmap"] = "", command, limit
        runs["GraphBolt 2.1, all in RAM"] = "no limit", [*command, "--in-ram"], parse_size("64GB")
    own = [sys.executable, *sys.argv, "--run"]
    runs["GraphZero"] = "", [*own, "float32"], limit
    runs["GraphZero, int8"] = "features of a quarter", [*own, "int8"], limit
    runs["GraphZero, LABOR, batch_dependency=32"] = "", [*own, "labor"], limit
    return runs


def shown(found: Figures, remark: str) -> tuple[str, ...]:
    """The cells of a run: an epoch, rows a second, bytes read an epoch, peak memory, remarks."""
    if "failed" in found:
        return "failed", "", "", "", f"{found['failed']}, kernel kills {found['kills']}"
    rows = f"{found['rows_a_batch'] / 1e3:,.0f} K rows a batch"
    how = f"first epoch {found['first_epoch']:.1f} s" if found["whole"] else f"from {found['batches']} batches"
    return (
        f"{found['epoch_seconds']:,.1f} s",
        f"{found['rows_a_second'] / 1e3:,.0f} K",
        format_size(int(found["epoch_bytes"])),
        format_size(found["held"]),
        "; ".join(filter(None, (rows, how, remark))),
    )


def row_of(name: str, cells: tuple[str, ...]) -> tuple[str, str, str]:
    """One line of the table that is printed."""
    seconds, rate, read, held, remark = cells
    return name, seconds, f"{rate} rows/s; {read} read an epoch; peak {held}; {remark}" if rate else remark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyg-python", help="an interpreter with torch-geometric and torch-sparse")
    parser.add_argument("--dgl-python", help="an interpreter with DGL 2.1")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--limit", default="2GB")
    parser.add_argument("--seconds", type=float, default=60, help="stop a run after this long")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=OURS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        ours(args)
        return
    ds = made(args)
    found, rows = {}, []
    for name, (remark, command, limit) in commands(args, ds).items():
        begin = time.perf_counter()
        found[name] = watched(command, limit)
        found[name]["shown"] = shown(found[name], remark)
        rows.append(row_of(name, found[name]["shown"]))
        print(f"{rows[-1]}, {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    disk_speed = disk.speed(Path(ds.features["x"].path))
    sizes = [format_size(store.info["file_bytes"]) for store in (ds.features["x"], ds.graph)]
    title = (
        f"Comparison with other libraries: loading an epoch of {len(ds.splits['train']):,} seeds, {FANOUTS} x "
        f"{BATCH:,}; a synthetic graph of papers100M's shape x {args.scale:g}, {' of features and '.join(sizes)} of "
        f"topology in {args.limit}"
    )
    measure.show(title, [*rows, *disk.rows_of(disk_speed)], args.folder)
    measure.show("Published epochs on ogbn-papers100M: by their authors, on their machines", PUBLISHED, args.folder)
    figures = {"runs": found, "published": PUBLISHED, "disk": disk_speed, "limit": args.limit, "scale": args.scale}
    measure.save(args.json, figures, args.folder)


if __name__ == "__main__":
    main()
