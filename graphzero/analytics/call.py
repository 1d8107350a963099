"""What the algorithms share: the graph, the budget, progress, and where the result goes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import parse_size
from ..args.target import as_target
from ..compile.graph import compile_graph
from ..dataset.dataset import Dataset
from ..load.handoff import make_room
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph

__all__ = ["Call", "Source"]

Source = Graph | Dataset | str | os.PathLike[str]

_SHARE = 0.8  # of the available memory, for memory="auto"
_UNKNOWN = 4 << 30  # where the system does not report the available memory


class Call:
    """One call of an algorithm, with the keyword arguments that all of them take."""

    def __init__(
        self,
        graph: Source,
        memory: int | float | str,
        num_threads: int | None,
        progress: bool | Callback | None,
        io: str,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        """Check the arguments; nothing is read yet."""
        self.graph = _as_graph(graph)
        self.memory = _auto() if memory == "auto" else parse_size(memory)
        self.threads, self._progress, self._io = as_threads(num_threads), progress, io
        self._out = None if out is None else as_target(out, "features", [self.graph.path])
        make_room(self.memory)

    @contextmanager
    def run(self, graph: Graph | None = None) -> Iterator[_core.Analytics]:
        """Yield the native algorithms, for this graph or for another that was derived from it."""
        topology = (graph or self.graph)._open()
        with Reporting(self._progress, "edges") as callback:
            yield _core.Analytics(topology, self.threads, self.memory, self._io, callback)

    @contextmanager
    def symmetric(self) -> Iterator[Graph]:
        """Yield a graph with each edge in both directions and sorted rows: itself, or a temporary copy."""
        about = self.graph.info
        if about["undirected"] and about["sorted_rows"]:
            yield self.graph
            return
        with self._compiled(directed=False, dedup=True, self_loops=False) as graph:
            yield graph

    @contextmanager
    def with_rows(self, direction: str) -> Iterator[tuple[Graph, str]]:
        """Yield a graph that has the rows of `direction`, and which of its rows they are."""
        if self.graph.direction in (direction, "both"):
            yield self.graph, direction
        elif self.graph.info["undirected"]:
            yield self.graph, self.graph.direction
        else:
            with self._compiled(directed=True, direction=direction) as graph:
                yield graph, direction

    @contextmanager
    def _compiled(self, **options: Any) -> Iterator[Graph]:
        """Compile the graph in another form, in a folder next to it that is removed afterwards."""
        nodes = self.graph.num_nodes  # raises ValueError for a rectangular graph
        folder = os.path.dirname(self.graph.path)
        beside = folder if os.access(folder, os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix=".analytics-", dir=beside) as scratch:
            path = os.path.join(scratch, "graph.gl")
            plain: dict[str, Any] = {"weights": False, "times": False, "edge_ids": False, "num_nodes": nodes}
            threads = self.threads or None
            compile_graph(
                self.graph,
                path,
                memory=self.memory,
                num_threads=threads,
                progress=self._progress if self._progress is not None else False,
                **plain,
                **options,
            )
            with Graph(path) as graph:
                yield graph

    def result(self, name: str, values: npt.NDArray[Any]) -> Any:
        """Return the values, or write them to `out` as array `name` and return the opened file."""
        if self._out is None:
            return values
        count = len(values)
        writer = _core.FeatureWriter(self._out, count, [(name, values.dtype.name, list(values.shape))], None)
        try:
            writer.append(0, np.ascontiguousarray(values))
            writer.finish(self.threads)
        finally:
            writer.discard()
        return FeatureStore(self._out, name)


def as_direction(direction: str) -> str:
    """Return 'out', 'in' or 'both'; raise ValueError for anything else."""
    if direction not in ("out", "in", "both"):
        raise ValueError(f"direction is {direction!r}, expected 'out', 'in' or 'both'")
    return direction


def _auto() -> int:
    return int(_core.available_memory() * _SHARE) or _UNKNOWN


def _as_graph(source: Any) -> Graph:
    if isinstance(source, Graph):
        return source
    if isinstance(source, Dataset):
        return source.graph
    if isinstance(source, HeteroGraph):
        types = ", ".join(map(repr, source.edge_types))
        raise TypeError(f"expected one relation, such as graph[{source.edge_types[0]!r}]; the graph has {types}")
    if isinstance(source, (str, os.PathLike)):
        return Graph(source)
    raise TypeError(f"expected a Graph, a Dataset or the path of a .gl file, got {type(source).__name__}")
