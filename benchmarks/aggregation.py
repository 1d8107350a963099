"""Summing over sampled neighbours: the grouped sum against index_add_, sparse CSR and PyG, forward and backward.

python benchmarks/aggregation.py [--threads 2] [--models FOLDER] [--json PATH]

`--models` times training steps instead: PyG's models over one batch of a graph that is made in FOLDER, with edges given
as they are, as a sorted EdgeIndex and as a sparse CSR tensor, and with layers trimmed to the hops that they need; and
GraphZero's own GraphSAGE.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch

import graphzero as gz
from graphzero.train import GraphSAGE
from graphzero.train.neighbourhood import Neighbourhood

REPEAT = 5  # of which the best counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    figures = sums(args.threads) if args.models is None else models(args.models, args.threads)
    measure.save(args.json, figures)


def sums(threads: int) -> dict[str, Any]:
    figures = {}
    # the outer and the inner layer of [15, 10, 5] x 1,024
    for name, sources, targets, edges, dim in [
        ("outer", 423_000, 60_000, 576_000, 128),
        ("inner", 60_000, 14_000, 135_000, 128),
    ]:
        receivers = torch.sort(torch.randint(0, targets, (edges,)))[0]
        edge_index = torch.stack([torch.randint(0, sources, (edges,)), receivers])
        x = torch.randn(sources, dim, requires_grad=True)
        pull = torch.randn(targets, dim)
        ours = Neighbourhood.from_edges(edge_index, sources, targets)
        ones = torch.ones(edges)
        sparse = torch.sparse_csr_tensor(ours.offsets, edge_index[0], ones, (targets, sources))

        def plain(x: torch.Tensor = x, e: torch.Tensor = edge_index, n: int = targets) -> torch.Tensor:
            return torch.zeros(n, x.shape[1]).index_add(0, e[1], x[e[0]])

        timings = {}
        for label, forward in {
            "ours": lambda: ours.sum(x),  # noqa: B023
            "index_add_": plain,
            "sparse CSR": lambda: sparse @ x,  # noqa: B023
        }.items():
            with torch.no_grad():
                timings[f"{label} forward"] = measure.best_of(REPEAT, forward)
            if label != "sparse CSR":  # its backward gives a sparse result of another kind
                out = forward()
                back = lambda: torch.autograd.grad(out, x, pull, retain_graph=True)  # noqa: B023, E731
                timings[f"{label} backward"] = measure.best_of(REPEAT, back)
        figures[name] = timings
        rows = [
            (what, f"{seconds * 1e3:.1f} ms", f"{seconds / timings['ours ' + what.split()[-1]]:.1f} x ours")
            for what, seconds in timings.items()
        ]
        measure.show(f"Sum over neighbours, {name} layer: {edges:,} edges, {threads} threads", rows)
    return figures


def models(folder: Path, threads: int) -> dict[str, Any]:
    import torch_geometric.nn as pyg

    class GraphConv(pyg.GraphSAGE):  # PyG has no model of this layer
        def init_conv(self, in_channels: Any, out_channels: int, **options: Any) -> Any:
            return pyg.GraphConv(in_channels, out_channels, aggr="mean")

    if not (folder / "dataset.json").exists():
        gz.synthesize(folder, nodes=200_000, edges=3_000_000, dim=128, seed=0)
    data = gz.Dataset(folder)
    batch = next(iter(gz.NeighborLoader(data, split="train", fanouts=[15, 10, 5], batch_size=256, seed=0)))
    hops = batch.num_sampled_nodes, batch.num_sampled_edges
    trim = dict(zip(("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop"), hops, strict=True))
    ways: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "edge_index": (lambda: batch.edge_index, {}),
        "EdgeIndex": (lambda: sorted_edges(batch), {}),
        "sparse CSR": (lambda: csr_edges(batch), {}),
        "edge_index, trimmed": (lambda: batch.edge_index, trim),
        "EdgeIndex, trimmed": (lambda: sorted_edges(batch), trim),
    }
    steps: dict[str, Callable[[], None]] = {}
    shape = {"in_channels": data.features["x"].feature_dim, "hidden_channels": 256, "num_layers": 3}
    for kind in (pyg.GraphSAGE, GraphConv, pyg.GAT, pyg.GIN):
        model = kind(**shape, out_channels=data.num_classes)
        for way, (edges, options) in ways.items():
            steps[f"{kind.__name__}, {way}"] = partial(train, model, batch, edges, **options)
    ours = GraphSAGE(shape["in_channels"], 256, data.num_classes, 3)
    ours_trim = dict(zip(("num_sampled_nodes", "num_sampled_edges"), hops, strict=True))
    steps["GraphZero's GraphSAGE, trimmed"] = partial(train, ours, batch, lambda: batch.edge_index, **ours_trim)
    figures = dict.fromkeys(steps, float("inf"))
    for _ in range(REPEAT):  # in turn: other programs slow all of them down
        for name, step in steps.items():
            figures[name] = min(figures[name], measure.best_of(1, step))
    rows = []
    for name, seconds in figures.items():
        trimmed = figures.get(f"{name.split(',')[0]}, edge_index, trimmed", figures["GraphSAGE, edge_index, trimmed"])
        rows.append((name, f"{seconds * 1e3:.0f} ms", f"{seconds / trimmed:.2f} x PyG's with edge_index, trimmed"))
    sizes = f"{batch.num_nodes:,} nodes, {batch.num_edges:,} edges, [15, 10, 5] x 256, {threads} threads"
    measure.show(f"Training steps of models, by the form of their edges: {sizes}", rows)
    return figures


def sorted_edges(batch: Any) -> Any:
    from torch_geometric import EdgeIndex

    return EdgeIndex(batch.edge_index, sparse_size=(batch.num_nodes, batch.num_nodes), sort_order="col")


def csr_edges(batch: Any) -> torch.Tensor:
    grouped = Neighbourhood.from_edges(batch.edge_index, batch.num_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse CSR tensors are in beta
        values = torch.ones(len(grouped.sources))
        return torch.sparse_csr_tensor(grouped.offsets, grouped.sources, values, (batch.num_nodes, batch.num_nodes))


def train(model: torch.nn.Module, batch: Any, edges: Callable[[], Any], **options: Any) -> None:
    model.zero_grad()
    out = model(batch.x, edges(), **options)[: batch.batch_size]
    torch.nn.functional.cross_entropy(out, batch.y).backward()


if __name__ == "__main__":
    main()
