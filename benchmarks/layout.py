"""How the order of the nodes changes what batches read: pages of feature rows per batch and per window, and epoch time.

    python benchmarks/layout.py FOLDER [--nodes 1000000] [--edges 12000000] [--json results/layout.json]

A synthetic dataset (power-law degrees, communities, ids in random order) is written in every order that
`graphzero reorder` supports. For each, the same training batches are sampled: a page is counted once per batch, and
once per window of batches that are read together. The epoch is timed with memory for a tenth of the features, and rows
are read from disk with direct I/O, so a warm page cache does not hide the reads.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np

import graphzero as gz
from graphzero.compile.reorder import ORDERS

PAGE = 4096
WINDOWS = (1, 8, 32)


def main() -> None:
    args = parse()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    splits = {"train": args.train}
    shape = {"nodes": args.nodes, "edges": args.edges, "dim": args.dim, "communities": args.communities}
    source = gz.synthesize(folder / "random", **shape, splits=splits, overwrite=True)
    figures: dict[str, Any] = {"random": {**measured(source, args), "reorder_s": 0.0}}
    for by in ORDERS:
        start = time.perf_counter()
        made = gz.reorder(
            source, folder / by, by=by, fanouts=args.fanouts, batch_size=args.batch_size, seed=1, overwrite=True
        )
        seconds = time.perf_counter() - start
        figures[by] = {**measured(made, args), "reorder_s": seconds}
    show(figures, args, folder)
    measure.save(args.json, figures, folder)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=12_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--communities", type=int, default=1000)
    parser.add_argument("--train", type=float, default=0.033, help="share of the nodes that are training seeds")
    parser.add_argument("--fanouts", type=lambda text: [int(part) for part in text.split(",")], default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--io", default="uring", help="uring or pread: how misses are read")
    parser.add_argument("--json")
    return parser.parse_args()


def measured(ds: gz.Dataset, args: argparse.Namespace) -> dict[str, float]:
    """Pages per batch for each window, rows per batch, and the seconds and bytes of an epoch that reads from disk."""
    x = ds.features["x"]
    row = x.feature_dim * x.dtype.itemsize
    batches = [rows_of(batch) for batch in loader_of(ds, args)]
    figures: dict[str, float] = {"rows": float(np.mean([len(rows) for rows in batches]))}
    for window in WINDOWS:
        groups = [batches[at : at + window] for at in range(0, len(batches) - window + 1, window)]
        pages = [len(np.unique(pages_of(np.concatenate(group), row))) for group in groups]
        figures[f"pages_{window}"] = float(np.mean(pages)) / window if pages else float("nan")
    budget = least_budget(ds, args) + x.info["file_bytes"] // 10
    loader = loader_of(ds, args, features=x, memory=budget, cache="on", io=args.io)
    for _ in loader:  # warm up
        pass
    start = time.perf_counter()
    for _ in loader:
        pass
    figures["epoch_s"] = time.perf_counter() - start
    figures["read_mb"] = loader.stats().bytes_read / 1e6
    return figures


def loader_of(ds: gz.Dataset, args: argparse.Namespace, **options: Any) -> gz.NeighborLoader:
    return gz.NeighborLoader(
        ds.graph,
        fanouts=args.fanouts,
        seeds=ds.splits["train"],
        batch_size=args.batch_size,
        shuffle=True,
        seed=2,  # not the seed that presampling used
        **options,
    )


def least_budget(ds: gz.Dataset, args: argparse.Namespace) -> int:
    """What a loader needs in addition to the rows that it holds."""
    try:
        next(iter(loader_of(ds, args, features=ds.features["x"], memory="1MB", cache="on", io=args.io)))
    except gz.BudgetError as e:
        return e.needed_bytes
    return 1_000_000


def rows_of(batch: gz.Batch) -> Any:
    return np.asarray(batch.n_id)


def pages_of(rows: Any, row_bytes: int) -> Any:
    """Pages that rows begin on; a row that divides a page ends there too."""
    return rows * row_bytes // PAGE


def show(figures: dict[str, dict[str, float]], args: argparse.Namespace, folder: Path) -> None:
    base = figures["random"]
    rows = []
    for by, found in figures.items():
        windows = " / ".join(f"{found[f'pages_{window}']:,.0f}" for window in WINDOWS)
        against = ", ".join(f"{found[f'pages_{window}'] / base[f'pages_{window}']:.2f}" for window in WINDOWS)
        rows.append(
            (
                by,
                windows,
                f"{against} of random; epoch {found['epoch_s']:.1f} s reading {found['read_mb']:,.0f} MB; "
                f"made in {found['reorder_s']:.1f} s",
            )
        )
    title = f"Layout: pages a batch, read in windows of {', '.join(map(str, WINDOWS))} batches "
    what = f"({args.nodes:,} nodes, {args.edges:,} edges, fanouts {args.fanouts}, {base['rows']:,.0f} rows a batch)"
    measure.show(title + what, rows, folder)


if __name__ == "__main__":
    main()
