"""What the out-of-core benchmarks share: the training step, the loader, and how an epoch is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import graphzero as gz
from graphzero.train import GraphSAGE


class Step:
    """The training step of every run."""

    def __init__(self, ds: gz.Dataset, hidden: int, layers: int) -> None:
        torch.manual_seed(0)
        self.model = GraphSAGE(ds.features["x"].feature_dim, hidden, ds.num_classes, layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self(_small(ds, layers))  # torch's code is read from the cold disk too; do not attribute that to the loader

    def __call__(self, batch: Any) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
        functional.cross_entropy(out, batch.y).backward()
        self.optimizer.step()


def _small(ds: gz.Dataset, layers: int) -> gz.Batch:
    """A batch of noise, with eight nodes and eight edges per hop."""
    hops = torch.arange(8 * layers)
    return gz.Batch(
        x=torch.randn(8 * layers + 8, ds.features["x"].feature_dim),
        y=torch.zeros(8, dtype=torch.int64),
        edge_index=torch.stack([hops + 8, hops]),
        num_sampled_nodes=[8] * (layers + 1),
        num_sampled_edges=[8] * layers,
    )


def seeds_of(ds: gz.Dataset, most: int | None) -> np.ndarray:
    """The seeds of the train split in a fixed random order, at most so many."""
    return np.random.default_rng(0).permutation(ds.splits["train"])[:most]


def make_loader(
    ds: gz.Dataset, fanouts: Sequence[int], batch_size: int, batches: int | None, **options: Any
) -> gz.NeighborLoader:
    """A loader over the first `batches` of the train split (None: over all of it), rows as float32."""
    return gz.NeighborLoader(
        ds.graph,
        ds.features["x"],
        fanouts=fanouts,
        seeds=seeds_of(ds, None if batches is None else batches * batch_size),
        labels=ds.labels,
        batch_size=batch_size,
        seed=0,
        dtype="float32",
        **options,
    )


def over(loader: gz.NeighborLoader, use: Callable[[Any], None]) -> dict[str, Any]:
    """Time an epoch. "a_batch" has the wait for the first batch in it, but not "planning", which does not grow with the
    epoch: sizes are probed and files that fit are read. "seconds" has both.
    """
    begin = time.perf_counter()
    loader._ready_plan()
    planned = time.perf_counter()
    count = 0
    first = 0.0
    for batch in loader:
        first = first or time.perf_counter() - planned
        use(batch)
        count += 1
    end = time.perf_counter()
    return {
        "seconds": end - begin,
        "planning": planned - begin,
        "first": first,
        "batches": count,
        "a_batch": (end - planned) / count,
        "stats": loader.stats().to_dict(),
    }


def over_epochs(loader: gz.NeighborLoader, use: Callable[[Any], None], epochs: int) -> dict[str, Any]:
    """Time epochs that follow each other, as `over` does the first; "epochs" has the seconds per batch of each."""
    done = [over(loader, use) for _ in range(epochs)]
    return done[-1] | {
        "seconds": sum(d["seconds"] for d in done),
        "planning": done[0]["planning"],
        "first": done[0]["first"],
        "epochs": [d["a_batch"] for d in done],
        "a_batch": sum(d["a_batch"] for d in done) / epochs,
        "bytes_read": [d["stats"]["bytes_read"] + d["stats"]["topology_bytes_read"] for d in done],
    }


def thrown_away(batch: Any) -> None:
    """Discard a batch."""
