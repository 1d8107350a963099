"""`tasks:` of a description: tables of (node, time, label) that are added to the dataset once it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.dataset import Dataset
from ..dataset.node_data import NodeData
from ..errors import InputError
from ..sources.categories import codes_of
from ..sources.decoding import without_rows
from ..sources.edge_columns import named
from ..sources.keys import keys_of, present_keys
from .node_tables import LABELS, SPLITS, node_table, pick, times_of
from .parts import split_name
from .spec import TaskSpec

__all__ = ["add_tasks"]


def add_tasks(dataset: Dataset, tasks: list[TaskSpec]) -> list[str]:
    """Add the tasks to a dataset; return a line about each."""
    return [_add(dataset, task) for task in tasks]


def _dense(task: TaskSpec, column: str, node: NodeData) -> npt.NDArray[np.int64]:
    """Return the node of each row, -1 if there is none."""
    text = node.ids.mapped and node.num_nodes > 0 and isinstance(node.ids.to_original([0]), list)
    table = node_table(task.table, [column] if text else ())
    parts = [np.empty(0, np.int64)]
    for (batch,) in table.batches([column]):
        present, values = present_keys(batch)
        found = np.full(len(present), -1, np.int64)
        values = values if present.all() else without_rows(values, ~present)
        where = f"{table.name}: column {column!r}"
        if len(values):
            keys = keys_of(values, where)
            if (keys[0] is not None) != text:
                kinds = ("integers", "strings") if text else ("strings", "integers")
                raise InputError(f"{where}: found {kinds[0]}, but the ids of {task.entity!r} are {kinds[1]}")
            found[present] = node.ids.to_dense(values, missing="mark") if node.ids.mapped else keys[1]
        parts.append(found)
    return np.concatenate(parts)


def _add(dataset: Dataset, task: TaskSpec) -> str:
    if task.entity not in dataset.nodes:
        types = ", ".join(map(repr, dataset.nodes))
        raise InputError(f"tasks.{task.name}.entity: found {task.entity!r}, expected one of {types}")
    table, node = node_table(task.table), dataset.nodes[task.entity]
    column = named(table.name, table.names, task.id if task.id is not None else table.names[0])
    label = pick(table, task.label, LABELS)
    if label is None:
        raise InputError(f"tasks.{task.name}.label: found nothing, expected one of {', '.join(table.names)}")
    labels, names = codes_of(table, label)
    dense, left = _dense(task, column, node), ""
    known: npt.NDArray[np.bool_] = (dense >= 0) & (dense < node.num_nodes)
    if not known.all():
        left = f", {int((~known).sum()):,} left out, whose {column!r} is not in {task.entity!r}"
    time = None
    if task.time is not None:
        time = np.concatenate(list(times_of(table, named(table.name, table.names, task.time), dataset.time_unit)))
        time = time[known]
    splits: Any = task.splits
    split = pick(table, task.split, SPLITS) if splits is None else None
    if split is not None:
        codes, called = codes_of(table, split)
        if called is None:
            raise InputError(f"{table.name}: column {split!r} holds numbers, expected names such as 'train'")
        splits = {split_name(one): np.flatnonzero(codes[known] == i) for i, one in enumerate(called)}
    rows: dict[str, Any] = {"ids": dense[known], "labels": labels[known], "time": time}
    try:
        added = dataset.add_task(task.name, entity=task.entity, **rows, splits=splits, names=names or ())
    except ValueError as error:
        raise InputError(f"tasks.{task.name}: {error}") from error
    sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in added.splits.items())
    return f"task {task.name}: {added.kind} of {task.entity}, label {label!r}; {sizes}{left}"
