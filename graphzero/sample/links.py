"""Edges to predict, with negatives and the neighbourhoods of their endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.dtypes import refuse_text
from ..args.ids import IdArray, as_edges, as_fanouts, as_threads
from ..args.times import as_times
from .hetero_subgraph import HeteroSubgraph
from .subgraph import Subgraph, resolve_seed

__all__ = ["HeteroLinkSubgraph", "LinkFields", "LinkMethods", "LinkSubgraph"]


@dataclass(frozen=True, eq=False, repr=False)
class LinkFields:
    """The fields of a batch of edges in addition to its subgraph, with PyG's names. Indices refer to its nodes.

    - without negatives and with binary ones: `edge_label_index` (2, M), sources in the first row, the positive edges
      first; `edge_label` (M), 0 for negatives; `edge_label_time` (M) if there are times
    - with triplets: `src_index` (P), `dst_pos_index` (P), `dst_neg_index` (P), or (P, K) for K negatives each;
      `seed_time` (P) if there are times

    The others are None.
    """

    edge_label_index: IdArray | None = None
    edge_label: npt.NDArray[Any] | None = None
    edge_label_time: IdArray | None = None
    src_index: IdArray | None = None
    dst_pos_index: IdArray | None = None
    dst_neg_index: IdArray | None = None
    seed_time: IdArray | None = None


@dataclass(frozen=True, eq=False, repr=False)
class LinkSubgraph(LinkFields, Subgraph):
    """The neighbourhood of the endpoints of edges: a `Subgraph` with the attributes of PyG's link loader.

    - without negatives or with binary ones: `edge_label_index`, `edge_label`, and `edge_label_time` if there are times
    - with triplets: `src_index`, `dst_pos_index`, `dst_neg_index`, and `seed_time` if there are times
    """


@dataclass(frozen=True, eq=False, repr=False)
class HeteroLinkSubgraph(LinkFields, HeteroSubgraph):
    """A `LinkSubgraph` of a typed graph; indices refer to the nodes of the edge type's source and target type."""


class LinkCall:
    """The arguments of one call of `sample_links` that concern the edges."""

    def __init__(
        self,
        edges: Any,
        labels: Any,
        time: Any,
        neg_sampling: str | None,
        neg_ratio: float,
        neg_method: str,
        neg_exponent: float,
        strict: bool,
        exclude: str,
    ) -> None:
        """Check the arguments as far as possible without the graph."""
        if neg_method not in ("uniform", "degree"):
            raise ValueError(f"neg_method is {neg_method!r}, expected 'uniform' or 'degree'")
        self.source, self.target = as_edges(edges, "edges")
        self.negatives, self.exclude = neg_sampling, exclude
        self.labels = as_labels(labels, len(self.source), neg_sampling)
        self.times = None if time is None else as_times(time, count=len(self.source))
        self._how: dict[str, Any] = {
            "ratio": float(neg_ratio),
            "strict": bool(strict),
            "by_degree": neg_method == "degree",
            "exponent": float(neg_exponent),
        }

    def run(
        self, call: _core.TypedCall, edge_type: int, reverse_types: Sequence[int], **options: Any
    ) -> tuple[list[Any], list[Any], LinkFields]:
        """Sample; `call` is bound to the graph, and `options` are those of its `sample`."""
        call.set_links(
            edge_type=edge_type,
            source=self.source,
            target=self.target,
            times=self.times,
            negatives=self.negatives,
            exclude=self.exclude,
            reverse_types=list(reverse_types),
            **self._how,
        )
        options["disjoint"] = bool(options["disjoint"]) or self.times is not None
        options["seed"] = resolve_seed(options["seed"])
        nodes, edges, raw = call.sample(timed=self.times is not None, io="auto", **options)
        return nodes, edges, link_fields(raw, self.labels, self.negatives, self.times is not None)


def link_fields(raw: dict[str, Any], labels: Any, negatives: str | None, timed: bool) -> LinkFields:
    """Create the fields from the result of the core; `labels` are those of the positive edges."""
    times = raw.pop("time")
    times = times if timed else None
    if negatives == "triplet":
        return LinkFields(**raw, seed_time=times)
    if labels is not None:  # zeros for the negatives
        made = np.zeros((raw["edge_label_index"].shape[1], *labels.shape[1:]), labels.dtype)
        made[: len(labels)] = labels
        labels = made
    return LinkFields(**raw, edge_label=labels, edge_label_time=times)


def as_labels(labels: Any, count: int, negatives: str | None) -> npt.NDArray[Any] | None:
    """Return the labels of `count` positive edges as an array; default to ones if negatives have 0."""
    if labels is None:
        return np.ones(count, np.float32) if negatives == "binary" else None
    if negatives == "triplet":
        raise ValueError("labels cannot be combined with neg_sampling='triplet', since triplets have no labels")
    array = labels.detach().cpu().numpy() if hasattr(labels, "detach") else np.asarray(labels)
    refuse_text(array, "labels")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"labels must be numbers, got dtype {array.dtype}")
    if array.shape[:1] != (count,):
        raise ValueError(f"labels has shape {array.shape}, expected one label per edge ({count})")
    return array


class LinkMethods:
    """Sampling around edges, for `gz.Graph`."""

    _info: dict[str, Any]

    @property
    def num_nodes(self) -> int:  # noqa: D102
        raise NotImplementedError

    def _open(self) -> _core.Topology:
        raise NotImplementedError

    def sample_links(
        self,
        edges: Any,
        fanouts: Sequence[int],
        *,
        labels: Any = None,
        time: Any = None,
        neg_sampling: str | None = None,
        neg_ratio: float = 1.0,
        neg_method: str = "uniform",
        neg_exponent: float = 0.75,
        strict: bool = False,
        exclude: str = "none",
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        temporal: str = "uniform",
        direction: str | None = None,
        method: str = "uniform",
        seed: Any = None,
        num_threads: int | None = None,
    ) -> LinkSubgraph:
        """Sample around the endpoints of `edges` (2, P), sources in the first row, to train on links.

        - `neg_sampling="binary"`: `neg_ratio` times as many pairs of nodes as there are edges are drawn as negatives,
          with the label 0. `"triplet"`: each edge gets `neg_ratio` other targets. They are those of
          `negative_edges(..., seed=seed)`: uniform, or with `neg_method="degree"` by degree**`neg_exponent`.
        - `strict`: no negative is an edge of the graph or a self-loop; otherwise they are drawn from all nodes, as in
          PyG, and some may be.
        - `exclude="self"` excludes the edges themselves (all copies) from the sample, "reverse" also their reverses: a
          model must not see the edge that it is to predict. In an undirected graph both mean the same.
        - `labels`: those of the edges; negatives get 0, so with negatives labels should start at 1.
        - `time`: a number for each edge. Neighbours no later than it are sampled around both its endpoints and around
          its negatives. Implies `disjoint`.
        - `disjoint`: each endpoint of each edge has its own tree; `batch` is the index of the edge of each node.

        A node that is an endpoint of several edges is a seed once, unless disjoint. All else is as in `sample`.

        >>> import graphzero as gz
        >>> g = gz.Graph("graph.gl")  # doctest: +SKIP
        >>> batch = g.sample_links(edges, [15, 10], neg_sampling="binary", exclude="reverse", seed=7)  # doctest: +SKIP
        >>> scores = (h[batch.edge_label_index[0]] * h[batch.edge_label_index[1]]).sum(-1)  # doctest: +SKIP
        """
        links = LinkCall(edges, labels, time, neg_sampling, neg_ratio, neg_method, neg_exponent, strict, exclude)
        call = _core.TypedCall()
        topology, hops = self._open(), as_fanouts(fanouts)
        call.add_node_type("", self.num_nodes, None)
        side = direction or ("in" if self._info["direction"] == "in" else "out")
        call.add_edge_type(topology, side, 0, 0, hops)
        nodes, edges_out, found = links.run(
            call,
            0,
            (),
            hops=len(hops),
            replace=replace,
            weighted=weighted,
            disjoint=disjoint,
            temporal=temporal,
            method=method,
            window=None,
            seed=seed,
            threads=as_threads(num_threads),
        )
        (node, batch, num_nodes), (edge_index, edge, num_edges) = nodes[0], edges_out[0]
        return LinkSubgraph(
            *(node, edge_index[0], edge_index[1], edge, batch, num_nodes, num_edges, edge_index), **vars(found)
        )
