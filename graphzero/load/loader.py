"""Mini-batches from a graph on disk, within a memory budget, as if everything were in RAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..args.keywords import known_keywords
from ..dataset.dataset import Dataset
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph
from .batch import AnyBatch
from .epochs import EpochLoader, LoaderOptions
from .seed_nodes import SeedNodes
from .source import LoadSource
from .stats import LoaderStats

__all__ = ["LoaderStats", "NeighborLoader"]


class NeighborLoader(EpochLoader):
    """Sampled mini-batches with their features, prefetched by native threads during your training step.

    Each batch is sampled, its rows are read from the file (or copied from RAM where they are), and it waits, finished,
    until you ask for it. All that is held for this stays within `memory`: batches, read buffers, and the rows of coming
    batches, which get what is left: the more there is, the more batches share each read. `memory="auto"` takes what the
    machine and the container leave, less some for your model. Files that fit in addition are read into the page
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

        `time` holds one timestamp per seed, for graphs compiled with times; `window` keeps only edges newer than that
        minus `window`. In typed graphs, `node_time` has a timestamp for each node, by node type, as in
        `HeteroGraph.sample`. `dtype="float32"` converts float16, bfloat16 and scaled int8 features on the way.
        `edge_order="file"` is for graphs without edge ids: it says that row i of the edge features belongs to the i-th
        edge as the file stores them, by node and then by neighbour in the direction that is followed. `device` may be a
        CUDA device: batches are then made in page-locked memory, and a thread copies them on a side stream while you
        compute: a few that come next are on the device, which takes at most an eighth of its memory. `io` and `cache`
        ("auto", "on", "off") are for benchmarks; by default the loader decides.

        Times are numbers, taken as they are, or dates (datetime64, pandas, Arrow, Python's datetime), in seconds since
        1970 or the `time_unit` of a dataset; a single one applies to all seeds.

        `rank` and `world_size` say which of how many processes this is; without them torch.distributed decides, where
        it is initialised. All ranks share one epoch: rank r delivers the batches r, r + world_size, ... that a single
        process would deliver, bit for bit. When they do not come out even, `uneven="pad"` repeats batches from the
        start of the epoch, "drop" leaves out the last round, and "keep" gives some ranks one batch less.

        `memory` is for all ranks of this host: each takes its share, and they read files together. `local_world_size`
        says how many they are; without it the launcher does (`LOCAL_WORLD_SIZE`, which torchrun sets).
        """
        options = LoaderOptions(
            batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed, memory=memory, prefetch=prefetch,
            num_threads=num_threads, device=device, transform=transform, edge_order=edge_order, replace=replace,
            weighted=weighted, disjoint=disjoint, temporal=temporal, window=window, method=method, io=io, cache=cache,
            rank=rank, world_size=world_size, local_world_size=local_world_size, uneven=uneven,
        )  # fmt: skip
        source = LoadSource(
            graph, features, edge_features, fanouts=fanouts, direction=direction, node_time=node_time, dtype=dtype,
            input_type=input_type,
        )  # fmt: skip
        self._nodes = nodes = SeedNodes(source, seeds, split, input_type, labels, time)
        if window is not None and nodes.time is None:
            raise ValueError("window needs time= or node_time=: it counts back from the time of each seed")
        super().__init__(source, nodes.source(), options, timed=nodes.time is not None, views=nodes.views)

    @property
    def input_type(self) -> str | None:
        """The node type of the seeds; None where the graph has one type."""
        found: str | None = self._source.public_type(self._nodes.type)
        return found

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        return self._source.batch(raw, {self._nodes.type: self._nodes.attributes(raw)})
