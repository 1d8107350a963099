"""Typed loading, warm: [15, 10] x 1,024 papers of a graph in the shape of ogbn-mag, against PyG's loader of HeteroData.

    python benchmarks/hetero.py FOLDER [--scale 1.0] [--pyg-python PYTHON] [--batches 40] [--json OUT]

FOLDER gets a dataset of `gz.synthesize(preset="mag")`: at scale 1, 1.9 M nodes of 4 types, 21 M edges of 4 types and as
many of their reverses, 128 x float32 features of papers. PYTHON is an interpreter with torch-geometric and torch-sparse
(or pyg-lib): PyG alone cannot sample typed graphs. It has everything in RAM and two worker processes; GraphZero has
two threads: two cores each. `--plain` compares a homogeneous graph loaded as one and as a typed graph of one type.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import measure
import numpy as np

import graphzero as gz

PYG = """
import json, sys, time, torch, numpy as np
from torch_geometric import typing
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
folder, batches, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
raw = dict(np.load(f"{folder}/raw.npz"))
data = HeteroData()
data["paper"].x, data["paper"].y = (torch.from_numpy(raw.pop(name)) for name in ("x", "y"))
seeds = torch.from_numpy(raw.pop("seeds"))
for name, array in raw.items():
    if name.startswith("edges."):
        data[tuple(name.removeprefix("edges.").split("__"))].edge_index = torch.from_numpy(array)
    else:
        data[name.removeprefix("nodes.")].num_nodes = int(array)
torch.set_num_threads(2)
loader = NeighborLoader(data, [15, 10], input_nodes=("paper", seeds), batch_size=1024, num_workers=workers,
                        persistent_workers=workers > 0)
nodes = edges = count = 0
for batch in loader:
    if count == 2:
        start = time.perf_counter()
    count += 1
    nodes, edges = batch.num_nodes, batch.num_edges
    if count == batches + 2:
        break
by = "pyg-lib" if typing.WITH_PYG_LIB else "torch-sparse"
print(json.dumps({"rate": batches / (time.perf_counter() - start), "nodes": nodes, "edges": edges, "by": by}))
"""


def dataset(folder: Path, scale: float) -> gz.Dataset:
    """Create the dataset if it does not exist."""
    path = folder / f"mag-{scale}"
    return gz.Dataset(path) if (path / "dataset.json").exists() else gz.synthesize(path, preset="mag", scale=scale)


def raw(ds: gz.Dataset, folder: Path, seeds: np.ndarray) -> Path:
    """Write what a peer reads: edges, features, labels and seeds as they are."""
    path = folder / f"raw-{ds.num_nodes}"
    if not (path / "raw.npz").exists():
        path.mkdir(parents=True, exist_ok=True)
        paper = ds.nodes["paper"]
        arrays = {f"nodes.{name}": np.array(node.num_nodes) for name, node in ds.nodes.items()}
        for key, edge in ds.edges.items():
            matrix = edge.graph.to_scipy().tocoo()
            arrays[f"edges.{'__'.join(key)}"] = np.stack([matrix.row, matrix.col]).astype(np.int64)
        arrays |= {"x": paper.features["x"].get_tensor(), "y": paper.labels, "seeds": seeds}
        np.savez(path / "raw.npz", **arrays)
    return path


def epochs(loader: gz.NeighborLoader, repeat: int) -> dict[str, float]:
    """Batches per second, best of `repeat` epochs; the first batch of each is not counted."""
    best, nodes, edges = 0.0, 0, 0
    for _ in range(repeat):
        start = time.perf_counter()
        for number, batch in enumerate(loader):
            if number == 0:
                start = time.perf_counter()
            nodes, edges = batch.num_nodes, batch.num_edges
        best = max(best, (len(loader) - 1) / (time.perf_counter() - start))
    return {"rate": best, "nodes": nodes, "edges": edges}


def plain(folder: Path, options: argparse.Namespace) -> None:
    """One graph, loaded as one and as a typed graph of one node type and one edge type."""
    ds = dataset(folder, options.scale)
    cites = ("paper", "cites", "paper")
    graph, store = ds.edges[cites].graph, ds.nodes["paper"].features["x"]
    common = {"fanouts": [15, 10], "batch_size": 1024, "seed": 0, "num_threads": 2, "memory": "2GB"}
    seeds = np.resize(ds.nodes["paper"].splits["train"], 1024 * (options.batches + 1))
    one = gz.NeighborLoader(graph, store, seeds=seeds, direction="in", **common)
    typed = gz.NeighborLoader(gz.HeteroGraph({cites: graph}), {"paper": store}, seeds=("paper", seeds), **common)
    epochs(one, 1), epochs(typed, 1)  # warm
    rates = [[epochs(loader, 1)["rate"] for loader in (one, typed)] for _ in range(options.repeat)]
    first, second = (max(column) for column in zip(*rates, strict=True))
    rows = [
        ("homogeneous", f"{first:.1f} batches/s", ""),
        ("typed, of one type", f"{second:.1f} batches/s", f"{second / first:.2f} of the homogeneous one"),
    ]
    measure.show("One type, loaded both ways, [15, 10] x 1,024", rows, folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--pyg-python")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--peer-batches", type=int, default=24)  # workers have some ready when the clock starts
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.plain:
        plain(options.folder, options)
        return
    ds = dataset(options.folder, options.scale)
    seeds = np.resize(np.random.default_rng(0).permutation(ds.nodes["paper"].splits["train"]), 1024 * 64)
    ds.nodes["paper"].features["x"].get_tensor().sum(dtype=np.float64)  # every page in RAM
    loader = gz.NeighborLoader(
        ds, {"paper": {"x": ds.nodes["paper"].features["x"]}},  # what PyG gathers too
        seeds=("paper", seeds[: 1024 * (options.batches + 1)]), fanouts=[15, 10], batch_size=1024, seed=0,
        memory=options.memory, num_threads=2,
    )  # fmt: skip
    mine = epochs(loader, options.repeat)
    print(loader.stats())
    figures = {"graphzero": mine}
    rows = [("GraphZero, 2 threads", f"{mine['rate']:.1f} batches/s", f"{mine['nodes']:,.0f} nodes a batch")]
    if options.pyg_python:
        folder = raw(ds, options.folder, seeds)
        for workers in (2, 0):
            peer = measure.run_peer(options.pyg_python, PYG, folder, options.peer_batches, workers)
            figures[f"pyg_{workers}_workers"] = peer
            against = f"GraphZero is {mine['rate'] / peer['rate']:.1f} times faster; {peer['nodes']:,} nodes a batch"
            rows.append((f"PyG on {peer['by']}, {workers} workers", f"{peer['rate']:.2f} batches/s", against))
    measure.show(f"Typed loading [15, 10] x 1,024, mag at scale {options.scale}, warm", rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
