"""GraphSAGE through NeighborLoader: batches are sampled, read and prefetched within a memory budget.

python examples/sage_loader.py [FOLDER] [--nodes N] [--epochs N] [--memory SIZE]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch.nn import functional

import graphzero as gz
from graphzero.train import GraphSAGE


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="a dataset; created if it does not exist")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", default="256MB")
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or Path(scratch, "data"))
        if not folder.exists():
            gz.synthesize(folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=8)
        ds = gz.Dataset(folder)

        def loader(split: str) -> gz.NeighborLoader:
            return gz.NeighborLoader(
                ds.graph,
                ds.features["x"],
                fanouts=[10, 10],
                seeds=ds.splits[split],
                labels=ds.labels,
                batch_size=512,
                shuffle=split == "train",
                seed=0,
                memory=args.memory,
            )

        model = GraphSAGE(ds.features["x"].feature_dim, 64, ds.num_classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        train = loader("train")
        for _ in range(args.epochs):
            for batch in train:
                out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                loss = functional.cross_entropy(out, batch.y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        print(train.stats())
        model.eval()
        right = 0
        with torch.no_grad():
            for batch in loader("test"):
                out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                right += int((out.argmax(1) == batch.y).sum())
        accuracy = right / len(ds.splits["test"])
        print(f"test accuracy: {accuracy:.1%}")
        return accuracy


if __name__ == "__main__":
    main()
