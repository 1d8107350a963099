"""Training on a graph four times the memory there is, against the same model over plain mmap tensors.

    python benchmarks/outofcore.py FOLDER [--limit 3GB] [--memory 1.5GB] [--batches 40] [--json PATH]

FOLDER is a dataset, made first where there is none: 24 M nodes of 128 float32 (12 GB) and 400 M edges (1.8 GB). Four
runs, each in a process of its own inside a control group with the same limit, with a cold cache:

    training       the loader within its budget, GraphSAGE training
    reads alone    the same loader, batches thrown away
    compute alone  the same training steps on batches that are in RAM already
    plain mmap     np.memmap rows, the same sampler, the same model: one batch after the other

It needs root, for the control group. A page fault's cost depends on the disk's readahead, which is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
from torch.nn import functional

import graphzero as gz
from graphzero._limit import memory_limit
from graphzero._sizes import format_size, parse_size
from graphzero.train import GraphSAGE, MemoryMonitor

Options = argparse.Namespace


class Step:
    """One training step, as every run takes it."""

    def __init__(self, ds: gz.Dataset, hidden: int, layers: int) -> None:
        torch.manual_seed(0)
        self.model = GraphSAGE(ds.features["x"].feature_dim, hidden, ds.num_classes, layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)

    def __call__(self, batch: Any) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
        functional.cross_entropy(out, batch.y).backward()
        self.optimizer.step()


def make_loader(ds: gz.Dataset, args: Options, batches: int) -> gz.NeighborLoader:
    seeds = np.random.default_rng(0).permutation(ds.splits["train"])[: batches * args.batch_size]
    return gz.NeighborLoader(
        ds.graph,
        ds.features["x"],
        fanouts=args.fanouts,
        seeds=seeds,
        labels=ds.labels,
        batch_size=args.batch_size,
        seed=0,
        memory=args.memory,
        prefetch=args.prefetch,
    )


def over(loader: gz.NeighborLoader, use: Callable[[Any], None]) -> dict[str, Any]:
    begin = time.perf_counter()
    count = 0
    first = 0.0
    for batch in loader:
        first = first or time.perf_counter() - begin
        use(batch)
        count += 1
    seconds = time.perf_counter() - begin
    # the first batch is waited for by any pipeline; a steady epoch is what is compared
    return {"seconds": seconds, "steady": (seconds - first) / (count - 1), "first": first, "batches": count}


def training(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    loader = make_loader(ds, args, args.batches)
    step = Step(ds, args.hidden, len(args.fanouts))
    return over(loader, step) | {"stats": loader.stats().to_dict()}


def reads(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    loader = make_loader(ds, args, args.batches)
    return over(loader, lambda batch: None) | {"stats": loader.stats().to_dict()}


def compute(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    # batches of the same graph with rows of noise: the step's cost does not depend on what is in them
    kept = []
    for batch in make_loader(ds, args, 4):
        kept.append(batch)
    step = Step(ds, args.hidden, len(args.fanouts))
    step(kept[0])
    begin = time.perf_counter()
    for number in range(args.batches):
        step(kept[number % len(kept)])
    return {"steady": (time.perf_counter() - begin) / args.batches, "batches": args.batches}


def plain(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    store = ds.features["x"]
    offset = next(a["offset"] for a in store.info["arrays"] if a["name"] == store.name)
    x = np.memmap(store.path, dtype=store.dtype, mode="r", offset=offset, shape=store.shape)
    seeds = np.random.default_rng(0).permutation(ds.splits["train"])
    step = Step(ds, args.hidden, len(args.fanouts))
    labels = torch.from_numpy(ds.labels)
    begin = time.perf_counter()
    count = 0
    while count < args.batches and time.perf_counter() - begin < args.plain_seconds:
        ids = seeds[count * args.batch_size : (count + 1) * args.batch_size]
        part = ds.graph.sample(ids, args.fanouts, seed=count)
        batch = gz.Batch(
            x=torch.from_numpy(x[part.node]),
            y=labels[ids],
            edge_index=torch.from_numpy(np.stack([part.row, part.col])),
            num_sampled_nodes=list(part.num_sampled_nodes),
            num_sampled_edges=list(part.num_sampled_edges),
        )
        step(batch)
        count += 1
    return {"steady": (time.perf_counter() - begin) / count, "batches": count}


RUNS: dict[str, Callable[[gz.Dataset, Options], dict[str, Any]]] = {
    "training": training,
    "reads": reads,
    "compute": compute,
    "plain": plain,
}


def child(name: str, args: Options) -> None:
    with MemoryMonitor() as monitor:
        figures = RUNS[name](gz.Dataset(args.folder), args)
    print(json.dumps(figures | {"peak_anonymous": monitor.peak_anonymous}))


def limited(name: str, args: Options) -> dict[str, Any]:
    """Run one of RUNS in a group of its own, with a cold cache."""
    measure.drop_caches()
    with memory_limit(parse_size(args.limit)) as group:
        if group is None:
            raise SystemExit("outofcore: cannot make a control group: run as root")
        command = [sys.executable, __file__, *sys.argv[1:], "--run", name]
        environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as `graphzero train` has it, for every run alike
        done = subprocess.run(group.wrap(command), stdout=subprocess.PIPE, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"outofcore: {name} failed with {done.returncode}, killed by the kernel: {group.kills}")
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name}: {figures['steady'] * 1e3:,.0f} ms a batch of {figures['batches']}", file=sys.stderr)
        return figures | {"kills": group.kills, "group_peak": group.peak}


def make(args: Options) -> None:
    if (args.folder / "dataset.json").exists():
        return
    splits = {"train": args.train_share, "valid": 0.001, "test": 0.001}
    gz.synthesize(args.folder, nodes=args.nodes, edges=args.edges, dim=args.dim, memory="2GB", splits=splits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=24_000_000)
    parser.add_argument("--edges", type=int, default=400_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--train-share", type=float, default=0.01)
    parser.add_argument("--limit", default="3GB")
    parser.add_argument("--memory", default="1.5GB")
    parser.add_argument("--fanouts", type=lambda t: [int(n) for n in t.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--prefetch", type=int, default=4)
    parser.add_argument("--plain-seconds", type=float, default=60, help="stop the plain run after this long")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=list(RUNS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        child(args.run, args)
        return
    make(args)
    runs = {name: limited(name, args) for name in RUNS}
    ds = gz.Dataset(args.folder)
    steady = {name: run["steady"] for name, run in runs.items()}
    bound = max(steady["compute"], steady["reads"])
    measure.show(
        f"Out of core: {format_size(ds.features['x'].info['file_bytes'])} of features and "
        f"{format_size(ds.graph.info['file_bytes'])} of topology in {args.limit}, "
        f"{args.fanouts} x {args.batch_size}, readahead {measure.machine(args.folder)['read_ahead_kb']} KB",
        [
            ("training, ms a batch", f"{steady['training'] * 1e3:,.0f}", f"kernel kills: {runs['training']['kills']}"),
            ("reads alone", f"{steady['reads'] * 1e3:,.0f}", f"of {runs['reads']['batches']} batches"),
            ("compute alone", f"{steady['compute'] * 1e3:,.0f}", ""),
            ("plain mmap", f"{steady['plain'] * 1e3:,.0f}", f"of {runs['plain']['batches']} batches"),
            ("training / max(reads, compute)", f"{steady['training'] / bound:.2f}", "1 is perfect overlap"),
            ("plain mmap / training", f"{steady['plain'] / steady['training']:.1f}", ""),
            ("peak anonymous memory", format_size(runs["training"]["peak_anonymous"]), f"memory={args.memory}"),
            ("bytes read, training", format_size(runs["training"]["stats"]["bytes_read"]), ""),
        ],
        args.folder,
    )
    measure.save(args.json, {"runs": runs, "limit": args.limit, "memory": args.memory}, args.folder)


if __name__ == "__main__":
    main()
