"""Mini-batches from a graph on disk, within a memory budget, as if everything were in RAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..args.ids import IdArray
from ..args.keywords import known_keywords
from ..args.times import in_time_unit
from ..dataset.dataset import Dataset
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph
from .epochs import EpochLoader, LoaderOptions
from .hetero_batch import AnyBatch
from .inputs import resolve_time, wanted_dtype
from .seed_nodes import SeedNodes, split_of, typed_seeds
from .source import LoadSource, PlainSource, TypedSource
from .stats import LoaderStats

__all__ = ["LoaderStats", "NeighborLoader"]


class NeighborLoader(EpochLoader):
    """Sampled mini-batches with their features, made ahead of your training step by native threads.

    Each batch is sampled, its rows are read from the file (or copied from RAM where they are), and it waits, finished,
    until you ask for it. All that is held for this stays within `memory`: batches, read buffers, and the rows of coming
    batches, which get what is left: the more there is, the more batches share each read. `memory="auto"` takes what the
    machine and the container leave, less some for your model. Files that fit beside all this are read into the page
    cache first. `loader.stats().plan["why"]` says what was chosen. Worker processes are not needed.

    `graph`: a `Dataset`, a `Graph` or a `HeteroGraph`. A dataset has everything: its features, its labels, and its
    splits, of which `split` names one. With a graph, `features` is a `FeatureStore`, several, or a dict that names
    them; rows arrive as `batch.x` or under the array's name. `edge_features`: the same, with a row for each edge id of
    a graph compiled with `edge_ids=True`; they arrive as `batch.edge_attr` or under their names. `labels`: an array or
    a `FeatureStore` with an entry for each node; `batch.y` holds those of the seeds.

    A dataset of several types and a `HeteroGraph` give a `HeteroBatch`: `batch["paper"].x`, `batch.edge_index_dict`.
    `features`, `edge_features` and `labels` are then dicts by type, and `fanouts` may be one. Seeds are of one type.

    A neighbour of a node is what a row of the file lists (`loader.direction`). For "in", the sources of the edges that
    point to the node: messages flow along the edges, as in PyG. For "out", the targets of its own edges: messages
    flow against them. An undirected graph has both ways in either. `direction=` chooses where the file has both,
    "in" unless given; typed graphs are sampled along "in".

    Batches depend on `seed`, the epoch and their number alone: not on threads, memory or the read path. Each new
    iteration is the next epoch, reshuffled when `shuffle` is set; `set_epoch` goes back or ahead.

    >>> loader = gz.NeighborLoader(ds, split="train", fanouts=[15, 10], batch_size=1024, shuffle=True,
    ...                            seed=0)  # doctest: +SKIP
    >>> for batch in loader:  # doctest: +SKIP
    ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
    """

    @known_keywords()
    def __init__(
        self,
        graph: Dataset | Graph | HeteroGraph,
        features: Any = None,
        *,
        fanouts: Fanouts,
        split: str | None = None,
        seeds: Any = None,
        input_type: str | None = None,
        labels: Any = None,
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: Any = None,
        memory: int | float | str = "auto",
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        transform: Callable[[Any], Any] | None = None,
        edge_features: Any = None,
        edge_order: str = "ids",
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        time: Any = None,
        node_time: Mapping[str, Any] | None = None,
        temporal: str = "uniform",
        window: int | None = None,
        method: str = "uniform",
        direction: str | None = None,
        dtype: Any = None,
        io: str = "auto",
        cache: str = "auto",
        rank: int | None = None,
        world_size: int | None = None,
        local_world_size: int | None = None,
        uneven: str = "pad",
    ) -> None:
        """Check everything that can be checked; nothing is read until the first iteration.

        `seeds` may be node ids, a boolean mask over all nodes, or None for all nodes; an array is read where it is, so
        leave it unchanged. A repeated id is a seed as often as it is given, and each copy is expanded. In typed graphs
        `input_type` names their type, or `seeds=("paper", ids)` does. With a dataset, `split="train"` takes its ids,
        and the type that has such a split. What is given as `features`, `edge_features` or `labels` replaces the
        dataset's own; `features={}` leaves them out.

        `time` holds one timestamp a seed, for graphs compiled with times; `window` keeps only edges that are newer than
        it minus `window`. In typed graphs, `node_time` has a timestamp for each node, by node type, as in
        `HeteroGraph.sample`. `dtype="float32"` converts float16, bfloat16 and scaled int8 features on the way.
        `edge_order="file"` is for graphs without edge ids: it says that row i of the edge features belongs to the i-th
        edge as the file stores them, by node and then by neighbour in the direction that is followed. `device` may be a
        CUDA device: batches are then made in page-locked memory, and a thread copies them on a side stream while you
        compute: a few that come next are on the device, which takes at most an eighth of its memory. `io` and `cache`
        ("auto", "on", "off") are for measuring; their defaults decide by themselves.

        Times are numbers, taken as they are, or dates (datetime64, pandas, Arrow, Python's datetime), in seconds since
        1970 or the `time_unit` of a dataset; a single one stands for all seeds.

        `rank` and `world_size` say which of how many processes this is; without them torch.distributed decides, where
        it is initialised. All ranks share one epoch: rank r delivers the batches r, r + world_size, ... that a single
        process would deliver, bit for bit. When they do not come out even, `uneven="pad"` repeats batches from the
        start of the epoch, "drop" leaves out the last round, and "keep" gives some ranks one batch less.

        `memory` is for all ranks of this host: each takes its share, and they read files together. `local_world_size`
        says how many they are; without it the launcher does (`LOCAL_WORLD_SIZE`, which torchrun sets).
        """
        options = LoaderOptions.of(locals())
        given = LoaderInputs(graph, features, edge_features, labels, seeds, split, input_type)
        time, node_time = in_time_unit(graph, time), in_time_unit(graph, node_time)
        self._input_type: str | None = None
        self._type_number = 0
        name = wanted_dtype(dtype)
        source: LoadSource
        node_times: dict[str, IdArray] = {}
        if isinstance(given.graph, HeteroGraph):
            refuse_direction(direction)
            node_times = given.graph._by_node_type(read_times(node_time), "node_time")
            source = TypedSource(
                given.graph, given.features, given.edge_features, fanouts=fanouts, node_time=node_times, dtype=name
            )
            self._input_type, self._nodes = given.typed_nodes(given.graph, time, node_times)
            self._type_number = source.number(self._input_type)
        else:
            refuse_types(given.graph, fanouts, input_type=input_type, node_time=node_time)
            source = PlainSource(
                given.graph, given.features, given.edge_features, fanouts=fanouts, direction=direction, dtype=name
            )
            self._nodes = SeedNodes(given.seeds, given.graph.num_nodes, given.labels, time)
        if window is not None and self._nodes.time is None:
            raise ValueError("window needs time= or node_time=: it counts back from the time of each seed")
        super().__init__(
            source,
            self._nodes.source(self._type_number),
            options,
            timed=self._nodes.time is not None,
            views={"seeds": self._nodes.ids, "time": self._nodes.time}
            | {f"node_time[{t!r}]": array for t, array in node_times.items()},
        )

    @property
    def input_type(self) -> str | None:
        """The node type of the seeds; None where the graph has one type."""
        return self._input_type

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        return self._source.batch(raw, {self._input_type: self._nodes.attributes(raw, self._type_number)})


class LoaderInputs:
    """What the user gave, with a dataset taken apart: a graph, features, labels and seeds."""

    def __init__(
        self,
        data: Any,
        features: Any,
        edge_features: Any,
        labels: Any,
        seeds: Any,
        split: str | None,
        input_type: str | None,
    ) -> None:
        self.graph: Graph | HeteroGraph
        self.features, self.edge_features, self.labels = features, edge_features, labels
        self.seeds, self.input_type = seeds, input_type
        if isinstance(data, Dataset):
            self._take_apart(data, split)
            return
        if not isinstance(data, (Graph, HeteroGraph)):
            raise TypeError(
                f"graph must be a Graph, a HeteroGraph or a Dataset, got {type(data).__name__}: open a .gl file with "
                "gz.Graph(path), a dataset folder with gz.Dataset(path)"
            )
        if split is not None:
            raise ValueError(f"split is {split!r}, but only a Dataset has splits: pass one, or seeds=")
        self.graph = data

    def _take_apart(self, data: Dataset, split: str | None) -> None:
        if split is not None and self.seeds is not None:
            raise ValueError(f"give either split={split!r} or seeds=")
        if split is not None:
            found, self.seeds = split_of(data, split, self.input_type)
            self.input_type = found if data.is_typed else self.input_type
        by_type = data.is_typed
        labelled = {name: node.label_store for name, node in data.nodes.items() if node.num_classes}
        self.graph = data.hetero if by_type else data.graph
        if self.features is None:
            self.features = {t: dict(n.features) for t, n in data.nodes.items()} if by_type else dict(data.features)
        if self.edge_features is None:
            edges = {t: dict(e.features) for t, e in data.edges.items()}
            self.edge_features = edges if by_type else dict(data.edge_features)
        if self.labels is None:
            self.labels = labelled if by_type else next(iter(labelled.values()), None)

    def typed_nodes(self, graph: HeteroGraph, time: Any, node_times: Mapping[str, IdArray]) -> tuple[str, SeedNodes]:
        """Return the node type of the seeds, and the seeds."""
        name, nodes = typed_seeds(graph, self.seeds, self.input_type)
        for given in (self.labels, time):
            for key in given if isinstance(given, Mapping) else ():
                graph._known_node_type(key)
        own_time = _of_type(time, name)
        if node_times and own_time is None and name not in node_times:
            raise ValueError(f"no time for the seeds: give time=, or node_time for type {name!r}")
        labels = _of_type(self.labels, name)
        return name, SeedNodes(nodes, graph.num_nodes[name], labels, own_time, node_times.get(name))


def _of_type(values: Any, node_type: str) -> Any:
    """Return what a dict by node type has for one, anything else as it is: it belongs to the seeds."""
    return values.get(node_type) if isinstance(values, Mapping) else values


def read_times(node_time: Any) -> Any:
    """Return `node_time` with what is in files read."""
    return {t: resolve_time(v) for t, v in node_time.items()} if isinstance(node_time, Mapping) else node_time


def refuse_direction(direction: str | None) -> None:
    if direction not in (None, "in"):
        raise ValueError(f"direction is {direction!r}, but typed graphs are sampled along 'in' edges")


def refuse_types(graph: Graph, fanouts: Any, **typed: Any) -> None:
    """Raise for what only graphs of several types have."""
    for name, given in (typed | {"a dict of fanouts": isinstance(fanouts, Mapping) or None}).items():
        if given is not None:
            raise ValueError(f"{name} is for graphs of several types, {graph.path} is one graph: see gz.HeteroGraph")
