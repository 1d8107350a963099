"""What a loader samples and which rows it gathers: one graph, or one of several types; and batches made of that."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _core
from ..args.ids import IdArray, as_fanouts
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph, rows_followed
from .batch import Batch
from .hetero_batch import HeteroBatch, TypeData
from .inputs import Features, all_parts, named_features

if TYPE_CHECKING:
    import torch

Parts = dict[str, tuple[FeatureStore, bool, str | None]]  # name: store, by edge, dtype to convert to


class PlainSource:
    """One graph, with features of its nodes and edges."""

    def __init__(
        self,
        graph: Graph,
        features: Features,
        edge_features: Features,
        *,
        fanouts: Any,
        direction: str | None,
        dtype: str | None,
    ) -> None:
        """Check the names of the features."""
        self._graph = graph
        self._parts: Parts = all_parts(features, edge_features, dtype)
        self.hops = self.fanouts = as_fanouts(fanouts)
        self.asked_direction = self.direction = direction or graph.message_direction
        if direction is None:
            _say_if_reversed(graph)

    def open(self) -> tuple[_core.LoadGraph, list[_core.LoadPart]]:
        """Return what the core takes: the files as they are open in this process."""
        parts = [
            _core.LoadPart(name, store._open(), store.name, by_edge, dtype)
            for name, (store, by_edge, dtype) in self._parts.items()
        ]
        return _core.LoadGraph(self._graph._open()), parts

    def batch(self, raw: Mapping[str, Any], of_type: Mapping[Any, Mapping[str, Any]]) -> Batch:
        """Return a batch with what the core made and the attributes in `of_type`, whatever type they are of."""
        attributes = {
            name: _as_tensor(rows, self._parts[name][0]) for name, rows in zip(self._parts, raw["parts"], strict=True)
        } | _subgraph_tensors(raw["nodes"][0] | raw["edges"][0])
        for more in of_type.values():
            attributes |= more
        return Batch(**{name: attributes[name] for name in sorted(attributes, key=_place)})

    def __str__(self) -> str:
        """Say it in words."""
        return f"fanouts={self.hops} along {self.direction!r} edges, parts={list(self._parts)}"


_told: set[str] = set()


def _say_if_reversed(graph: Graph) -> None:
    """Warn, once for a file, that messages will flow against its edges."""
    if graph.direction != "out" or graph.info["undirected"] or graph.path in _told:
        return
    _told.add(graph.path)
    warnings.warn(
        f"{graph.path} has out-rows only: each node gets messages from the targets of its edges, against their "
        'direction. Compile it with direction="in" (or "both") to sample as PyG does; direction="out" says that it is '
        "meant",
        stacklevel=5,
    )


@dataclass(frozen=True)
class _TypedPart:
    key: str | EdgeTypeName
    number: int  # of the type
    name: str
    store: FeatureStore
    dtype: str | None

    @property
    def label(self) -> str:
        return f"{self.key if isinstance(self.key, str) else '__'.join(self.key)}.{self.name}"

    def open(self) -> _core.LoadPart:
        by_edge = not isinstance(self.key, str)
        return _core.LoadPart(self.label, self.store._open(), self.store.name, by_edge, self.dtype, self.number)


class TypedSource:
    """A graph of several types, with features of some of them."""

    asked_direction = None
    direction = "in"

    def __init__(
        self,
        graph: HeteroGraph,
        features: Mapping[str, Features] | None,
        edge_features: Mapping[EdgeTypeName, Features] | None,
        *,
        fanouts: Fanouts,
        node_time: Mapping[str, IdArray],
        dtype: str | None,
    ) -> None:
        """Check the types and the names of their features."""
        self._graph = graph
        self._node_time = node_time
        self.fanouts, hops = graph._hops(fanouts)
        self._asked_fanouts = fanouts
        self.hops = [0] * hops  # their number is what the core takes
        self._parts: list[_TypedPart] = []
        for key, given in _by_type(features, "features", "node", '{"paper": store}').items():
            self._add(graph._known_node_type(key), graph.node_types, given, "x", dtype)
        example = '{("author", "writes", "paper"): store}'
        for edge_key, given in _by_type(edge_features, "edge_features", "edge", example).items():
            self._add(graph._known_edge_type(edge_key), graph.edge_types, given, "edge_attr", dtype)

    def _add(self, key: Any, types: list[Any], given: Features, default: str, dtype: str | None) -> None:
        where = f"type {key!r}: "
        for name, (store, _, to) in named_features(given, default, dtype, kind=TypeData, where=where).items():
            self._parts.append(_TypedPart(key, types.index(key), name, store, to))

    def number(self, node_type: str) -> int:
        """Return by which number the core knows a node type."""
        return self._graph.node_types.index(node_type)

    def open(self) -> tuple[_core.LoadGraph, list[_core.LoadPart]]:
        """Return what the core takes: the files as they are open in this process."""
        graph = _core.LoadGraph()
        for name, count in self._graph.num_nodes.items():
            graph.add_node_type(name, count, self._node_time.get(name))
        for edge_type in self._graph.edge_types:
            one = self._graph[edge_type]
            source, target = self.number(edge_type[0]), self.number(edge_type[2])
            side = rows_followed(edge_type, one)
            graph.add_edge_type(str(edge_type), one._open(), side, source, target, self.fanouts[edge_type])
        return graph, [part.open() for part in self._parts]

    def batch(self, raw: Mapping[str, Any], of_type: Mapping[Any, Mapping[str, Any]]) -> HeteroBatch:
        """Return a batch with what the core made and the attributes of types in `of_type`."""
        attributes: dict[Any, dict[str, Any]] = {key: {} for key in (*self._graph.node_types, *self._graph.edge_types)}
        for part, rows in zip(self._parts, raw["parts"], strict=True):
            attributes[part.key][part.name] = _as_tensor(rows, part.store)
        for key, arrays in zip(attributes, (*raw["nodes"], *raw["edges"]), strict=True):
            attributes[key] |= _subgraph_tensors(arrays)
        for key, more in of_type.items():
            attributes[key] |= more
        data = {key: TypeData(**{k: of[k] for k in sorted(of, key=_place)}) for key, of in attributes.items()}
        return HeteroBatch(
            {key: data[key] for key in self._graph.node_types}, {key: data[key] for key in self._graph.edge_types}
        )

    def __str__(self) -> str:
        """Say it in words."""
        types = f"{len(self._graph.node_types)} node types, {len(self._graph.edge_types)} edge types"
        return f"fanouts={self._asked_fanouts}, {types}, parts={[part.label for part in self._parts]}"


LoadSource = PlainSource | TypedSource

_LINKS = ("edge_label_index", "edge_label", "edge_label_time", "src_index", "dst_pos_index", "dst_neg_index")
_ORDER = ("y", "edge_index", "n_id", "e_id", "input_id", *_LINKS, "batch", "seed_time", "batch_size")
_PLACES = {name: i for i, name in enumerate((*_ORDER, "num_sampled_nodes", "num_sampled_edges"))}


def _place(name: str) -> int:
    """Where an attribute stands: rows first, then what PyG's batches have, counts last."""
    return _PLACES.get(name, -1)


def _subgraph_tensors(arrays: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    return {k: v if k.startswith("num_") else torch.from_numpy(v) for k, v in arrays.items()}


def _as_tensor(rows: tuple[Any, str], store: FeatureStore) -> torch.Tensor:
    import torch

    array, dtype = rows
    tensor = torch.from_numpy(array if array.ndim == len(store.shape) else array.reshape(-1, *store.shape[1:]))
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _by_type(given: Any, name: str, kind: str, example: str) -> Mapping[Any, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict by {kind} type, as in {example}, got {type(given).__name__}")
    return given
