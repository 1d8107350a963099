"""PyG's Data and HeteroData as datasets on disk, and back: `gz.Dataset.from_pyg` and `ds.to_pyg`."""

from __future__ import annotations

import os
import shutil
import warnings
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from ..args.dtypes import NAMES
from ..dataset.dataset import Dataset
from ..stores.features import FeatureStore as Rows
from ..stores.graph import Graph
from ._edges import HOMOGENEOUS, EdgeType, describe
from ._temporary import make_folder, remove_with
from .stores import edges_by_id, rows_of

__all__ = ["dataset_of", "to_data"]

_SPLITS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}
_MASKS = {split: mask for mask, split in _SPLITS.items()}


def dataset_of(
    data: Data | HeteroData,
    folder: str | os.PathLike[str] | None,
    *,
    weight_attr: str | None,
    time_attr: str | None,
    options: dict[str, Any],
) -> Dataset:
    """Write `data` as a dataset; see `Dataset.from_pyg`."""
    if not isinstance(data, (Data, HeteroData)):
        raise TypeError(f"expected a Data or a HeteroData, got {type(data).__name__}")
    parts = _Parts(data, weight_attr, time_attr)
    if folder is not None:
        return Dataset.create(folder, **parts.arguments(), **options)
    temporary = make_folder()
    try:
        ds = Dataset.create(os.path.join(temporary, "dataset"), **parts.arguments(), **options)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    remove_with(ds, temporary)
    return ds


class _Parts:
    """The arguments of `Dataset.create` for a PyG object."""

    def __init__(self, data: Data | HeteroData, weight_attr: str | None, time_attr: str | None) -> None:
        self._data = data
        self._time_attr = time_attr if time_attr is not None and self._of_edges(time_attr) else None
        if weight_attr is None and self._of_edges("edge_weight"):
            weight_attr = "edge_weight"
        self._carried = {"weights": weight_attr, "times": self._time_attr}
        self._contents = describe(data, self._time_attr, weight_attr)
        self._shapes: dict[str, dict[str, list[int]]] = {}
        self._left: list[str] = []

    def _of_edges(self, name: str) -> bool:
        """Return whether edges have an attribute of this name with one number per edge."""
        stores = self._data.edge_stores
        return any(name in store and store.is_edge_attr(name) and store[name].squeeze().dim() == 1 for store in stores)

    def arguments(self) -> dict[str, Any]:
        """Return graph, features, labels, splits and other arguments, by type if there are types."""
        contents, data = self._contents, self._data
        nodes = {t: self._node_arrays(data if contents.homogeneous else data[t], t) for t in contents.num_nodes}
        edges = {t: self._edge_arrays(data if contents.homogeneous else data[t], t) for t in contents.edges}
        features = {t: arrays[0] for t, arrays in nodes.items() if arrays[0]}
        labels = {t: arrays[1] for t, arrays in nodes.items() if arrays[1] is not None}
        splits = {t: arrays[2] for t, arrays in nodes.items() if arrays[2]}
        if self._left:
            warnings.warn(
                f"omitted attributes that are not numeric, or not of nodes or edges: {', '.join(self._left)}",
                stacklevel=5,
            )
        graphs = {t: (e.row, e.col) for t, e in contents.edges.items()}
        by_type: dict[str, Any] = {
            "num_nodes": dict(contents.num_nodes),
            "features": features,
            "labels": labels,
            "splits": splits,
            "edge_features": {t: rows for t, rows in edges.items() if rows},
            "weights": {t: e.weights for t, e in contents.edges.items() if e.weights is not None},
            "times": {t: e.times for t, e in contents.edges.items() if e.times is not None},
        }
        about = {"from": "PyG", "hetero": not contents.homogeneous, "shapes": self._shapes, **self._carried}
        common = {"edge_ids": True, "about": {"pyg": about}}
        if not contents.homogeneous:
            return {"graphs": graphs, **{k: v for k, v in by_type.items() if v}, **common}
        flat = {name: next(iter(values.values())) for name, values in by_type.items() if values}
        return {"graph": graphs[HOMOGENEOUS], **flat, **common}

    def _node_arrays(self, store: Any, node_type: str) -> tuple[dict[str, Any], Any, dict[str, Any]]:
        features: dict[str, Any] = {}
        labels, splits = None, {}
        for name, value in _items(store):
            if name == "num_nodes" or not store.is_node_attr(name):
                if not (isinstance(store, Data) and (name == "edge_index" or store.is_edge_attr(name))):
                    self._left_out(name, value)
                continue
            if not _is_numbers(value):
                self._left.append(name)
            elif name.endswith("_mask") and value.dtype == torch.bool and value.dim() == 1:
                splits[_SPLITS.get(name, name.removesuffix("_mask"))] = value
            elif name == "y" and _are_classes(value):
                labels = value.reshape(-1)
                self._note(node_type, name, value)
            else:
                features[name] = value
        return features, labels, splits

    def _edge_arrays(self, store: Any, edge_type: EdgeType) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in _items(store):
            if name in ("edge_index", "adj_t", "adj"):
                continue
            if not store.is_edge_attr(name):
                if not isinstance(store, Data):
                    self._left_out(name, value)
            elif _is_numbers(value):
                found[name] = value
            else:
                self._left.append(name)
        return found

    def _left_out(self, name: str, value: Any) -> None:
        if name != "num_nodes":
            self._left.append(name)

    def _note(self, group: str, name: str, value: Any) -> None:
        """Remember the shape of labels, which are a vector in files."""
        if value.dim() > 1:
            self._shapes.setdefault(group, {})[name] = list(value.shape[1:])


def _items(store: Any) -> list[tuple[str, Any]]:
    mapping = store._store if isinstance(store, Data) else store
    return [(name, value) for name, value in mapping.items() if value is not None]


def _is_numbers(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and str(value.dtype).removeprefix("torch.") in NAMES
    )


def _are_classes(value: torch.Tensor) -> bool:
    """Return whether labels are whole numbers, -1 for none, one per node."""
    if value.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        return False
    if value.numel() != len(value):
        return False
    return not value.numel() or int(value.min()) >= -1


# -- back -------------------------------------------------------------------------------------------------------------


def to_data(ds: Dataset) -> Data | HeteroData:
    """Return a dataset as a `Data` or a `HeteroData`; see `Dataset.to_pyg`."""
    notes = ds._manifest.about.get("pyg", {})
    notes = notes if isinstance(notes, dict) else {}
    shapes = notes.get("shapes", {})
    if not ds.is_typed and not notes.get("hetero"):  # older manifests marked a single type by this note
        data = Data()
        _fill_nodes(data, next(iter(ds.nodes.values())), shapes.get("node", {}))
        _fill_edges(data, ds.graph, ds.edge_features, shapes.get("__".join(HOMOGENEOUS), {}), notes)
        return data
    hetero = HeteroData()
    for name, node in ds.nodes.items():
        _fill_nodes(hetero[name], node, shapes.get(name, {}))
    for edge_type, edge in ds.edges.items():
        _fill_edges(hetero[edge_type], edge.graph, edge.features, shapes.get("__".join(edge_type), {}), notes)
    return hetero


def _fill_nodes(store: Any, node: Any, shapes: dict[str, list[int]]) -> None:
    for name in node.features:
        store[name] = _shaped(rows_of(node.features[name], None), shapes.get(name))
    if node.num_classes:
        store.y = _shaped(torch.from_numpy(np.array(node.labels)), shapes.get("y"))
    for name in node.splits:
        mask = torch.zeros(node.num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(np.array(node.splits[name]))] = True
        store[_MASKS.get(name, f"{name}_mask")] = mask
    store.num_nodes = node.num_nodes


def _fill_edges(store: Any, graph: Graph, features: Any, shapes: dict[str, list[int]], notes: dict[str, Any]) -> None:
    side = "in" if graph.direction in ("in", "both") else "out"
    store.edge_index, order, ids = edges_by_id(graph)
    arrays = {name: np.array(_array(graph, side, what)[order]) for name, what in _carried(graph, features, notes)}
    for name, values in arrays.items():
        store[name] = torch.from_numpy(values)
    for name in features:
        rows: Rows = features[name]
        store[name] = _shaped(rows_of(rows, ids), shapes.get(name))


def _carried(graph: Graph, features: Any, notes: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the weights and times of the file by PyG's names, except those that a feature has."""
    found = [("edge_weight", "weights", graph.has_weights), ("time", "times", graph.has_times)]
    named = [(notes.get(what) or name, what, there) for name, what, there in found]
    return [(name, what) for name, what, there in named if there and name not in features]


def _array(graph: Graph, side: str, what: str) -> Any:
    return graph._open().array(f"{side}.{what}")


def _shaped(rows: torch.Tensor, tail: list[int] | None) -> torch.Tensor:
    return rows if tail is None else rows.view(len(rows), *tail)
