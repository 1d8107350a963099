"""What users iterate over: loaders of batches around nodes and around edges, and groups of them that take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..args.keywords import known_keywords
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.closing import Closing
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph
from .batch import AnyBatch
from .epochs import EpochLoader, LoaderOptions
from .handoff import HOLD_SECONDS, Handoff
from .inputs import Labels
from .seeds import SeedEdges, SeedNodes
from .source import LoadSource

__all__ = ["LinkNeighborLoader", "LoaderGroup", "NeighborLoader"]


class NeighborLoader(EpochLoader):
    """Sampled mini-batches with their features, prefetched by native threads during your training step.

    Batches are sampled, and their rows read from the file or copied from RAM, ahead of your loop. All memory that this
    takes stays within `memory`: batches, read buffers, and rows of coming batches, which get the remainder: the larger
    it is, the more batches share each read. `memory="auto"` uses the memory available to the machine and the container,
    less a reserve for your model. Files that fit in addition are read into the page cache first.
    `loader.stats().plan["why"]` says what was chosen. Worker processes are not needed.

    `graph`: a `Dataset`, a `Graph` or a `HeteroGraph`. A dataset has everything: its features, its labels, and its
    splits; `split` names one of them. With a graph, `features` is a `FeatureStore`, several, or a dict that names
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
        gpu_memory: int | float | str = 0,
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
        batch_dependency: int = 1,
        pad_nodes: bool = False,
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
        dataset's own; `features={}` omits them.

        `time` holds one timestamp per seed, for graphs compiled with times; `window` keeps only edges newer than that
        minus `window`. In typed graphs, `node_time` has a timestamp for each node, by node type, as in
        `HeteroGraph.sample`. `dtype="float32"` converts float16 and bfloat16 features on the way; scaled int8 is always
        delivered as the float32 numbers that it represents.
        `edge_order="file"` is for graphs without edge ids: it says that row i of the edge features belongs to the i-th
        edge as the file stores them, by node and then by neighbour in the direction that is followed. `device` may be a
        CUDA device: batches are then made in page-locked memory and copied on a side stream while you compute: a few
        that come next are on the device, which takes at most an eighth of its memory. `io`
        ("auto", "mmap", "uring", "pread") and `cache` ("auto", "on", "off") are for benchmarks; by default the loader
        decides.

        `replace`, `weighted`: edges are drawn with replacement, and in proportion to the weights of the file.
        `temporal`, with times: "uniform" draws any of the edges that are not too new, "last" takes the latest ones.
        `drop_last=True` omits the last batch of an epoch if it has fewer than `batch_size` seeds. `prefetch` is the
        most finished batches that wait for you (default: `num_threads` + 2), within `memory`; `num_threads` is the
        number of threads that make batches (default: the processors available, divided among the ranks of the host;
        with a GPU, some are left free). `transform` is called with each batch, in your thread, and its result is
        delivered in place of the batch.

        `gpu_memory` is what the device may keep rows in, beside those batches: rows that coming batches need soonest,
        or all of them if they fit; they are neither read nor copied again. A size such as "20GB"; "auto" waits for a
        few batches and then takes what training has left free, and less when that becomes short; 0 keeps none.

        `pad_nodes=True` adds nodes without edges at the end of each hop, up to a thirty-second of the nodes so far, so
        that batches have few distinct sizes: a GPU's libraries search for a kernel for each new size of a matrix,
        which can take half as long as the step of a small model in bfloat16. What a GNN computes for the seeds does
        not change. The padding consists of copies of other nodes, which normalisation and pooling over all nodes of a
        batch would count: `batch.num_padding_nodes` has their number for each hop. Not with `disjoint` or times.

        `method="labor"` is that of `Graph.sample`. With `batch_dependency=k`, its random choices change slowly: from
        one batch to the next, one of k nodes is chosen anew. Each batch alone is as random as before, but successive
        batches share more nodes, so fewer rows are read. Up to 64 is usual; far more may reduce the accuracy.

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
            num_threads=num_threads, device=device, gpu_memory=gpu_memory, transform=transform, edge_order=edge_order,
            replace=replace, weighted=weighted, disjoint=disjoint, temporal=temporal, window=window, method=method,
            batch_dependency=batch_dependency, pad_nodes=pad_nodes, io=io, cache=cache, rank=rank,
            world_size=world_size, local_world_size=local_world_size, uneven=uneven,
        )  # fmt: skip
        source = LoadSource(
            graph, features, edge_features, fanouts=fanouts, direction=direction, node_time=node_time, dtype=dtype,
            input_type=input_type,
        )  # fmt: skip
        self._nodes = nodes = SeedNodes(source, seeds, split, input_type, labels, time)
        if window is not None and nodes.time is None:
            raise ValueError("window needs time= or node_time=, since it is relative to the time of each seed")
        super().__init__(source, nodes.source(), options, timed=nodes.time is not None, views=nodes.views)

    @property
    def input_type(self) -> str | None:
        """The node type of the seeds; None where the graph has one type."""
        found: str | None = self._source.public_type(self._nodes.type)
        return found

    def _labels(self) -> Labels | None:
        return self._nodes.labels

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        return self._source.batch(raw, {self._nodes.type: self._nodes.attributes(raw)})


class LinkNeighborLoader(EpochLoader):
    """Sampled mini-batches around edges, for training on links: PyG's `LinkNeighborLoader` on the engine's pipeline.

    A batch takes `batch_size` edges, draws negatives for them, and samples around the ends of all of them, each node
    once. Batches are prefetched within `memory`, shared between ranks and repeated by `seed` and epoch as those of
    `NeighborLoader`, whose other arguments (`features`, `memory`, `drop_last`, `prefetch`, `num_threads`, `transform`,
    `replace`, `weighted`, `temporal`, `device`, `rank`, ...) mean the same here.

    In addition to the attributes of `NeighborLoader` batches (`x`, `edge_index`, `n_id`, ...), they have those
    of PyG's link loader, as positions in `n_id`:

    - without negatives or with `neg_sampling="binary"`: `edge_label_index` (2, M), positive edges first, `edge_label`
      (M), 0 for negatives, and `edge_label_time` where there are times
    - with "triplet": `src_index`, `dst_pos_index`, `dst_neg_index`, and `seed_time` where there are times
    - `input_id`: positions of the batch's edges among `edges`; edge ids where all edges of a graph are seeds

    In typed graphs they belong to the edge type, those of triplets to the node types of its ends.

    >>> loader = gz.LinkNeighborLoader(ds, split="train", fanouts=[15, 10], neg_sampling="binary", batch_size=1024,
    ...                                shuffle=True, exclude="reverse", seed=0)  # doctest: +SKIP
    >>> for batch in loader:  # doctest: +SKIP
    ...     h = model(batch.x, batch.edge_index)
    ...     scores = (h[batch.edge_label_index[0]] * h[batch.edge_label_index[1]]).sum(-1)
    ...     loss = binary_cross_entropy_with_logits(scores, batch.edge_label)
    """

    @known_keywords()
    def __init__(
        self,
        graph: Dataset | Graph | HeteroGraph,
        features: Any = None,
        *,
        fanouts: Fanouts,
        edges: Any = None,
        split: str | None = None,
        edge_type: EdgeTypeName | None = None,
        labels: Any = None,
        time: Any = None,
        neg_sampling: str | None = None,
        neg_ratio: float = 1.0,
        neg_method: str = "uniform",
        neg_exponent: float = 0.75,
        strict: bool = False,
        exclude: str = "self",
        batch_size: int = 1024,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: Any = None,
        memory: int | float | str = "auto",
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        gpu_memory: int | float | str = 0,
        transform: Callable[[Any], Any] | None = None,
        edge_features: Any = None,
        edge_order: str = "ids",
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        node_time: Mapping[str, Any] | None = None,
        temporal: str = "uniform",
        window: int | None = None,
        method: str = "uniform",
        batch_dependency: int = 1,
        pad_nodes: bool = False,
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

        `edges` are (2, N), sources above targets; or a vector of edge ids; or None for all edges of the graph, which
        are found in the file when a batch needs them: a billion of them take no memory. In typed graphs `edge_type`
        names their type, or `edges=(type, edges)` does. With a dataset, `split="train"` takes an edge split.

        An undirected graph stores each edge both ways: None delivers both, with the same edge id, and an edge that is
        given by its id comes in the direction that the file has first, which may be the reverse of the source's.

        - `neg_sampling`, `neg_ratio`, `neg_method`, `neg_exponent`, `strict`: as in `Graph.sample_links`.
        - `exclude`: "self" keeps the edges of a batch out of what is sampled for it, with all their copies and, in an
          undirected graph, both ways; "reverse" keeps out (v, u) with (u, v) too, in typed graphs also in the reverse
          edge type; "none" lets the model see what it is to predict.
        - `labels`: one for each of `edges`; for each edge id where all edges are seeds. With binary negatives, labels
          that have a 0 are raised by 1, as in PyG: 0 is then the label of negatives.
        - `time`: a number or a date for each edge, joined as `labels` are, or "edges" for the times that edges of the
          file have.
        """
        options = LoaderOptions(
            batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed, memory=memory, prefetch=prefetch,
            num_threads=num_threads, device=device, gpu_memory=gpu_memory, transform=transform, edge_order=edge_order,
            replace=replace, weighted=weighted, disjoint=disjoint, temporal=temporal, window=window, method=method,
            batch_dependency=batch_dependency, pad_nodes=pad_nodes, io=io, cache=cache, rank=rank,
            world_size=world_size, local_world_size=local_world_size, uneven=uneven,
        )  # fmt: skip
        source = LoadSource(
            graph, features, edge_features, fanouts=fanouts, direction=direction, node_time=node_time, dtype=dtype,
            edge_type=edge_type,
        )  # fmt: skip
        self._edges = found = SeedEdges(source, edges, split, edge_type, labels, time, neg_sampling, edge_order)
        if not found.timed and (source.node_time or window is not None):
            raise ValueError(f"{'node_time' if source.node_time else 'window'} needs time=, one number per edge")
        seeds = found.source(
            method=neg_method, ratio=float(neg_ratio), strict=bool(strict), exponent=float(neg_exponent),
            exclude=exclude, disjoint=bool(disjoint),
        )  # fmt: skip
        super().__init__(source, seeds, options, timed=found.timed, views=found.views)

    @property
    def edge_type(self) -> EdgeTypeName | None:
        """The type of the edges; None where the graph has one type."""
        found: EdgeTypeName | None = self._source.public_type(self._edges.type)
        return found

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        return self._source.batch(raw, self._edges.attributes(raw))


class LoaderGroup(Closing):
    """Loaders that take turns, as in a loop over training and validation.

    While the last training batches are used, the rows of the validation are read, and during the validation those of
    the next epoch of training. Loaders with the same graph, features and `memory` do so within one budget; sizes are
    planned for the largest of their batches. A loader that cannot share the budget has its own, and the memory that the
    others hold is released before it starts.

    Iterate over the loaders themselves. Another order than that of the arguments, a loop left early or `set_epoch` are
    fine: batches are always those of the loader alone, and only prefetched rows are lost.

    >>> import numpy as np
    >>> ds = gz.synthesize("group-example", nodes=2000, edges=10_000, dim=16)
    >>> options = {"fanouts": [5, 5], "batch_size": 256, "memory": "200MB", "seed": 0}
    >>> train = gz.NeighborLoader(ds, split="train", shuffle=True, **options)
    >>> valid = gz.NeighborLoader(ds, split="valid", **options)
    >>> with gz.LoaderGroup(train, valid, repeat=[valid]):
    ...     for epoch in range(2):
    ...         seen = sum(batch.batch_size for batch in train)
    ...         checked = sum(batch.batch_size for batch in valid)
    >>> (seen, checked) == (len(ds.splits["train"]), len(ds.splits["valid"]))
    True
    """

    def __init__(
        self, *loaders: EpochLoader, repeat: Sequence[EpochLoader] = (), hold_seconds: float = HOLD_SECONDS
    ) -> None:
        """Make the loaders take turns in this order. A loader is in one group, the last one that it was given to;
        joining one closes it first.

        `repeat`: those that deliver the same epoch each time (0, unless `set_epoch` chose another), such as a
        validation that is to sample the same neighbours after every epoch. Epochs of the others count up.

        `hold_seconds`: how much longer than the longest pause so far memory and threads are held for the next epoch.
        """
        for loader in (*loaders, *repeat):
            if not isinstance(loader, EpochLoader):
                raise TypeError(f"loaders must be NeighborLoader or LinkNeighborLoader, got {type(loader).__name__}")
        if not loaders:
            raise ValueError("a LoaderGroup needs at least one loader")
        if len({id(loader) for loader in loaders}) != len(loaders):
            raise ValueError("duplicate loader; each may be given once")
        if any(all(loader is not member for member in loaders) for loader in repeat):
            raise ValueError("repeat has a loader that is not in the group")
        if not hold_seconds >= 0:
            raise ValueError(f"hold_seconds is {hold_seconds}, expected 0 or more")
        self._loaders = list(loaders)
        for loader in loaders:
            loader.close()
        self._handoff = Handoff(loaders, goes_on=True, repeat=repeat, hold_seconds=float(hold_seconds))

    def __iter__(self) -> Iterator[EpochLoader]:
        """Go over the loaders, in order."""
        return iter(self._loaders)

    def __len__(self) -> int:
        """Return the number of loaders."""
        return len(self._loaders)

    def close(self) -> None:
        """Close all loaders, which releases memory and threads. They can be iterated over again."""
        for loader in self._loaders:
            loader.close()

    def __repr__(self) -> str:
        """List the loaders."""
        return f"LoaderGroup({', '.join(map(repr, self._loaders))})"
