"""OGB folders: CSV ones (arxiv, products, proteins; mag, with several types) and papers100M's `data.npz`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources import npz
from ..sources.edge_blocks import Block, as_id_column
from ..sources.number_text import NumberText
from ..sources.rows import Rows
from ..sources.text import open_text
from .parts import named_splits
from .plan import Plan

__all__ = ["is_ogb", "plan_ogb"]

_INVERSE = ("products", "proteins")  # whose loaders add the inverse of each edge (PyG users know them so)


_MARKS = ("edge.csv.gz", "edge.csv", "data.npz", "triplet-type-list.csv.gz", "triplet-type-list.csv")


def is_ogb(folder: str) -> bool:
    """Return whether a folder is one of OGB's node property datasets, or the `raw` folder's parent."""
    raw = os.path.join(folder, "raw")
    return any(os.path.exists(os.path.join(raw, name)) for name in _MARKS)


def plan_ogb(folder: str) -> Plan:
    """Return the plan for an OGB folder."""
    name = os.path.basename(os.path.abspath(folder))
    raw = os.path.join(folder, "raw")
    triplets = _file(raw, "triplet-type-list")
    if triplets is not None:
        return _typed(folder, raw, triplets, name)
    data = os.path.join(raw, "data.npz")
    plan = _from_npz(raw, data) if os.path.exists(data) else _from_csv(raw, name)
    plan.name = name
    splits = os.path.join(folder, "split")
    kinds = sorted(os.listdir(splits)) if os.path.isdir(splits) else []
    if kinds:
        plan.one.splits = named_splits(os.path.join(splits, kinds[0]))
        plan.found.append(f"splits: split/{kinds[0]}, {', '.join(plan.one.splits)}")
    return plan


def _file(folder: str, name: str) -> str | None:
    return next(
        (p for p in (os.path.join(folder, name + end) for end in (".csv.gz", ".csv")) if os.path.exists(p)), None
    )


def _count(raw: str, name: str) -> int | None:
    path = _file(raw, name)
    return None if path is None else int(NumberText(path).table()[0, 0])


def _from_csv(raw: str, name: str) -> Plan:
    path = _file(raw, "edge")
    if path is None:
        raise InputError(f"{raw}: edge.csv.gz is missing, expected it in an OGB folder")
    edges, inverse = _count(raw, "num-edge-list"), any(word in name for word in _INVERSE)
    plan = Plan.of("OGB folder", path, num_nodes=_count(raw, "num-node-list"))
    plan.found.append(f"edges: raw/{os.path.basename(path)}{', each with its inverse' if inverse else ''}")
    if inverse:
        plan.edge.edges = InverseEdges(NumberText(path, "int64"), edges)
    for file, feature in (("node-feat", "x"), ("node_species", "species"), ("node_year", "year")):
        found = _file(raw, file)
        if found is not None:
            text = NumberText(found, "float32" if feature == "x" else "int64")
            plan.one.features[feature] = text.rows(feature, plan.one.num_nodes)
            plan.found.append(f"features {feature}: raw/{os.path.basename(found)}")
    labels = _file(raw, "node-label")
    if labels is not None:
        text = NumberText(labels, blank_is_missing=True)
        if text.columns == 1:
            plan.one.labels = text.rows("y", plan.one.num_nodes)
            plan.found.append(f"labels: raw/{os.path.basename(labels)}")
        else:  # several tasks per node: rows in addition to the features
            plan.one.features["y"] = text.rows("y", plan.one.num_nodes)
            plan.found.append(f"features y: raw/{os.path.basename(labels)}, {text.columns} tasks")
    weights = _file(raw, "edge-feat")
    if weights is not None:
        text = NumberText(weights)
        plan.edge.features["edge_attr"] = _both_ways(text) if inverse else text.rows("edge_attr", edges)
        plan.found.append(f"edge features edge_attr: raw/{os.path.basename(weights)}")
    return plan


def _both_ways(text: NumberText) -> Rows:
    """Return each row twice: an edge and its inverse have the same one."""

    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for table in text.tables(max(1, step // 2)):
            yield np.repeat(table if text.columns > 1 else table[:, 0], 2, axis=0)

    return Rows("edge_attr", text.dtype, text.columns if text.columns > 1 else None, None, blocks)


def _from_npz(raw: str, path: str) -> Plan:
    arrays = npz.members(path)
    missing = [key for key in ("edge_index", "num_nodes_list") if key not in arrays]
    if missing:
        raise InputError(f"{path}: no array {missing[0]!r}, expected one in papers100M's file")
    edges = arrays["edge_index"]
    nodes = int(arrays["num_nodes_list"].array().reshape(-1)[0])
    plan = Plan.of("OGB papers100M folder", edges.edges(), num_nodes=nodes)
    plan.found.append(f"edges: raw/data.npz[edge_index], shape {edges.shape}")
    for key, feature in (("node_feat", "x"), ("node_year", "year")):
        if key in arrays:
            plan.one.features[feature] = arrays[key].rows(feature)
            plan.found.append(f"features {feature}: raw/data.npz[{key}], {arrays[key].shape} {arrays[key].dtype}")
    labels = os.path.join(raw, "node-label.npz")
    if os.path.exists(labels):
        plan.one.labels = npz.members(labels)["node_label"].rows("y")
        plan.found.append("labels: raw/node-label.npz, NaN for none")
    return plan


# -- several types ----------------------------------------------------------------------------------------------------


def _typed(folder: str, raw: str, triplets: str, name: str) -> Plan:
    """Return the plan for a heterogeneous folder: relations, and the files of each node type."""
    plan = Plan("OGB heterogeneous folder", name=name)
    counts = _file(raw, "num-node-dict")
    if counts is None:
        raise InputError(f"{raw}: num-node-dict.csv.gz is missing, expected it in a heterogeneous OGB folder")
    types, numbers = (line.split(",") for line in _lines(counts)[:2])
    for node_type, number in zip(types, numbers, strict=True):
        plan.node(node_type.strip()).num_nodes = int(number)
    for line in _lines(triplets):
        source, relation, target = (word.strip() for word in line.split(","))
        where = os.path.join(raw, "relations", f"{source}___{relation}___{target}")
        path = _file(where, "edge")
        if path is None:
            raise InputError(f"{where}: edge.csv.gz is missing, and {os.path.basename(triplets)} names the relation")
        edge = plan.add_edges((source, relation, target), path, header=False)
        plan.found.append(f"edges {source} {relation} {target}: {os.path.basename(path)}")
        rows = _file(where, "edge-feat")
        if rows is not None:
            edge.features["edge_attr"] = NumberText(rows).rows("edge_attr", _count(where, "num-edge-list"))
    for node_type in plan.nodes:
        _add_node_files(plan, raw, node_type)
        _add_splits(plan, folder, node_type)
    return plan


def _add_node_files(plan: Plan, raw: str, node_type: str) -> None:
    """Add what files `<what>/<type>/<what>.csv.gz` hold: features, labels, years and the like."""
    node = plan.nodes[node_type]
    for what in sorted(os.listdir(raw)):
        path = _file(os.path.join(raw, what, node_type), what)
        if what == "relations" or path is None:
            continue
        kind = "float32" if what in ("node-feat", "node-label") else "int64"
        text = NumberText(path, kind, blank_is_missing=what == "node-label")
        if what == "node-label" and text.columns == 1:
            node.labels = text.rows("y", node.num_nodes)
            plan.found.append(f"labels {node_type}: {what}/{node_type}")
            continue
        feature = {"node-feat": "x", "node-label": "y"}.get(what, what.removeprefix("node_").replace("-", "_"))
        node.features[feature] = text.rows(feature, node.num_nodes)
        plan.found.append(f"features {node_type} {feature}: {what}/{node_type}")


def _add_splits(plan: Plan, folder: str, node_type: str) -> None:
    root = os.path.join(folder, "split")
    for kind in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        where = os.path.join(root, kind, node_type)
        if os.path.isdir(where):
            plan.nodes[node_type].splits = named_splits(where)
            plan.found.append(f"splits {node_type}: split/{kind}, {', '.join(plan.nodes[node_type].splits)}")
            return


def _lines(path: str) -> list[str]:
    with open_text(path) as file:
        text = file.read().decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


class InverseEdges:
    """Each edge of a text followed by its inverse, as OGB's loader makes them: edge i becomes edges 2i and 2i + 1."""

    def __init__(self, text: NumberText, num_edges: int | None) -> None:
        """Take the text of the edges one way."""
        self.name, self._text = text.path, text
        self.num_edges = None if num_edges is None else 2 * num_edges

    def edge_blocks(self) -> Iterator[Block]:
        """Yield blocks of edges both ways."""
        for table in self._text.tables(1 << 20):
            if table.shape[1] != 2:
                raise InputError(f"{self.name}: {table.shape[1]} columns, expected source and target")
            src: npt.NDArray[Any] = table.reshape(-1)
            dst = table[:, ::-1].reshape(-1)
            yield Block(as_id_column(src, "src"), as_id_column(np.ascontiguousarray(dst), "dst"))
