"""graphzero.pyg.NeighborLoader against gz.NeighborLoader and PyG's own, warm: [15, 10, 5] x 1,024 with features.

    python benchmarks/pyg_loader.py FOLDER [--pyg-python PYTHON] [--nodes 500000] [--batches 40] [--json OUT]

PYTHON is an interpreter with torch-geometric and torch-sparse or pyg-lib; PyG has two worker processes, GraphZero two
threads. Over a `Data` in memory, edges and features are compiled into temporary files first; the table has the seconds.
Epochs of the loaders alternate, and the best of each counts, so that other load affects all of them alike.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import measure
import torch
from torch_geometric.data import Data

import graphzero as gz
from graphzero.pyg import NeighborLoader

FANOUTS = [15, 10, 5]
PYG = """
import json, sys, time, torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
parts, batches, workers = torch.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
seeds = parts.pop("seeds")
options = {"batch_size": 1024, "shuffle": True, "num_workers": workers}
loader = NeighborLoader(Data(**parts), [15, 10, 5], input_nodes=seeds, **options)
batch, it = None, iter(loader)
for number in range(batches + 3):
    if number == 3:
        start = time.perf_counter()
    batch = next(it)
print(json.dumps({"rate": batches / (time.perf_counter() - start), "nodes": batch.num_nodes}))
"""


def made(nodes: int) -> tuple[Data, torch.Tensor]:
    """Return a graph with 15 edges per node, targets by a power law, and seeds."""
    torch.manual_seed(0)
    target = (nodes * torch.rand(15 * nodes, dtype=torch.float64) ** 2).long()
    edge_index = torch.stack([torch.randint(0, nodes, (15 * nodes,)), target])
    data = Data(x=torch.randn(nodes, 128), edge_index=edge_index, y=torch.randint(0, 5, (nodes,)))
    return data, torch.randperm(nodes)[: 1024 * 64]


def rate(loader: Any, batches: int) -> float:
    """Return the batches per second of one epoch, without the first batches."""
    it, start = iter(loader), 0.0
    for number in range(batches + 3):
        if number == 3:
            start = time.perf_counter()
        next(it)
    return batches / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyg-python")
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--peer-batches", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    data, seeds = made(options.nodes)
    ds = gz.Dataset.from_pyg(data, options.folder / "dataset", overwrite=True)
    common = {"batch_size": 1024, "shuffle": True}
    loaders: dict[str, Any] = {
        "gz.NeighborLoader": gz.NeighborLoader(ds, fanouts=FANOUTS, seeds=seeds, seed=0, **common),
        "graphzero.pyg, Dataset": NeighborLoader(ds, FANOUTS, seeds, **common),
        "graphzero.pyg, Data": NeighborLoader(data, FANOUTS, seeds, **common),
    }
    best = dict.fromkeys(loaders, 0.0)
    for _ in range(options.repeat):
        for name, loader in loaders.items():
            best[name] = max(best[name], rate(loader, options.batches))
    figures: dict[str, Any] = {**best, "compile_seconds": loaders["graphzero.pyg, Data"].compile_seconds}
    share = best["graphzero.pyg, Dataset"] / best["gz.NeighborLoader"]
    notes = {
        "graphzero.pyg, Dataset": f"{share:.2f} of gz.NeighborLoader; y of all nodes, not of the seeds alone",
        "graphzero.pyg, Data": f"compiled in {figures['compile_seconds']:.1f} s",
    }
    rows = [(name, f"{value:.1f} batches/s", notes.get(name, "")) for name, value in best.items()]
    if options.pyg_python:
        torch.save({**data.to_dict(), "seeds": seeds}, options.folder / "data.pt")
        for workers in (2, 0):
            peer = measure.run_peer(options.pyg_python, PYG, options.folder / "data.pt", options.peer_batches, workers)
            figures[f"pyg_{workers}_workers"] = peer
            against = (
                f"graphzero.pyg over the same Data is {best['graphzero.pyg, Data'] / peer['rate']:.1f} times as fast"
            )
            rows.append((f"PyG NeighborLoader, {workers} workers", f"{peer['rate']:.2f} batches/s", against))
    measure.show("PyG's NeighborLoader: [15, 10, 5] x 1,024 with features, warm", rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
