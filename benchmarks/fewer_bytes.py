"""What fewer bytes cost: test accuracy with features in smaller types, and with dependent batches, over several seeds.

    python benchmarks/fewer_bytes.py FOLDER [--graphs packages,arxiv,products] [--seeds 5] [--epochs 6] [--json PATH]

"packages" is the index of apt on this machine (`graphzero import apt:`): Debian packages, what they depend on, words of
their descriptions, and their section to be predicted. The other two are synthetic, with the shapes of two public
datasets at a small scale; their labels are the classes that the generator drew features and edges from. FOLDER gets
each of them as float32, float16 and int8, unless they are there.

Every run trains GraphSAGE ([10, 10], 64 columns, 512 seeds a batch, Adam), with a seed that sets its weights and
batches, and keeps the test accuracy of the epoch with the best validation accuracy. The same seeds are used for each
variant, so differences are paired: a difference of the mean is given with the standard error of the paired differences.
Each run's accuracy is kept in FOLDER, so a program that was stopped goes on where it was.

Dependent batches (LABOR with `batch_dependency=k`) are measured on float32; for each k, an LRU cache of a fifth of the
rows counts the rows that an epoch would read.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import measure
import torch
from hit_rates import Lru
from torch.nn import functional

import graphzero as gz
from graphzero.train import GraphSAGE

Options = argparse.Namespace
FANOUTS, HIDDEN, BATCH, LR = [10, 10], 64, 512, 0.005
DTYPES = ("float32", "float16", "int8")
DEPENDENCIES = (1, 8, 32, 64)
CACHED = 0.2  # of the rows, by the LRU cache
GRAPHS = {
    "packages": "Debian packages (apt)",
    "arxiv": "synthetic, arxiv's shape x 0.2",
    "products": "synthetic, products' shape x 0.02",
}


def made(folder: Path, name: str, dtype: str) -> gz.Dataset:
    """Return a dataset of FOLDER, created if it is not there."""
    path = folder / f"{name}-{dtype}"
    if (path / "dataset.json").exists():
        return gz.Dataset(path)
    if name == "packages":
        # One relation, both ways: a plain graph, which LABOR samples.
        types = ["package__depends__package"]
        return gz.import_dataset("apt:", path, edge_types=types, directed=False, dtype=dtype, overwrite=True).dataset
    scale, signal = {"arxiv": (0.2, 0.5), "products": (0.02, 0.5)}[name]
    return gz.synthesize(path, preset=name, scale=scale, signal=signal, dtype=dtype, overwrite=True)


def loader_of(ds: gz.Dataset, split: str, seed: int, **options: Any) -> gz.NeighborLoader:
    train = split == "train"
    return gz.NeighborLoader(
        ds, split=split, fanouts=FANOUTS, batch_size=BATCH, shuffle=train, seed=seed, memory="300MB", dtype="float32",
        **options,
    )  # fmt: skip


def accuracy_of(model: GraphSAGE, loader: gz.NeighborLoader) -> float:
    model.eval()
    right = total = 0
    loader.set_epoch(0)  # the same neighbours each time
    with torch.no_grad():
        for batch in loader:
            out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            right += int((out.argmax(1) == batch.y).sum())
            total += len(batch.y)
    return right / total


def trained(ds: gz.Dataset, seed: int, epochs: int, **options: Any) -> float:
    """Train once; return the test accuracy of the best epoch by validation."""
    torch.manual_seed(seed)
    model = GraphSAGE(ds.features["x"].feature_dim, HIDDEN, ds.num_classes, len(FANOUTS))
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    train = loader_of(ds, "train", seed, **options)
    valid, test = (loader_of(ds, split, 0) for split in ("valid", "test"))
    best = found = -1.0
    for _ in range(epochs):
        model.train()
        for batch in train:
            optimizer.zero_grad(set_to_none=True)
            out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            functional.cross_entropy(out, batch.y).backward()
            optimizer.step()
        score = accuracy_of(model, valid)
        if score > best:
            best, found = score, accuracy_of(model, test)
    return found


def misses_of(ds: gz.Dataset, **options: Any) -> tuple[int, float]:
    """Return the rows of an epoch, and the share that a cache of a fifth of the graph does not hold."""
    cache = Lru(max(1, round(CACHED * ds.num_nodes)))
    loader = loader_of(ds, "train", 0, **options)
    rows = hits = 0
    for _ in range(2):  # the second is counted: the cache is warm
        ids = [batch.n_id.tolist() for batch in loader]
        rows, hits = sum(map(len, ids)), sum(map(cache.hits, ids))
    return rows, 1 - hits / rows


def difference(values: list[float], base: list[float]) -> str:
    """The difference of the means in points, with the standard error of the paired differences."""
    points = [100 * (a - b) for a, b in zip(values, base, strict=True)]
    error = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else 0.0
    return f"{statistics.mean(points):+.2f} ± {error:.2f} points"


def mean_of(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2%} ± {spread:.2%}"


def runs_of(ds: gz.Dataset, args: Options, name: str, **options: Any) -> list[float]:
    kept = args.folder / f"{name.replace(' ', '-')}-{args.epochs}.json"
    found: list[float] = json.loads(kept.read_text()) if kept.exists() else []
    for seed in range(len(found), args.seeds):
        found.append(trained(ds, seed, args.epochs, **options))
        kept.write_text(json.dumps(found))
    found = found[: args.seeds]
    print(f"{name}: {mean_of(found)}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=lambda t: t.split(","), default=list(GRAPHS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    rows, dependent = [], []
    for name in args.graphs:
        of = {dtype: made(args.folder, name, dtype) for dtype in DTYPES}
        ds, title = of["float32"], GRAPHS[name]
        runs: dict[str, Any] = {dtype: runs_of(of[dtype], args, f"{name} {dtype}") for dtype in DTYPES}
        for dtype in DTYPES:
            against = f"{ds.num_nodes:,} nodes, {len(ds.splits['test']):,} tested"
            against = against if dtype == "float32" else difference(runs[dtype], runs["float32"])
            rows.append((f"{title}: {dtype}", mean_of(runs[dtype]), against))
        for k in DEPENDENCIES if name == "packages" else ():
            runs[f"k={k}"] = runs_of(ds, args, f"{name} k={k}", method="labor", batch_dependency=k)
            count, missed = misses_of(ds, method="labor", batch_dependency=k)
            runs[f"k={k}, rows"], runs[f"k={k}, misses"] = count, missed
            against = f"{count:,} rows an epoch, {missed:.1%} missed"
            change = "" if k == 1 else f"; {difference(runs[f'k={k}'], runs['k=1'])}"
            dependent.append((f"LABOR, batch_dependency={k}", mean_of(runs[f"k={k}"]), f"{against}{change}"))
        if name == "packages":
            count, missed = misses_of(ds)
            runs["uniform, misses"] = missed
            note = f"{count:,} rows an epoch, {missed:.1%} missed"
            dependent.append(("uniform, independent batches", mean_of(runs["float32"]), note))
        found[name] = runs
    how = f"{args.seeds} seeds, {args.epochs} epochs, {FANOUTS} x {BATCH}"
    measure.show(f"Accuracy by dtype: test accuracy of GraphSAGE, {how}", rows, args.folder)
    if dependent:
        title = f"Accuracy with dependent batches: {GRAPHS['packages']}, {how}; misses of an LRU cache of {CACHED:.0%}"
        measure.show(title, dependent, args.folder)
    measure.save(args.json, found, args.folder)


if __name__ == "__main__":
    main()
