"""A column of a graph's edges, such as their times, in the order of its rows, for callers that read it in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from .. import _core

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["EdgeColumn", "edge_column"]


def edge_column(graph: Graph, side: str, what: str) -> npt.NDArray[Any] | EdgeColumn:
    """Return "indices", "weights", "times" or "edge_ids" of all edges, of one direction.

    A view of the file, or, of a graph with deltas, an object that copies each slice: nothing holds the whole column.
    """
    topology, name = graph._open(), f"{side}.{what}"
    return EdgeColumn(topology, name, graph.num_edges) if graph.deltas else topology.array(name)


class EdgeColumn:
    """A column of a graph with deltas: `column[first:last]` is a copy, and `len(column)` the number of edges."""

    def __init__(self, topology: _core.Topology, name: str, count: int) -> None:
        """Take the name of the array and the number of its elements."""
        self._topology, self._name, self._count = topology, name, count

    def __len__(self) -> int:
        """Return the number of edges."""
        return self._count

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        """Return the values at consecutive positions."""
        first, last, step = part.indices(self._count)
        if step != 1:
            raise ValueError(f"slices of an edge column have step 1, got {step}")
        found: npt.NDArray[Any] = self._topology.part(self._name, first, max(first, last))
        return found
