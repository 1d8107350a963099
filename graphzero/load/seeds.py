"""Nodes or edges as the seeds of a loader, with their type, times and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray, as_edges, as_ids
from ..args.times import in_time_unit
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.edge_column import edge_column
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph
from .device.pending import KeptLabels, NarrowArray
from .inputs import Labels, as_type, find_split, resolve_seeds, resolve_time, seeds_of_type, seeds_or_split
from .source import LoadSource

_STEP = 1 << 22  # edge ids of a file that are read together

# The types that attributes of triplets belong to; all others belong to the edge type.
_TYPES_OF = {
    "src_index": ("source",),
    "dst_pos_index": ("target",),
    "dst_neg_index": ("target",),
    "seed_time": ("source", "target"),
}


class SeedNodes:
    """Node ids, a time for each where sampling is temporal, and the labels of all nodes."""

    def __init__(
        self, source: LoadSource, seeds: Any, split: str | None, input_type: str | None, labels: Any, time: Any
    ) -> None:
        """Check them; None means all nodes. Labels and times are those of the seeds' type, or dicts by type."""
        types, time = source.types, in_time_unit(source.data, time)
        input_type, seeds = seeds_or_split(source.data, seeds, split, input_type, split_of, "seeds")
        name, seeds = seeds_of_type(
            seeds, input_type, types.node_types, _is_name, kind="node", option="input_type", name="seeds"
        )
        self.type = types._known_node_type(name)
        self._number = types.node_types.index(self.type)
        num_nodes = types.num_nodes[self.type]
        labels = source.labels if labels is None else labels
        labels, time = (_of_type(given, self.type, types) for given in (labels, time))
        node_time = source.node_time.get(self.type)
        if source.node_time and time is None and node_time is None:
            raise ValueError(f"no time for the seeds; pass time=, or node_time for type {self.type!r}")
        self.ids = resolve_seeds(seeds, num_nodes)
        self.labels = None if labels is None else Labels(labels, num_nodes)
        self.time = resolve_time(time, num_nodes if self.ids is None else len(self.ids))
        if time is None and node_time is not None:
            self.time = node_time if self.ids is None else _times_of(self.ids, node_time)
        self._numbers = _core.Numbers.range(num_nodes) if self.ids is None else _core.Numbers(self.ids)

    @property
    def views(self) -> dict[str, Any]:
        """Arrays that may be views of files."""
        return {"seeds": self.ids, "time": self.time}

    def source(self) -> _core.SeedSource:
        """Return what the core takes."""
        return _core.node_seeds(self._numbers, None if self.time is None else _core.Numbers(self.time), self._number)

    def attributes(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a batch has for its seeds."""
        import torch

        input_id = raw["input_id"]
        of_seeds: dict[str, Any] = {"input_id": torch.from_numpy(input_id), "batch_size": len(input_id)}
        if self.labels is not None:
            of_seeds["y"] = self._labels_of(raw, len(input_id))
        if self.time is not None:
            of_seeds["seed_time"] = torch.from_numpy(self.time[input_id])
        return of_seeds

    def _labels_of(self, raw: Mapping[str, Any], count: int) -> Any:
        """Return the labels of the seeds, or what stands for them where the device has all labels."""
        assert self.labels is not None
        narrow, n_id = raw["narrow"], raw["nodes"][self._number].get("n_id")
        index = 2 * len(raw["edges"]) + self._number

        def seeds() -> IdArray:
            found: IdArray = n_id[:count] if narrow is None else NarrowArray(*narrow).ids(index, count)
            return found

        table = None if raw["tier"] is None else raw["tier"].labels(self.labels)
        return self.labels.of(seeds()) if table is None else KeptLabels(table, seeds, count)


def _times_of(ids: Any, node_time: IdArray) -> IdArray:
    inside = (ids >= 0) & (ids < len(node_time))  # the core names what is outside
    return node_time[np.where(inside, ids, 0)] if len(node_time) else np.zeros(len(ids), np.int64)


def _of_type(values: Any, node_type: str, types: HeteroGraph) -> Any:
    """Return the entry of a dict by node type; any other value belongs to the seeds and is returned as it is."""
    if not isinstance(values, Mapping):
        return values
    return {types._known_node_type(key): value for key, value in values.items()}.get(node_type)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def split_of(data: Dataset, split: str, input_type: str | None) -> tuple[str, IdArray]:
    """Return the node type that has a split, and its ids; ValueError unless exactly one has it, or `input_type`."""
    return find_split(data.nodes, split, input_type, kind="node", option="input_type")


class SeedEdges:
    """Edges, a time for each where sampling is temporal, and their labels.

    `edges` is (2, N), sources above targets; a vector of edge ids; or None for all edges of the file, which are then
    found there batch by batch.
    """

    def __init__(
        self,
        source: LoadSource,
        edges: Any,
        split: str | None,
        edge_type: Any,
        labels: Any,
        time: Any,
        negatives: str | None,
        edge_order: str = "ids",
    ) -> None:
        """Check them; `edges` may be given with their type, or be a type, for all its edges."""
        types, time = source.types, in_time_unit(source.data, time)
        edge_type, edges = seeds_or_split(source.data, edges, split, edge_type, edge_split_of, "edges")
        name, edges = seeds_of_type(
            (edges, None) if is_edge_type(edges) else edges, edge_type, types.edge_types, is_edge_type,
            kind="edge", option="edge_type", name="edges",
        )  # fmt: skip
        self.type = types._known_edge_type(name)
        self._source = source
        graph, side = types[self.type], source.side(self.type)
        self.ends: tuple[Any, Any] | None = None
        self.positions: IdArray | None = None
        count = graph.num_edges
        if edges is not None and _dimensions(edges) == 1:
            ids = as_ids(edges, "edges")
            self.positions = positions_of(ids, graph, side)
            count = len(ids)
        elif edges is not None:
            self.ends = _narrow_edges(edges) or as_edges(edges, "edges")
            count = len(self.ends[0])
        self.own_times = isinstance(time, str)
        if self.own_times and (time != "edges" or self.ends is not None):
            raise ValueError(f"time is {time!r}, expected a number for each edge, or 'edges' where seeds are edge ids")
        self._by_id = edges is None and graph.has_edge_ids  # arrays have an entry for each edge of the source
        if edges is None and not graph.has_edge_ids and edge_order != "file":
            _refuse_arrays(graph, labels=labels, time=None if self.own_times else time)
        if self._by_id and (labels is not None or (time is not None and not self.own_times)):
            count = graph._largest_edge_id() + 1
        self.time = None if self.own_times else resolve_time(time, count)
        self._negatives = negatives
        self._labels = None
        self._shift = 0
        if self.time is not None:
            _check_length("time", self.time.shape, count, self._by_id)
        if labels is not None:
            self._labels = _checked_labels(labels, count, self._by_id, negatives)
            self._shift = _shift_of(labels) if negatives == "binary" else 0

    @property
    def timed(self) -> bool:
        """Whether seeds have times."""
        return self.own_times or self.time is not None

    @property
    def views(self) -> dict[str, Any]:
        """Arrays that may be views of files."""
        ends = self.ends or (None, None)
        return {"edges[0]": ends[0], "edges[1]": ends[1], "edges": self.positions, "time": self.time}

    def source(self, *, method: str, exclude: str, disjoint: bool, **options: Any) -> _core.SeedSource:
        """Return what the core takes; `method` and `options` are those of negatives."""
        if method not in ("uniform", "degree"):
            raise ValueError(f"neg_method is {method!r}, expected 'uniform' or 'degree'")
        numbers, types = _core.Numbers, self._source.types
        reverse = types._reverse_types(self.type) if exclude == "reverse" else []
        return _core.link_source(
            graph=self._source.open()[0],
            edge_type=types.edge_types.index(self.type),
            reverse_types=[types.edge_types.index(other) for other in reverse],
            by_degree=method == "degree",
            exclude=exclude,
            disjoint=disjoint or self.timed,
            direction=self._source.asked_direction,
            ends=None if self.ends is None else (numbers(self.ends[0]), numbers(self.ends[1])),
            positions=None if self.positions is None else numbers(self.positions),
            times=None if self.time is None else numbers(self.time),
            own_times=self.own_times,
            negatives=self._negatives,
            **options,
        )

    def attributes(self, raw: dict[str, Any]) -> dict[Any, dict[str, Any]]:
        """Return what a batch has for its edges by PyG's names, by the types to which they belong."""
        source, _, target = self.type
        by_type: dict[Any, dict[str, Any]] = {source: {}, target: {}, self.type: {}}
        for name, value in self._attributes(raw).items():
            for key in _TYPES_OF.get(name, ("edge",)):
                by_type[{"source": source, "target": target, "edge": self.type}[key]][name] = value
        return by_type

    def _attributes(self, raw: dict[str, Any]) -> dict[str, Any]:
        import torch

        arrays = {name: torch.from_numpy(array) for name, array in raw["arrays"].items()}
        times, edge, trees = (arrays.pop(name, None) for name in ("time", "edge", "tree_edge"))
        input_id = torch.from_numpy(raw["input_id"])
        if edge is not None and self.positions is None:
            input_id = edge
        if trees is not None:
            for nodes in raw["nodes"]:  # trees are numbered by the edge that they belong to
                nodes["batch"][:] = trees.numpy()[nodes["batch"]]
        found: dict[str, Any] = {"input_id": input_id, **arrays}
        if self._negatives == "triplet":
            return found | ({} if times is None else {"seed_time": times})
        label = self._edge_label(input_id if self._by_id else torch.from_numpy(raw["input_id"]), arrays)
        found |= {} if label is None else {"edge_label": label}
        return found | ({} if times is None else {"edge_label_time": times})

    def _edge_label(self, ids: Any, arrays: Mapping[str, Any]) -> Any:
        import torch

        if self._labels is not None:
            own = self._labels.of(ids.numpy()) + self._shift if self._shift else self._labels.of(ids.numpy())
        elif self._negatives is None:
            return None
        else:
            own = torch.ones(len(ids))
        missing = arrays["edge_label_index"].shape[1] - len(own)
        return torch.cat([own, own.new_zeros((missing, *own.shape[1:]))]) if missing else own


def positions_of(ids: IdArray, graph: Graph, side: str) -> IdArray:
    """Return the positions of edges in the rows of the file; ids are positions where it has no edge ids.

    Of an undirected edge, which has two places, the first. One pass over the file's ids, a part at a time.
    """
    if not graph.has_edge_ids:
        return ids  # positions, which the core checks
    order = np.argsort(ids, kind="stable")
    wanted, found = ids[order], np.full(len(ids), -1)
    kept = edge_column(graph, side, "edge_ids")
    for at in range(0, len(kept), _STEP):
        part = kept[at : at + _STEP]
        place = np.searchsorted(wanted, part)
        here = np.flatnonzero(wanted[np.minimum(place, len(wanted) - 1)] == part) if len(wanted) else place[:0]
        here = here[::-1]  # of two places, the first is written last
        fresh = here[found[place[here]] < 0]
        found[place[fresh]] = fresh + at
    first = np.searchsorted(wanted, wanted)  # ids that are given twice
    positions = np.empty_like(found)
    positions[order] = found[first]
    if (positions < 0).any():
        raise IndexError(f"no edge has the id {int(ids[positions < 0][0])} in {graph.path}")
    return positions


def edge_split_of(data: Dataset, split: str, edge_type: EdgeTypeName | None) -> tuple[EdgeTypeName, IdArray]:
    """Return the edge type that has a split, and its edges: ids, or pairs as (2, N)."""
    found, edges = find_split(data.edges, split, as_type(edge_type), kind="edge", option="edge_type", word="edge split")
    return found, edges if edges.ndim == 1 else np.ascontiguousarray(edges.T)


def is_edge_type(value: Any) -> bool:
    """Whether a value is (source, relation, target)."""
    return isinstance(value, (tuple, list)) and len(value) == 3 and all(isinstance(part, str) for part in value)


def _refuse_arrays(graph: Graph, **arrays: Any) -> None:
    """Refuse arrays with an entry per edge where nothing says which entry belongs to which edge."""
    for name, values in arrays.items():
        if values is not None and _dimensions(values) > 0:
            raise ValueError(
                f"{graph.path} was compiled without edge ids, so {name}= cannot be matched to its edges; "
                f"compile it with edge_ids=True, pass edges= with one entry of {name}= each, or pass "
                f'edge_order="file" if entry i belongs to the i-th edge in the order of the file'
            )


def _narrow_edges(edges: Any) -> tuple[Any, Any] | None:
    """Return the rows of an int32 array as they are: the core reads them in place."""
    array = edges.detach().cpu().numpy() if hasattr(edges, "detach") else edges
    narrow = isinstance(array, np.ndarray) and array.dtype == np.int32 and array.ndim == 2 and len(array) == 2
    return (array[0], array[1]) if narrow and array.flags.c_contiguous else None


def _dimensions(edges: Any) -> int:
    if isinstance(edges, (tuple, list)) and len(edges) == 2 and all(np.ndim(e) == 1 for e in edges):
        return 2
    return int(edges.ndim) if hasattr(edges, "ndim") else np.ndim(edges)


def _check_length(name: str, shape: Sequence[int], count: int, by_id: bool) -> None:
    """Raise unless an array has `count` entries; of edge ids, more may be left of edges that were dropped."""
    if by_id and shape[0] < count:
        raise ValueError(f"{name} has shape {tuple(shape)}, expected an entry for each edge id, 0 to {count - 1}")
    if not by_id and shape[0] != count:
        raise ValueError(f"{name} has shape {tuple(shape)}, expected an entry for each of {count} edges")


def _checked_labels(labels: Any, count: int, by_id: bool, negatives: str | None) -> Labels:
    if negatives == "triplet":
        raise ValueError("labels cannot be combined with neg_sampling='triplet', since triplets have no labels")
    shape: Sequence[int] = getattr(labels, "shape", None) or (len(labels),)
    _check_length("labels", shape, count, by_id)
    return Labels(labels, shape[0])


def _shift_of(labels: Any) -> int:
    """Return what is added to labels so that 0 is left for negatives, as PyG does."""
    if isinstance(labels, FeatureStore):
        steps = range(0, labels.shape[0], _STEP)
        parts = (labels.gather(np.arange(at, min(at + _STEP, labels.shape[0]))) for at in steps)
        return int(any(len(part) and part.min() == 0 for part in parts))
    array = labels.detach().cpu().numpy() if hasattr(labels, "detach") else np.asarray(labels)
    return int(array.size > 0 and array.min() == 0)
