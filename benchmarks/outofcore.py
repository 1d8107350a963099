"""Training on a graph several times larger than memory, against RAM, batch-by-batch reads and mmap.

    python benchmarks/outofcore.py FOLDER [--limit 3GB] [--memory auto] [--batches N] [--epochs 4] [--json PATH]
    python benchmarks/outofcore.py FOLDER --only training,reads
    python benchmarks/outofcore.py FOLDER --sweep [--limits 1GB,2GB,3GB,6GB,12GB] [--shares 0.2,0.35,0.5,0.65,0.8]
    python benchmarks/outofcore.py FOLDER --cold-start [--epochs 4]

FOLDER is a dataset, created if it does not exist: 24 M nodes of 128 float32 (12 GB) and 400 M edges (1.8 GB). Each
run is a process of its own with a cold cache, inside a control group with the limit, over the train split:

    before         the loader with cache="off": rows are read batch by batch; batches discarded
    reads          the loader, batches discarded
    training       the loader, GraphSAGE training, --epochs of the split, shuffled
    compute        the same training steps on batches that are already in RAM
    in RAM         the same training without a limit: by the loader over warm files, and step by step from tensors
    MADV_RANDOM    np.memmap rows with that advice, the same sampler, the same model: one batch after the other
    plain mmap     the same without it, with --default-advice: minutes per batch if the disk's readahead is large

--only makes some of these runs. --sweep trains an epoch with memory="auto" and with fixed shares of each limit.
--cold-start takes the graph of benchmarks/graph.py in FOLDER: epochs from a cold file, from a warm one, and from a
copy of the rows (cache="on"). It needs root, for the control group. A page fault's cost depends on the disk's
readahead, which is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import disk
import graph
import limited
import measure
import numpy as np
import torch
from epochs import Step, make_loader, over, over_epochs, seeds_of, thrown_away

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size

Options = argparse.Namespace


def loader(ds: gz.Dataset, args: Options, batches: int | None = None, **options: Any) -> gz.NeighborLoader:
    options = {"memory": args.memory, "prefetch": args.prefetch} | options
    return make_loader(ds, args.fanouts, args.batch_size, batches or args.batches, **options)


def before(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    return over(loader(ds, args, cache="off"), thrown_away)


def reads(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    return over(loader(ds, args), thrown_away)


def training(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    step = Step(ds, args.hidden, len(args.fanouts))
    return over_epochs(loader(ds, args, shuffle=True), step, args.epochs)


def compute(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    kept = list(loader(ds, args, batches=4))
    step = Step(ds, args.hidden, len(args.fanouts))
    step(kept[0])
    count = min(args.batches or 60, 60)
    begin = time.perf_counter()
    for number in range(count):
        step(kept[number % len(kept)])
    return {"a_batch": (time.perf_counter() - begin) / count, "batches": count}


def ram(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    begin = time.perf_counter()
    ds.graph.preload()
    ds.features["x"].preload()
    load = time.perf_counter() - begin
    return training(ds, args) | {"load": load}


def tensors(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    ds.graph.preload()
    return one_after_another(ds, args, torch.from_numpy(np.array(ds.features["x"].get_tensor())))


def plain(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    return one_after_another(ds, args, disk.mapped(ds.features["x"], random=False), args.plain_seconds)


def advised(ds: gz.Dataset, args: Options) -> dict[str, Any]:
    return one_after_another(ds, args, disk.mapped(ds.features["x"], random=True), args.plain_seconds)


def one_after_another(ds: gz.Dataset, args: Options, x: Any, most_seconds: float = 1e9) -> dict[str, Any]:
    """Sample, index, train: a loop without a loader."""
    size = args.batch_size
    seeds = seeds_of(ds, args.batches and args.batches * size)
    step = Step(ds, args.hidden, len(args.fanouts))
    labels = torch.from_numpy(ds.labels)
    begin = time.perf_counter()
    count = 0
    while count * size < len(seeds) and time.perf_counter() - begin < most_seconds:
        ids = seeds[count * size : (count + 1) * size]
        part = ds.graph.sample(ids, args.fanouts, seed=count)
        batch = gz.Batch(
            x=torch.as_tensor(x[part.node]).float(),
            y=labels[ids],
            edge_index=torch.from_numpy(np.stack([part.row, part.col])),
            num_sampled_nodes=list(part.num_sampled_nodes),
            num_sampled_edges=list(part.num_sampled_edges),
        )
        step(batch)
        count += 1
    seconds = time.perf_counter() - begin
    return {"a_batch": seconds / count, "batches": count, "seconds": seconds}


RUNS = {
    "before": before,
    "reads": reads,
    "training": training,
    "compute": compute,
    "ram": ram,
    "tensors": tensors,
    "plain": plain,
    "advised": advised,
}
UNLIMITED = ("compute", "ram", "tensors")  # they measure data in RAM


def run(name: str, args: Options, limit: str, *options: str) -> dict[str, Any]:
    figures = limited.run(name, None if name in UNLIMITED else parse_size(limit), *options, cold=name != "compute")
    said = figures.get("failed") or f"{figures['a_batch'] * 1e3:,.0f} ms a batch of {figures['batches']}"
    print(f"{name} {limit} {' '.join(options)}: {said}", file=sys.stderr)
    return figures


def read_by(figures: dict[str, Any]) -> int:
    """Bytes that a run's loader read explicitly: rows, and topology that is sampled from disk."""
    return int(figures["stats"]["bytes_read"] + figures["stats"]["topology_bytes_read"])


def ms_of(figures: list[float]) -> str:
    return ", ".join(f"{figure:,.0f}" for figure in figures) + " ms a batch"


def compare(args: Options, ds: gz.Dataset) -> None:
    """All runs under one limit."""
    runs = {name: run(name, args, args.limit) for name in RUNS if name != "plain" or args.default_advice}
    for name, figures in runs.items():
        if "failed" in figures:
            raise SystemExit(f"outofcore: {name} failed: {figures}")
    ms = {name: figures["a_batch"] * 1e3 for name, figures in runs.items()}
    found = disk.speed(Path(ds.features["x"].path))
    stats, plan = runs["training"]["stats"], runs["training"]["stats"]["plan"]
    a_batch = stats["rows"] / stats["batches"]
    in_ram = min(ms["ram"], ms["tensors"])
    first, *later = (1e3 * seconds for seconds in runs["training"]["epochs"])

    def row(name: str, what: str, against: str = "") -> tuple[str, str, str]:
        return what, f"{ms[name]:,.0f} ms a batch", against or f"of {runs[name]['batches']} batches"

    start = f"planned in {runs['reads']['planning']:.1f} s, first batch {runs['reads']['first']:.1f} s later"
    kills = sum(figures.get("kills", 0) for figures in runs.values())
    slower = [
        row(name, what, f"training is {ms[name] / ms['training']:.1f} times faster")
        for name, what in (("advised", "mmap, MADV_RANDOM"), ("plain", "mmap, default advice"))
        if name in ms
    ]
    rows = [
        row("training", f"training, {args.epochs} epochs", f"of {runs['training']['batches']} batches each"),
        row("ram", "training in RAM, loader over warm files"),
        row("tensors", "training in RAM, tensors, step by step"),
        (
            "training / in RAM, speed",
            f"{in_ram / ms['training']:.2f}",
            "against the faster of the two, its files in RAM",
        ),
        ("the same, first epoch", f"{in_ram / first:.2f}", f"{first:,.0f} ms a batch, from a cold disk"),
        *[("the same, later epochs", f"{in_ram / (sum(later) / len(later)):.2f}", ms_of(later))][: len(later)],
        (
            "the same, from a cold disk both",
            f"{(runs['ram']['load'] + runs['ram']['seconds']) / runs['training']['seconds']:.2f}",
            f"the loader over warm files, {runs['ram']['load']:.1f} s to read them included",
        ),
        row("reads", "reads alone", f"window of {runs['reads']['stats']['plan']['window']} batches, {start}"),
        row("before", "reads alone, batch by batch", 'cache="off"'),
        ("reads / batch by batch, speed", f"{ms['before'] / ms['reads']:.1f}", ""),
        row("compute", "compute alone"),
        *slower,
        *disk.rows_of(found),
        (
            "a 4 KiB read a row, at that rate",
            f"{a_batch / found['random'] * 1e3:,.0f} ms a batch",
            f"{a_batch:,.0f} rows",
        ),
        (
            "bytes read by the loader, training",
            format_size(sum(runs["training"]["bytes_read"]) // args.epochs),
            f"an epoch of {stats['batches']} batches",
        ),
        ("bytes read by the loader, batch by batch", format_size(read_by(runs["before"])), ""),
        ("peak anonymous memory", format_size(runs["training"]["peak_anonymous"]), f"memory={args.memory}"),
        ("kernel kills", str(kills), ""),
    ]
    title = (
        f"Out of core: {format_size(ds.features['x'].info['file_bytes'])} of features and "
        f"{format_size(ds.graph.info['file_bytes'])} of topology in {args.limit}, "
        f"{args.fanouts} x {args.batch_size}, readahead {measure.machine(args.folder)['read_ahead_kb']} KB"
    )
    measure.show(title, rows, args.folder)
    print(f"  {plan['why']}")
    measure.save(args.json, {"runs": runs, "disk": found, "limit": args.limit, "memory": args.memory}, args.folder)


def some(args: Options, ds: gz.Dataset) -> None:
    """The runs of --only, each with the epochs that it consists of."""
    runs = {name: run(name, args, args.limit) for name in args.only}
    rows = [
        (
            name,
            figures.get("failed") or f"{figures['a_batch'] * 1e3:,.0f} ms a batch",
            ms_of([1e3 * seconds for seconds in figures["epochs"]]) if "epochs" in figures else "",
        )
        for name, figures in runs.items()
    ]
    found = disk.speed(Path(ds.features["x"].path))
    title = f"Runs by themselves: {', '.join(args.only)} in {args.limit}, {args.fanouts} x {args.batch_size}"
    measure.show(title, [*rows, *disk.rows_of(found)], args.folder)
    measure.save(args.json, {"runs": runs, "disk": found, "limit": args.limit, "memory": args.memory}, args.folder)


def names_of_runs(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in RUNS]:
        raise argparse.ArgumentTypeError(f"found {unknown[0]!r}, expected some of {', '.join(RUNS)}")
    return names


def sweep(args: Options, ds: gz.Dataset) -> None:
    """memory="auto" against fixed budgets, for each limit: the best of --repeat epochs of each, in turns.

    The runs train: without a model, the largest budget would win, although it leaves no memory for training steps.
    """
    rows, figures = [], {}
    for limit in args.limits.split(","):
        budgets = [f"{int(parse_size(limit) * float(share)) >> 20}MB" for share in args.shares.split(",")]
        runs: dict[str, list[dict[str, Any]]] = {memory: [] for memory in ["auto", *budgets]}
        for _ in range(args.repeat):
            for memory, done in runs.items():
                done.append(run("training", args, limit, "--memory", memory, "--epochs", "1"))
        rate = {memory: max(1 / d["a_batch"] if "a_batch" in d else 0.0 for d in done) for memory, done in runs.items()}
        best = max(budgets, key=lambda memory: rate[memory])
        share = f"{rate['auto'] / rate[best]:.2f} of the best fixed one" if rate[best] else "no fixed one ran"
        for memory, done in runs.items():
            kills = sum(d["kills"] for d in done)
            failed = next((f", {d['failed']}" for d in done if "failed" in d), "")
            against = f"{share}; " if memory == "auto" else "the best fixed one; " if memory == best else ""
            against += f"kernel kills: {kills}{failed}"
            rows.append((f"in {limit}, memory={memory}", f"{rate[memory]:.1f} batches/s", against))
        figures[limit] = runs
    size = format_size(ds.features["x"].info["file_bytes"])
    measure.show(f'Budgets: memory="auto" against fixed ones, {size} of features, {args.fanouts}', rows, args.folder)
    measure.save(args.json, figures, args.folder)


COLD_START = ("warm", "cold", "copied")


def epochs_of(name: str, args: Options) -> dict[str, Any]:
    """The rates of the first epochs over a small dataset, all that they take included."""
    graph_path, features_path = graph.compiled(args.folder)
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    if name != "cold":
        g.preload()
        fs.preload()
    memory = "4GB" if args.memory == "auto" else args.memory
    cache = "on" if name == "copied" else "auto"
    seeds = np.load(args.folder / "seeds.npy")
    loader = gz.NeighborLoader(
        g, fs, fanouts=[15, 10, 5], seeds=seeds, batch_size=args.batch_size, seed=0, memory=memory, cache=cache
    )
    done = [over(loader, thrown_away) for _ in range(args.epochs)]
    return {"rates": [d["batches"] / d["seconds"] for d in done], "stats": [d["stats"] for d in done]}


def cold_start(args: Options) -> None:
    """Epochs from a cold file against a warm one, and from a copy in the loader's memory against the mapping."""
    graph.compiled(args.folder)
    runs = {name: limited.run(name, None) for name in COLD_START}
    rates = {name: figures["rates"] for name, figures in runs.items()}
    rows = []
    for name, rate in rates.items():
        for number, r in enumerate(rate):
            read = format_size(runs[name]["stats"][number]["bytes_read"])
            against = f"{r / rates['warm'][number]:.2f} of the warm one" if name != "warm" else ""
            rows.append((f"{name}, epoch {number}", f"{r:.1f} batches/s", f"{against} {read} read".strip()))
    best = max(rates["warm"])
    rows.append(("cold, later epochs", f"{max(rates['cold'][1:]) / best:.2f}", "best of each"))
    rows.append(('cache="on" / mapped', f"{max(rates['copied']) / best:.2f}", "best of each"))
    measure.show(f"Cold start: {graph.NODES:,} nodes, [15, 10, 5] x {args.batch_size}", rows, args.folder)
    measure.save(args.json, runs, args.folder)


def make(args: Options) -> None:
    if (args.folder / "dataset.json").exists():
        return
    splits = {"train": args.train_share, "valid": 0.001, "test": 0.001}
    shape = {"nodes": args.nodes or 24_000_000, "edges": args.edges or 400_000_000, "dim": args.dim}
    gz.synthesize(args.folder, memory="2GB", splits=splits, **shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--edges", type=int)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--train-share", type=float, default=0.01)
    parser.add_argument("--limit", default="3GB")
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--fanouts", type=lambda t: [int(n) for n in t.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, help="batches of a run; the whole train split without it")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--plain-seconds", type=float, default=60, help="stop the mmap runs after this long")
    parser.add_argument("--default-advice", action="store_true", help="also mmap without MADV_RANDOM")
    parser.add_argument("--only", type=names_of_runs, help=f"some of {','.join(RUNS)}")
    parser.add_argument("--sweep", action="store_true", help='memory="auto" against fixed budgets')
    parser.add_argument("--limits", default="1GB,2GB,3GB,6GB,12GB", help="the control groups of --sweep")
    parser.add_argument("--shares", default="0.2,0.35,0.5,0.65,0.8", help="fixed budgets of --sweep")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each budget of --sweep")
    parser.add_argument("--cold-start", action="store_true", help="a small dataset, cold, warm and copied")
    parser.add_argument("--epochs", type=int, default=4, help="of training, and of --cold-start")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=[*RUNS, *COLD_START], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cold_start:
        graph.NODES, graph.EDGES = args.nodes or graph.NODES, args.edges or graph.EDGES
    if args.run in COLD_START:
        limited.child(lambda: epochs_of(args.run, args))
    elif args.run:
        limited.child(lambda: RUNS[args.run](gz.Dataset(args.folder), args))
    elif args.cold_start:
        cold_start(args)
    else:
        make(args)
        (sweep if args.sweep else some if args.only else compare)(args, gz.Dataset(args.folder))


if __name__ == "__main__":
    main()
