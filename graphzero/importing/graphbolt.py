"""GraphBolt's on-disk datasets: `metadata.yaml` and the raw files it names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources import load_npy
from .parts import split_name
from .plan import Plan
from .torchfile import load_pt

__all__ = ["is_graphbolt", "plan_graphbolt"]

_SETS = ("train_set", "validation_set", "test_set")


def is_graphbolt(folder: str) -> bool:
    """Whether a folder has GraphBolt's metadata."""
    return os.path.exists(os.path.join(folder, "metadata.yaml"))


def plan_graphbolt(folder: str) -> Plan:
    """Return the plan for a homogeneous GraphBolt dataset; `preprocessed/`, a pickle, is not looked at."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError(f"{folder}: PyYAML is needed for metadata.yaml; pip install 'graphzero[import]'") from error
    where = os.path.join(folder, "metadata.yaml")
    with open(where, encoding="utf-8") as file:
        meta = yaml.safe_load(file)
    graph = meta.get("graph") if isinstance(meta, dict) else None
    if not isinstance(graph, dict) or not graph.get("nodes") or not graph.get("edges"):
        raise InputError(f"{where}: graph.nodes or graph.edges is missing: not a GraphBolt dataset")
    if len(graph["nodes"]) > 1 or len(graph["edges"]) > 1:
        kinds = [str(edge.get("type")) for edge in graph["edges"]]
        raise InputError(f"{where}: edge types {', '.join(kinds)}: heterogeneous datasets are not imported yet")
    edge = graph["edges"][0]
    path = _path(folder, where, edge)
    plan = Plan("GraphBolt folder", path, num_nodes=int(graph["nodes"][0]["num"]), name=meta.get("dataset_name"))
    if edge.get("format") == "csv":
        plan.graph["header"] = False
    plan.found.append(f"edges: {edge['path']} ({edge.get('format')})")
    for entry in meta.get("feature_data") or []:
        if entry.get("domain") != "node":
            plan.found.append(f"left out: {entry.get('domain')} feature {entry.get('name')}")
            continue
        plan.features[entry["name"]] = _values(folder, where, entry)
        plan.found.append(f"features {entry['name']}: {entry['path']}")
    tasks = [task for task in meta.get("tasks") or [] if any(_SETS[0] in task for _ in (0,))]
    if tasks:
        _add_task(plan, folder, where, tasks[0])
    return plan


def _add_task(plan: Plan, folder: str, where: str, task: dict[str, Any]) -> None:
    labels = np.full(plan.num_nodes or 0, -1, np.int64)
    found = False
    for key in _SETS:
        for part in task.get(key) or []:
            data = {entry["name"]: np.asarray(_values(folder, where, entry)) for entry in part["data"]}
            seeds = data.get("seeds", data.get("seed_nodes"))
            if seeds is None or seeds.ndim != 1:
                plan.found.append(f"left out: {key} of task {task.get('name')}, which is not about nodes")
                continue
            plan.splits[split_name(key.removesuffix("_set"))] = seeds
            if "labels" in data:
                labels[seeds] = data["labels"].reshape(-1)
                found = True
    if found:
        plan.labels = labels
    plan.num_classes = None if task.get("num_classes") is None else int(task["num_classes"])
    plan.found.append(f"task {task.get('name')}: {', '.join(plan.splits)}, {task.get('num_classes')} classes")


def _path(folder: str, where: str, entry: dict[str, Any]) -> str:
    if not entry.get("path"):
        raise InputError(f"{where}: an entry has no path: {entry}")
    path = os.path.join(folder, entry["path"])
    if not os.path.exists(path):
        raise InputError(f"{where}: {entry['path']}: no such file in the folder")
    return path


def _values(folder: str, where: str, entry: dict[str, Any]) -> npt.NDArray[Any] | Any:
    path = _path(folder, where, entry)
    if entry.get("format") == "torch":
        return load_pt(path)
    return load_npy(path)
