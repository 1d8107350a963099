"""`graphzero stats --html`: the figures as a page with plots."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

from graphzero.pages.figure import SERIES, figure_of
from graphzero.pages.page import fact_list, page_of, table_of_rows, tile, write_whole

from .stats import FEATURE_HEADS, degree_name, edge_facts, feature_row, node_facts, range_name

__all__ = ["write_page"]


def write_page(found: dict[str, Any], path: Path) -> None:
    """Write one page, atomically."""
    name = os.path.basename(found["path"])
    write_whole(path, page_of(f"{name} ({found['kind']})", "Counted by graphzero stats.", _parts(found)))


def _parts(found: dict[str, Any]) -> list[str]:
    if found["kind"] == "graph":
        return _edge_parts(found)
    if found["kind"] == "features":
        return [_features(found["arrays"])]
    parts = []
    for name, nodes in found["nodes"].items():
        parts += [f"<h2>Nodes: {escape(name)}</h2>", fact_list(node_facts(nodes))]
        if nodes["features"]:
            parts.append(_features(nodes["features"]))
        counts = (nodes["labels"] or {}).get("counts")
        if counts:
            plot = figure_of("Classes", f"Nodes of each class of {name}.", _draw_classes, counts)
            parts.append(f'<div class="plots" style="margin-top:14px">{plot}</div>')
    for name, edges in found["edges"].items():
        parts += [f"<h2>Edges: {escape(name)}</h2>", *_edge_parts(edges)]
    return parts


def _edge_parts(edges: dict[str, Any]) -> list[str]:
    loops = "unknown" if edges["self_loops"] is None else f"{edges['self_loops']:,}"
    figures = [
        (f"{edges['count']:,}", "edges", "undirected" if edges["undirected"] else "directed"),
        (f"{edges['components']:,}", "components", f"the largest with {edges['largest_component']:,} nodes"),
        (f"{edges['isolated']:,}", "isolated nodes", ""),
        (loops, "self-loops", ""),
    ]
    plots = "".join(
        figure_of(
            degree_name(edges, direction).capitalize(),
            f"Nodes of each degree, by powers of two: {os.path.basename(edges['path'])}.",
            _draw_degrees,
            degrees["histogram"],
        )
        for direction, degrees in edges["degrees"].items()
        if degrees["histogram"]
    )
    return [
        f'<div class="tiles">{"".join(tile(*figure) for figure in figures)}</div>',
        f'<div class="plots">{plots}</div>',
        '<div style="height:14px"></div>',
        fact_list(edge_facts(edges)),
    ]


def _features(arrays: dict[str, Any]) -> str:
    heads = [head.lstrip(">") for head in FEATURE_HEADS]
    return table_of_rows(heads, [feature_row(*item) for item in arrays.items()])


def _draw_degrees(axes: Any, bins: list[dict[str, Any]]) -> None:
    axes.bar(range(len(bins)), [one["nodes"] for one in bins], 0.9, color=SERIES[0])
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)  # a bar of one node has a height
    axes.grid(False, axis="x")
    step = max(1, len(bins) // 8)
    axes.set_xticks(range(0, len(bins), step), [range_name(bins[i]).split(" ")[0] for i in range(0, len(bins), step)])
    axes.set_xlabel("degree, from")
    axes.set_ylabel("nodes")


def _draw_classes(axes: Any, counts: list[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.bar(range(len(counts)), counts, 0.9, color=SERIES[0])
    axes.grid(False, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlim(-0.7, len(counts) - 0.3)
    axes.set_xlabel("class")
    axes.set_ylabel("nodes")
