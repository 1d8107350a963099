"""Mini-batches of edges to be predicted, with negatives and the neighbourhoods of their ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..args.keywords import known_keywords
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph
from .batch import AnyBatch
from .epochs import EpochLoader, LoaderOptions
from .seed_edges import SeedEdges
from .source import LoadSource

__all__ = ["LinkNeighborLoader"]


class LinkNeighborLoader(EpochLoader):
    """Sampled mini-batches around edges, for training on links: PyG's `LinkNeighborLoader` on the engine's pipeline.

    A batch takes `batch_size` edges, draws negatives for them, and samples around the ends of all of them, each node
    once. Batches are prefetched within `memory`, shared between ranks and repeated by `seed` and epoch as those of
    `NeighborLoader`, whose other arguments (`features`, `memory`, `device`, `rank`, ...) mean the same here.

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
            num_threads=num_threads, device=device, transform=transform, edge_order=edge_order, replace=replace,
            weighted=weighted, disjoint=disjoint, temporal=temporal, window=window, method=method, io=io, cache=cache,
            rank=rank, world_size=world_size, local_world_size=local_world_size, uneven=uneven,
        )  # fmt: skip
        source = LoadSource(
            graph, features, edge_features, fanouts=fanouts, direction=direction, node_time=node_time, dtype=dtype,
            edge_type=edge_type,
        )  # fmt: skip
        self._edges = found = SeedEdges(source, edges, split, edge_type, labels, time, neg_sampling, edge_order)
        if not found.timed and (source.node_time or window is not None):
            raise ValueError(f"{'node_time' if source.node_time else 'window'} needs time=: a number for each edge")
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
