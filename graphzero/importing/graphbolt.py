"""GraphBolt's on-disk datasets: `metadata.yaml` and the raw files it names."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources.edge_blocks import load_npy
from ..sources.torch_file import load_pt
from .parts import safe_name, split_name
from .plan import Plan

__all__ = ["is_graphbolt", "plan_graphbolt"]

_SETS = ("train_set", "validation_set", "test_set")


def is_graphbolt(folder: str) -> bool:
    """Return whether a folder has GraphBolt's metadata."""
    return os.path.exists(os.path.join(folder, "metadata.yaml"))


def plan_graphbolt(folder: str) -> Plan:
    """Return the plan for a GraphBolt dataset; `preprocessed/`, a pickle, is not looked at."""
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
    if any(entry.get("type") for entry in (*graph["nodes"], *graph["edges"])) or len(graph["edges"]) > 1:
        return _typed(folder, where, meta)
    edge = graph["edges"][0]
    path = _path(folder, where, edge)
    plan = Plan.of("GraphBolt folder", path, num_nodes=int(graph["nodes"][0]["num"]), name=meta.get("dataset_name"))
    if edge.get("format") == "csv":
        plan.edge.options["header"] = False
    plan.found.append(f"edges: {edge['path']} ({edge.get('format')})")
    for entry in meta.get("feature_data") or []:
        rows = plan.one.features if entry.get("domain") == "node" else plan.edge.features
        rows[safe_name(entry["name"])] = _values(folder, where, entry)
        plan.found.append(f"{entry.get('domain')} features {entry['name']}: {entry['path']}")
    tasks = [task for task in meta.get("tasks") or [] if any(_SETS[0] in task for _ in (0,))]
    if tasks:
        _add_task(plan, folder, where, tasks[0])
    return plan


def _add_task(plan: Plan, folder: str, where: str, task: dict[str, Any]) -> None:
    labels = np.full(plan.one.num_nodes or 0, -1, np.int64)
    found = False
    for key in _SETS:
        for part in task.get(key) or []:
            data = {entry["name"]: np.asarray(_values(folder, where, entry)) for entry in part["data"]}
            seeds = data.get("seeds", data.get("seed_nodes"))
            if seeds is None:
                plan.found.append(f"left out: {key} of task {task.get('name')}, which has no seeds")
                continue
            if seeds.ndim == 2:
                plan.edge.splits |= _pairs(split_name(key.removesuffix("_set")), seeds, data.get("labels"))
                continue
            plan.one.splits[split_name(key.removesuffix("_set"))] = seeds
            if "labels" in data:
                labels[seeds] = data["labels"].reshape(-1)
                found = True
    if found:
        plan.one.labels = labels
    plan.one.num_classes = None if task.get("num_classes") is None else int(task["num_classes"])
    plan.found.append(f"task {task.get('name')}: {', '.join(plan.one.splits)}, {task.get('num_classes')} classes")


def _pairs(name: str, seeds: npt.NDArray[Any], labels: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the pairs of a task about links; those with label 0 are a split of their own, `<name>_negative`."""
    if labels is None:
        return {name: seeds}
    positive = np.asarray(labels).reshape(-1) > 0
    return {name: seeds[positive], f"{name}_negative": seeds[~positive]}


# -- several types ----------------------------------------------------------------------------------------------------


def _typed(folder: str, where: str, meta: dict[str, Any]) -> Plan:
    plan = Plan("GraphBolt folder", name=meta.get("dataset_name"))
    for entry in meta["graph"]["nodes"]:
        if not entry.get("type"):
            raise InputError(f"{where}: graph.nodes has an entry without a type: {entry}")
        plan.node(safe_name(entry["type"])).num_nodes = int(entry["num"])
    for entry in meta["graph"]["edges"]:
        options = {"header": False} if entry.get("format") == "csv" else {}
        plan.add_edges(_edge_type(where, entry.get("type")), _path(folder, where, entry), **options)
        plan.found.append(f"edges {entry['type']}: {entry['path']} ({entry.get('format')})")
    for entry in meta.get("feature_data") or []:
        by_node, kind = entry.get("domain") == "node", entry.get("type")
        known = plan.nodes.get(safe_name(kind)) if by_node else plan.edges.get(_edge_type(where, kind))
        if known is None:
            raise InputError(
                f"{where}: feature_data {entry.get('name')!r} has type {kind!r}, which is not in the graph"
            )
        known.features[safe_name(entry["name"])] = _values(folder, where, entry)
        plan.found.append(f"{entry.get('domain')} features {kind} {entry['name']}: {entry['path']}")
    tasks = [task for task in meta.get("tasks") or [] if task.get(_SETS[0])]
    if tasks:
        _add_typed_task(plan, folder, where, tasks[0])
    return plan


def _edge_type(where: str, text: Any) -> tuple[str, str, str]:
    words = str(text).split(":")
    if len(words) != 3:
        raise InputError(f"{where}: the edge type is {text!r}, expected source:relation:target")
    return safe_name(words[0]), safe_name(words[1]), safe_name(words[2])


def _add_typed_task(plan: Plan, folder: str, where: str, task: dict[str, Any]) -> None:
    labels: dict[str, npt.NDArray[np.int64]] = {}
    for key in _SETS:
        split = split_name(key.removesuffix("_set"))
        for part in task.get(key) or []:
            data = {entry["name"]: np.asarray(_values(folder, where, entry)) for entry in part["data"]}
            seeds = data.get("seeds", data.get("seed_nodes"))
            if seeds is None:
                plan.found.append(f"left out: {key} of task {task.get('name')}, which has no seeds")
                continue
            if seeds.ndim == 2:
                plan.edges[_edge_type(where, part.get("type"))].splits |= _pairs(split, seeds, data.get("labels"))
                continue
            kind = safe_name(part.get("type"))
            plan.nodes[kind].splits[split] = seeds
            if "labels" in data:
                known = labels.setdefault(kind, np.full(plan.nodes[kind].num_nodes or 0, -1, np.int64))
                known[seeds] = data["labels"].reshape(-1)
    for kind, values in labels.items():
        plan.nodes[kind].labels = values
        plan.nodes[kind].num_classes = None if task.get("num_classes") is None else int(task["num_classes"])
    plan.found.append(f"task {task.get('name')}: {task.get('num_classes')} classes")


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
