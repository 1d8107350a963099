"""Accuracy out of core against PyG with everything in RAM: same data, same model, several seeds each.

    python benchmarks/accuracy.py [FOLDER] [--seeds 5] [--peer PYTHON] [--json PATH]

PyG's own GraphSAGE is trained by `--peer` (an interpreter with torch-geometric; this one by default) from tensors in
RAM. Its NeighborLoader is used if that interpreter has pyg-lib or torch-sparse; otherwise a few lines of
NumPy replace it, and the output shows this. The two samples of test accuracies are compared by Welch's t-test.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import measure
import numpy as np
from scipy import stats

import graphzero as gz
from graphzero.train import Trainer, TrainOptions

PEER = r"""
import json, sys
import numpy as np, torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
folder, seeds, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
load = lambda name: torch.from_numpy(np.load(f"{folder}/{name}.npy"))
x, y, edge_index = load("x"), load("y"), load("edge_index")
splits = {name: load(name) for name in ("train", "valid", "test")}
try:
    import torch_geometric.typing as t
    native = t.WITH_PYG_LIB or t.WITH_TORCH_SPARSE
except ImportError:
    native = False

def native_batches(split, shuffle):
    from torch_geometric.loader import NeighborLoader
    data = Data(x=x, y=y, edge_index=edge_index)
    for b in NeighborLoader(data, options["fanouts"], splits[split], batch_size=options["batch_size"], shuffle=shuffle):
        yield b.x, b.edge_index, b.y[:b.batch_size]

order = np.argsort(edge_index[1].numpy(), kind="stable")
senders = edge_index[0].numpy()[order]
starts = np.searchsorted(edge_index[1].numpy()[order], np.arange(len(x) + 1))

def plain_batches(split, shuffle):
    ids = splits[split].numpy()
    ids = np.random.permutation(ids) if shuffle else ids
    for begin in range(0, len(ids), options["batch_size"]):
        seeds_ = ids[begin:begin + options["batch_size"]]
        place = {int(v): i for i, v in enumerate(seeds_)}
        nodes, rows, cols, frontier = list(map(int, seeds_)), [], [], list(map(int, seeds_))
        for k in options["fanouts"]:
            found = []
            for v in frontier:
                near = senders[starts[v]:starts[v + 1]]
                near = near if len(near) <= k else np.random.choice(near, k, replace=False)
                for u in map(int, near):
                    if u not in place:
                        place[u] = len(nodes); nodes.append(u); found.append(u)
                    rows.append(place[u]); cols.append(place[v])
            frontier = found
        n = torch.tensor(nodes)
        yield x[n], torch.tensor([rows, cols]), y[n[:len(seeds_)]]

batches = native_batches if native else plain_batches
results = []
for seed in range(seeds):
    torch.manual_seed(seed); np.random.seed(seed)
    shape = x.shape[1], options["hidden"], len(options["fanouts"]), int(y.max()) + 1
    model = GraphSAGE(*shape, dropout=options["dropout"])
    optimizer = torch.optim.Adam(model.parameters(), lr=options["lr"])
    best, test = -1.0, 0.0
    def accuracy(split):
        model.eval()
        with torch.no_grad():
            hits = [(model(bx, be)[:len(by)].argmax(1) == by).float() for bx, be, by in batches(split, False)]
        return float(torch.cat(hits).mean())
    for epoch in range(options["epochs"]):
        model.train()
        for bx, be, by in batches("train", True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(bx, be)[:len(by)], by).backward()
            optimizer.step()
        valid = accuracy("valid")
        if valid > best:
            best, test = valid, accuracy("test")
    results.append(test)
print(json.dumps({"accuracies": results, "sampler": "PyG NeighborLoader" if native else "a plain sampler in NumPy"}))
"""


def export(ds: gz.Dataset, folder: Path) -> None:
    """Write the dataset in PyG's form: edge_index from source to target, and dense tensors."""
    indptr, indices = ds.graph.csr()
    receivers = np.repeat(np.arange(ds.num_nodes), np.diff(indptr.astype(np.int64)))
    np.save(folder / "edge_index.npy", np.stack([indices.astype(np.int64), receivers]))
    np.save(folder / "x.npy", ds.features["x"].get_tensor())
    np.save(folder / "y.npy", ds.labels)
    for name in ("train", "valid", "test"):
        np.save(folder / f"{name}.npy", ds.splits[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="a dataset; created if it does not exist")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--memory", default="100MB")
    parser.add_argument("--peer", default=sys.executable)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch, "data")
        if not folder.exists():
            splits = {"train": 0.2, "valid": 0.1, "test": 0.3}
            gz.synthesize(
                folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=10, signal=0.7, splits=splits
            )
        ds = gz.Dataset(folder)
        chosen = {
            "fanouts": [10, 5],
            "batch_size": 512,
            "hidden": 64,
            "dropout": 0.5,
            "lr": 0.005,
            "epochs": args.epochs,
        }
        ours = []
        for seed in range(args.seeds):
            result = Trainer(ds, TrainOptions(**chosen, seed=seed, memory=args.memory, device="cpu")).fit()
            ours.append(float(result.test_accuracy or 0))
        export(ds, Path(scratch))
        peer = measure.run_peer(args.peer, PEER, scratch, args.seeds, json.dumps(chosen))
        theirs = peer["accuracies"]
        test = stats.ttest_ind(ours, theirs, equal_var=False)
        difference = statistics.mean(ours) - statistics.mean(theirs)
        show = lambda values: f"{statistics.mean(values):.2%} ± {statistics.stdev(values):.2%}"  # noqa: E731
        measure.show(
            f"Test accuracy, {args.seeds} seeds each, {ds.num_nodes:,} nodes, GraphSAGE {chosen['fanouts']}",
            [
                ("GraphZero, out of core", show(ours), f"memory={args.memory}"),
                ("PyG, all in RAM", show(theirs), peer["sampler"]),
                ("difference", f"{difference:+.2%}", f"Welch's t-test: p = {test.pvalue:.2f}"),
            ],
            folder,
        )
        figures = {"graphzero": ours, "pyg": theirs, "sampler": peer["sampler"], "p": float(test.pvalue)}
        measure.save(args.json, figures, folder)


if __name__ == "__main__":
    main()
