"""The description of exported tables, which `graphzero import` reads, and the tables of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset import manifest
from .arrow_out import free_name
from .columns_out import plain_features

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset
    from ..dataset.edge_data import EdgeData
    from ..dataset.node_data import NodeData
    from ..dataset.task_table import TaskTable

__all__ = ["exported_spec", "task_columns"]


def exported_spec(dataset: Dataset, end: str) -> dict[str, Any]:
    """Return the description of the tables in files that end with `end`."""
    nodes: dict[str, Any] = {}
    for name, node in dataset.nodes.items():
        entry = {"table": f"nodes/{name}.{end}", "id": "id", **_inputs(node, ["id"], end)}
        entry |= {"ids": "map"} if node.ids.mapped else {}
        nodes[name] = {**entry, "count": node.num_nodes}
    edges = []
    for edge_type, edge in dataset.edges.items():
        splits = any(ids.ndim == 1 for ids in edge.splits.values())
        weight, time = edge.graph.has_weights, edge.graph.has_times
        taken = ["src", "dst", *(["weight"] if weight else []), *(["time"] if time else [])]
        edges.append(
            {
                "type": list(edge_type),
                "table": f"edges/{manifest.edge_key(edge_type)}.{end}",
                "source": "src",
                "target": "dst",
                "weight": "weight" if weight else False,
                "time": "time" if time else False,
                **_inputs(edge, taken, end),
                **({"split": "split"} if splits else {}),
            }
        )
    tasks = {}
    for name in dataset.tasks:
        task = dataset.tasks[name]
        timed = any(rows.times is not None for rows in task.splits.values())
        entry = {"table": f"tasks/{name}.{end}", "entity": task.entity, "id": "id", "label": "label", "split": "split"}
        tasks[name] = entry | ({"time": "time"} if timed else {})
    found = {"name": dataset.name, "nodes": nodes, "edges": edges}
    return found | {"time_unit": dataset.time_unit} | ({"tasks": tasks} if tasks else {})


def _inputs(data: NodeData | EdgeData, taken: list[str], end: str) -> dict[str, Any]:
    """Return which columns of a table are features, and which are columns by kind."""
    features: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for name, store in plain_features(data.features, data.columns).items():
        column = free_name(name, taken)
        taken.append(column)
        wide = end == "csv" and len(store.shape) == 2
        features[name] = [f"{column}_{at}" for at in range(store.feature_dim)] if wide else column
    for name, one in data.columns.items():
        column = free_name(name, taken)
        taken.append(column)
        if end == "csv" and one.kind == "embedding":  # CSV has no lists
            width = data.features[one.array].feature_dim
            columns |= {f"{column}_{at}": {"kind": "number"} for at in range(width)}
        else:
            columns[column] = {"kind": "category" if end == "csv" and one.kind == "multicategory" else one.kind}
    return {"features": features} | ({"columns": columns} if columns else {})


def task_columns(dataset: Dataset, task: TaskTable) -> dict[str, Any]:
    """Return the rows of all splits of a task as columns, with original ids and the names of classes."""
    import pyarrow as pa

    parts = {name: task.splits[name] for name in task.splits}
    ids = dataset.nodes[task.entity].ids.to_original(np.concatenate([rows.ids for rows in parts.values()]))
    out: dict[str, Any] = {"id": pa.array(ids)}
    if all(rows.times is not None for rows in parts.values()):
        times = np.concatenate([np.asarray(rows.times) for rows in parts.values()])
        unit = dataset.time_unit
        out["time"] = pa.array(times.astype(f"datetime64[{unit}]") if task.dated else times)
    labels = np.concatenate([rows.labels for rows in parts.values()])
    if labels.ndim == 2:
        flat = pa.array(np.ascontiguousarray(labels).reshape(-1))
        out["label"] = pa.FixedSizeListArray.from_arrays(flat, labels.shape[1])
    elif task.names:
        out["label"] = pa.array(task.names).take(pa.array(labels, mask=labels < 0))
    else:
        out["label"] = pa.array(labels)
    splits = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts.values()])
    out["split"] = pa.array(list(parts)).take(pa.array(splits))
    return out
