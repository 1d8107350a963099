"""Graphs of the backend: a mounted file, or a NetworkX graph that was compiled to a temporary one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt

from ..compile.graph import compile_graph
from ..stores.graph import Graph

__all__ = ["CompiledGraph", "Nodes", "compiled"]


class CompiledGraph:
    """A NetworkX graph as a temporary `.gl` file, removed with this object, and the names of its nodes."""

    __networkx_backend__ = "graphzero"

    def __init__(self, graph: Any, attribute: str | None, default: Any) -> None:
        """Compile the edges, with `attribute` as weights if given."""
        self.names = list(graph)
        self.weight = attribute
        self._directed, self._multigraph = bool(graph.is_directed()), bool(graph.is_multigraph())
        self._folder = tempfile.TemporaryDirectory(prefix="graphzero-networkx-")
        path = os.path.join(self._folder.name, "graph.gl")
        place = {name: i for i, name in enumerate(self.names)}
        ends = np.array([(place[u], place[v]) for u, v in graph.edges()], np.int64).reshape(-1, 2)
        source: tuple[Any, ...] = (ends[:, 0], ends[:, 1])
        if attribute is not None:
            values = [value for _, _, value in graph.edges(data=attribute, default=default)]
            source = (*source, _as_weights(values, attribute))
        compile_graph(
            source,
            path,
            directed=self._directed,
            direction="both" if self._directed else "out",
            num_nodes=len(self.names),
            progress=False,
        )
        self.file = Graph(path)

    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return self._directed

    def is_multigraph(self) -> bool:
        """Whether there may be parallel edges."""
        return self._multigraph

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)


def compiled(graph: Any, edge_attrs: dict[str, Any] | None) -> CompiledGraph:
    """Compile a NetworkX graph with the one edge attribute that the algorithm uses, if any."""
    attributes = dict(edge_attrs or {})
    if len(attributes) > 1:
        raise NotImplementedError(f"graphzero stores one weight per edge, not {', '.join(attributes)}")
    attribute, default = next(iter(attributes.items()), (None, None))
    return CompiledGraph(graph, attribute, default)


def _as_weights(values: list[Any], attribute: str) -> npt.NDArray[np.float32]:
    try:
        weights = np.array(values, np.float32)
    except (TypeError, ValueError):
        raise NotImplementedError(f"graphzero stores weights as float32; {attribute!r} has other values") from None
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise NotImplementedError(f"graphzero stores finite weights of 0 or more; {attribute!r} has others")
    return weights


class Nodes:
    """The nodes of a graph of the backend: names to ids, and results back to names."""

    def __init__(self, graph: Any) -> None:
        """Take a `Graph`, whose nodes are 0, 1, 2, ..., or a CompiledGraph."""
        self.file: Graph = graph if isinstance(graph, Graph) else graph.file
        self._names: list[Any] | None = None if isinstance(graph, Graph) else graph.names
        self._places: dict[Hashable, int] | None = None
        self.weight: str | None = ("weight" if graph.has_weights else None) if graph is self.file else graph.weight

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.file.num_nodes

    def find(self, name: Any) -> int | None:
        """Return the id of a node; None if it is not in the graph."""
        if self._names is None:
            whole = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
            return int(name) if whole and 0 <= name < len(self) else None
        if self._places is None:
            self._places = {node: i for i, node in enumerate(self._names)}
        try:
            return self._places.get(name)
        except TypeError:  # not hashable
            return None

    def id(self, name: Any) -> int:
        """Return the id of a node; raise NodeNotFound if it is not in the graph."""
        found = self.find(name)
        if found is None:
            raise nx.NodeNotFound(f"Node {name} is not in the graph")
        return found

    def name(self, node: int) -> Any:
        """Return the name of an id."""
        return node if self._names is None else self._names[node]

    def names(self, ids: Iterable[int]) -> list[Any]:
        """Return the names of ids."""
        found = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        return found if self._names is None else [self._names[i] for i in found]

    def by_name(self, values: npt.NDArray[Any]) -> dict[Any, Any]:
        """Return the value of every node."""
        return dict(zip(self.names(range(len(self))), values.tolist(), strict=True))

    def selected(self, values: npt.NDArray[Any], wanted: Any) -> Any:
        """Return all values, those of some nodes, or the one of a node: what `nodes=` of NetworkX asks for."""
        if wanted is None:
            return self.by_name(values)
        one = self.find(wanted)
        if one is not None:
            return values[one].item()
        return {name: values[i].item() for name in wanted if (i := self.find(name)) is not None}

    def sets(self, labels: npt.NDArray[np.int32]) -> Iterator[set[Any]]:
        """Yield the nodes of each label."""
        order = np.argsort(labels, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else ():
            yield set(self.names(part))
