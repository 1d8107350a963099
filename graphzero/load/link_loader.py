"""Mini-batches of edges to be predicted, with negatives and the neighbourhoods of their ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..args.ids import IdArray
from ..args.keywords import known_keywords
from ..args.times import in_time_unit
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.graph import Graph
from ..stores.hetero import Fanouts, HeteroGraph
from .epochs import EpochLoader, LoaderOptions
from .hetero_batch import AnyBatch
from .inputs import wanted_dtype
from .loader import LoaderInputs, read_times, refuse_direction, refuse_types
from .seed_edges import SeedEdges, edge_split_of, typed_edges
from .source import LoadSource, PlainSource, TypedSource

__all__ = ["LinkNeighborLoader"]


class LinkNeighborLoader(EpochLoader):
    """Sampled mini-batches around edges, for training on links: PyG's `LinkNeighborLoader` on the engine's pipeline.

    A batch takes `batch_size` edges, draws negatives for them, and samples around the ends of all of them, each node
    once. Batches are made ahead within `memory`, shared between ranks and repeated by `seed` and epoch as those of
    `NeighborLoader`, whose other arguments (`features`, `memory`, `device`, `rank`, ...) mean the same here.

    Beside the attributes that batches of `NeighborLoader` have (`x`, `edge_index`, `n_id`, ...), they have those of
    PyG's link loader, as positions in `n_id`:

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
        options = LoaderOptions.of(locals())
        if neg_method not in ("uniform", "degree"):
            raise ValueError(f"neg_method is {neg_method!r}, expected 'uniform' or 'degree'")
        if split is not None and edges is not None:
            raise ValueError(f"give either split={split!r} or edges=")
        if split is not None and not isinstance(graph, Dataset):
            raise ValueError(f"split is {split!r}, but only a Dataset has splits: pass one, or edges=")
        if split is not None and isinstance(graph, Dataset):
            found, edges = edge_split_of(graph, split, edge_type)
            edge_type = found if graph.is_typed else edge_type
        given = LoaderInputs(graph, features, edge_features, {}, None, None, None)
        time, node_time = in_time_unit(graph, time), in_time_unit(graph, node_time)
        source: LoadSource
        self._edge_type: EdgeTypeName | None = None
        number, reverse_types = 0, [0][:0]
        node_times: dict[str, IdArray] = {}
        if isinstance(given.graph, HeteroGraph):
            refuse_direction(direction)
            typed = given.graph
            node_times = typed._by_node_type(read_times(node_time), "node_time")
            source = TypedSource(
                typed, given.features, given.edge_features, fanouts=fanouts, node_time=node_times,
                dtype=wanted_dtype(dtype),
            )  # fmt: skip
            self._edge_type, edges = typed_edges(typed, edges, edge_type)
            number, topology = typed.edge_types.index(self._edge_type), typed[self._edge_type]
            others = typed._reverse_types(self._edge_type) if exclude == "reverse" else []
            reverse_types = [typed.edge_types.index(other) for other in others]
            side = "in" if topology.direction in ("in", "both") else "out"
        else:
            refuse_types(given.graph, fanouts, edge_type=edge_type, node_time=node_time)
            topology = given.graph
            source = PlainSource(
                topology, given.features, given.edge_features, fanouts=fanouts, direction=direction,
                dtype=wanted_dtype(dtype),
            )  # fmt: skip
            side = source.direction
        self._edges = SeedEdges(edges, topology, side, labels, time, neg_sampling)
        if not self._edges.timed and (node_times or window is not None):
            raise ValueError(f"{'node_time' if node_times else 'window'} needs time=: a number for each edge")
        super().__init__(
            source,
            self._edges.source(
                source.open()[0],
                edge_type=number,
                ratio=float(neg_ratio),
                strict=bool(strict),
                by_degree=neg_method == "degree",
                exponent=float(neg_exponent),
                exclude=exclude,
                reverse_types=reverse_types,
                disjoint=bool(disjoint) or self._edges.timed,
                direction=source.asked_direction,
            ),
            options,
            timed=self._edges.timed,
            views=self._edges.views | {f"node_time[{t!r}]": array for t, array in node_times.items()},
        )

    @property
    def edge_type(self) -> EdgeTypeName | None:
        """The type of the edges; None where the graph has one type."""
        return self._edge_type

    def _batch(self, raw: dict[str, Any]) -> AnyBatch:
        found = self._edges.attributes(raw)
        if self._edge_type is None:
            return self._source.batch(raw, {None: found})
        source, _, target = self._edge_type
        by_type: dict[Any, dict[str, Any]] = {source: {}, target: {}, self._edge_type: {}}
        for name, value in found.items():
            if name in ("src_index", "seed_time"):
                by_type[source][name] = value
            if name in ("dst_pos_index", "dst_neg_index", "seed_time"):
                by_type[target][name] = value
            if name not in ("src_index", "dst_pos_index", "dst_neg_index", "seed_time"):
                by_type[self._edge_type][name] = value
        return self._source.batch(raw, by_type)
