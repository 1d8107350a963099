"""The shape of ogbn-papers100M at full scale, in 8 and 16 GB: mount, walks, loading, training, a whole epoch.

    python benchmarks/papers100m.py FOLDER [--scale 1] [--dtype float16] [--order degree] [--limits 8GB,16GB]
                                    [--only mount,walks,load,deep,train,epoch] [--batches 200] [--before-batches 20]
                                    [--json PATH]

FOLDER gets the preset with float16 rows (36.7 GB at scale 1) unless it holds a dataset. Each part then runs in a
separate process, in a control group with the limit and with a cold page cache:

    mount   opening graph and features
    walks   uniform walks of 10 steps on the cold file, and after preload() (or, where the file does not fit, after a
            minute of walking)
    load    the loader, batches discarded: an epoch of [10, 5], --batches of [15, 10, 5]; also batch by batch
            (cache="off"), for --before-batches
    deep    two epochs of the loader, [10, 10, 10], as published systems are measured, shuffled as for training: rows of
            the second are read while the first ends; also with dependent batches (LABOR, batch_dependency=32)
    train   GraphSAGE of 256 columns over the same loaders
    epoch   `graphzero train`: an epoch of the train split, validation and test

The claims of GraphZero 0.2's README are printed next to the figures. It needs root, for the control group.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import limited
import measure
import numpy as np
from epochs import Step, make_loader, over, over_epochs, thrown_away

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size
from graphzero.train import TrainOptions

Options = argparse.Namespace
Row = tuple[str, str, str]
PARTS = ("mount", "walks", "load", "deep", "train", "epoch")
DEEP, DEPENDENT = "10,10,10", {"method": "labor", "batch_dependency": 32}
FANOUTS = ("10,5", "15,10,5")
STEPS, WALKERS = 10, 100_000
CLAIMED = {"mount": "0 s", "file": "13 GB", "memory": "5.1 GB", "walks": "1.26 M steps/s"}


def mount(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "dataset.json").read_text())
    begin = time.perf_counter()
    ds = gz.Dataset(folder)
    nodes = ds.graph.num_nodes
    shape = ds.features["x"].shape
    seconds = time.perf_counter() - begin
    files = {"topology": ds.graph.info["file_bytes"], "features": ds.features["x"].info["file_bytes"]}
    return {"seconds": seconds, "nodes": nodes, "shape": shape, "files": files, "name": manifest.get("name")}


def walks(folder: Path) -> dict[str, Any]:
    g = gz.Dataset(folder).graph
    random = np.random.default_rng(0)

    def rate() -> float:
        starts = random.integers(0, g.num_nodes, min(WALKERS, g.num_nodes))
        begin = time.perf_counter()
        g.batch_random_walk_uniform(starts, STEPS, seed=1)
        return float(starts.size * STEPS / (time.perf_counter() - begin))

    first = rate()
    begin = time.perf_counter()
    try:
        g.preload()
        how = "preload()"
    except gz.BudgetError:  # larger than the group: the pages read by a minute of walks
        how = "a minute of walks"
        while time.perf_counter() - begin < 60:
            rate()
    seconds = time.perf_counter() - begin
    return {"cold": first, "warm": max(rate() for _ in range(5)), "how": how, "warm_up_seconds": seconds}


def load(folder: Path, args: Options) -> dict[str, Any]:
    ds = gz.Dataset(folder)
    fanouts = [int(n) for n in args.fanouts.split(",")]
    short = args.before_batches if args.cache == "off" else args.batches
    batches = None if args.cache != "off" and args.fanouts == FANOUTS[0] else short
    loader = make_loader(ds, fanouts, args.batch_size, batches, cache=args.cache)
    return over(loader, Step(ds, 256, len(fanouts)) if args.run == "train" else thrown_away)


def deep(folder: Path, dependent: bool) -> dict[str, Any]:
    fanouts = [int(n) for n in DEEP.split(",")]
    options: dict[str, Any] = {"shuffle": True} | (DEPENDENT if dependent else {})
    loader = make_loader(gz.Dataset(folder), fanouts, 1024, None, **options)
    return over_epochs(loader, thrown_away, 2)


def epoch(folder: Path, limit: str) -> dict[str, Any]:
    """`graphzero train` with the budget that its options take: "auto", or a quarter of the limit."""
    try:
        memory = TrainOptions(memory="auto").memory
    except ValueError:
        memory = f"{parse_size(limit) // 4 >> 20}MB"
    command = [sys.executable, "-m", "graphzero", "train", str(folder), "--fanouts", "10,5", "--epochs", "1"]
    return limited.execute([*command, "--memory", str(memory), "--json"], parse_size(limit))


def rows_of_load(limit: str, what: str, figures: dict[str, Any], note: str = "") -> Row:
    name = f"{limit}: {what}"
    if "failed" in figures:
        return name, "failed", f"{figures['failed']}, kernel kills {figures.get('kills')}"
    stats, plan = figures["stats"], figures["stats"]["plan"]
    read = (stats["bytes_read"] + stats["topology_bytes_read"]) / figures["batches"] / 1e6
    against = (
        f"{note}{figures['batches']} batches, {read:,.0f} MB read a batch, window {plan['window']}, "
        f"topology by {plan['topology']}, {format_size(figures['peak_anonymous'])} anonymous"
    )
    return name, f"{1 / figures['a_batch']:.1f} batches/s", against


def rows_of_deep(name: str, done: dict[str, Any]) -> list[Row]:
    if "failed" in done:
        return [(name, "failed", f"{done['failed']}, kernel kills {done['kills']}")]
    first, later = (seconds * done["batches"] for seconds in done["epochs"])
    read = " and ".join(format_size(size) for size in done["bytes_read"])
    memory = f"{format_size(done['peak_anonymous'])} anonymous, kernel kills {done['kills']}"
    return [(name, f"{first:.0f} s", f"then {later:.0f} s; {done['batches']} batches, {read} read, {memory}")]


def measured(limit: str, args: Options) -> tuple[list[Row], dict[str, Any]]:
    """All parts in a group of `limit`."""
    rows: list[Row] = []
    found: dict[str, Any] = {}

    def run(part: str, name: str, *options: str) -> dict[str, Any]:
        figures = limited.run(part, parse_size(limit), *options)
        found[name] = figures
        print(f"{limit} {name}: {figures.get('failed', 'done')}", file=sys.stderr)
        return figures

    if "mount" in args.only:
        done = run("mount", "mount")
        rows.append((f"{limit}: mount", f"{done['seconds'] * 1e3:.1f} ms", f"claimed by 0.2: {CLAIMED['mount']}"))
        sizes = " and ".join(f"{format_size(size)} of {name}" for name, size in done["files"].items())
        rows.append((f"{limit}: files", sizes, f"claimed: a file of {CLAIMED['file']}"))
    if "walks" in args.only:
        done = run("walks", "walks")
        if "failed" in done:
            rows.append((f"{limit}: walks", "failed", done["failed"]))
        else:
            rows.append((f"{limit}: uniform walks, cold", f"{done['cold'] / 1e6:.2f} M steps/s", f"{WALKERS:,} walks"))
            against = f"claimed: {CLAIMED['walks']}; {done['warm_up_seconds']:.1f} s of warming up"
            rows.append((f"{limit}: after {done['how']}", f"{done['warm'] / 1e6:.2f} M steps/s", against))
            rows.append((f"{limit}: memory, walks", format_size(done["group_peak"] or 0), "with page cache"))
    for options in ([], ["--dependent"]) if "deep" in args.only else ():
        name = f"load [{DEEP}]{', dependent batches' if options else ''}"
        done = run("deep", name, *options)
        rows += rows_of_deep(f"{limit}: {name}", done)
    for fanouts in FANOUTS:
        if "load" in args.only:
            now = run("load", f"load {fanouts}", "--fanouts", fanouts)
            before = run("load", f"before {fanouts}", "--fanouts", fanouts, "--cache", "off")
            gain = f"{before['a_batch'] / now['a_batch']:.1f} x; " if "a_batch" in before and "a_batch" in now else ""
            rows.append(rows_of_load(limit, f"load [{fanouts}]", now, gain))
            rows.append(rows_of_load(limit, f"load [{fanouts}], batch by batch", before))
        if "train" in args.only:
            rows.append(
                rows_of_load(limit, f"train [{fanouts}]", run("train", f"train {fanouts}", "--fanouts", fanouts))
            )
    if "epoch" in args.only:
        found["epoch"] = epoch(args.folder, limit)
        rows += rows_of_epoch(limit, found["epoch"])
    return rows, found


def rows_of_epoch(limit: str, done: dict[str, Any]) -> list[Row]:
    if "failed" in done:
        return [(f"{limit}: epoch", "failed", f"{done['failed']}, kernel kills {done['kills']}")]
    of, memory = done["epochs"][0], done["options"]["memory"]
    accuracy = "" if done["test_accuracy"] is None else f", accuracy on synthetic labels {done['test_accuracy']:.1%}"
    return [
        (f"{limit}: epoch of {of['seeds']:,} seeds", f"{of['seconds']:.0f} s", f"[10, 5], memory={memory}"),
        (f"{limit}: with validation and test", f"{done['seconds']:.0f} s", f"kernel kills {done['kills']}{accuracy}"),
        (f"{limit}: anonymous memory", format_size(done["peak_anonymous"]), f"claimed: {CLAIMED['memory']} of RAM"),
        (f"{limit}: memory with page cache", format_size(done["group_peak"] or 0), ""),
        (f"{limit}: bytes read, epoch", format_size(of["bytes_read"]), f"bottleneck: {of['bottleneck']}"),
    ]


def make(args: Options) -> None:
    if (args.folder / "dataset.json").exists():
        return
    begin = time.perf_counter()
    gz.synthesize(args.folder, preset="papers100M", scale=args.scale, dtype=args.dtype, order=args.order, memory="2GB")
    print(f"made in {time.perf_counter() - begin:.0f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--order", help="of the nodes, such as degree (default: none)")
    parser.add_argument("--limits", default="8GB,16GB")
    parser.add_argument("--only", type=lambda t: t.split(","), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--before-batches", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--json")
    parser.add_argument("--run", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--fanouts", help=argparse.SUPPRESS)  # of one child
    parser.add_argument("--cache", default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--dependent", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.only) - set(PARTS):
        parser.error(f"--only has {', '.join(unknown)}, expected some of {', '.join(PARTS)}")
    if args.run:
        work = {"mount": lambda: mount(args.folder), "walks": lambda: walks(args.folder)}
        work["deep"] = lambda: deep(args.folder, args.dependent)
        limited.child(work.get(args.run, lambda: load(args.folder, args)))
        return
    make(args)
    rows: list[Row] = []
    figures = {}
    for limit in args.limits.split(","):
        more, figures[limit] = measured(limit, args)
        rows += more
    x = gz.Dataset(args.folder).features["x"]
    measure.show(
        f"papers100M's shape, synthetic: {x.num_nodes:,} nodes, {x.feature_dim} x {x.dtype_name} (with the claims of "
        "GraphZero 0.2)",
        rows,
        args.folder,
    )
    measure.save(args.json, {"scale": args.scale, **figures}, args.folder)


if __name__ == "__main__":
    main()
