"""Small random graphs of odd shapes, as files and as SciPy matrices."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import graphzero as gz

_numbers = itertools.count()


@dataclass
class OddGraph:
    """Edges between `shape` nodes: with self-loops, duplicates and isolated nodes, or none at all."""

    shape: tuple[int, int]
    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray
    undirected: bool
    direction: str

    def compile(self, folder: Path, weighted: bool = False, **options: Any) -> gz.Graph:
        """Write the file and mount it."""
        path = folder / f"odd-{next(_numbers)}.gl"
        source = (self.src, self.dst, self.weights) if weighted else (self.src, self.dst)
        options = {"directed": not self.undirected, "direction": self.direction, **options}
        nodes = self.shape if self.shape[0] != self.shape[1] else self.shape[0]
        gz.compile_graph(source, path, num_nodes=nodes, num_threads=1, progress=False, **options)
        return gz.Graph(path)

    def matrix(self, weighted: bool = False) -> Any:
        """Return the adjacency matrix; parallel edges are added up."""
        src, dst, data = self.src, self.dst, self.weights if weighted else np.ones(len(self.src))
        if self.undirected:
            apart = src != dst  # a self-loop is stored once
            src, dst = np.r_[src, dst[apart]], np.r_[dst, src[apart]]
            data = np.r_[data, data[apart]]
        return sparse.csr_array((data, (src, dst)), shape=self.shape)

    def simple(self) -> Any:
        """Return the symmetric matrix of ones without a diagonal."""
        full = (self.matrix() + self.matrix().T).tocoo()
        apart = full.row != full.col
        pattern = np.unique(np.stack([full.row[apart], full.col[apart]]), axis=1)
        return sparse.csr_array((np.ones(pattern.shape[1]), tuple(pattern)), shape=self.shape)


@st.composite
def odd_graphs(draw: st.DrawFn, square: bool = True) -> OddGraph:
    """Graphs of 0 to 12 nodes, or of two kinds of nodes."""
    nodes = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 12]))
    others = nodes if square else nodes + draw(st.integers(1, 4))
    end = st.tuples(st.integers(0, max(nodes - 1, 0)), st.integers(0, max(others - 1, 0)))
    ends = draw(st.lists(end, max_size=30)) if nodes and others else []
    if ends and draw(st.booleans()):
        ends += ends[: draw(st.integers(0, 5))]
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    weights = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.5]), min_size=len(ends), max_size=len(ends)))
    return OddGraph(
        (nodes, others),
        pairs[:, 0].copy(),
        pairs[:, 1].copy(),
        np.array(weights, np.float32),
        square and draw(st.booleans()),
        draw(st.sampled_from(["out", "in", "both"])),
    )
