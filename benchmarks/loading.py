"""Loader throughput, warm: [15, 10, 5] x 1,024 with 128 x float32 features, against PyG's NeighborLoader.

    python benchmarks/loading.py FOLDER [--pyg-python PYTHON] [--batches 40] [--json OUT]

FOLDER gets the graph of benchmarks/graph.py. PYTHON is an interpreter with torch-geometric and torch-sparse; PyG has
everything in RAM and two worker processes, GraphZero two threads: two cores each.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import graph
import measure
import numpy as np

import graphzero as gz

PYG = """
import json, sys, time, torch, numpy as np
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
folder, batches, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
edge_index = torch.from_numpy(np.load(f"{folder}/edges.npy")).flip(0)  # PyG follows edges backwards, we forwards
data = Data(x=torch.from_numpy(np.load(f"{folder}/feat.npy")), edge_index=edge_index)
seeds = torch.from_numpy(np.load(f"{folder}/seeds.npy"))
torch.set_num_threads(2)
loader = NeighborLoader(data, [15, 10, 5], input_nodes=seeds, batch_size=1024, num_workers=workers,
                        persistent_workers=workers > 0)
nodes = edges = count = 0
for batch in loader:
    if count == 2:
        start = time.perf_counter()
    count += 1
    nodes, edges = batch.num_nodes, batch.num_edges
    if count == batches + 2:
        break
print(json.dumps({"rate": batches / (time.perf_counter() - start), "nodes": nodes, "edges": edges}))
"""


def ours(folder: Path, batches: int, memory: str, repeat: int) -> dict[str, float]:
    """Batches per second, best of `repeat` epochs, page cache warm."""
    graph_path, features_path = graph.compiled(folder)
    store = gz.FeatureStore(features_path)
    store.get_tensor().sum(dtype=np.float64)  # every page in RAM
    seeds = np.load(folder / "seeds.npy")[: 1024 * (batches + 2)]
    loader = gz.NeighborLoader(
        gz.Graph(graph_path), store, fanouts=[15, 10, 5], seeds=seeds, batch_size=1024, seed=0, memory=memory
    )
    best, nodes, edges = 0.0, 0, 0
    for _ in range(repeat):
        start = 0.0
        for number, batch in enumerate(loader):
            if number == 1:
                start = time.perf_counter()
            nodes, edges = batch.num_nodes, batch.num_edges
        best = max(best, batches / (time.perf_counter() - start))
    print(loader.stats())
    return {"rate": best, "nodes": nodes, "edges": edges}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyg-python")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--peer-batches", type=int, default=12)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    figures = {"graphzero": ours(options.folder, options.batches, options.memory, options.repeat)}
    mine = figures["graphzero"]
    rows = [("GraphZero, 2 threads", f"{mine['rate']:.1f} batches/s", f"{mine['nodes']:,.0f} nodes a batch")]
    if options.pyg_python:
        for workers in (2, 0):
            peer = measure.run_peer(options.pyg_python, PYG, options.folder, options.peer_batches, workers)
            figures[f"pyg_{workers}_workers"] = peer
            against = f"GraphZero is {mine['rate'] / peer['rate']:.1f} times faster; {peer['nodes']:,} nodes a batch"
            rows.append((f"PyG NeighborLoader, {workers} workers", f"{peer['rate']:.2f} batches/s", against))
    measure.show("Loading [15, 10, 5] x 1,024 with features, warm", rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
