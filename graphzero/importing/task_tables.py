"""`tasks:` of a description: tables of (node, time, label) that are added to the dataset once it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..dataset.dataset import Dataset
from ..dataset.node_data import NodeData
from ..errors import InputError
from ..sources.categories import codes_of
from ..sources.decoding import without_rows
from ..sources.edge_columns import named
from ..sources.keys import keys_of, present_keys
from ..sources.tables import Table
from .node_tables import LABELS, SPLITS, node_table, pick, times_of
from .parts import split_name
from .spec import TaskSpec

__all__ = ["add_tasks", "check_tasks"]

_Made = TypeVar("_Made")


def add_tasks(dataset: Dataset, tasks: list[TaskSpec]) -> list[str]:
    """Add the tasks to a dataset; return a line about each."""
    return [_named(task, lambda task: _add(dataset, task)) for task in tasks]


def check_tasks(tasks: list[TaskSpec]) -> None:
    """Raise InputError for a task whose table lacks a column, before anything is imported."""
    for task in tasks:
        _named(task, lambda task: _Columns.of(task, node_table(task.table)))


def _named(task: TaskSpec, work: Callable[[TaskSpec], _Made]) -> _Made:
    """Return work(task); errors name the task."""
    try:
        return work(task)
    except (InputError, ValueError) as error:
        raise InputError(f"tasks.{task.name}: {error}") from error


@dataclass
class _Columns:
    """The columns of a task's table."""

    id: str
    label: str
    time: str | None
    split: str | None

    @classmethod
    def of(cls, task: TaskSpec, table: Table) -> _Columns:
        label = pick(table, task.label, LABELS)
        if label is None:
            raise InputError(f"label: found nothing, expected one of {', '.join(table.names)}")
        time = None if task.time is None else named(table.name, table.names, task.time)
        split = pick(table, task.split, SPLITS) if task.splits is None else None
        if time is None and split is None:
            raise InputError("found neither time: nor split:; expected a column of times, or one that names splits")
        return cls(named(table.name, table.names, task.id or table.names[0]), label, time, split)


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
        raise InputError(f"entity: found {task.entity!r}, expected one of {types}")
    table, node = node_table(task.table), dataset.nodes[task.entity]
    columns = _Columns.of(task, table)
    labels, names = codes_of(table, columns.label)
    dense, left = _dense(task, columns.id, node), ""
    known: npt.NDArray[np.bool_] = (dense >= 0) & (dense < node.num_nodes)
    if not known.all():
        left = f", {int((~known).sum()):,} left out, whose {columns.id!r} is not in {task.entity!r}"
    time = None
    if columns.time is not None:
        time = np.concatenate([np.empty(0, np.int64), *times_of(table, columns.time, dataset.time_unit)])[known]
        time = time if table.is_numeric(columns.time) else time.astype(f"datetime64[{dataset.time_unit}]")
    splits: Any = task.splits
    if columns.split is not None:
        codes, called = codes_of(table, columns.split)
        if called is None:
            raise InputError(f"{table.name}: column {columns.split!r} holds numbers, expected names such as 'train'")
        splits = {split_name(one): np.flatnonzero(codes[known] == i) for i, one in enumerate(called)}
    rows: dict[str, Any] = {"ids": dense[known], "labels": labels[known], "time": time}
    added = dataset.add_task(task.name, entity=task.entity, **rows, splits=splits, names=names or ())
    sizes = ", ".join(f"{name} {len(rows):,}" for name, rows in added.splits.items())
    return f"task {task.name}: {added.kind} of {task.entity}, label {columns.label!r}; {sizes}{left}"
