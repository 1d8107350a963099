"""OGB folders: CSV ones (arxiv, products, proteins) and papers100M's `data.npz`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources import Block, as_id_column
from . import npz
from .number_text import NumberText
from .parts import named_splits
from .plan import Plan

__all__ = ["is_ogb", "plan_ogb"]

_INVERSE = ("products", "proteins")  # whose loaders add the inverse of each edge (PyG users know them so)


def is_ogb(folder: str) -> bool:
    """Whether a folder is one of OGB's node property datasets, or the `raw` folder's parent."""
    raw = os.path.join(folder, "raw")
    return any(os.path.exists(os.path.join(raw, name)) for name in ("edge.csv.gz", "edge.csv", "data.npz"))


def plan_ogb(folder: str) -> Plan:
    """Return the plan for an OGB folder."""
    name = os.path.basename(os.path.abspath(folder))
    raw = os.path.join(folder, "raw")
    if os.path.exists(os.path.join(raw, "triplet-type-list.csv.gz")):
        raise InputError(f"{folder}: a heterogeneous OGB dataset, which import_dataset does not take yet")
    data = os.path.join(raw, "data.npz")
    plan = _from_npz(raw, data) if os.path.exists(data) else _from_csv(raw, name)
    plan.name = name
    splits = os.path.join(folder, "split")
    kinds = sorted(os.listdir(splits)) if os.path.isdir(splits) else []
    if kinds:
        plan.splits = named_splits(os.path.join(splits, kinds[0]))
        plan.found.append(f"splits: split/{kinds[0]}, {', '.join(plan.splits)}")
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
    plan = Plan("OGB folder", path, num_nodes=_count(raw, "num-node-list"))
    plan.found.append(f"edges: raw/{os.path.basename(path)}{', each with its inverse' if inverse else ''}")
    if inverse:
        plan.edges = InverseEdges(NumberText(path, integers=True), edges)
    for file, feature in (("node-feat", "x"), ("node_species", "species"), ("node_year", "year")):
        found = _file(raw, file)
        if found is not None:
            text = NumberText(found, integers=feature != "x")
            plan.features[feature] = text.rows(feature, plan.num_nodes)
            plan.found.append(f"features {feature}: raw/{os.path.basename(found)}")
    labels = _file(raw, "node-label")
    if labels is not None:
        text = NumberText(labels)
        if text.columns == 1:
            plan.labels = text.rows("y", plan.num_nodes)
            plan.found.append(f"labels: raw/{os.path.basename(labels)}")
        else:  # several tasks a node: rows beside the features
            plan.features["y"] = text.rows("y", plan.num_nodes)
            plan.found.append(f"features y: raw/{os.path.basename(labels)}, {text.columns} tasks")
    weights = _file(raw, "edge-feat")
    if weights is not None:
        plan.found.append("edge-feat: left out (edge features are not imported yet)")
    return plan


def _from_npz(raw: str, path: str) -> Plan:
    arrays = npz.members(path)
    missing = [key for key in ("edge_index", "num_nodes_list") if key not in arrays]
    if missing:
        raise InputError(f"{path}: no array {missing[0]!r}, expected one in papers100M's file")
    edges = arrays["edge_index"]
    plan = Plan("OGB papers100M folder", edges.edges(), num_nodes=int(arrays["num_nodes_list"].array().reshape(-1)[0]))
    plan.found.append(f"edges: raw/data.npz[edge_index], shape {edges.shape}")
    for key, feature in (("node_feat", "x"), ("node_year", "year")):
        if key in arrays:
            plan.features[feature] = arrays[key].rows(feature)
            plan.found.append(f"features {feature}: raw/data.npz[{key}], {arrays[key].shape} {arrays[key].dtype}")
    labels = os.path.join(raw, "node-label.npz")
    if os.path.exists(labels):
        plan.labels = npz.members(labels)["node_label"].rows("y")
        plan.found.append("labels: raw/node-label.npz, NaN for none")
    return plan


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
