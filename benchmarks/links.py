"""Link loading, warm: 1,024 edges + 1,024 negatives per batch, [15, 10] with 128 x float32 features, against PyG's.

    python benchmarks/links.py FOLDER [--pyg-python PYTHON] [--batches 40] [--json OUT]

FOLDER gets the graph of benchmarks/graph.py, rows by target. PYTHON is an interpreter with torch-geometric and
torch-sparse or pyg-lib; PyG has everything in RAM and two worker processes, GraphZero two threads: two cores each. Both
draw binary negatives from all nodes. GraphZero is measured with the edges of a batch excluded from its sample and
without, which PyG cannot do, from an array of edges and from all edges of the file; "none, array" is what PyG does.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import graph
import measure
import numpy as np

import graphzero as gz

PYG = """
import json, sys, time, torch, numpy as np
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader
folder, batches, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
edge_index = torch.from_numpy(np.load(f"{folder}/edges.npy"))
data = Data(x=torch.from_numpy(np.load(f"{folder}/feat.npy")), edge_index=edge_index)
torch.set_num_threads(2)
seeds = edge_index[:, torch.randperm(edge_index.shape[1])[: 1024 * (batches + 8)]]
loader = LinkNeighborLoader(data, [15, 10], edge_label_index=seeds, neg_sampling="binary", batch_size=1024,
                            num_workers=workers, persistent_workers=workers > 0)
count = 0
for batch in loader:
    if count == 2:
        start = time.perf_counter()
    count += 1
    if count == batches + 2:
        break
print(json.dumps({"rate": batches / (time.perf_counter() - start), "nodes": batch.num_nodes,
                  "labels": len(batch.edge_label)}))
"""


def rows_by_target(folder: Path) -> tuple[Path, Path]:
    """Return the graph, stored by target as loaders need it, and the features."""
    features = graph.compiled(folder)[1]
    path = folder / "graph_in.gl"
    if not path.exists():
        gz.compile_graph(folder / "edges.npy", path, num_nodes=graph.NODES, direction="in")
    return path, features


def ours(folder: Path, batches: int, repeat: int, exclude: str, edges: Any) -> dict[str, float]:
    """Batches per second, best of `repeat` epochs, page cache warm."""
    graph_path, features_path = rows_by_target(folder)
    store = gz.FeatureStore(features_path)
    store.get_tensor().sum(dtype=np.float64)  # every page in RAM
    loader = gz.LinkNeighborLoader(
        *(gz.Graph(graph_path), store),
        **{"fanouts": [15, 10], "edges": edges, "neg_sampling": "binary", "exclude": exclude, "seed": 0},
        **{"batch_size": 1024, "shuffle": True, "memory": "2GB"},
    )
    best, nodes, labels = 0.0, 0, 0
    for epoch in range(repeat):
        start = 0.0
        for number, batch in enumerate(loader):
            if number == 1:
                start = time.perf_counter()
            nodes, labels = batch.num_nodes, len(batch.edge_label)
            if number == batches + 1:
                break
        best = max(best, batches / (time.perf_counter() - start))
        loader.set_epoch(epoch + 1)
    return {"rate": best, "nodes": nodes, "labels": labels}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pyg-python")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--peer-batches", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows_by_target(options.folder)
    edges = np.load(options.folder / "edges.npy", mmap_mode="r")
    order = np.sort(np.random.default_rng(0).integers(0, edges.shape[1], 1024 * (options.batches + 8)))
    some = np.ascontiguousarray(edges[:, order])
    figures: dict[str, Any] = {}
    rows = []
    for exclude, given in (("none", some), ("self", some), ("reverse", some), ("self", None)):
        name = f"exclude={exclude}, {'all edges' if given is None else 'array'}"
        found = figures[name] = ours(options.folder, options.batches, options.repeat, exclude, given)
        rows.append((f"GraphZero, {name}", f"{found['rate']:.1f} batches/s", f"{found['nodes']:,} nodes a batch"))
    if options.pyg_python:
        mine = figures["exclude=none, array"]["rate"]
        for workers in (2, 0):
            peer = measure.run_peer(options.pyg_python, PYG, options.folder, options.peer_batches, workers)
            figures[f"pyg_{workers}_workers"] = peer
            against = f"GraphZero is {mine / peer['rate']:.1f} times faster; {peer['nodes']:,} nodes a batch"
            rows.append((f"PyG LinkNeighborLoader, {workers} workers", f"{peer['rate']:.2f} batches/s", against))
    measure.show("Links: 1,024 edges + 1,024 negatives, [15, 10] with features, warm", rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
