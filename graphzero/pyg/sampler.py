"""A PyG sampler over mounted graphs, called by PyG's loaders to sample around nodes and edges."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, HeteroSamplerOutput, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from ..stores.hetero import HeteroGraph, HeteroSubgraph
from ._edges import HOMOGENEOUS, EdgeType
from ._mount import MountedGraph, mount

__all__ = ["NeighborSampler"]


class NeighborSampler(BaseSampler):  # type: ignore[misc]  # PyG has no types
    """PyG's `NeighborSampler`, with the same arguments and output, over files instead of tensors.

    `data` is a `Data`, a `HeteroData`, a pair (FeatureStore, GraphStore), a `gz.Dataset`, a `gz.Graph` or a
    `gz.HeteroGraph`. Files are mounted. Objects in memory are compiled once, into a temporary folder that is removed
    with the last sampler that uses it, or into `cache_dir`, which later runs reuse; samplers of the same tensors
    share their files. Workers, forked or spawned, map the same files and copy nothing.

    `edge` in the output holds original edge ids, so `edge_permutation` is None. Random numbers come from torch's
    generator: `torch.manual_seed` makes a run reproducible. An edge of weight zero is never sampled.

    >>> sampler = NeighborSampler(data, num_neighbors=[15, 10])  # doctest: +SKIP
    >>> loader = torch_geometric.loader.NodeLoader(data, sampler, input_nodes=data.train_mask)  # doctest: +SKIP
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: Any = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: str = "forward",
        *,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Mount `data`. `is_sorted` and `share_memory` have no effect; `directed=False` means "induced"."""
        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn("'directed' is deprecated in PyG; use subgraph_type='induced'", stacklevel=2)
        if sample_direction not in ("forward", "backward"):
            raise ValueError(f"sample_direction is {sample_direction!r}, expected 'forward' or 'backward'")
        if temporal_strategy not in ("uniform", "last"):
            raise ValueError(f"temporal_strategy is {temporal_strategy!r}, expected 'uniform' or 'last'")
        self.sample_direction = sample_direction
        self.num_neighbors = num_neighbors
        if self._backward and time_attr is not None:
            raise NotImplementedError("Temporal Sampling not yet supported for backward sampling")
        mounted = mount(data, time_attr, weight_attr, backward=self._backward, cache_dir=cache_dir)
        if time_attr is not None and weight_attr is not None:
            raise ValueError("time_attr and weight_attr cannot be combined; temporal sampling does not use weights")
        self._mounted: MountedGraph = mounted
        self._typed: HeteroGraph | None = None if self._plain else mounted.typed()
        self.num_nodes: int | dict[str, int] = mounted.num_nodes["node"] if self._homogeneous else mounted.num_nodes
        self.node_types: list[Any] = [None] if self._homogeneous else list(mounted.num_nodes)
        self.edge_types: list[Any] = [None] if self._homogeneous else list(mounted.relations)
        self.replace = replace
        self.subgraph_type = SubgraphType(subgraph_type)
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def num_neighbors(self) -> Any:
        """The number of neighbours per hop, by edge type in a typed graph: PyG's `NumNeighbors`."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, values: Any) -> None:
        if not isinstance(values, NumNeighbors):
            for given in values.values() if isinstance(values, dict) else [values]:
                if isinstance(given, (int, str)) or not hasattr(given, "__len__"):
                    one = f"; one hop is [{given}]" if isinstance(given, int) else ""
                    raise TypeError(
                        "num_neighbors must be one number per hop, as in [15, 10], or a dict of such lists by edge type"
                        f", got {values!r}{one}"
                    )
            values = NumNeighbors(values)
        self._num_neighbors = values

    @property
    def is_hetero(self) -> bool:
        """Whether the graph has types."""
        return not self._homogeneous

    @property
    def is_temporal(self) -> bool:
        """Whether nodes or edges have times."""
        return bool(self._mounted.node_time) or self._mounted.edge_timed

    @property
    def disjoint(self) -> bool:
        """Whether each seed gets its own tree, as always in temporal sampling."""
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, value: bool) -> None:
        self._disjoint = bool(value)

    @property
    def node_time(self) -> Any:
        """The times of nodes, by type in a typed graph; None if edges have times, or nothing has."""
        times = self._mounted.node_time
        return None if not times else times["node"] if self._homogeneous else times

    @property
    def edge_permutation(self) -> None:
        """None: `edge` holds original ids."""
        return

    @property
    def _homogeneous(self) -> bool:
        return self._mounted.homogeneous

    @property
    def _backward(self) -> bool:
        return self.sample_direction == "backward"

    @property
    def _plain(self) -> bool:
        """Whether the topology is sampled as a homogeneous graph; node times need the typed sampler."""
        return self._mounted.homogeneous and not self._mounted.node_time

    def fanouts(self) -> Any:
        """The number of neighbours per hop: a list, or a list for each edge type of a typed graph."""
        if self._plain:
            return self.num_neighbors.get_values()
        if self._homogeneous:
            return {HOMOGENEOUS: self.num_neighbors.get_values()}
        return self.num_neighbors.get_values(self._asked_types())

    def check_times(self, seed_time: Any) -> None:
        """Raise ValueError if edges have times and seeds have none."""
        if self._mounted.edge_timed and seed_time is None:
            raise ValueError("edges have times, but seeds have none; pass input_time or edge_label_time")

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sample_from_nodes(self, inputs: NodeSamplerInput, **_: Any) -> SamplerOutput | HeteroSamplerOutput:
        """Sample around nodes; called by PyG's NodeLoader."""
        return self._finished(node_sample(inputs, self._sample))

    def sample_from_edges(
        self, inputs: EdgeSamplerInput, neg_sampling: Any = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Sample around the endpoints of edges and of negative edges; called by PyG's LinkLoader."""
        out = edge_sample(inputs, self._sample, self.num_nodes, self.disjoint, self.node_time, neg_sampling)
        return self._finished(out)

    def _finished(self, out: Any) -> Any:
        if self.subgraph_type != SubgraphType.bidirectional:
            return out
        return out.to_bidirectional(keep_orig_edges=self.keep_orig_edges)

    def _sample(self, seed: Any, seed_time: Any = None, **_: Any) -> SamplerOutput | HeteroSamplerOutput:
        """Sample around ids (by type in a typed graph), with a time for each if sampling is temporal."""
        induced = self.subgraph_type == SubgraphType.induced
        if induced and self.disjoint:
            raise ValueError("'disjoint' sampling not supported for neighbor sampling with `subgraph_type='induced'`")
        self.check_times(seed_time)
        options: dict[str, Any] = {
            "replace": self.replace,
            "weighted": self._mounted.weighted,
            "disjoint": self.disjoint,
            "temporal": self.temporal_strategy,
            "time": seed_time,
            "seed": torch.default_generator,
            "num_threads": 1 if torch.utils.data.get_worker_info() is not None else None,
        }
        if self._plain:
            return self._output(self._plain_sample(_as_ids(seed), options, induced), induced)
        if self._homogeneous:  # with times of nodes, which only the typed sampler has
            seed, options["time"] = {"node": seed}, None if seed_time is None else {"node": seed_time}
        fanouts = self.fanouts()
        if self._backward:
            fanouts = {t[::-1]: values for t, values in fanouts.items()}
        return self._output(self._typed_sample({t: _as_ids(ids) for t, ids in seed.items()}, fanouts, options), induced)

    def _plain_sample(self, seed: torch.Tensor, options: dict[str, Any], induced: bool) -> HeteroSubgraph:
        """Sample a graph of one type, which has rows in either direction, as the case of one type."""
        graph, side, fanouts = self._mounted.graph, self._mounted.side, self.fanouts()
        hops = len(fanouts)
        found = graph.sample(seed, fanouts if hops else [0], direction=side, **options)  # no hops: only the seeds
        edges = graph.sample(found.node, [-1], direction=side, seed=0) if induced else found
        edge_type = HOMOGENEOUS
        made = HeteroSubgraph(
            node={"node": found.node},
            row={edge_type: edges.row},
            col={edge_type: edges.col},
            edge={edge_type: edges.edge},
            batch=None if found.batch is None else {"node": found.batch},
            num_sampled_nodes={"node": found.num_sampled_nodes[: hops + 1]},
            num_sampled_edges={edge_type: found.num_sampled_edges[:hops]},
            edge_index={edge_type: edges.edge_index},
        )
        return _between(made, made) if induced else made

    def _typed_sample(self, seed: dict[str, Any], fanouts: Any, options: dict[str, Any]) -> HeteroSubgraph:
        assert self._typed is not None
        node_time = {t: times.numpy() for t, times in self._mounted.node_time.items()} or None
        if any(fanouts.values()):
            found = self._typed.sample(seed, fanouts, node_time=node_time, **options)
        else:  # no hops: only the seeds
            found = self._typed.sample(seed, {key: [0] for key in fanouts}, node_time=node_time, **options)
            nodes = {t: counts[:1] for t, counts in found.num_sampled_nodes.items()}
            found = replace(found, num_sampled_nodes=nodes, num_sampled_edges={t: [] for t in found.num_sampled_edges})
        if self.subgraph_type == SubgraphType.induced:
            return _between(self._typed.sample(found.node, [-1], seed=0), found)
        return found

    def _output(self, found: HeteroSubgraph, induced: bool) -> SamplerOutput | HeteroSamplerOutput:
        parts: list[dict[Any, Any]] = [found.row, found.col, found.edge, found.num_sampled_edges]
        if self._backward:  # stored reversed, returned in the original direction
            parts = [{t[::-1]: v for t, v in of.items()} for of in (parts[1], parts[0], *parts[2:])]
        row, col, edge, edges = parts
        output: dict[str, Any] = {
            "node": _tensors(found.node),
            "row": _tensors(row),
            "col": _tensors(col),
            "edge": _tensors(edge),
            "batch": None if found.batch is None else _tensors(found.batch),
            "num_sampled_nodes": None if induced else found.num_sampled_nodes,
            "num_sampled_edges": None if induced else edges,
        }
        if not self._homogeneous:
            return HeteroSamplerOutput(**output)
        return SamplerOutput(**{name: None if of is None else next(iter(of.values())) for name, of in output.items()})

    def _asked_types(self) -> list[EdgeType]:
        types: list[EdgeType] = list(self._mounted.relations)
        return [t[::-1] for t in types] if self._backward else types


def _as_ids(ids: torch.Tensor) -> torch.Tensor:
    """Return ids as int64; an empty list may have any dtype."""
    return ids.to(torch.int64) if not ids.numel() else ids


def _tensors(arrays: dict[Any, Any]) -> dict[Any, torch.Tensor]:
    return {key: torch.from_numpy(array) for key, array in arrays.items()}


def _between(whole: HeteroSubgraph, found: HeteroSubgraph) -> HeteroSubgraph:
    """Return `found` with those of all edges into its nodes, `whole`, whose source is one of them."""
    inside = {t: np.flatnonzero(row < len(found.node[t[0]])) for t, row in whole.row.items()}
    row, col, edge = ({t: of[t][kept] for t, kept in inside.items()} for of in (whole.row, whole.col, whole.edge))
    return replace(found, row=row, col=col, edge=edge)
