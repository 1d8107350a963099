"""PyG's `Data` objects, and the `processed/*.pt` files that PyG's datasets leave."""

from __future__ import annotations

import glob
import os
from typing import Any

from ..errors import InputError
from ..sources.torch_file import load_pt
from .plan import Plan
from .pyg_hetero import is_hetero_dict, plan_hetero

__all__ = ["is_pyg_data", "is_pyg_folder", "plan_pyg_data", "plan_pyg_file", "plan_pyg_folder"]


def is_pyg_data(source: Any) -> bool:
    """Return whether an object is a PyG `Data`, by its attributes."""
    return hasattr(source, "edge_index") and hasattr(source, "num_nodes") and hasattr(source, "keys")


def plan_pyg_data(data: Any, name: str = "Data object") -> Plan:
    """Return the plan for a homogeneous `Data`: edges, x, y, masks, edge weights."""
    if data.edge_index is None:
        raise InputError(f"{name}: has no edge_index")
    weights = getattr(data, "edge_weight", None)
    edges = data.edge_index if weights is None else (data.edge_index[0], data.edge_index[1], weights)
    plan = Plan.of(f"PyG {name}", edges, num_nodes=int(data.num_nodes))
    plan.found.append(f"edges: edge_index, shape {tuple(data.edge_index.shape)}")
    if getattr(data, "x", None) is not None:
        plan.one.features["x"] = data.x
        plan.found.append(f"features x: shape {tuple(data.x.shape)}")
    labels = getattr(data, "y", None)
    if labels is not None and (labels.ndim == 1 or labels.shape[1] == 1):
        plan.one.labels = labels
        plan.found.append("labels: y")
    elif labels is not None:
        plan.one.features["y"] = labels
        plan.found.append(f"features y: shape {tuple(labels.shape)}, several tasks a node")
    for key, split in (("train_mask", "train"), ("val_mask", "valid"), ("test_mask", "test")):
        mask = getattr(data, key, None)
        if mask is not None:
            if mask.ndim == 2:
                plan.found.append(f"{key}: the first of {mask.shape[1]} splits")
                mask = mask[:, 0]
            plan.one.splits[split] = mask
    if plan.one.splits:
        plan.found.append(f"splits: {', '.join(plan.one.splits)}")
    rows = getattr(data, "edge_attr", None)
    if rows is not None:
        plan.edge.features["edge_attr"] = rows
        plan.found.append(f"edge features edge_attr: shape {tuple(rows.shape)}")
    return plan


def is_pyg_folder(folder: str) -> bool:
    """Return whether a folder has a `processed/*.pt` of a PyG dataset."""
    return _processed(folder) is not None


def _processed(folder: str) -> str | None:
    names = ("pre_filter.pt", "pre_transform.pt")
    found = [
        p
        for p in sorted(glob.glob(os.path.join(glob.escape(folder), "processed", "*.pt")))
        if os.path.basename(p) not in names
    ]
    return found[0] if found else None


def plan_pyg_folder(folder: str) -> Plan:
    """Return the plan for a PyG dataset folder: its single graph, loaded without unpickling anything but tensors."""
    path = _processed(folder)
    assert path is not None
    return plan_pyg_file(path, os.path.basename(os.path.abspath(folder)))


def plan_pyg_file(path: str, name: str) -> Plan:
    """Return the plan for a `.pt` file: a `Data` or `HeteroData`, a dict of tensors, or the edges as a tensor."""
    loaded = load_pt(path)
    if hasattr(loaded, "detach"):
        return Plan.of("PyTorch file", loaded, name=name, found=[f"edges: a tensor of shape {tuple(loaded.shape)}"])
    store = loaded[0] if isinstance(loaded, (tuple, list)) else loaded
    if is_hetero_dict(store):
        _refuse_many(path, loaded)
        typed = plan_hetero(store, "PyG processed file")
        typed.name = name
        return typed
    store = store if isinstance(store, dict) else store.to_dict() if hasattr(store, "to_dict") else None
    if not isinstance(store, dict) or "edge_index" not in store:
        raise InputError(f"{path}: no dict with 'edge_index', expected the processed file of a homogeneous PyG dataset")
    _refuse_many(path, loaded)
    plan = plan_pyg_data(_Store(store), "processed file")
    plan.name = name
    return plan


def _refuse_many(path: str, loaded: Any) -> None:
    """Raise InputError if the slices of a file show that it holds several graphs."""
    slices = loaded[1] if isinstance(loaded, (tuple, list)) and len(loaded) > 1 else None
    while isinstance(slices, dict) and slices:
        slices = next((value for value in slices.values() if not isinstance(value, dict) or value), None)
    if slices is not None and hasattr(slices, "__len__") and len(slices) > 2:
        raise InputError(f"{path}: holds {len(slices) - 1} graphs, expected one")


class _Store:
    """A dict of tensors with the attributes of `Data`."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.edge_index: Any = None
        self.x: Any = None
        self.__dict__.update(values)
        if "num_nodes" not in values or values["num_nodes"] is None:
            rows = [len(v) for v in (self.x, values.get("y")) if v is not None]
            self.num_nodes = rows[0] if rows else int(values["edge_index"].max()) + 1
