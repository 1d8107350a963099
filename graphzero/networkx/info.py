"""The description that NetworkX reads when it is imported. Imports nothing else."""

from __future__ import annotations

from typing import Any

__all__ = ["FUNCTIONS", "get_info"]

FUNCTIONS = (
    "average_clustering",
    "bfs_edges",
    "bfs_layers",
    "bfs_predecessors",
    "bfs_successors",
    "clustering",
    "connected_components",
    "core_number",
    "descendants_at_distance",
    "has_path",
    "is_connected",
    "is_strongly_connected",
    "is_weakly_connected",
    "node_connected_component",
    "number_connected_components",
    "number_strongly_connected_components",
    "number_weakly_connected_components",
    "pagerank",
    "single_source_shortest_path_length",
    "single_target_shortest_path_length",
    "strongly_connected_components",
    "transitivity",
    "triangles",
    "weakly_connected_components",
)


def get_info() -> dict[str, Any]:
    """Return the description that `networkx.backend_info` asks for."""
    return {
        "backend_name": "graphzero",
        "project": "graphzero",
        "package": "graphzero",
        "short_summary": "Graphs in files that do not fit in RAM.",
        "functions": {name: {} for name in FUNCTIONS},
    }
