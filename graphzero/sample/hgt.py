"""The sampler of the Heterogeneous Graph Transformer, for `gz.HeteroGraph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..args.ids import IdArray, as_fanouts, as_threads
from .hetero_subgraph import EdgeTypeName, HeteroSubgraph
from .subgraph import resolve_seed


class HgtMethods:
    """Sampling a fixed number of nodes of every type."""

    _num_nodes: dict[str, int]
    _relations: dict[EdgeTypeName, Any]

    def _call(self, fanouts: Any, node_times: dict[str, IdArray]) -> tuple[_core.TypedCall, int]:
        raise NotImplementedError

    def _by_node_type(self, values: Any, name: str) -> dict[str, IdArray]:
        raise NotImplementedError

    def _known_node_type(self, name: Any) -> str:
        raise NotImplementedError

    def sample_hgt(
        self,
        seeds: Mapping[str, Any],
        num_samples: Sequence[int] | Mapping[str, Sequence[int]],
        *,
        seed: Any = None,
        num_threads: int | None = None,
    ) -> HeteroSubgraph:
        """Sample as the Heterogeneous Graph Transformer does: nodes of every type per hop, and all edges between them.

        `num_samples` has one number per hop, for all node types, or is a dict of such lists by node type. A node that
        was not sampled has a budget: the sum, over its edges to sampled nodes, of 1 / the number of edges of that type
        of the sampled node. Each hop draws nodes of a type without replacement by the squares of their budgets, so that
        types stay balanced and the subgraph is dense. Rows are read whole.

        Returns all edges between the sampled nodes, by target; they belong to no hop (`num_sampled_edges` is empty).

        >>> g.sample_hgt({"paper": [0, 1, 2]}, [128, 128], seed=7)  # doctest: +SKIP
        HeteroSubgraph(author: 256 nodes, paper: 259 nodes, 1,288 edges, num_hops=2)
        """
        if isinstance(num_samples, Mapping):
            given = {self._known_node_type(t): as_fanouts(c) for t, c in num_samples.items()}
            missing = [t for t in self._num_nodes if t not in given]
            if missing:
                raise ValueError(f"num_samples has no entry for node type {missing[0]!r}; use zeros to sample none")
            lengths = {t: len(c) for t, c in given.items()}
            if len(set(lengths.values())) > 1:
                raise ValueError(f"num_samples has different numbers of hops: {lengths}")
            counts = [given[t] for t in self._num_nodes]
        else:
            counts = [as_fanouts(num_samples)] * len(self._num_nodes)
        call, _ = self._call([0], {})
        numbers = {name: i for i, name in enumerate(self._num_nodes)}
        for name, nodes in self._by_node_type(seeds, "seeds").items():
            call.add_seeds(numbers[name], nodes, None)
        nodes_out, edges_out = call.sample_hgt(counts, resolve_seed(seed), as_threads(num_threads))
        return HeteroSubgraph._of(list(self._num_nodes), list(self._relations), nodes_out, edges_out)
