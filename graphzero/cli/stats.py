"""`graphzero stats`: degrees, components, faults, features, labels and splits of a file or dataset."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from graphzero import _core
from graphzero.analytics.summary import summary_of_dataset, summary_of_features, summary_of_graph
from graphzero.args.target import check_extension
from graphzero.dataset.dataset import Dataset
from graphzero.stores.features import FeatureStore
from graphzero.stores.graph import Graph

from . import terminal
from .info import is_dataset

_WIDTH = 40  # characters of the longest bar

Facts = list[tuple[str, object]]


def command(
    path: Annotated[Path, typer.Argument(help="A .gl file, a .gd file, or a dataset folder.", show_default=False)],
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Also write a page with plots.")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget, such as 1GB.")] = "auto",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Count what is in a file or dataset: degrees, components, self-loops, missing values, labels, splits.

    Everything is read once, within the budget. `graphzero info` reads only headers.
    """
    if html is not None:
        from graphzero.pages.figure import require_plots

        check_extension(str(html), "report")
        require_plots()
    with terminal.progress_bars() as progress:
        found = _summary(path, memory, threads, progress)
    if html is not None:
        from .stats_page import write_page

        write_page(found, html)
    if json:
        terminal.print_json(found)
        return
    _PRINT[found["kind"]](found)
    if html is not None:
        terminal.console.print(f"page written to {html}", markup=False, highlight=False, soft_wrap=True)


def _summary(path: Path, memory: str, threads: int | None, progress: Any) -> dict[str, Any]:
    budget: dict[str, Any] = {"memory": memory, "num_threads": threads, "progress": progress}
    if is_dataset(path):
        return summary_of_dataset(Dataset(path), **budget)
    if _core.file_info(os.fspath(path))["kind"] == "topology":
        return summary_of_graph(Graph(path), **budget)
    store = FeatureStore(path)
    arrays = {name: summary_of_features(store[name], progress) for name in store.names}
    return {"path": store.path, "kind": "features", "rows": store.num_nodes, "arrays": arrays}


# -- facts, for the terminal and for pages ----------------------------------------------------------------------------


def edge_facts(edges: dict[str, Any]) -> Facts:
    """Return what is said about edges, in words."""
    sides = f"{edges['sources']:,} sources, {edges['targets']:,} targets"
    nodes = f"{edges['sources']:,}" if edges["sources"] == edges["targets"] else sides
    total = edges["sources"] if edges["sources"] == edges["targets"] else edges["sources"] + edges["targets"]
    how = "undirected, each stored both ways" if edges["undirected"] else "directed"
    facts: Facts = [("nodes", nodes), ("edges", f"{edges['count']:,} ({how})")]
    facts.append(("isolated nodes", _share(edges["isolated"], total)))
    largest = _share(edges["largest_component"], total)
    facts.append(("components", f"{edges['components']:,}, the largest with {largest} of the nodes"))
    for name, key in (("self-loops", "self_loops"), ("duplicates", "duplicates")):
        facts.append((name, "unknown: rows are not sorted" if edges[key] is None else f"{edges[key]:,}"))
    if edges["sources"] != edges["targets"]:
        facts = [fact for fact in facts if fact[0] != "self-loops"]
    if edges["reciprocity"] is not None:
        error = edges["reciprocity_error"]
        facts.append(("reciprocity", f"{edges['reciprocity']:.1%}" + (f" +- {error:.1%}" if error else "")))
    for direction, degrees in edges["degrees"].items():
        if degrees["max"] is not None:
            said = f"mean {degrees['mean']:.3g}, median {degrees['median']:.3g}, 99 % at most {degrees['p99']:.4g}"
            facts.append((degree_name(edges, direction), f"{said}, largest {degrees['max']:,}"))
    facts += [(what, _between(edges[what])) for what in ("weights", "times") if what in edges]
    return facts


def node_facts(nodes: dict[str, Any]) -> Facts:
    """Return what is said about the nodes of a dataset, in words."""
    facts: Facts = [("nodes", f"{nodes['count']:,}"), ("isolated", _share(nodes["isolated"], nodes["count"]))]
    labels = nodes["labels"]
    if labels is not None:
        kind = {"classification": "classes", "multilabel": "labels"}.get(labels["kind"])
        said = f"{labels['classes']} {kind}" if kind else "numbers"
        facts.append(("labels", f"{said}, {_share(labels['missing'], nodes['count'])} of the nodes without"))
        if labels.get("counts"):
            facts.append(("class sizes", f"{min(labels['counts']):,} to {max(labels['counts']):,} nodes"))
    for name, size in nodes["splits"]["sizes"].items():
        facts.append((f"split {name}", _share(size, nodes["count"])))
    if nodes["splits"]["in_several"]:
        facts.append(("in several splits", f"{nodes['splits']['in_several']:,} nodes"))
    return facts


def feature_row(name: str, of: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one array in a table."""
    numbers = ["" if of[key] is None else f"{of[key]:.4g}" for key in ("min", "mean", "max")]
    shape = " x ".join(f"{n:,}" for n in of["shape"])
    return (name, of["dtype"], shape, *numbers, f"{of['nan']:,}", f"{of['infinite']:,}")


FEATURE_HEADS = ("array", "dtype", ">shape", ">min", ">mean", ">max", ">NaN", ">infinite")


def degree_name(edges: dict[str, Any], direction: str) -> str:
    """Return what the degrees of a direction are called."""
    return "degrees" if edges["undirected"] else {"out": "out-degrees", "in": "in-degrees"}[direction]


def range_name(one: dict[str, Any]) -> str:
    """Return a bin of a histogram: '4 to 7'."""
    return f"{one['from']:,}" if one["from"] == one["to"] else f"{one['from']:,} to {one['to']:,}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole else f"{part:,}"


def _between(of: dict[str, Any]) -> str:
    return "none" if of["min"] is None else f"{of['min']:.6g} to {of['max']:.6g}"


# -- the terminal -----------------------------------------------------------------------------------------------------


def _print_graph(found: dict[str, Any], title: str | None = None) -> None:
    terminal.print_facts(title or f"{os.path.basename(found['path'])} (graph)", edge_facts(found))
    for direction, degrees in found["degrees"].items():
        _print_histogram(degree_name(found, direction), degrees["histogram"])


def _print_histogram(title: str, bins: list[dict[str, Any]]) -> None:
    if not bins:
        return
    names = [range_name(one) for one in bins]
    width, most = max(map(len, names)), max(one["nodes"] for one in bins)
    terminal.console.print()
    terminal.console.print(Text(f"  {title}", style="cyan"), soft_wrap=True)
    for name, one in zip(names, bins, strict=True):
        eighths = round(8 * _WIDTH * one["nodes"] / max(most, 1))
        bar = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
        bar = bar or ("▏" if one["nodes"] else "")
        line = Text.assemble("  ", name.rjust(width), "  ", (bar, "green"), f" {one['nodes']:,}")
        terminal.console.print(line, soft_wrap=True)


def _print_features(found: dict[str, Any]) -> None:
    terminal.print_facts(f"{os.path.basename(found['path'])} (features)", [("rows", f"{found['rows']:,}")])
    terminal.print_table(FEATURE_HEADS, [feature_row(*item) for item in found["arrays"].items()])


def _print_dataset(found: dict[str, Any]) -> None:
    terminal.console.print(Text(f"{os.path.basename(found['path'])} (dataset)", style="bold"), soft_wrap=True)
    if found["deltas"]:
        terminal.console.print(f"  with {found['deltas']} appends; graphzero compact folds them", soft_wrap=True)
    for name, nodes in found["nodes"].items():
        terminal.console.print()
        terminal.print_facts(f"nodes {name}", node_facts(nodes))
        if nodes["features"]:
            terminal.print_table(FEATURE_HEADS, [feature_row(*item) for item in nodes["features"].items()])
    for name, edges in found["edges"].items():
        terminal.console.print()
        _print_graph(edges, f"edges {name}")


_PRINT: dict[str, Callable[[dict[str, Any]], None]] = {
    "graph": _print_graph,
    "features": _print_features,
    "dataset": _print_dataset,
}
