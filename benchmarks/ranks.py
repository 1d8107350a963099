"""Ranks of one host over one file: two processes of one thread against one process of two threads.

    python benchmarks/ranks.py FOLDER [--ranks 2] [--memory 600MB] [--batches 1000] [--repeat 2] [--json PATH]

FOLDER is a dataset, created if it does not exist: 4 M nodes of 128 float32 (2 GB) and 40 M edges. Each run loads the
same epoch with a cold cache and the same total memory, in a control group whose limit is too small for the file, and
discards the batches:

    one      a single process with as many threads as there are ranks
    ranks    processes of one thread each that share the memory and the reads (LOCAL_WORLD_SIZE, as torchrun sets it)
    apart    the same without sharing, each with its part of the memory

Batches per second are those of all ranks, from the moment that all have made their plans. Bytes read are the kernel's
count (/proc/PID/io), page faults included. It needs root, for the control group.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import limited
import measure
from epochs import make_loader

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size

RUNS = ("one", "ranks", "apart")


def worker(args: argparse.Namespace) -> None:
    """One rank: make the plan, wait for the start signal, load the epoch."""
    ds = gz.Dataset(args.folder)
    loader = make_loader(ds, args.fanouts, args.batch_size, args.batches, memory=args.worker_memory,
                         num_threads=args.threads, rank=args.rank, world_size=args.world)  # fmt: skip
    before = limited.bytes_read()
    loader._ready_plan()
    print("ready", flush=True)
    sys.stdin.readline()
    begin, cpu = time.perf_counter(), time.process_time()
    count = sum(1 for _ in loader)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    read, stats = limited.bytes_read() - before, loader.stats().to_dict()
    print(json.dumps({"batches": count, "seconds": seconds, "cpu": cpu, "read": read, "stats": stats}))


def all_workers(args: argparse.Namespace) -> dict[str, Any]:
    """The processes of a run, inside its control group."""
    world, memory = 1 if args.run == "one" else args.ranks, parse_size(args.memory)
    shared = args.run == "ranks"
    children = []
    for rank in range(world):
        given = ["--rank", rank, "--world", world, "--threads", args.ranks // world,
                 "--worker-memory", memory if shared or world == 1 else memory // world]  # fmt: skip
        env = {"LOCAL_WORLD_SIZE": str(world if shared else 1), "LOCAL_RANK": str(rank if shared else 0)}
        command = [sys.executable, sys.argv[0], *sys.argv[1:], *map(str, given)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children.append(subprocess.Popen(command, text=True, env=os.environ | env, **pipes))
    for child in children:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise SystemExit("ranks: a rank failed")
    done = [child.communicate("go\n")[0] for child in _started(children)]
    found = [json.loads(text.splitlines()[-1]) for text in done]
    batches, seconds = sum(f["batches"] for f in found), max(f["seconds"] for f in found)
    sums = {name: sum(f[name] for f in found) for name in ("read", "cpu")}
    return {"rate": batches / seconds, "batches": batches, "workers": found} | sums


def _started(children: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """Send the start signal to all ranks before waiting for the first."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


def compare(args: argparse.Namespace) -> None:
    """All runs, in turns; the best rate and the fewest bytes of each."""
    features = gz.Dataset(args.folder).features["x"].info["file_bytes"]
    topology = gz.Dataset(args.folder).graph.info["file_bytes"]
    limit = parse_size(args.limit) if args.limit else parse_size(args.memory) + topology + args.ranks * (350 << 20)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNS[: 2 if args.no_apart else 3]}
    for _ in range(args.repeat):
        for name, done in runs.items():
            done.append(limited.run(name, limit))
            if "failed" in done[-1]:
                raise SystemExit(f"ranks: {name} failed: {done[-1]}")
            print(f"{name}: {done[-1]['rate']:.1f} batches/s, {format_size(done[-1]['read'])} read", file=sys.stderr)
    rate = {name: max(d["rate"] for d in done) for name, done in runs.items()}
    read = {name: min(d["read"] for d in done) for name, done in runs.items()}
    cpu = {name: min(d["cpu"] for d in done) for name, done in runs.items()}

    def row(name: str, what: str) -> tuple[str, str, str]:
        against = f"{format_size(read[name])} read, {cpu[name]:.1f} s of CPU"
        if name != "one":
            against += f"; {rate[name] / rate['one']:.2f} of one process, {read[name] / read['one']:.2f} of its bytes"
        return what, f"{rate[name]:.1f} batches/s", against

    plan = runs["ranks"][-1]["workers"][0]["stats"]["plan"]
    rows = [
        row("one", f"one process, {args.ranks} threads"),
        row("ranks", f"{args.ranks} ranks of one thread, sharing"),
        *([] if args.no_apart else [row("apart", f"{args.ranks} ranks of one thread, each by itself")]),
        ("kernel kills", str(sum(d["kills"] for done in runs.values() for d in done)), f"limit {format_size(limit)}"),
    ]
    size = format_size(features)
    title = f"Ranks of one host: {size} of features, memory={args.memory}, {args.fanouts} x {args.batch_size}"
    measure.show(title, rows, args.folder)
    print(f"  {plan['why']}")
    measure.save(args.json, {"runs": runs, "limit": limit}, args.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--edges", type=int, default=40_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--memory", default="600MB", help="for all ranks together")
    parser.add_argument("--limit", help="limit of the control group (default: enough for memory, topology and Python)")
    parser.add_argument("--fanouts", type=lambda t: [int(n) for n in t.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--no-apart", action="store_true", help="omit the ranks that do not share")
    parser.add_argument("--json")
    for name in ("--rank", "--world", "--threads", "--worker-memory"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        worker(args)
    elif args.run:
        print(json.dumps(all_workers(args)))
    else:
        if not (args.folder / "dataset.json").exists():
            splits = {"train": 0.5, "valid": 0.001, "test": 0.001}
            gz.synthesize(args.folder, nodes=args.nodes, edges=args.edges, dim=args.dim, memory="1GB", splits=splits)
        compare(args)


if __name__ == "__main__":
    main()
