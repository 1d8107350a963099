"""Feeding a GPU: page-locked copies on a side stream, against copies in the training stream.

    python benchmarks/gpu.py FOLDER [--nodes 2000000] [--edges 30000000] [--batches 60] [--json OUT]

Makes a power-law graph with 128 x float32 features, trains a GraphSAGE of two layers on the GPU, and reports batches a
second for: the model alone (one batch again and again), the loader alone, both with device="cuda", and both with the
plain copy that users would write. Also checks that batches on the GPU equal those on the CPU.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch

import graphzero as gz

FANOUTS = [15, 10, 5]


def make_data(folder: Path, nodes: int, edges: int, dim: int) -> tuple[gz.Graph, gz.FeatureStore, torch.Tensor]:
    """Compile the graph and the features where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    if not (folder / "gpu.gl").exists():
        src = rng.integers(0, nodes, edges)
        dst = np.minimum((nodes * rng.random(edges) ** 2.5).astype(np.int64), nodes - 1)
        gz.compile_graph((src, dst), folder / "gpu.gl", num_nodes=nodes, directed=False)
        gz.compile_features(rng.standard_normal((nodes, dim), dtype=np.float32), folder / "gpu.gd")
    labels = torch.from_numpy(rng.integers(0, 40, nodes))
    return gz.Graph(folder / "gpu.gl"), gz.FeatureStore(folder / "gpu.gd"), labels


class Sage(torch.nn.Module):
    """Mean aggregation, as many layers as there are fanouts."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.own = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairs)
        self.others = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in pairs)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        row, col = edge_index
        for i, (own, others) in enumerate(zip(self.own, self.others, strict=True)):
            total = torch.zeros_like(x).index_add_(0, col, x[row])
            count = torch.zeros(len(x), 1, device=x.device).index_add_(0, col, torch.ones(len(row), 1, device=x.device))
            x = own(x) + others(total / count.clamp(min=1))
            x = x.relu() if i + 1 < len(self.own) else x
        return x


def rate(batches: Iterable[Any], step: Callable[[Any], None], skip: int = 3) -> float:
    """Batches a second after the first `skip`."""
    count, start = 0, 0.0
    for batch in batches:
        if count == skip:
            torch.cuda.synchronize()
            start = time.perf_counter()
        step(batch)
        count += 1
    torch.cuda.synchronize()
    return (count - skip) / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--edges", type=int, default=30_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    graph, store, labels = make_data(options.folder, options.nodes, options.edges, options.dim)
    store.get_tensor().sum(dtype=np.float64)  # warm
    seeds = np.random.default_rng(1).permutation(options.nodes)[: 1024 * options.batches]

    def loader(**extra: Any) -> gz.NeighborLoader:
        return gz.NeighborLoader(
            graph, store, fanouts=FANOUTS, seeds=seeds, labels=labels, batch_size=1024, seed=0, memory="8GB", **extra
        )

    for here, there in zip(loader(), loader(device="cuda"), strict=True):
        for key, value in here:
            if isinstance(value, torch.Tensor):
                assert there[key].device.type == "cuda"
                assert torch.equal(value, there[key].cpu()), key
        if int(here.n_id[0]) >= 0 and int(here.input_id[0]) > 3000:
            break
    model = Sage([options.dim, 256, 256, 40]).cuda()
    optimizer = torch.optim.Adam(model.parameters())

    def train(batch: Any) -> None:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.nn.functional.cross_entropy(out, batch.y).backward()
        optimizer.step()

    one = next(iter(loader(device="cuda")))
    figures = {
        "model alone": rate([one] * options.batches, train),
        "loader alone, on the CPU": rate(loader(), lambda batch: None),
        "loader alone, to the GPU": rate(loader(device="cuda"), lambda batch: None),
        "both, device='cuda'": rate(loader(device="cuda"), train),
        "both, batch.to('cuda') in the loop": rate(loader(), lambda batch: train(batch.to("cuda"))),
    }
    bound = min(figures["model alone"], figures["loader alone, on the CPU"])
    rows = [(name, f"{value:.1f} batches/s", f"{value / bound:.2f} of the bound") for name, value in figures.items()]
    measure.show(f"Feeding {torch.cuda.get_device_name()} ({one.num_nodes:,} nodes a batch)", rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
