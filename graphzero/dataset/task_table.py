"""Task tables: rows of (node, time, label) to learn, in addition to the labels of nodes."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_ids
from ..args.times import as_times, is_number
from ..compile.features import compile_features
from ..errors import FormatError
from ..stores.features import FeatureStore
from .folder_lock import FolderLock
from .manifest import MANIFEST, Manifest, check_name
from .manifest_reader import read_manifest
from .manifest_tasks import TaskEntry
from .manifest_writer import write_manifest
from .node_data import Lazy, NodeData, read_whole
from .node_ids import check_range
from .splits_by_time import split_by_time
from .writer import labels_of

__all__ = ["TaskRows", "TaskTable"]


@dataclass(frozen=True)
class TaskRows:
    """The rows of one split: node ids, labels, and optionally times. A node may be in several rows."""

    ids: IdArray
    labels: npt.NDArray[Any]
    times: IdArray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)


class TaskTable:
    """A task of a dataset: `ds.tasks["churn"].splits["train"].labels`."""

    def __init__(self, folder: str, name: str, entry: TaskEntry, num_nodes: int) -> None:
        """Take the task `name` of the manifest in `folder`; rows are read on access."""
        self.name, self._entry = name, entry
        where = f"{os.path.join(folder, MANIFEST)}: tasks.{name}.splits"
        files = {split: os.path.join(folder, *file.split("/")) for split, file in entry.splits.items()}
        self.splits: Mapping[str, TaskRows] = Lazy(
            "split", list(files), lambda split: _read(files[split], f"{where}.{split}", entry, num_nodes)
        )

    @property
    def entity(self) -> str:
        """The node type of the ids."""
        return self._entry.entity

    @property
    def kind(self) -> str:
        """The kind of the labels: "classification", "multilabel" or "regression"."""
        return self._entry.kind

    @property
    def num_classes(self) -> int:
        """The number of classes or labels; 1 for regression."""
        return self._entry.classes

    @property
    def names(self) -> list[str]:
        """The names of the classes; empty if they have none."""
        return list(self._entry.names)

    @property
    def dated(self) -> bool:
        """Whether times are dates, in the dataset's `time_unit`; False if they are plain numbers."""
        return self._entry.dated

    def verify(self) -> None:
        """Read every split; raise FormatError at the first fault."""
        for split in self.splits:
            self.splits[split]

    def __repr__(self) -> str:
        """Return `TaskTable('churn', entity='user', kind='classification', splits=['train', 'valid'])`."""
        return f"TaskTable({self.name!r}, entity={self.entity!r}, kind={self.kind!r}, splits={list(self.splits)})"


def _read(path: str, where: str, entry: TaskEntry, num_nodes: int) -> TaskRows:
    store = FeatureStore(path)
    for needed in ("ids", "labels"):
        if needed not in store.names:
            raise FormatError(f"{where}: {os.path.basename(path)} has no array {needed!r}")
    ids = read_whole(store["ids"])
    times = read_whole(store["times"]) if "times" in store.names else None
    for name, values in (("ids", ids), ("times", times)):
        if values is not None and (values.dtype != np.int64 or values.ndim != 1):
            raise FormatError(f"{where}.{name}: found {values.dtype} of shape {values.shape}, expected int64")
    check_range(ids, 0, num_nodes, f"{where}.ids", "node id")
    labels: Any = read_whole(store["labels"])
    if entry.kind == "classification":
        check_range(labels, -1, entry.classes, f"{where}.labels", "class")
    return TaskRows(ids, labels, times)


class TaskMethods:
    """Methods of a dataset for task tables."""

    nodes: Mapping[str, NodeData]
    _path: str
    _manifest: Manifest

    def _reload(self) -> None:
        raise NotImplementedError

    @property
    def tasks(self) -> Mapping[str, TaskTable]:
        """The task tables by name: `ds.tasks["churn"].splits["train"]`."""
        tasks = self._manifest.tasks
        counts = {name: node.num_nodes for name, node in self.nodes.items()}
        path = self._path
        return Lazy("task", list(tasks), lambda name: TaskTable(path, name, tasks[name], counts[tasks[name].entity]))

    def add_task(
        self,
        name: str,
        *,
        ids: Any,
        labels: Any,
        time: Any = None,
        entity: str | None = None,
        splits: Mapping[str, Any] | str | None = None,
        names: Any = (),
        overwrite: bool = False,
    ) -> TaskTable:
        """Add a task to the dataset on disk: rows of a node, a time and a label, to train on with `--task name`.

        `ids` are nodes of the type `entity`, original ids if they are text; a node may be in many rows. `time` is the
        time of each row: nothing newer is sampled for it. `labels` are classes, numbers or rows of 0 and 1, as in
        `create`; `names` are the names of the classes. `splits` maps names to row numbers or masks; "70/15/15" (the
        default) splits by time, in order, and so do two dates at which validation and test start,
        "2023-01-01/2023-07-01".

        >>> ds.add_task("churn", entity="user", ids=ids, time=dates, labels=churned)  # doctest: +SKIP
        """
        check_name(name)
        entity = self._entity(entity)
        node = self.nodes[entity]
        unit = self._manifest.time_unit
        found, kind = labels_of(labels)
        rows: dict[str, Any] = {"ids": _node_ids(ids, node), "labels": found}
        times = None if time is None else as_times(time, unit=unit, count=len(rows["ids"]))
        if times is not None:
            rows["times"] = times
        for what, values in rows.items():
            if len(values) != len(rows["ids"]):
                raise ValueError(f"{what} has {len(values)} rows, ids has {len(rows['ids'])}; lengths must match")
        parts = _parts(splits, times, len(rows["ids"]), unit)
        classes = found.shape[1] if kind == "multilabel" else 1
        classes = int(found.max(initial=0)) + 1 if kind == "classification" else classes
        with FolderLock(self._path, wait=True):
            current = read_manifest(self._path)
            if name in current.tasks and not overwrite:
                raise FileExistsError(f"{self._path}: task {name!r} already exists; pass overwrite=True to replace it")
            folder = f"tasks/{name}-{secrets.token_hex(4)}"
            files = {}
            os.makedirs(os.path.join(self._path, *folder.split("/")))
            try:
                for split, at in parts.items():
                    files[split] = f"{folder}/{split}.gd"
                    source = {what: np.ascontiguousarray(values[at]) for what, values in rows.items()}
                    compile_features(source, os.path.join(self._path, *files[split].split("/")))
                dated = time is None or not is_number(time)
                entry = TaskEntry(entity, kind, max(classes, len(names)), files, tuple(map(str, names)), dated)
                write_manifest(self._path, replace(current, tasks={**current.tasks, name: entry}))
            except BaseException:
                shutil.rmtree(os.path.join(self._path, *folder.split("/")), ignore_errors=True)
                raise
            for file in current.tasks[name].splits.values() if name in current.tasks else ():
                os.unlink(os.path.join(self._path, *file.split("/")))
        self._reload()
        return self.tasks[name]

    def _entity(self, entity: str | None) -> str:
        if entity is None and len(self.nodes) == 1:
            return next(iter(self.nodes))
        if entity not in self.nodes:
            raise ValueError(f"entity is {entity!r}, expected one of {', '.join(map(repr, self.nodes))}")
        return str(entity)


def _node_ids(ids: Any, node: NodeData) -> IdArray:
    array = ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    text = np.asarray(array).dtype.kind in "OUS" if not hasattr(array, "detach") else False
    found = node.ids.to_dense(list(array)) if text else as_ids(array, "ids")
    _core.check_ids(found, "ids", node.num_nodes, "nodes")
    return found


def _parts(splits: Any, times: Any, count: int, unit: str) -> dict[str, Any]:
    """The rows of each split."""
    if splits is None or isinstance(splits, str):
        if times is None:
            raise ValueError("splits is required without time=; pass row numbers by name, {'train': ..., 'valid': ...}")
        return split_by_time(times, splits or "70/15/15", unit)
    found = {}
    for name, rows in splits.items():
        check_name(name)
        array = np.asarray(rows)
        if array.dtype == np.bool_ and array.shape != (count,):
            raise ValueError(f"splits[{name!r}] is a mask of shape {array.shape}, expected ({count},)")
        found[name] = np.flatnonzero(array) if array.dtype == np.bool_ else as_ids(array, f"splits[{name!r}]")
        _core.check_ids(found[name], f"splits[{name!r}]", count, "rows")
    return found
