"""Attributes of nodes and edges for the native loaders: rows in files, and PyG batches made of their results."""

from __future__ import annotations

import copy
import os
import weakref
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import index_select

from ..args.dtypes import NAMES
from ..compile.features import compile_features
from ..load.batch import AnyBatch, Batch
from ..stores.features import FeatureStore as Rows
from ._edges import HOMOGENEOUS
from ._temporary import make_folder, remove_with
from .stores import FeatureStore

__all__ = ["Attributes"]


class Attributes:
    """The attributes of a graph by type; those in files are part of each native batch.

    Attributes of a `Data` or a `HeteroData` that a `.gd` file can hold are compiled, once for all loaders of the same
    tensors; others (sparse, complex or on a GPU) are indexed in memory, as in PyG. The one node type of a `Data` is
    "node", its edge type `HOMOGENEOUS`.
    """

    def __init__(self, data: Data | HeteroData | FeatureStore) -> None:
        """Compile and mount the attributes of objects in memory, or use the stores of a `FeatureStore`."""
        self._template = None if isinstance(data, FeatureStore) else data
        self.features: dict[str, dict[str, Rows]] = {}  # by node type and part
        self.edge_features: dict[Any, dict[str, Rows]] = {}
        self._names: dict[Any, dict[str, tuple[str, tuple[int, ...]]]] = {}  # by part: attribute, shape of a row
        self._in_memory: dict[Any, list[str]] = {}
        self._files: list[_RowFile] = []
        self._count = 0
        if isinstance(data, FeatureStore):
            for group, stores in data._rows.items():
                for name, rows in stores.items():
                    self._add("node" if group is None else group, name, rows, tuple(rows.shape[1:]))
        elif isinstance(data, Data):
            self._add_tensors(data._store, "node", HOMOGENEOUS)
        else:
            for store in data.stores[1:]:
                self._add_tensors(store, store._key, store._key)

    def batch(self, raw: AnyBatch, homogeneous: bool) -> Data | HeteroData:
        """Return the PyG batch of a native one, without copying tensors."""
        if homogeneous:
            data = Data() if self._template is None else copy.copy(self._template)
            for key in ("node", HOMOGENEOUS):
                self._fill(data._store, key, raw if isinstance(raw, Batch) else raw[key])
            return data
        data = HeteroData() if self._template is None else copy.copy(self._template)
        for key, part in raw:
            self._fill(data[key], key, part)
        return data

    def _fill(self, store: Any, key: Any, raw: Any) -> None:
        names = self._names.get(key, {})
        for part, (name, tail) in names.items():
            rows = raw[part]
            store[name] = rows if rows.dim() == len(tail) + 1 else rows.view(-1, *tail)
        for name, value in raw:
            if not _is_part(name):
                store[name] = value
        if isinstance(key, str) and (self._template is None or "num_nodes" in store):
            store["num_nodes"] = raw.num_nodes
        for name in self._in_memory.get(key, ()):
            source = self._store_of(key)
            value = source[name]
            index = raw.n_id if isinstance(key, str) else raw.e_id
            index = index.to(value.device) if isinstance(value, torch.Tensor) else index
            store[name] = index_select(value, index, dim=source._parent().__cat_dim__(name, value, source))

    def _store_of(self, key: Any) -> Any:
        assert self._template is not None
        return self._template._store if isinstance(self._template, Data) else self._template[key]

    def _add_tensors(self, store: Any, node_type: Any, edge_type: Any) -> None:
        for name, value in store.items():
            of_nodes = isinstance(node_type, str) and name != "num_nodes" and store.is_node_attr(name)
            of_edges = isinstance(edge_type, tuple) and name != "edge_index" and store.is_edge_attr(name)
            if not of_nodes and not of_edges:
                continue
            key = node_type if of_nodes else edge_type
            if (
                not isinstance(value, torch.Tensor)
                or not _fits(value)
                or store._parent().__cat_dim__(name, value, store)
            ):
                self._in_memory.setdefault(key, []).append(name)
                continue
            made = row_file(value)
            self._files.append(made)
            self._add(key, name, made.rows, tuple(value.shape[1:]))

    def _add(self, key: Any, name: str, rows: Rows, tail: tuple[int, ...]) -> None:
        part = f"{_PART}{self._count}"  # some PyG names, such as y, have another meaning in the native loaders
        self._count += 1
        parts: dict[Any, Any] = self.features if isinstance(key, str) else self.edge_features
        parts.setdefault(key, {})[part] = rows
        self._names.setdefault(key, {})[part] = (name, tail)


_PART = "part_"


def _is_part(name: str) -> bool:
    return name.startswith(_PART)


def _fits(value: torch.Tensor) -> bool:
    """Return whether a `.gd` file can hold the rows of a tensor without loss."""
    return (
        value.layout == torch.strided
        and value.device.type == "cpu"
        and value.dim() > 0
        and value.numel() > 0
        and not value.requires_grad
        and not value.is_inference()
        and str(value.dtype).removeprefix("torch.") in NAMES
    )


class _RowFile:
    """The rows of a tensor in a temporary file that is removed with this object."""

    def __init__(self, value: torch.Tensor) -> None:
        self.source = value  # kept alive, so that its address is not reused
        folder = make_folder()
        remove_with(self, folder)
        path = os.path.join(folder, "rows.gd")
        compile_features(value if value.dim() < 3 else value.reshape(len(value), -1), path, progress=False)
        self.rows = Rows(path)


_shared: weakref.WeakValueDictionary[Any, _RowFile] = weakref.WeakValueDictionary()


def row_file(value: torch.Tensor) -> _RowFile:
    """Return the file of a tensor's rows; loaders of the same tensor share it."""
    key = (value.data_ptr(), value.shape, value.stride(), value.dtype, value._version)
    made = _shared.get(key)
    if made is None:
        made = _shared[key] = _RowFile(value)
    return made
