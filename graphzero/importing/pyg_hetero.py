"""PyG's `HeteroData`: as an object, or as the dict that its datasets save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .parts import safe_name, split_name
from .plan import NodePlan, Plan

__all__ = ["is_hetero_data", "is_hetero_dict", "plan_hetero"]

_TIMES = ("time", "edge_time")


def is_hetero_data(source: Any) -> bool:
    """Return whether an object is a PyG `HeteroData`, by its attributes."""
    return all(hasattr(source, name) for name in ("node_types", "edge_types", "to_dict"))


def is_hetero_dict(stores: Any) -> bool:
    """Return whether a dict is what `HeteroData.to_dict` gives: node types, and edge types as three names."""
    return isinstance(stores, Mapping) and any(isinstance(key, tuple) and len(key) == 3 for key in stores)


def plan_hetero(stores: Mapping[Any, Any], kind: str) -> Plan:
    """Return the plan for node and edge stores: features, labels, masks, edge weights, times and attributes."""
    plan = Plan(kind)
    for key, store in stores.items():
        if isinstance(key, str) and not key.startswith("_"):
            _add_node(plan, plan.node(safe_name(key)), key, store)
    for key, store in stores.items():
        if isinstance(key, tuple):
            _add_edge(plan, key, store)
    if not plan.edges:
        raise InputError(f"{kind}: no edge type, expected at least one with edge_index")
    return plan


def _add_node(plan: Plan, node: NodePlan, key: str, store: Mapping[str, Any]) -> None:
    """Take every tensor with a row for each node."""
    rows = [len(value) for name, value in store.items() if _is_tensor(value) and not name.endswith(("_idx", "_index"))]
    declared = store.get("num_nodes")
    node.num_nodes = int(declared) if declared is not None else rows[0] if rows else None
    for name, value in store.items():
        if name == "num_nodes":
            continue
        if not _is_tensor(value):
            plan.found.append(f"left out: {key}.{name}, a {type(value).__name__}")
        elif name.endswith("_mask") and str(value.dtype).endswith("bool"):
            node.splits[split_name(name)] = value if value.ndim == 1 else value[:, 0]
        elif len(value) != node.num_nodes:
            plan.found.append(f"left out: {key}.{name}, {len(value)} rows for {node.num_nodes} nodes")
        elif name == "y" and (value.ndim == 1 or value.shape[1] == 1):
            node.labels = value
        elif value.ndim in (1, 2):
            node.features[safe_name(name)] = value
        else:
            plan.found.append(f"left out: {key}.{name}, shape {tuple(value.shape)}")
    parts = [*node.features, *(["labels"] if node.labels is not None else []), *node.splits]
    plan.found.append(f"nodes {key}: {node.num_nodes}{': ' if parts else ''}{', '.join(parts)}")


def _add_edge(plan: Plan, key: tuple[str, str, str], store: Mapping[str, Any]) -> None:
    edges = store.get("edge_index")
    if edges is None:
        plan.found.append(f"left out: {key}, which has no edge_index")
        return
    weights = store.get("edge_weight")
    times = next((store[name] for name in _TIMES if _is_whole(store.get(name)) and len(store[name])), None)
    taken = {"edge_index", *(["edge_weight"] if _is_vector(weights) else [])}
    taken |= {name for name in _TIMES if times is not None and store.get(name) is times}
    columns = (edges[0], edges[1], weights if _is_vector(weights) else None, times)
    edge = plan.add_edges((safe_name(key[0]), safe_name(key[1]), safe_name(key[2])), columns)
    for name, value in store.items():
        if name in taken or not _is_tensor(value):
            continue
        if name.endswith("_mask") and value.ndim == 1 and len(value) == edges.shape[1]:
            edge.splits[split_name(name)] = value
        elif name == "edge_label_index":
            edge.splits["label"] = value
        elif value.ndim in (1, 2) and len(value) == edges.shape[1]:
            edge.features[safe_name(name)] = value
        else:
            plan.found.append(f"left out: {' '.join(key)}.{name}, shape {tuple(value.shape)}")
    parts = ", ".join([*edge.features, *edge.splits])
    plan.found.append(f"edges {' '.join(key)}: {edges.shape[1]}{': ' if parts else ''}{parts}")


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "ndim") and value.ndim > 0


def _is_vector(value: Any) -> bool:
    return _is_tensor(value) and value.ndim == 1


def _is_whole(value: Any) -> bool:
    return _is_vector(value) and not value.is_floating_point()
