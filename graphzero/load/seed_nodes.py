"""The seeds of a loader that are nodes: which, of what type, with which times and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray
from ..dataset.dataset import Dataset
from ..stores.hetero import HeteroGraph
from .inputs import Labels, resolve_seeds, resolve_time


class SeedNodes:
    """Node ids, a time for each where sampling is temporal, and the labels of all nodes."""

    def __init__(self, seeds: Any, num_nodes: int, labels: Any, time: Any, node_time: IdArray | None = None) -> None:
        """Check them; None stands for all nodes. Where `time` is not given, `node_time` has it for every node."""
        self.ids = resolve_seeds(seeds, num_nodes)
        self.labels = None if labels is None else Labels(labels, num_nodes)
        self.time = resolve_time(time, num_nodes if self.ids is None else len(self.ids))
        if time is None and node_time is not None:
            self.time = node_time if self.ids is None else _times_of(self.ids, node_time)
        self._numbers = _core.Numbers.range(num_nodes) if self.ids is None else _core.Numbers(self.ids)

    def source(self, node_type: int = 0) -> _core.SeedSource:
        """Return what the core takes; `node_type` is the number of their type."""
        return _core.node_seeds(self._numbers, None if self.time is None else _core.Numbers(self.time), node_type)

    def attributes(self, raw: Mapping[str, Any], node_type: int = 0) -> dict[str, Any]:
        """Return what a batch has for its seeds."""
        import torch

        input_id = raw["input_id"]
        of_seeds: dict[str, Any] = {"input_id": torch.from_numpy(input_id), "batch_size": len(input_id)}
        if self.labels is not None:
            of_seeds["y"] = self.labels.of(raw["nodes"][node_type]["n_id"][: len(input_id)])
        if self.time is not None:
            of_seeds["seed_time"] = torch.from_numpy(self.time[input_id])
        return of_seeds


def _times_of(ids: Any, node_time: IdArray) -> IdArray:
    inside = (ids >= 0) & (ids < len(node_time))  # the core names what is outside
    return node_time[np.where(inside, ids, 0)] if len(node_time) else np.zeros(len(ids), np.int64)


def split_of(data: Dataset, split: str, input_type: str | None) -> tuple[str, IdArray]:
    """Return the node type that has a split, and its ids; ValueError unless exactly one has it, or `input_type`."""
    has = {name: list(node.splits) for name, node in data.nodes.items() if node.splits}
    listed = "; ".join(f"{name!r}: {', '.join(splits)}" for name, splits in has.items()) or "none"
    if input_type is not None and input_type not in data.nodes:
        raise ValueError(f"no node type {input_type!r}, the dataset has {', '.join(map(repr, data.nodes))}")
    having = [name for name in has if split in has[name] and input_type in (None, name)]
    if not having:
        of = "" if input_type is None else f" of node type {input_type!r}"
        raise ValueError(f"no split {split!r}{of}, the dataset has splits {listed}")
    if len(having) > 1:
        types = ", ".join(map(repr, having))
        raise ValueError(f"split {split!r} is of several node types, {types}: choose one with input_type=")
    return having[0], data.nodes[having[0]].splits[split]


def typed_seeds(graph: HeteroGraph, seeds: Any, input_type: str | None) -> tuple[str, Any]:
    """Return the node type of the seeds, and the seeds, None for all nodes of it."""
    if isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[0], str):
        seeds = dict([seeds])
    if isinstance(seeds, Mapping):
        if len(seeds) != 1:
            raise ValueError(f"seeds are of types {list(seeds)}, expected one node type: make a loader for each")
        (named, seeds), *_ = seeds.items()
        if input_type not in (None, named):
            raise ValueError(f"seeds are of type {named!r}, but input_type is {input_type!r}")
        input_type = named
    if input_type is None and len(graph.node_types) == 1:
        input_type = graph.node_types[0]
    if input_type is None:
        types = ", ".join(map(repr, graph.node_types))
        raise ValueError(
            f"of which type are the seeds? Give input_type= or seeds=(type, ids); the graph has node types {types}"
        )
    return graph._known_node_type(input_type), seeds
