"""How often caches of rows hit on the batches of a graph: LRU, SIEVE, the hottest rows, and what a GPU keeps.

    python benchmarks/hit_rates.py [--preset papers100M] [--scale 0.05] [--fanouts 10,10,10] [--batch-size 1024]
                                   [--epochs 2] [--set core=1] [--dependency 1,32] [--windows 58,116] [--json PATH]

A generator of graphs is judged by this: published logs of GraphBolt on ogbn-papers100M ([10, 10, 10], 1,024 seeds) show
that a cache of 0.9 % of the rows (LRU) hits 26 %, one of 19 % (SIEVE) 94 to 96 %, one of 36 % 96.5 to 97.4 %. The
batch size is multiplied by the scale, so that a batch is the same share of the graph. Batches of all epochs pass
through the caches, those of the last epoch are counted. The graph is written to a temporary folder. What a GPU would
keep ("by next use", docs/how-the-gpu-tier-works.md) is counted by a loader whose device is simulated on the CPU, and
stands beside what `graphzero doctor` expects.

`--dependency` samples by LABOR instead, with each of these values as `batch_dependency`. `--windows` simulates sweeps
whose windows have so many batches (docs/how-reads-work.md), and prints the most rows that each holds: what
`Uses::held_by_window()` in core/budget/uses.h estimates.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import measure
import numpy as np

import graphzero as gz
from graphzero.load.device import tier
from graphzero.machine.estimate import estimate

SHARES = (0.009, 0.05, 0.19, 0.36)
PUBLISHED = {("LRU", 0.009): 0.26, ("SIEVE", 0.19): 0.95, ("SIEVE", 0.36): 0.97}


class Lru:
    """Evict the row that was used longest ago."""

    def __init__(self, capacity: int) -> None:
        self._rows: OrderedDict[int, None] = OrderedDict()
        self._capacity = capacity

    def hits(self, rows: list[int]) -> int:
        """Use `rows`, and return how many of them were held."""
        held, count = self._rows, 0
        for row in rows:
            if row in held:
                held.move_to_end(row)
                count += 1
                continue
            if len(held) >= self._capacity:
                held.popitem(last=False)
            held[row] = None
        return count


class Sieve:
    """Evict the oldest row that was not used since the hand passed it (SIEVE, NSDI 2024)."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._place: dict[int, int] = {}  # by row
        self._row, self._used = [-1] * capacity, bytearray(capacity)
        self._newer, self._older = [-1] * capacity, [-1] * capacity  # neighbours in order of insertion
        self._newest = self._oldest = self._hand = -1

    def hits(self, rows: list[int]) -> int:
        """Use `rows`, and return how many of them were held."""
        place, used, count = self._place, self._used, 0
        for row in rows:
            at = place.get(row)
            if at is not None:
                used[at] = 1
                count += 1
            else:
                self._insert(row)
        return count

    def _insert(self, row: int) -> None:
        at = len(self._place) if len(self._place) < self._capacity else self._evict()
        self._row[at], self._used[at], self._place[row] = row, 0, at
        self._older[at], self._newer[at] = self._newest, -1
        if self._newest >= 0:
            self._newer[self._newest] = at
        self._newest = at
        if self._oldest < 0:
            self._oldest = at

    def _evict(self) -> int:
        at = self._hand if self._hand >= 0 else self._oldest
        while self._used[at]:
            self._used[at] = 0
            at = self._newer[at] if self._newer[at] >= 0 else self._oldest
        newer, older = self._newer[at], self._older[at]
        if newer >= 0:
            self._older[newer] = older
        else:
            self._newest = older
        if older >= 0:
            self._newer[older] = newer
        else:
            self._oldest = newer
        self._hand = newer
        del self._place[self._row[at]]
        return at


def held_by_sweep(batches: list[np.ndarray], nodes: int, window: int) -> int:
    """The most rows that a sweep holds at once for a window of batches that are admitted evenly spaced."""
    holders = np.zeros(nodes, np.int32)  # by row: batches of the window that hold it
    admitted: list[tuple[np.ndarray, np.ndarray]] = []  # their rows in file order, and which of them they hold
    most = 0
    for number, batch in enumerate(batches):
        rows = np.sort(batch)
        held = holders[rows] > 0
        holders[rows[held]] += 1
        admitted.append((rows, held))
        # The sweep passes the next part of the file.
        ends = [nodes * (number % window + i) // window for i in (0, 1)]
        for rows, held in admitted:
            passed = slice(*np.searchsorted(rows, ends))
            holders[rows[passed][~held[passed]]] += 1
            held[passed] = True
        if len(admitted) == window:
            most = max(most, np.count_nonzero(holders))
            holders[admitted.pop(0)[0]] -= 1
    return most


def made(args: argparse.Namespace, folder: Path) -> gz.Dataset:
    """Make the graph."""
    options = {k: float(v) if "." in v else int(v) for k, v in (pair.split("=") for pair in args.set)}
    return gz.synthesize(folder / "graph", preset=args.preset, scale=args.scale, dim=1, memory="2GB", **options)


def sampling(args: argparse.Namespace) -> dict[str, Any]:
    """Fanouts and batch size."""
    fanouts = [int(n) for n in args.fanouts.split(",")]
    return {"fanouts": fanouts, "batch_size": max(1, round(args.batch_size * args.scale))}


def loader_of(args: argparse.Namespace, ds: gz.Dataset, dependency: int | None, **extra: Any) -> gz.NeighborLoader:
    """Make a loader of the training split."""
    how: dict[str, Any] = {} if dependency is None else {"method": "labor", "batch_dependency": dependency}
    options = sampling(args) | how | extra
    return gz.NeighborLoader(ds.graph, seeds=ds.splits["train"], shuffle=True, seed=0, **options)


def batches_of(args: argparse.Namespace, ds: gz.Dataset, dependency: int | None) -> list[list[np.ndarray]]:
    """Sample the epochs: each epoch's batches of node ids."""
    loader = loader_of(args, ds, dependency)
    return [[np.asarray(batch.n_id) for batch in loader] for _ in range(args.epochs)]


def kept_by_next_use(args: argparse.Namespace, ds: gz.Dataset, dependency: int | None) -> list[dict[str, Any]]:
    """The hit rates of what a GPU keeps, counted in the last epoch and, without LABOR, expected."""
    tier.caches_on_cpu = True
    disk = {"random_1": 1e4, "random_256": 1e5, "sequential": 1e9}  # no matter here
    rows = []
    for share in SHARES:
        size = max(1, round(share * ds.num_nodes)) * ds.features["x"].feature_dim * 4
        loader = loader_of(args, ds, dependency, features=ds.features["x"], device="cpu", gpu_memory=size)
        for _ in range(args.epochs):
            for _ in loader:
                pass
        found = loader.stats().device["x"]
        rows.append({"cache": "By next use", "share": share, "hits": found["hits"] / found["rows"]})
        if dependency is None:
            rows[-1]["expected"] = estimate(ds, disk, gpu_bytes=size, **sampling(args))["gpu"]["hit_rate"]
    return rows


def rates_of(nodes: int, epochs: list[list[np.ndarray]]) -> list[dict[str, Any]]:
    """The hit rates of each kind of cache and each size."""
    uses = np.bincount(np.concatenate(epochs[-1]), minlength=nodes)
    uses = np.sort(uses)[::-1]
    total = int(uses.sum())
    rows = [{"cache": "Hottest", "share": s, "hits": int(uses[: round(s * nodes)].sum()) / total} for s in SHARES]
    for kind in (Lru, Sieve):
        for share in SHARES:
            cache = kind(max(1, round(share * nodes)))
            hits = [sum(cache.hits(batch.tolist()) for batch in epoch) for epoch in epochs]
            rows.append({"cache": kind.__name__, "share": share, "hits": hits[-1] / total})
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="papers100M")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--fanouts", default="10,10,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=NUMBER", help="of SyntheticGraph")
    parser.add_argument("--dependency", type=lambda t: [int(k) for k in t.split(",")], help="values of LABOR")
    parser.add_argument("--windows", type=lambda t: [int(n) for n in t.split(",")], default=[], help="in batches")
    parser.add_argument("--json")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        ds = made(args, Path(folder))
        for dependency in args.dependency or [None]:
            epochs = batches_of(args, ds, dependency)
            rates = rates_of(ds.num_nodes, epochs) + kept_by_next_use(args, ds, dependency)
            found[str(dependency or "uniform")] = shown(ds.num_nodes, epochs, rates, dependency)
            windows = [
                (f"a window of {n} batches", f"{held_by_sweep(epochs[-1], ds.num_nodes, n):,} rows", "")
                for n in args.windows
            ]
            if windows:
                measure.show("Held by sweeps, at most", windows)
    measure.save(args.json, found)


def shown(
    nodes: int, epochs: list[list[np.ndarray]], rates: list[dict[str, Any]], dependency: int | None
) -> dict[str, Any]:
    """Print the rates of a graph and return them."""
    a_batch = sum(map(len, epochs[-1])) / len(epochs[-1])
    touched = np.unique(np.concatenate(epochs[-1])).size / nodes
    rows = []
    for rate in rates:
        known = PUBLISHED.get((rate["cache"].upper(), rate["share"])) if dependency is None else None
        remark = f"published {known:.0%}" if known else ""
        if "expected" in rate:
            remark = f"expected {rate['expected']:.1%}"
        rows.append((f"{rate['cache']} of {rate['share']:.1%}", f"{rate['hits']:.1%}", remark))
    how = "uniform" if dependency is None else f"LABOR, batch_dependency={dependency}"
    size = f"{len(epochs[-1])} batches of {a_batch:,.0f} rows, {touched:.1%} of {nodes:,} rows in an epoch"
    measure.show(f"Hit rates of caches, {how}: {size}", rows)
    return {"rows_a_batch": a_batch, "touched": touched, "rates": rates}


if __name__ == "__main__":
    main()
