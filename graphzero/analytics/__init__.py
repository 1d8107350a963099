"""Algorithms on a whole graph, within a memory budget: `gz.analytics.pagerank(graph)`.

A few arrays with an entry per node are held in RAM. Edges are read from the mapped file if it fits into `memory=`, and
otherwise by sequential reads, pass by pass. Results are NumPy arrays by node id, or `.gd` files with `out=`.
"""

from __future__ import annotations

from .communities import label_propagation
from .components import connected_components
from .cores import core_numbers
from .degrees import degrees
from .pagerank import pagerank
from .paths import bfs, hop_counts
from .triangles import Estimate, average_clustering, clustering, transitivity, triangles

__all__ = [
    "Estimate",
    "average_clustering",
    "bfs",
    "clustering",
    "connected_components",
    "core_numbers",
    "degrees",
    "hop_counts",
    "label_propagation",
    "pagerank",
    "transitivity",
    "triangles",
]
