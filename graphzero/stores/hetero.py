"""Graphs of several node and edge types, each edge type a mounted topology, sampled together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from ..args.html_table import html_table
from ..args.ids import IdArray, as_count, as_edges, as_fanouts, as_ids, as_threads
from ..args.suggest import did_you_mean
from ..args.times import as_times
from ..sample.hetero_subgraph import EdgeTypeName, HeteroSubgraph
from ..sample.hgt import HgtMethods
from ..sample.links import HeteroLinkSubgraph, LinkCall
from ..sample.subgraph import resolve_seed
from ..sample.subgraph_kinds import bidirectional_types, check_kind, induced_types
from .closing import Closing
from .graph import Graph

__all__ = ["HeteroGraph", "HeteroSubgraph"]

Fanouts = Sequence[int] | Mapping[EdgeTypeName, Sequence[int]]


class HeteroGraph(HgtMethods, Closing):
    """A graph of several node and edge types: one mounted topology for each (source type, relation, target type).

    Ids of each node type start at 0. Messages flow from source to target, so sampling follows incoming edges: each file
    needs its rows by target (`compile_graph(..., direction="in")`, or "both"), unless it is undirected. Nothing is
    loaded; the object is thread-safe and pickles as its paths.

    >>> import graphzero as gz
    >>> g = gz.HeteroGraph({("author", "writes", "paper"): gz.Graph("writes.gl"),
    ...                     ("paper", "cites", "paper"): gz.Graph("cites.gl")})  # doctest: +SKIP
    >>> g.node_types, g.num_nodes["author"]  # doctest: +SKIP
    (['author', 'paper'], 1134649)
    """

    def __init__(
        self,
        relations: Mapping[EdgeTypeName, Graph | str | os.PathLike[str]],
        num_nodes: Mapping[str, int] | None = None,
    ) -> None:
        """Combine mounted graphs, or paths of `.gl` files. `num_nodes` is checked, and may name more types.

        Raises ValueError if two files disagree about the number of nodes of a type.
        """
        declared = dict(num_nodes or {}).items()
        self._num_nodes = {_type_name(t): as_count(n, f"num_nodes[{t!r}]", least=0) for t, n in declared}
        self._relations: dict[EdgeTypeName, Graph] = {}
        counted_by = dict.fromkeys(self._num_nodes, "num_nodes")
        for key, value in relations.items():
            edge_type = _edge_type_name(key)
            graph = value if isinstance(value, Graph) else Graph(value)
            self._relations[edge_type] = graph
            for node_type, count in zip((edge_type[0], edge_type[2]), graph.shape, strict=True):
                self._check_count(node_type, count, edge_type, counted_by)
        if not self._num_nodes:
            raise ValueError("a graph needs at least one node type; pass relations or num_nodes")

    def _check_count(self, node_type: str, count: int, edge_type: EdgeTypeName, counted_by: dict[str, str]) -> None:
        known = self._num_nodes.setdefault(node_type, count)
        known_from = counted_by.setdefault(node_type, str(edge_type))
        if known != count:
            graph = self._relations[edge_type]
            raise ValueError(
                f"{edge_type}: {graph.path} has {graph.num_sources} source and {graph.num_targets} target nodes, but "
                f"there are {known} nodes of type {node_type!r} (from {known_from}); compile it with "
                "num_nodes=(sources, targets)"
            )

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> dict[str, int]:
        """The number of nodes of each type."""
        return dict(self._num_nodes)

    @property
    def num_edges(self) -> dict[EdgeTypeName, int]:
        """The number of edges of each type."""
        return {edge_type: graph.num_edges for edge_type, graph in self._relations.items()}

    @property
    def node_types(self) -> list[str]:
        """The node types, those of `num_nodes` first, then in the order of the relations."""
        return list(self._num_nodes)

    @property
    def edge_types(self) -> list[EdgeTypeName]:
        """The edge types (source, relation, target), in the order they were given; draws depend on that order."""
        return list(self._relations)

    def metadata(self) -> tuple[list[str], list[EdgeTypeName]]:
        """(node_types, edge_types), as PyG's `to_hetero` takes them."""
        return self.node_types, self.edge_types

    def __getitem__(self, edge_type: EdgeTypeName) -> Graph:
        """Return the topology of one edge type."""
        return self._relations[self._known_edge_type(edge_type)]

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sample(
        self,
        seeds: Mapping[str, Any],
        fanouts: Fanouts,
        *,
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        time: Mapping[str, Any] | Any = None,
        node_time: Mapping[str, Any] | None = None,
        temporal: str = "uniform",
        window: int | None = None,
        method: str = "uniform",
        exclude_edges: Mapping[EdgeTypeName, Any] | None = None,
        exclude_reverse: bool = False,
        subgraph: str = "directional",
        seed: Any = None,
        num_threads: int | None = None,
    ) -> HeteroSubgraph:
        """Sample the neighbourhood of seeds of one or more types, as one relabelled subgraph.

        `seeds` are ids by node type. `fanouts` is a list with one number per hop, for all edge types, or a dict with
        such a list for each edge type; -1 takes all edges, 0 does not follow the type. A hop expands the nodes of every
        type that the previous hop sampled first, edge type by edge type. Each copy of a repeated seed is expanded.

        - `time`: a number for each seed, by type, or one for all. Edges whose time is later than their seed's are not
          sampled, on any hop; edge types without times are always sampled. Implies `disjoint`.
        - `node_time`: by node type, a number for each node: nodes later than the seed are not sampled. It is also the
          default of `time`, for the seeds. Rows are read whole.
        - `window`: with times, only edges newer than the seed's time minus `window` (nodes, if edges have no times).
        - `temporal="last"` takes the latest that remain: by the edges' times, or else by the nodes'. If `weighted`,
          those of positive weight.
        - `method="labor"`: nodes of a hop prefer the same neighbours, over all edge types with one source type.
        - `exclude_edges`: by edge type, (2, M): edges that are never sampled, as in `Graph.sample`. `exclude_reverse`
          excludes the reverse of each too: in `(target, "rev_" + relation, source)`, the name that PyG's `ToUndirected`
          gives, and in the edge type itself if its source and target types are the same.
        - `subgraph`: as in `Graph.sample`; "bidirectional" gives an edge type and its reverse type each other's edges,
          with the id -1 for an edge of the other type.

        The rest is as in `Graph.sample`; a graph with one node type and one edge type gives the same subgraph as
        `Graph.sample(..., direction="in")`. In a disjoint sample, tree numbers continue from one seed type to the next,
        in the order of `seeds`.

        >>> import graphzero as gz
        >>> g = gz.HeteroGraph({("author", "writes", "paper"): "writes.gl"})  # doctest: +SKIP
        >>> g.sample({"paper": [0, 1, 2]}, [15, 10], seed=7)  # doctest: +SKIP
        HeteroSubgraph(author: 24 nodes, paper: 3 nodes, 26 edges, num_hops=2)
        """
        node_times = self._by_node_type(node_time, "node_time")
        call, num_hops = self._call(fanouts, node_times)
        for number, source_ids, target_ids, reverse in self._excluded(exclude_edges, exclude_reverse):
            call.exclude(number, source_ids, target_ids, reverse)
        ids = self._by_node_type(seeds, "seeds")
        times = self._seed_times(ids, time, node_times)
        numbers = {name: i for i, name in enumerate(self._num_nodes)}
        for name, nodes in ids.items():
            call.add_seeds(numbers[name], nodes, None if times is None else times[name])
        check_kind(subgraph, disjoint, times is not None)
        if window is not None and times is None:
            raise ValueError("window needs time= or node_time=, since it is relative to the time of each seed")
        nodes_out, edges_out = call.sample(
            hops=num_hops,
            timed=times is not None,
            replace=replace,
            weighted=weighted,
            disjoint=disjoint,
            temporal=temporal,
            method=method,
            window=None if window is None else as_count(window, "window", least=0),
            seed=resolve_seed(seed),
            threads=as_threads(num_threads),
            io="auto",
        )
        found = HeteroSubgraph._of(self.node_types, self.edge_types, nodes_out, edges_out)
        if subgraph == "induced":
            return induced_types(call, found, as_threads(num_threads))
        return bidirectional_types(found) if subgraph == "bidirectional" else found

    def sample_links(
        self,
        edge_type: EdgeTypeName,
        edges: Any,
        fanouts: Fanouts,
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
        node_time: Mapping[str, Any] | None = None,
        temporal: str = "uniform",
        window: int | None = None,
        method: str = "uniform",
        seed: Any = None,
        num_threads: int | None = None,
    ) -> HeteroLinkSubgraph:
        """Sample around the ends of `edges` (2, P) of one edge type: `Graph.sample_links` for typed graphs.

        Sources and targets are seeds of their node types, combined if those are the same. `exclude="reverse"` also
        excludes the reverses in `(target, "rev_" + relation, source)`, as `exclude_reverse` of `sample` does. With
        `node_time`, which needs `time`, negatives are nodes that exist at the time of their edge.

        >>> g.sample_links(("user", "buys", "item"), edges, [15, 10], neg_sampling="triplet")  # doctest: +SKIP
        """
        own = self._known_edge_type(edge_type)
        links = LinkCall(edges, labels, time, neg_sampling, neg_ratio, neg_method, neg_exponent, strict, exclude)
        node_times = self._by_node_type(node_time, "node_time")
        if links.times is None and (node_times or window is not None):
            raise ValueError(f"{'node_time' if node_times else 'window'} needs time=, one number per edge")
        call, num_hops = self._call(fanouts, node_times)
        numbers = {name: i for i, name in enumerate(self._relations)}
        reverse_types = self._reverse_types(own) if exclude == "reverse" else []
        nodes_out, edges_out, found = links.run(
            call,
            numbers[own],
            [numbers[other] for other in reverse_types],
            hops=num_hops,
            replace=replace,
            weighted=weighted,
            disjoint=disjoint,
            temporal=temporal,
            method=method,
            window=None if window is None else as_count(window, "window", least=0),
            seed=seed,
            threads=as_threads(num_threads),
        )
        plain = HeteroSubgraph._of(self.node_types, self.edge_types, nodes_out, edges_out)
        return HeteroLinkSubgraph(**vars(plain), **vars(found))

    def _call(self, fanouts: Fanouts, node_times: dict[str, IdArray]) -> tuple[_core.TypedCall, int]:
        """Return a call bound to the graph, and the number of hops."""
        call = _core.TypedCall()
        for name, count in self._num_nodes.items():
            call.add_node_type(name, count, node_times.get(name))
        hops, num_hops = self._hops(fanouts)
        numbers = {name: i for i, name in enumerate(self._num_nodes)}
        for edge_type, graph in self._relations.items():
            source, target = numbers[edge_type[0]], numbers[edge_type[2]]
            call.add_edge_type(graph._open(), rows_followed(edge_type, graph), source, target, hops[edge_type])
        return call, num_hops

    def _hops(self, fanouts: Fanouts) -> tuple[dict[EdgeTypeName, list[int]], int]:
        """Return a list of fanouts for every edge type, and the number of hops."""
        if not isinstance(fanouts, Mapping):
            all_types = as_fanouts(fanouts)
            return dict.fromkeys(self._relations, all_types), len(all_types)
        hops = {self._known_edge_type(t): as_fanouts(f) for t, f in fanouts.items()}
        missing = [t for t in self._relations if t not in hops]
        if missing:
            raise ValueError(f"fanouts has no entry for edge type {missing[0]}; use zeros to ignore it")
        lengths = {t: len(f) for t, f in hops.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"fanouts has different numbers of hops: {lengths}")
        return hops, next(iter(lengths.values()), 0)

    def _excluded(
        self, edges: Mapping[EdgeTypeName, Any] | None, reverse: bool
    ) -> Iterator[tuple[int, IdArray, IdArray, bool]]:
        """Yield the excluded edges by number of the edge type: sources, targets, and whether to exclude the reverse."""
        if edges is not None and not isinstance(edges, Mapping):
            raise TypeError(f"exclude_edges must be a dict by edge type, got {type(edges).__name__}")
        numbers = {edge_type: i for i, edge_type in enumerate(self._relations)}
        for name, pairs in (edges or {}).items():
            edge_type = self._known_edge_type(name)
            source, target = as_edges(pairs, f"exclude_edges[{edge_type!r}]")
            yield numbers[edge_type], source, target, reverse and edge_type[0] == edge_type[2]
            for other in self._reverse_types(edge_type) if reverse else ():
                yield numbers[other], target, source, False

    def _reverse_types(self, edge_type: EdgeTypeName) -> list[EdgeTypeName]:
        """Return the edge types that hold the reverses of this one's edges; raise ValueError if there are none."""
        source, relation, target = edge_type
        names = [f"rev_{relation}", *([relation[4:]] if relation.startswith("rev_") else [])]
        found = [(target, name, source) for name in names if (target, name, source) in self._relations]
        if not found and source != target:
            raise ValueError(
                f"no edge type {(target, names[-1], source)!r} for the reverse of {edge_type!r}; the graph has "
                f"{_listed(self._relations)}"
            )
        return found

    def _by_node_type(self, values: Any, name: str) -> dict[str, IdArray]:
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            raise TypeError(f"{name} must be a dict by node type, got {type(values).__name__}")
        return {self._known_node_type(t): as_ids(v, f"{name}[{t!r}]") for t, v in values.items()}

    def _seed_times(
        self, seeds: dict[str, IdArray], time: Any, node_times: dict[str, IdArray]
    ) -> dict[str, IdArray] | None:
        """Return a time for each seed; None if sampling is not temporal."""
        if time is None and not node_times:
            return None
        times = {}
        for name, nodes in seeds.items():
            own = time.get(name) if isinstance(time, Mapping) else time
            if own is None:
                if name not in node_times:
                    raise ValueError(f"no time for the seeds of type {name!r}; pass time={{{name!r}: ...}}")
                known = node_times[name]
                _core.check_ids(nodes, f"seeds[{name!r}]", len(known), "values", f"node_time[{name!r}]")
                times[name] = known[nodes]
                continue
            times[name] = as_times(own, f"time[{name!r}]", count=len(nodes))
        if isinstance(time, Mapping):
            for name in time:
                self._known_node_type(name)
        return times

    # -- names --------------------------------------------------------------------------------------------------------

    def _known_node_type(self, name: Any) -> str:
        if name not in self._num_nodes:
            hint = did_you_mean(name, self._num_nodes)
            raise ValueError(f"no node type {name!r}; the graph has {_listed(self._num_nodes)}{hint}")
        return str(name)

    def _known_edge_type(self, name: Any) -> EdgeTypeName:
        key = tuple(name) if isinstance(name, list) else name
        if key not in self._relations:
            hint = did_you_mean(key, self._relations)
            raise ValueError(f"no edge type {key!r}; the graph has {_listed(self._relations)}{hint}")
        found: EdgeTypeName = key
        return found

    # -- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every topology."""
        for graph in self._relations.values():
            graph.close()

    def __reduce__(self) -> tuple[type[HeteroGraph], tuple[dict[EdgeTypeName, Graph], dict[str, int]]]:
        """Pickle as the paths: a worker mounts the same files."""
        return (HeteroGraph, (dict(self._relations), dict(self._num_nodes)))

    def __repr__(self) -> str:
        """List the types: `HeteroGraph(num_nodes={'paper': 4}, num_edges={('paper', 'cites', 'paper'): 9})`."""
        return f"HeteroGraph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"

    def _repr_html_(self) -> str:
        """Return a table of the types, for notebooks."""
        rows = [(name, f"{count:,} nodes") for name, count in self.num_nodes.items()]
        rows += [(" ".join(key), f"{count:,} edges") for key, count in self.num_edges.items()]
        return html_table("HeteroGraph", rows, ("type", ">count"))


def _type_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a node type is a name, got {name!r}")
    return name


def _edge_type_name(key: Any) -> EdgeTypeName:
    if not isinstance(key, (tuple, list)) or len(key) != 3 or not all(isinstance(part, str) and part for part in key):
        raise TypeError(f"an edge type is three names (source, relation, target), got {key!r}")
    return key[0], key[1], key[2]


def rows_followed(edge_type: EdgeTypeName, graph: Graph) -> str:
    """Return which rows of the file lead from targets to sources."""
    if graph.direction in ("in", "both"):
        return "in"
    if graph.info["undirected"]:
        return "out"
    raise ValueError(
        f"{edge_type}: {graph.path} has rows by source only, but sampling goes from targets to sources; compile it "
        'with direction="in" or "both"'
    )


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
