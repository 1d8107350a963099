"""Nodes as the seeds of a loader, with their type, times and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray
from ..args.times import in_time_unit
from ..dataset.dataset import Dataset
from ..stores.hetero import HeteroGraph
from .inputs import Labels, find_split, resolve_seeds, resolve_time, seeds_of_type, seeds_or_split
from .source import LoadSource


class SeedNodes:
    """Node ids, a time for each where sampling is temporal, and the labels of all nodes."""

    def __init__(
        self, source: LoadSource, seeds: Any, split: str | None, input_type: str | None, labels: Any, time: Any
    ) -> None:
        """Check them; None means all nodes. Labels and times are those of the seeds' type, or dicts by type."""
        types, time = source.types, in_time_unit(source.data, time)
        input_type, seeds = seeds_or_split(source.data, seeds, split, input_type, split_of, "seeds")
        name, seeds = seeds_of_type(
            seeds, input_type, types.node_types, _is_name, kind="node", option="input_type", name="seeds"
        )
        self.type = types._known_node_type(name)
        self._number = types.node_types.index(self.type)
        num_nodes = types.num_nodes[self.type]
        labels = source.labels if labels is None else labels
        labels, time = (_of_type(given, self.type, types) for given in (labels, time))
        node_time = source.node_time.get(self.type)
        if source.node_time and time is None and node_time is None:
            raise ValueError(f"no time for the seeds: give time=, or node_time for type {self.type!r}")
        self.ids = resolve_seeds(seeds, num_nodes)
        self.labels = None if labels is None else Labels(labels, num_nodes)
        self.time = resolve_time(time, num_nodes if self.ids is None else len(self.ids))
        if time is None and node_time is not None:
            self.time = node_time if self.ids is None else _times_of(self.ids, node_time)
        self._numbers = _core.Numbers.range(num_nodes) if self.ids is None else _core.Numbers(self.ids)

    @property
    def views(self) -> dict[str, Any]:
        """Arrays that may be views of files."""
        return {"seeds": self.ids, "time": self.time}

    def source(self) -> _core.SeedSource:
        """Return what the core takes."""
        return _core.node_seeds(self._numbers, None if self.time is None else _core.Numbers(self.time), self._number)

    def attributes(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a batch has for its seeds."""
        import torch

        input_id = raw["input_id"]
        of_seeds: dict[str, Any] = {"input_id": torch.from_numpy(input_id), "batch_size": len(input_id)}
        if self.labels is not None:
            of_seeds["y"] = self.labels.of(raw["nodes"][self._number]["n_id"][: len(input_id)])
        if self.time is not None:
            of_seeds["seed_time"] = torch.from_numpy(self.time[input_id])
        return of_seeds


def _times_of(ids: Any, node_time: IdArray) -> IdArray:
    inside = (ids >= 0) & (ids < len(node_time))  # the core names what is outside
    return node_time[np.where(inside, ids, 0)] if len(node_time) else np.zeros(len(ids), np.int64)


def _of_type(values: Any, node_type: str, types: HeteroGraph) -> Any:
    """Return the entry of a dict by node type; any other value belongs to the seeds and is returned as it is."""
    if not isinstance(values, Mapping):
        return values
    return {types._known_node_type(key): value for key, value in values.items()}.get(node_type)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def split_of(data: Dataset, split: str, input_type: str | None) -> tuple[str, IdArray]:
    """Return the node type that has a split, and its ids; ValueError unless exactly one has it, or `input_type`."""
    return find_split(data.nodes, split, input_type, kind="node", option="input_type")
