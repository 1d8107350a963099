"""The seeds of a run: nodes of splits, of splits by time, or rows of a task table, with optional times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..args.ids import IdArray, as_ids
from ..args.suggest import did_you_mean
from ..args.times import per_second
from ..dataset.columns import MISSING_TIME
from ..dataset.dataset import Dataset
from ..dataset.node_data import read_whole
from ..dataset.splits_by_time import split_by_time
from ..load.seeds import positions_of
from .records import TrainOptions

__all__ = [
    "Seeds",
    "YOfRows",
    "are_dates",
    "class_names",
    "edge_splits_by_time",
    "first_time",
    "node_times",
    "seeds_of_nodes",
    "seeds_of_table",
    "table_of",
]


@dataclass(frozen=True)
class Seeds:
    """Nodes, with their times if sampling is by time, and with labels by row for task tables."""

    ids: Any
    times: IdArray | None = None
    labels: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        """Return the number of seeds."""
        return len(self.ids)


class YOfRows:
    """Adds the labels of rows to a batch, as a loader's `transform`: a node may be in several rows."""

    def __init__(self, labels: npt.NDArray[Any], node_type: str | None) -> None:
        """Use one label per row."""
        self._labels, self._type = torch.from_numpy(np.ascontiguousarray(labels)), node_type

    def __call__(self, batch: Any) -> Any:
        """Return the batch with `y`."""
        part = batch if self._type is None else batch[self._type]
        self._labels = self._labels.to(part.input_id.device)  # where they stay
        part.y = self._labels[part.input_id]
        return batch


def class_names(data: Any, options: TrainOptions, node_type: str | None = None) -> list[str]:
    """Return the names of the classes, where the dataset has some; of its only node type by default."""
    if not isinstance(data, Dataset):
        return []
    if options.task in data.tasks:
        return data.tasks[options.task].names
    found = data.info["about"].get("classes", [])
    found = found.get(node_type or next(iter(data.nodes)), []) if isinstance(found, dict) else found
    return [str(name) for name in found] if isinstance(found, list) else []


def are_dates(data: Dataset, node_type: str, time: str | None) -> bool:
    """Return whether the times of nodes were dates in the table that they come from."""
    found = data.info["about"].get("dates", [])
    found = found.get(node_type, []) if isinstance(found, dict) else found
    return time in data.nodes[node_type].columns or (isinstance(found, list) and time in found)


def table_of(data: Any, options: TrainOptions) -> Any:
    """Return the task table that the options name; None where they name nodes or links."""
    if options.task in ("nodes", "links"):
        return None
    tasks = data.tasks if isinstance(data, Dataset) else {}
    if options.task not in tasks:
        known = ("nodes", "links", *tasks)
        hint = did_you_mean(options.task, known)
        raise ValueError(f"task is {options.task!r}, expected one of {', '.join(map(repr, known))}{hint}")
    return tasks[options.task]


def seeds_of_table(table: Any, options: TrainOptions, unit: str) -> dict[str, Seeds]:
    """Return the rows of a task by split; `split_by_time` replaces its own splits."""
    found = {name: Seeds(rows.ids, rows.times, rows.labels) for name, rows in table.splits.items()}
    if options.split_by_time is None:
        return found
    if any(seeds.times is None for seeds in found.values()):
        raise ValueError(f"split_by_time needs times, but task {table.name!r} has none")
    ids, labels = (np.concatenate([getattr(s, what) for s in found.values()]) for what in ("ids", "labels"))
    times = np.concatenate([seeds.times for seeds in found.values() if seeds.times is not None])
    parts = split_by_time(times, options.split_by_time, unit)
    return {name: Seeds(ids[rows], times[rows], labels[rows]) for name, rows in parts.items()}


def seeds_of_nodes(
    splits: Mapping[str, Any], labels: Any, times: IdArray | None, options: TrainOptions, unit: str
) -> dict[str, Seeds]:
    """Return the nodes of each split, by time where the options say so; `labels()` reads those of all nodes."""
    if options.split_by_time is not None:
        if times is None:
            raise ValueError("split_by_time also needs time=, a column or feature with the times of nodes")
        splits = split_by_time(times, options.split_by_time, unit, _known(labels()) & (times != MISSING_TIME))
    return {name: Seeds(ids, None if times is None else _of_seeds(times, ids, name)) for name, ids in splits.items()}


def _of_seeds(times: IdArray, ids: Any, split: str) -> IdArray:
    found = times[as_ids(ids, split)]
    missing = np.flatnonzero(found == MISSING_TIME)
    if missing.size:
        raise ValueError(f"node {as_ids(ids, split)[missing[0]]} of split {split!r} has no time")
    return found


def _known(labels: Any) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    known: npt.NDArray[Any] = np.isfinite(array) if array.dtype.kind == "f" else np.asarray(array >= 0)
    return np.any(known, axis=1) if known.ndim == 2 else known


def node_times(features: Mapping[str, Any], columns: Mapping[str, Any], name: str, unit: str) -> IdArray | None:
    """Return the times of all nodes of a type: a column of kind time, or a vector of integers; None without either."""
    column = columns.get(name)
    if column is not None and column.kind == "time":
        seconds = read_whole(features[column.array])
        own = seconds if seconds.ndim == 1 else np.ascontiguousarray(seconds[:, column.column])
        scaled = np.floor(own * per_second(unit)).astype(np.int64) if unit != "s" else own
        return np.where(own == MISSING_TIME, MISSING_TIME, scaled)
    if name in features:
        store = features[name]
        if len(store.shape) != 1 or store.dtype.kind not in "iu":
            found = f"{store.dtype_name} of shape {store.shape}"
            raise ValueError(f"time is {name!r}, which is {found}, expected a vector of integers")
        return as_ids(read_whole(store), name)
    return None


def first_time(task: Any, split: str) -> int:
    """Return the time of the oldest edge of a split of a link task by time."""
    graph = task.graph
    side = "in" if graph.direction in ("in", "both") else "out"
    places = positions_of(np.asarray(task.splits[split]), graph, side)
    return int(np.asarray(graph._open().array(f"{side}.times"))[places].min())


def edge_splits_by_time(graph: Any, spec: str, unit: str) -> dict[str, Any]:
    """Return edge ids by split, by the times of the edges."""
    if not graph.has_times:
        raise ValueError(f"{graph.path}: edges have no times; compile the graph with times to split by them")
    side = "in" if graph.direction in ("in", "both") else "out"
    topology = graph._open()
    times = np.array(topology.array(f"{side}.times"))
    parts = split_by_time(times, spec, unit)
    if not graph.has_edge_ids:
        return parts
    ids = topology.array(f"{side}.edge_ids")
    return {name: np.unique(ids[rows].astype(np.int64)) for name, rows in parts.items()}
