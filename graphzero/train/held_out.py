"""Edges held out of training where a dataset has no edge splits: drawn from the file, the same for every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..args.ids import IdArray
from ..stores.graph import Graph

__all__ = ["HeldOut", "all_have_others", "edge_ends"]

_PART = 20  # one edge in 20 for validation, one for test
_STEP = 1 << 22  # edges looked at together
_COUNTED = 1 << 24  # edges of a file that are counted one by one
_FEW_TARGETS, _FEW_SOURCES = 10_000, 10_000_000
_MOST = 100_000  # per split: enough for three digits of any score, and little memory


class HeldOut:
    """Edges of a graph for validation and test, as (2, n), and whether an edge is one of them.

    Training iterates over all edges of the file and skips these: a list of the others would take 8 bytes per edge.
    Between nodes of one type, holding out an edge holds out both of its directions.
    """

    def __init__(self, graph: Graph, within: bool) -> None:
        """Draw the edges; `within` is true if sources and targets are nodes of the same type."""
        self._within, self._targets = within, graph.num_targets
        count = min(graph.num_edges // _PART, _MOST)
        draws = np.random.default_rng(0).choice(graph.num_edges, 2 * count, replace=False)
        pairs = edge_ends(graph, draws, "out" if graph.direction == "out" else "in")
        keys, first = np.unique(self._keys(*pairs), return_index=True)
        self._known = torch.from_numpy(keys)
        valid, test = first[first < count], first[first >= count]  # of copies only the first is kept
        self.valid = np.ascontiguousarray(pairs[:, np.sort(valid)])
        self.test = np.ascontiguousarray(pairs[:, np.sort(test)])

    def count(self, graph: Graph) -> int:
        """Count the edges of the file that are held out: copies and reverses of the drawn ones are too.

        In a large file only the drawn ones are counted, which are few of many.
        """
        if graph.num_edges > _COUNTED:
            return len(self._known)
        side, found = "out" if graph.direction == "out" else "in", 0
        for at in range(0, graph.num_edges, _STEP):
            pairs = edge_ends(graph, np.arange(at, min(at + _STEP, graph.num_edges)), side)
            found += int(self.has(*torch.from_numpy(pairs)).sum())
        return found

    def has(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return whether each edge is held out."""
        keys: Tensor = self._keys(sources, targets)
        if len(self._known) == 0:
            return torch.zeros_like(keys, dtype=torch.bool)
        self._known = self._known.to(keys.device)
        place = torch.searchsorted(self._known, keys).clamp(max=len(self._known) - 1)
        return self._known[place] == keys

    def _keys(self, sources: Any, targets: Any) -> Any:
        if not self._within:
            return sources * self._targets + targets
        low = sources + (targets - sources) * (targets < sources)
        return low * self._targets + (sources + targets - low)


def all_have_others(graph: Graph) -> bool:
    """Whether every source has a target without an edge to it, so that negatives can be drawn.

    Checked where targets are few; where they are many, a node with edges to all of them is assumed not to exist.
    """
    if graph.num_targets > _FEW_TARGETS or graph.num_sources > _FEW_SOURCES or graph.num_edges == 0:
        return True
    if graph.direction in ("out", "both"):
        degrees = np.diff(graph.csr(direction="out")[0]).astype(np.int64)
    else:
        degrees = np.zeros(graph.num_sources, np.int64)
        sources = graph.csr(direction="in")[1]
        for at in range(0, len(sources), _STEP):
            degrees += np.bincount(sources[at : at + _STEP], minlength=graph.num_sources)
    return int(degrees.max()) < graph.num_targets - 1  # a node is not a negative of itself


def edge_ends(graph: Graph, positions: IdArray, side: str) -> IdArray:
    """Return sources above targets of the edges at these positions of one side of the file."""
    indptr, indices = graph.csr(direction=side)
    rows = np.searchsorted(indptr, positions.astype(indptr.dtype), side="right") - 1
    others = indices[positions].astype(np.int64)
    return np.stack([others, rows] if side == "in" else [rows, others]).astype(np.int64)
