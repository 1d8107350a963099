"""GraphSAGE in the style of GraphZero 0.2: mount the files, sample one fanout per hop, index the mapped rows, train.

Every step is explicit here; sage_loader.py does the same with less code and, out of core, much faster.

    python examples/sage_02_style.py [FOLDER] [--nodes N] [--epochs N]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import graphzero as gz

K = 10


class SAGE(nn.Module):
    """Two layers over a fixed number of neighbours: a node, its K neighbours, and theirs."""

    def __init__(self, dim: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(2 * dim, hidden)
        self.second = nn.Linear(2 * hidden, classes)

    def forward(self, x0: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        h0 = self.first(torch.cat([x0, x1.mean(1)], -1)).relu()  # (B, hidden)
        h1 = self.first(torch.cat([x1, x2.mean(2)], -1)).relu()  # (B, K, hidden)
        return self.second(torch.cat([h0, h1.mean(1)], -1))


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="a dataset; created if it does not exist")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or Path(scratch, "data"))
        if not folder.exists():
            gz.synthesize(folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=8)
        ds = gz.Dataset(folder)
        g, fs = ds.graph, ds.features["x"]
        x = torch.from_numpy(fs.get_tensor())  # zero-copy: rows are read on first access
        y = torch.from_numpy(ds.labels)
        model = SAGE(fs.feature_dim, 64, ds.num_classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def forward(ids: np.ndarray, seed: int) -> torch.Tensor:
            hop1 = g.batch_random_fanout(ids, K, seed=seed)  # (B, K)
            hop2 = g.batch_random_fanout(hop1.reshape(-1), K, seed=seed + 1).reshape(*hop1.shape, K)
            return model(x[torch.from_numpy(ids)], x[torch.from_numpy(hop1)], x[torch.from_numpy(hop2)])

        for epoch in range(args.epochs):
            order = np.random.default_rng(epoch).permutation(ds.splits["train"])
            for step, start in enumerate(range(0, len(order), 512)):
                ids = order[start : start + 512]
                loss = functional.cross_entropy(forward(ids, seed=1000 * epoch + 2 * step), y[ids])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        test = ds.splits["test"]
        with torch.no_grad():
            right = sum(
                int((forward(ids, seed=7).argmax(1) == y[ids]).sum())
                for ids in np.array_split(test, len(test) // 512 + 1)
            )
        print(f"test accuracy: {right / len(test):.1%}")
        return right / len(test)


if __name__ == "__main__":
    main()
