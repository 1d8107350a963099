"""A small loader of every kind: nodes and edges as seeds, of one type and of several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from typed_world import CITES, World

import graphzero as gz

KINDS = ("node", "link", "typed", "typed link")


def loader_kinds(folder: Path) -> dict[str, Callable[..., Any]]:
    """Loaders as functions of options."""
    rng = np.random.default_rng(1)
    world = World(folder / "typed")
    gz.compile_graph(rng.integers(0, 500, (2, 3000)), folder / "g.gl", num_nodes=500, direction="in")
    gz.compile_features(rng.standard_normal((500, 4), dtype=np.float32), folder / "x.gd")
    g, x = gz.Graph(folder / "g.gl"), gz.FeatureStore(folder / "x.gd")
    small = {"fanouts": [2], "batch_size": 20, "seed": 1, "num_threads": 1}
    return {
        "node": lambda **o: gz.NeighborLoader(g, x, **(small | o)),
        "link": lambda **o: gz.LinkNeighborLoader(g, x, **(small | o)),
        "typed": lambda **o: gz.NeighborLoader(world.ds, split="train", **(small | o)),
        "typed link": lambda **o: gz.LinkNeighborLoader(world.ds, edge_type=CITES, **(small | o)),
    }


def arrays_of(batch: Any) -> dict[str, Any]:
    """Every array of a batch, by name; those of a type by its name too."""
    if isinstance(batch, gz.Batch):
        return dict(batch)
    types = [*batch.node_types, *batch.edge_types]
    return {f"{kind}.{name}": value for kind in types for name, value in batch[kind]}


def seeds_of(batch: Any) -> list[int]:
    """The positions of its seeds among those of the loader."""
    found = [value for name, value in arrays_of(batch).items() if name.split(".")[-1] == "input_id"]
    assert len(found) == 1
    return [int(i) for i in found[0]]
