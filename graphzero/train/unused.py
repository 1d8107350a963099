"""Options of a run that its task does not use are refused: a silent option looks like one that works."""

from __future__ import annotations

from typing import Any

from ..args.suggest import did_you_mean
from ..dataset.dataset import Dataset
from .records import TrainOptions

__all__ = ["refuse_unused"]

_OF_LABELS = ("node_type", "target", "loss", "class_weights")
_OF_LINKS = ("edge_type",)


def refuse_unused(data: Any, options: TrainOptions) -> None:
    """Raise ValueError for an option that has no effect on the task or the data."""
    links, default = options.task == "links", TrainOptions()
    for name in _OF_LABELS if links else _OF_LINKS:
        if getattr(options, name) != getattr(default, name):
            whose = "node labels and task tables" if links else "task='links'"
            raise ValueError(f"{name} is {getattr(options, name)!r}, but it is for {whose}; omit it")
    if not isinstance(data, Dataset) or links:
        return
    table = data.tasks.get(options.task)
    if table is not None and options.node_type not in (None, table.entity):
        whose = f"task {table.name!r} is about {table.entity!r}"
        raise ValueError(f"node_type is {options.node_type!r}, but {whose}; omit it")
    if data.is_typed:
        return
    if options.node_type is not None and options.node_type not in data.nodes:
        known = ", ".join(map(repr, data.nodes))
        hint = did_you_mean(options.node_type, data.nodes)
        raise ValueError(f"node_type is {options.node_type!r}, but the dataset has one node type, {known}{hint}")
    if table is not None and options.time is not None:
        raise ValueError(f"time is {options.time!r}, but the rows of task {table.name!r} have their own times; omit it")
