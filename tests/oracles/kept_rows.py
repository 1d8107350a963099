"""Loaders over small graphs, with and without a device that keeps rows, and whether they deliver the same batches."""

from __future__ import annotations

import numpy as np
import torch

import graphzero as gz


def make_loader(data, features=None, **extra):
    options = {"fanouts": [4, 4], "batch_size": 64, "seed": 1, "shuffle": True, "memory": "64MB", "num_threads": 2}
    return gz.NeighborLoader(data, features, **options | extra)


def same(here, there):
    for name, value in here:
        if isinstance(value, torch.Tensor):
            assert there[name].dtype == value.dtype, name
            assert torch.equal(value, there[name]), name
        else:
            assert there[name] == value, name
    assert here.keys() == there.keys()


def check_epochs(here, there, epochs=2):
    for _ in range(epochs):
        for a, b in zip(here, there, strict=True):
            same(a, b)


def typed_data(folder):
    rng = np.random.default_rng(0)
    edges = {
        ("author", "writes", "paper"): np.stack([rng.integers(0, 300, 3000), rng.integers(0, 700, 3000)]),
        ("paper", "cites", "paper"): rng.integers(0, 700, (2, 4000)),
    }
    graphs = {}
    for name, (source, target) in {k: (k[0], k[2]) for k in edges}.items():
        path = folder / f"{name[1]}.gl"
        sizes = {"author": 300, "paper": 700}
        gz.compile_graph(edges[name], path, direction="in", num_nodes=(sizes[source], sizes[target]))
        graphs[name] = gz.Graph(path)
    stores = {}
    for name, count, dim in (("author", 300, 4), ("paper", 700, 6)):
        gz.compile_features(rng.normal(size=(count, dim)).astype(np.float32), folder / f"{name}.gd")
        stores[name] = gz.FeatureStore(folder / f"{name}.gd")
    return gz.HeteroGraph(graphs, {"author": 300, "paper": 700}), stores
