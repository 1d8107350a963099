"""Arguments of `import_dataset` put over what a layout says: parts, ids, and the edge types to take."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..args.shares import is_shares
from ..args.sizes import format_size
from ..args.suggest import did_you_mean
from ..compile.mapped import names_of, needs_map, node_ids_from, place_of_id
from ..dataset import manifest as _manifest
from ..errors import InputError
from ..sample.hetero_subgraph import EdgeTypeName
from .label_tables import LabelTable
from .parts import as_rows, is_path, label_rows, named_splits
from .plan import Plan

__all__ = ["choose_ids", "choose_types", "ids_of_rows", "override_plain", "override_typed", "refuse_plain", "shown"]


def choose_types(plan: Plan, asked: Iterable[Any] | None) -> None:
    """Keep the requested edge types, given as three names or joined by underscores."""
    if asked is None:
        return
    wanted: set[EdgeTypeName] = set()
    for one in asked:
        known = next((t for t in plan.edges if one in (t, list(t), _manifest.edge_key(t))), None)
        if known is None:
            keys = [_manifest.edge_key(t) for t in plan.edges]
            raise InputError(f"no edge type {one!r}, the source has {', '.join(keys)}{did_you_mean(one, keys)}")
        wanted.add(known)
    left = [_manifest.edge_key(t) for t in plan.edges if t not in wanted]
    plan.keep(wanted)
    if left:
        plan.found.append(f"left out: {', '.join(left)}")


def override_typed(plan: Plan, given: Mapping[str, Any]) -> None:
    """Put the caller's arguments, dicts by node type, over what the layout says."""
    for what, value in given.items():
        if value is None:
            continue
        if what == "splits" and is_shares(value):
            plan.shares = value
            plan.found.append(f"splits: {value}, drawn from the nodes that have a label")
            continue
        if not isinstance(value, Mapping) or any(key not in plan.nodes for key in value):
            types = ", ".join(map(repr, plan.nodes))
            raise InputError(f"{what} must be a dict by node type for this source, with some of {types}")
        for name, one in value.items():
            node = plan.nodes[name]
            if what == "features":
                named = one if isinstance(one, Mapping) else {"x": one}
                node.features |= {key: as_rows(rows, key) for key, rows in named.items()}
            elif what == "labels":
                node.labels = label_rows(one, complete=True)
            elif what == "splits":
                node.splits = named_splits(one)
            elif what == "num_classes":
                node.num_classes = one
            elif node.num_nodes not in (None, one):
                raise InputError(f"num_nodes[{name!r}] is {one}, the {plan.kind} declares {node.num_nodes}")
            else:
                node.num_nodes = one
        plan.found.append(f"{what}: as given, of {', '.join(value)}")


def ids_of_rows(ids: Any) -> Any:
    """Return the ids of a node table if they need a map; None if they are 0, 1, 2, ... in order."""
    numbers = isinstance(ids, np.ndarray) and np.array_equal(ids, np.arange(len(ids)))
    return None if numbers else ids


def choose_ids(plan: Plan, ids: str | None, node_ids: Any, options: dict[str, Any], given_base: int | None) -> None:
    """Decide whether ids are mapped, and check that rows given by number can be matched to them."""
    if ids == "auto":
        names = names_of(plan.edge.edges) if node_ids is None and not options.get("id_base") else None
        node_ids = node_ids if names is None else names  # node i is the graph's own node i
        mapped = node_ids is not None or (not options.get("id_base") and needs_map(plan.edge.edges, options))
        ids = "map" if mapped else None
        if mapped:
            plan.found.append("ids: strings, mapped to 0, 1, 2, ...")
    table = plan.one.labels if isinstance(plan.one.labels, LabelTable) else None
    if ids is None:
        if node_ids is not None:
            raise ValueError("node_ids needs ids='map'")
        if table is not None:
            _set_labels(plan, *table.of_numbers(options.get("id_base", 0)))
            plan.one.least_nodes = max(plan.one.least_nodes, plan.one.labels.count or 0)
            plan.one.labels = dataclasses.replace(plan.one.labels, count=None)  # nodes without a label may follow
        return
    if given_base is not None:
        raise ValueError(f"id_base is {given_base}, but ids are mapped (ids={ids!r}), so none is the first; omit it")
    if node_ids is not None and plan.one.id_place is None:
        plan.one.id_place = lambda row: place_of_id(node_ids, row)
    options.update(ids=ids, node_ids=None if node_ids is None else node_ids_from(node_ids))
    by_row = plan.one.features or (table is None and plan.one.labels is not None)
    if node_ids is None and (by_row or (plan.one.splits and "" not in plan.one.splits)):
        raise ValueError(
            "ids are mapped, so rows of features, labels and ids in splits need the original ids of the rows: pass "
            "node_ids=, a list or a file with one id per row; labels may also be a table of id and label"
        )
    if table is not None:
        if node_ids is None:  # nodes with a label come first; the others follow in the order of the edges
            plan.one.some_ids = True
            options["node_ids"] = table.read(text=ids == "text" or needs_map(plan.edge.edges, options))[0]
        _set_labels(plan, *table.of_ids(options["node_ids"]))


def refuse_plain(plan: Plan, **given: Any) -> None:
    """Raise ValueError for arguments that only sources of one node type use."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is for edges of one type, but the source is {plan.kind}, whose types have their own; omit it"
            )


def _set_labels(plan: Plan, labels: Any, classes: list[str] | None) -> None:
    """Set labels that were joined with the nodes, and the names of their classes."""
    plan.one.labels = labels
    if classes is not None:
        plan.about["classes"] = classes
        plan.one.num_classes = len(classes)


def override_plain(
    plan: Plan,
    features: Any,
    splits: Any,
    edge_features: Any,
    num_nodes: int | None,
    num_classes: int | None,
    id_base: int,
) -> None:
    """Override the plan of a layout by the caller's arguments."""
    if features is not None:
        named = features if isinstance(features, Mapping) else {"x": features}
        plan.one.features = {key: as_rows(value, key) for key, value in named.items()}
        plan.found += [f"features {key}: {shown(value)}" for key, value in named.items()]
    if splits is not None:
        plan.one.splits = named_splits(splits, id_base)
        plan.found.append(f"splits: {shown(splits)}")
    if edge_features is not None:
        rows = edge_features if isinstance(edge_features, Mapping) else {"edge_attr": edge_features}
        plan.edge.features = {key: as_rows(value, key) for key, value in rows.items()}
        plan.found += [f"edge features {key}: {shown(value)}" for key, value in rows.items()]
    plan.one.num_classes = plan.one.num_classes if num_classes is None else num_classes
    if num_nodes is not None:
        if plan.one.num_nodes is not None and plan.one.num_nodes != num_nodes:
            raise InputError(f"num_nodes is {num_nodes}, the {plan.kind} declares {plan.one.num_nodes}")
        plan.one.num_nodes = num_nodes


def shown(value: Any) -> str:
    """Return what a report says of an argument: a path with its size, or a type."""
    if is_path(value):
        path = os.fspath(value)
        sized = os.path.isfile(path)
        return f"{path}, {format_size(os.path.getsize(path))}" if sized else str(path)
    return type(value).__name__
