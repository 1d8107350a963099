"""Attributes of nodes and edges for the native loader: rows in files, and PyG batches made of what it delivers."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import weakref
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.loader.utils import index_select

from .._dtypes import NAMES
from ..batch import Batch
from ..compile_rows import compile_features
from ..features import FeatureStore as Rows
from ._edges import HOMOGENEOUS
from .stores import FeatureStore

__all__ = ["Attributes"]


class Attributes:
    """The attributes of a homogeneous graph: those in `features` and `edge_features` come with each native batch.

    Of a `Data`, whatever a `.gd` file can hold is compiled, once for all loaders of the same tensors; the rest (sparse,
    complex or on a GPU) is indexed in memory, as PyG does it.
    """

    def __init__(self, data: Data | FeatureStore) -> None:
        """Mount the attributes of a `Data`, or take the stores of a `FeatureStore`."""
        self._template: Data | None = data if isinstance(data, Data) else None
        self.features: dict[str, Rows] = {}
        self.edge_features: dict[str, Rows] = {}
        self._names: dict[str, tuple[str, tuple[int, ...]]] = {}  # by part: the attribute, and the shape of a row
        self._in_memory: list[tuple[str, bool]] = []  # attributes, and whether they are of edges
        self._files: list[_RowFile] = []
        if isinstance(data, FeatureStore):
            self._add_stores(data)
        else:
            self._add_tensors(data)

    def batch(self, raw: Batch) -> Data:
        """Return the PyG batch of a native one: the same tensors, not copies."""
        out = Data() if self._template is None else copy.copy(self._template)
        store = out._store
        for part, (name, tail) in self._names.items():
            rows = raw[part]
            store[name] = rows if rows.dim() == len(tail) + 1 else rows.view(-1, *tail)
        store["edge_index"] = raw.edge_index
        if self._template is None or "num_nodes" in store:
            store["num_nodes"] = raw.num_nodes
        for name, of_edges in self._in_memory:
            assert self._template is not None
            value = self._template[name]
            index = raw.e_id if of_edges else raw.n_id
            index = index.to(value.device) if isinstance(value, torch.Tensor) else index
            store[name] = index_select(value, index, dim=self._template.__cat_dim__(name, value, self._template._store))
        for name in ("n_id", "e_id", "batch", "input_id", "seed_time", "num_sampled_nodes", "num_sampled_edges"):
            if name in raw:
                store[name] = raw[name]
        store["batch_size"] = raw.batch_size
        return out

    def _add_stores(self, data: FeatureStore) -> None:
        for attr in data.get_all_tensor_attrs():
            rows = data._store(attr)
            self._add(self.features, attr.attr_name, rows, tuple(rows.shape[1:]))
        for name, rows in data.__dict__["_edges"].get(HOMOGENEOUS, {}).items():
            self._add(self.edge_features, name, rows, tuple(rows.shape[1:]))

    def _add_tensors(self, data: Data) -> None:
        for name, value in data._store.items():
            of_nodes = data.is_node_attr(name) and name != "num_nodes"
            if name == "edge_index" or not (of_nodes or data.is_edge_attr(name)):
                continue
            if not isinstance(value, torch.Tensor) or not _fits(value) or data.__cat_dim__(name, value, data._store):
                self._in_memory.append((name, not of_nodes))
                continue
            made = row_file(value)
            self._files.append(made)
            self._add(self.features if of_nodes else self.edge_features, name, made.rows, tuple(value.shape[1:]))

    def _add(self, parts: dict[str, Rows], name: str, rows: Rows, tail: tuple[int, ...]) -> None:
        part = f"p{len(self._names)}"  # some names of PyG's, such as y, mean something else to the native loader
        parts[part] = rows
        self._names[part] = (name, tail)


def _fits(value: torch.Tensor) -> bool:
    """Whether a `.gd` file can hold the rows of a tensor, and nothing is lost by it."""
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
    """The rows of a tensor in a temporary file that goes with this object."""

    def __init__(self, value: torch.Tensor) -> None:
        self.source = value  # kept, so that its address is not used again
        folder = tempfile.mkdtemp(prefix="graphzero-pyg-")
        weakref.finalize(self, _remove, folder, os.getpid())
        path = os.path.join(folder, "rows.gd")
        compile_features(value if value.dim() < 3 else value.reshape(len(value), -1), path, progress=False)
        self.rows = Rows(path)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


_shared: weakref.WeakValueDictionary[Any, _RowFile] = weakref.WeakValueDictionary()


def row_file(value: torch.Tensor) -> _RowFile:
    """Return the file of a tensor's rows; loaders of the same tensor share it."""
    key = (value.data_ptr(), value.shape, value.stride(), value.dtype, value._version)
    made = _shared.get(key)
    if made is None:
        made = _shared[key] = _RowFile(value)
    return made
