"""What a loader samples and which rows it gathers, by type, and the batches made from them.

A graph without types is the case of one node type and one edge type. It is a case of its own only at the edges: in what
the caller passes, in what the core opens, and in the batch, whose attributes are then not grouped by type.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..args.ids import IdArray
from ..args.times import in_time_unit
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EDGE, NODE, EdgeTypeName
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph, rows_followed
from .batch import ATTRIBUTES, AnyBatch, Batch, HeteroBatch, TypeData
from .device.assemble import Conversion
from .device.pending import NarrowIds, PlannedRows, StoredRows, narrow
from .inputs import named_features, resolve_time, wanted_dtype

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Part:
    """The rows of one feature of one type."""

    key: str | EdgeTypeName
    number: int  # of the type
    name: str
    store: FeatureStore
    dtype: str | None  # to convert to
    label: str
    conversion: Conversion | None = None  # on the device, where the core delivers rows as they are stored

    def open(self) -> _core.LoadPart:
        by_edge = not isinstance(self.key, str)
        dtype = self.dtype if self.conversion is None else None
        return _core.LoadPart(self.label, self.store._open(), self.store.name, by_edge, dtype, self.number)


class LoadSource:
    """A graph with features of its nodes and edges, from the arguments of a loader.

    `data` is what the loader was given, `types` the graph by type; `labels` are those of a dataset.
    """

    def __init__(
        self,
        data: Dataset | Graph | HeteroGraph,
        features: Any,
        edge_features: Any,
        *,
        fanouts: Fanouts,
        direction: str | None,
        node_time: Any,
        dtype: Any,
        **seed_type: Any,
    ) -> None:
        """Check the types and the names of the features; `seed_type` is the loader's argument for the seeds' type."""
        self.data = data
        graph, features, edge_features, self.labels = _taken_apart(data, features, edge_features)
        self.node_time: dict[str, IdArray] = {}
        self.direction = "in"
        self.asked_direction: str | None = None
        self._graph = graph
        if isinstance(graph, HeteroGraph):
            if direction not in (None, "in"):
                raise ValueError(f"direction is {direction!r}, but typed graphs are sampled along 'in' edges")
            self.types = graph
            self.node_time = graph._by_node_type(_read_times(in_time_unit(data, node_time)), "node_time")
        else:
            _refuse_types(graph, fanouts, node_time=node_time, **seed_type)
            self.direction = direction or graph.message_direction
            if direction is None:
                _warn_if_reversed(graph)
            self.types = HeteroGraph({EDGE: graph}, {NODE: graph.num_nodes})
            features = None if features is None else {NODE: features}
            edge_features = None if edge_features is None else {EDGE: edge_features}
        self._asked_fanouts = fanouts
        self._fanouts, hops = self.types._hops(fanouts)
        # the core has the fanouts of types with their edges, and needs only the number of hops here
        self.hops = [0] * hops
        self._single: Graph | None = None  # a graph of one type, which the core samples for many batches at once
        if len(self.types.edge_types) == len(self.types.node_types) == 1 and not self.node_time:
            (edge_type,) = self.types.edge_types
            self._single, self.hops = self.types[edge_type], self._fanouts[edge_type]
            self.asked_direction = self.side(edge_type)
        self._parts: list[_Part] = []
        self._places: dict[Any, int] = {
            key: i for i, key in enumerate((*self.types.node_types, *self.types.edge_types))
        }
        self._orders: dict[tuple[str, ...], list[str]] = {}
        name = wanted_dtype(dtype)
        for key, given in _by_type(features, "features", "node", '{"paper": store}').items():
            self._add(self.types._known_node_type(key), self.types.node_types, given, "x", name)
        example = '{("author", "writes", "paper"): store}'
        for key, given in _by_type(edge_features, "edge_features", "edge", example).items():
            self._add(self.types._known_edge_type(key), self.types.edge_types, given, "edge_attr", name)

    def _add(self, key: Any, types: list[Any], given: Any, default: str, dtype: str | None) -> None:
        kind, where = (TypeData, f"type {key!r}: ") if self._typed else (Batch, "")
        for name, (store, to) in named_features(given, default, dtype, kind=kind, where=where).items():
            if not self._typed:
                _refuse_same_name(name, store, self._parts)
            label = f"{key if isinstance(key, str) else '__'.join(key)}.{name}" if self._typed else name
            self._parts.append(_Part(key, types.index(key), name, store, to, label))

    @property
    def _typed(self) -> bool:
        return isinstance(self._graph, HeteroGraph)

    def public_type(self, key: Any) -> Any:
        """Return a type as a loader shows it: None where the graph has no types."""
        return key if self._typed else None

    def side(self, edge_type: EdgeTypeName) -> str:
        """Return which rows of an edge type's file are sampled."""
        return rows_followed(edge_type, self.types[edge_type]) if self._typed else self.direction

    def converts_like(self, other: LoadSource) -> bool:
        """Whether a device would convert the rows of both to the same dtypes; the core knows of its own conversions."""
        return [part.conversion and part.dtype for part in self._parts] == [
            part.conversion and part.dtype for part in other._parts
        ]

    def open(self) -> tuple[_core.SampleGraph, list[_core.LoadPart]]:
        """Return what the core takes: the files as they are open in this process."""
        parts = [part.open() for part in self._parts]
        if self._single is not None:
            return _core.SampleGraph(self._single._open()), parts
        graph = _core.SampleGraph()
        number = {name: i for i, name in enumerate(self.types.node_types)}
        for name, count in self.types.num_nodes.items():
            graph.add_node_type(name, count, self.node_time.get(name))
        for edge_type in self.types.edge_types:
            topology, ends = self.types[edge_type]._open(), (number[edge_type[0]], number[edge_type[2]])
            graph.add_edge_type(str(edge_type), topology, self.side(edge_type), *ends, self._fanouts[edge_type])
        return graph, parts

    def convert_on(self, device: torch.device) -> None:
        """Let rows cross the link as they are stored, and be converted on `device`."""
        self._parts = [
            replace(part, conversion=Conversion(part.store, part.dtype, device)) if part.dtype else part
            for part in self._parts
        ]

    def batch(self, raw: Mapping[str, Any], of_type: Mapping[Any, Mapping[str, Any]]) -> AnyBatch:
        """Return a batch with what the core made and, by type, the attributes in `of_type`."""
        import torch

        nodes, edges = raw["nodes"], raw["edges"]  # a dict for each type
        found: list[dict[str, Any]] = [*nodes, *edges]
        if raw["narrow"] is not None:
            narrow(raw["narrow"], nodes, edges)
        for values in found:
            for name, value in values.items():
                if name in _ARRAYS and isinstance(value, np.ndarray):
                    values[name] = torch.from_numpy(value)
        for number, (part, (rows, dtype, planned)) in enumerate(zip(self._parts, raw["parts"], strict=True)):
            values = found[self._places[part.key]]
            if planned is not None:
                by = "n_id" if isinstance(part.key, str) else "e_id"
                ids = values[by]
                ids = ids if isinstance(ids, NarrowIds) else ids.numpy()
                values[part.name] = PlannedRows(raw["tier"].parts[number], ids, by, rows, planned)
            else:
                rows = _as_tensor(rows, dtype, part.store)
                values[part.name] = rows if part.conversion is None else StoredRows(rows, part.conversion)
        for key, more in of_type.items():
            found[self._places[key]].update(more)
        if not self._typed:
            return Batch._of(self._in_order(found[0] | found[1]))
        data = [TypeData._of(self._in_order(values)) for values in found]
        node_types, edge_types = self.types.metadata()
        return HeteroBatch(
            dict(zip(node_types, data, strict=False)), dict(zip(edge_types, data[len(node_types) :], strict=True))
        )

    def _in_order(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Sort attributes: rows first, then what PyG's batches have, counts last. Batches have the same ones."""
        names = tuple(values)
        order = self._orders.get(names)
        if order is None:
            order = self._orders[names] = sorted(names, key=lambda name: _ORDER.get(name, -1))
        return {name: values[name] for name in order}

    @property
    def stores(self) -> list[tuple[FeatureStore, str | None]]:
        """The store of each part, and the dtype that its rows are converted to."""
        return [(part.store, part.dtype) for part in self._parts]

    def __str__(self) -> str:
        """Describe what is sampled and which rows are gathered."""
        labels = [part.label for part in self._parts]
        if not self._typed:
            return f"fanouts={self.hops} along {self.direction!r} edges, parts={labels}"
        counts = f"{len(self.types.node_types)} node types, {len(self.types.edge_types)} edge types"
        return f"fanouts={self._asked_fanouts}, {counts}, parts={labels}"


# -- what the caller passed -------------------------------------------------------------------------------------------


def _taken_apart(data: Any, features: Any, edge_features: Any) -> tuple[Graph | HeteroGraph, Any, Any, Any]:
    """Return the graph, features and edge features, a dataset's own where none are given, and a dataset's labels."""
    if isinstance(data, (Graph, HeteroGraph)):
        return data, features, edge_features, None
    if not isinstance(data, Dataset):
        raise TypeError(
            f"graph must be a Graph, a HeteroGraph or a Dataset, got {type(data).__name__}; open a .gl file with "
            "gz.Graph(path), a dataset folder with gz.Dataset(path)"
        )
    typed = data.is_typed
    if features is None:
        features = {t: dict(n.features) for t, n in data.nodes.items()} if typed else dict(data.features)
    if edge_features is None:
        edge_features = {t: dict(e.features) for t, e in data.edges.items()} if typed else dict(data.edge_features)
    labels = {name: node.label_store for name, node in data.nodes.items() if node.num_classes}
    if typed:
        return data.hetero, features, edge_features, labels
    return data.graph, features, edge_features, next(iter(labels.values()), None)


def _read_times(node_time: Any) -> Any:
    """Return `node_time` with the times that are in files read."""
    return {t: resolve_time(v) for t, v in node_time.items()} if isinstance(node_time, Mapping) else node_time


def _refuse_types(graph: Graph, fanouts: Any, **typed: Any) -> None:
    """Raise for arguments that only graphs of several types have."""
    for name, given in (typed | {"a dict of fanouts": isinstance(fanouts, Mapping) or None}).items():
        if given is not None:
            raise ValueError(f"{name} is for graphs of several types, but {graph.path} has one; see gz.HeteroGraph")


def _refuse_same_name(name: str, store: FeatureStore, parts: list[_Part]) -> None:
    """Raise where nodes have a feature of this name already: both would be the same attribute of the batch."""
    for part in parts:
        if part.name == name:
            raise ValueError(
                f"features and edge_features both have the name {name!r} ({part.store.path} and {store.path}); "
                'pass a dict to rename one, as in edge_features={"edge_attr": store}'
            )


def _by_type(given: Any, name: str, kind: str, example: str) -> Mapping[Any, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict by {kind} type, as in {example}, got {type(given).__name__}")
    return given


_warned: set[str] = set()


def _warn_if_reversed(graph: Graph) -> None:
    """Warn, once per file, that messages will flow against its edges."""
    if graph.direction != "out" or graph.info["undirected"] or graph.path in _warned:
        return
    _warned.add(graph.path)
    warnings.warn(
        f"{graph.path} has out-rows only: each node gets messages from the targets of its edges, against their "
        'direction. Compile it with direction="in" (or "both") to sample as PyG does; direction="out" accepts '
        "this",
        stacklevel=5,
    )


# -- tensors ----------------------------------------------------------------------------------------------------------

_ORDER = {name: i for i, name in enumerate(ATTRIBUTES)}
_ARRAYS = ("n_id", "batch", "e_id", "edge_index")  # of the subgraph


def _as_tensor(array: Any, dtype: str, store: FeatureStore) -> Any:
    import torch

    tensor = torch.from_numpy(array if array.ndim == len(store.shape) else array.reshape(-1, *store.shape[1:]))
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
