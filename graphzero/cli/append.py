"""`graphzero append`: add nodes and edges to a dataset, or remove edges, without rewriting its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero.dataset.dataset import Dataset

from . import terminal
from .compile import column
from .import_ import Columns, Weights, named_files

_EDGES, _NODES = "Edges", "Nodes"


def command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder to change.", show_default=False)],
    edges: Annotated[
        Path | None,
        typer.Option(help="Edges to add: text, .npy, Parquet or .gl; by original ids.", rich_help_panel=_EDGES),
    ] = None,
    edge_features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Edge features, one row per new edge: .npy or text.", rich_help_panel=_EDGES
        ),
    ] = None,
    remove_edges: Annotated[
        Path | None,
        typer.Option(help="Edges to remove: pairs in text, .npy or Parquet.", rich_help_panel=_EDGES),
    ] = None,
    columns: Columns = None,
    weights: Weights = None,
    times: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Timestamp column.", rich_help_panel=_EDGES)
    ] = None,
    edge_type: Annotated[
        str | None,
        typer.Option(metavar="A__R__B", help="Edge type, if there are several.", rich_help_panel=_EDGES),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT|FILE",
            help="Number of new nodes, or a table of them: id, columns, label, split.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Node features, one row per new node: .npy or text.", rich_help_panel=_NODES
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels, one per new node: .npy or text.", rich_help_panel=_NODES)
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Split that the new nodes join.", rich_help_panel=_NODES)
    ] = None,
    remove_nodes: Annotated[
        Path | None,
        typer.Option(help="Nodes to remove from edges and splits: ids, one per line.", rich_help_panel=_NODES),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="New number of classes, if the labels add classes.", rich_help_panel=_NODES)
    ] = None,
    node_type: Annotated[
        str | None, typer.Option(help="Node type, if there are several.", rich_help_panel=_NODES)
    ] = None,
    memory: terminal.Memory = "1GB",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Add nodes and edges to a dataset, or remove edges. Existing files are not changed; new files are
    published in one step.

    Programs that have the dataset open continue to see the old version. `graphzero compact` merges the new files into
    the others.
    """
    ds = Dataset(dataset)
    by_node: dict[str, Any] = {
        "nodes": None if nodes is None else int(nodes) if nodes.isdecimal() else nodes,
        "features": named_files(features),
        "labels": labels,
        "splits": split,
        "remove_nodes": None if remove_nodes is None else _ids(remove_nodes, ds, node_type),
    }
    by_edge: dict[str, Any] = {
        "edges": edges,
        "edge_features": named_files(edge_features, "edge_attr"),
        "remove_edges": remove_edges,
        "columns": None if columns is None else [column(c) for c in columns.split(",")],
        "weights": column(weights),
        "times": column(times),
    }
    given = _of_type(by_node, node_type, "--node-type", ds, list(ds.nodes))
    given |= _of_type(by_edge, edge_type, "--edge-type", ds, ["__".join(key) for key in ds.edges])
    with terminal.progress_bars() as progress:
        report = ds.append(num_classes=classes, memory=memory, num_threads=threads, progress=progress, **given)
    print_report(report, json)


def print_report(report: Any, json: bool) -> None:
    """Print the report of a change."""
    if json:
        fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
        terminal.print_json({name: value for name, value in fields.items() if name != "dataset"})
    else:
        terminal.console.print(str(report), markup=False, soft_wrap=True)


def _of_type(parts: dict[str, Any], asked: str | None, option: str, ds: Dataset, types: list[str]) -> dict[str, Any]:
    """Return what was given, by type if the dataset has types."""
    parts = {name: value for name, value in parts.items() if value is not None}
    if not ds.is_typed or not parts:
        return parts
    if asked is None and len(types) > 1:
        raise typer.BadParameter(f"the dataset has several types; choose one of {', '.join(types)}", param_hint=option)
    return {name: {asked or types[0]: value} for name, value in parts.items()}


def _ids(path: Path, ds: Dataset, node_type: str | None) -> list[Any]:
    """Return the ids in a file, one per line: strings if those of the dataset are."""
    words = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    keys = (ds.nodes[node_type] if node_type else next(iter(ds.nodes.values()))).ids.keys
    if keys is not None and keys.is_text:
        return list(words)
    bad = next((word for word in words if not word.lstrip("-").isdecimal()), None)
    if bad is not None:
        raise typer.BadParameter(f"{path}: found {bad!r}, expected integers, one per line", param_hint="--remove-nodes")
    return [int(word) for word in words]
