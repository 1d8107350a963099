"""Edges to be predicted, with negatives beside them and the neighbourhoods of their ends."""

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
    """What a batch of edges has beside its subgraph; PyG's names. Numbers are places among the subgraph's nodes.

    - without negatives and with binary ones: `edge_label_index` (2, M), sources above targets, the positive edges
      first; `edge_label` (M), 0 for negatives; `edge_label_time` (M) where there are times
    - with triplets: `src_index` (P), `dst_pos_index` (P), `dst_neg_index` (P), or (P, K) for K negatives each;
      `seed_time` (P) where there are times

    The rest is None.
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
    """The neighbourhood of the ends of edges: a `Subgraph` with the fields of `LinkFields`."""


@dataclass(frozen=True, eq=False, repr=False)
class HeteroLinkSubgraph(LinkFields, HeteroSubgraph):
    """The same of a typed graph; places count among the nodes of the edge type's source and of its target."""


class LinkCall:
    """One call of `sample_links`: what its arguments say about the edges."""

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
        """Check what needs no graph."""
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
        """Sample; `call` knows the graph, and `options` are those of its `sample`."""
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
    """Make the fields of what the core returns; `labels` are those of the positive edges."""
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
    """Return the labels of `count` positive edges as an array; ones where there are none and negatives have 0."""
    if labels is None:
        return np.ones(count, np.float32) if negatives == "binary" else None
    if negatives == "triplet":
        raise ValueError("labels and neg_sampling='triplet' do not go together: triplets have no labels")
    array = labels.detach().cpu().numpy() if hasattr(labels, "detach") else np.asarray(labels)
    refuse_text(array, "labels")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"labels must be numbers, got dtype {array.dtype}")
    if array.shape[:1] != (count,):
        raise ValueError(f"labels has shape {array.shape}, expected an entry for each of {count} edges")
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
        """Sample around the ends of `edges` (2, P), sources above targets: what training on links takes.

        - `neg_sampling="binary"`: `neg_ratio` times as many pairs of nodes as there are edges are drawn beside them,
          with the label 0. `"triplet"`: each edge gets `neg_ratio` other targets. They are those of
          `negative_edges(..., seed=seed)`: uniform, or with `neg_method="degree"` by degree**`neg_exponent`.
        - `strict`: no negative is an edge of the graph or a node with itself; else they are drawn from all nodes, as in
          PyG, and some may be.
        - `exclude="self"` keeps the edges themselves (all copies) out of the sample, "reverse" their reverses too: a
          model must not see the edge that it is to predict. In an undirected graph both mean the same.
        - `labels`: those of the edges; negatives get 0, so with negatives labels should begin at 1.
        - `time`: a number for each edge. Neighbours no later than it are sampled around both its ends and around its
          negatives. Implies `disjoint`.
        - `disjoint`: each end of each edge has a tree of its own; `batch` says which edge a node belongs to.

        Nodes that are ends of several edges are seeds once, unless disjoint. The rest is as in `sample`.

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
