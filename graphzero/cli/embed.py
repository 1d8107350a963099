"""`graphzero embed`: a vector for each node, by random walks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from graphzero.dataset.dataset import Dataset
from graphzero.embedding import embed
from graphzero.exporting.export import export_rows
from graphzero.exporting.table_out import as_table_target, is_table
from graphzero.stores.graph import Graph

from . import terminal
from .info import is_dataset

_WALKS, _TRAINING = "Walks", "Training"


def command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder, or a .gl file.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="PATH", help="The .gd file to write.", show_default=False)],
    export: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Also write a .parquet or .csv with the original ids.")
    ] = None,
    edge_type: Annotated[
        str | None, typer.Option(metavar="SRC,REL,DST", help="Relation to walk on, for typed datasets.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimension of the vectors.")] = 128,
    method: Annotated[
        Literal["node2vec", "deepwalk"], typer.Option(help="Kind of walks.", rich_help_panel=_WALKS)
    ] = "node2vec",
    walk_length: Annotated[int, typer.Option(help="Steps of a walk.", rich_help_panel=_WALKS)] = 20,
    walks_per_node: Annotated[int, typer.Option(help="Walks from each node, per epoch.", rich_help_panel=_WALKS)] = 10,
    p: Annotated[float, typer.Option(help="Return parameter of node2vec.", rich_help_panel=_WALKS)] = 1.0,
    q: Annotated[float, typer.Option(help="In-out parameter of node2vec.", rich_help_panel=_WALKS)] = 1.0,
    weighted: Annotated[bool, typer.Option("--weighted", help="Walk by edge weights.", rich_help_panel=_WALKS)] = False,
    direction: Annotated[
        str | None, typer.Option(help="Direction of walks: out or in.", rich_help_panel=_WALKS)
    ] = None,
    window: Annotated[
        int, typer.Option(help="Maximum distance, in steps of a walk, between a node and its contexts.")
    ] = 5,
    negatives: Annotated[int, typer.Option(help="Negative samples per node.", rich_help_panel=_TRAINING)] = 5,
    epochs: Annotated[int, typer.Option(help="Passes, each with new walks.", rich_help_panel=_TRAINING)] = 1,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Initial learning rate (default: 0.05; 0.01 on a GPU).", rich_help_panel=_TRAINING),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", rich_help_panel=_TRAINING)] = 0,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, ...", rich_help_panel=_TRAINING)] = "cpu",
    memory: terminal.Memory = "auto",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Train a vector for each node from random walks on the graph: node2vec or DeepWalk.

    Nodes that are near each other get similar vectors. The .gd file has one float32 row per node; it can be added to a
    dataset as a feature, searched with gz.neighbours, or written as a table with --export.
    """
    data = Dataset(dataset) if is_dataset(dataset) else None
    graph, node_type = _graph(dataset, data, edge_type)
    if export is not None:
        if data is None:
            raise typer.BadParameter("needs a dataset, which has the original ids", param_hint="--export")
        if not is_table(export):
            expected = f"{export.name!r}, expected a name that ends in .csv or .parquet"
            raise typer.BadParameter(expected, param_hint="--export")
        as_table_target(export)
    options: dict[str, Any] = {"p": p, "q": q, "weighted": weighted, "direction": direction, "window": window}
    options |= {"negatives": negatives, "epochs": epochs, "learning_rate": learning_rate, "seed": seed}
    start = time.perf_counter()
    with terminal.progress_bars() as progress:
        store = embed(
            graph,
            dim=dim,
            method=method,
            walk_length=walk_length,
            walks_per_node=walks_per_node,
            **options,
            device=device,
            memory=memory,
            num_threads=threads,
            out=out,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    if data is not None and export is not None:
        export_rows(data, store.path, export, node_type=node_type)
    made = [str(out)] + ([] if export is None else [str(export)])
    if json:
        terminal.print_json({"files": made, "nodes": store.num_nodes, "dim": dim, "seconds": round(seconds, 3)})
        return
    facts = [("nodes", f"{store.num_nodes:,}"), ("dim", dim), ("time", terminal.duration(seconds))]
    terminal.print_facts(f"{out.name} (features)", [*facts, *[("written to", path) for path in made]])


def _graph(path: Path, data: Dataset | None, edge_type: str | None) -> tuple[Graph, str | None]:
    """Return the graph to walk on and the type of its nodes."""
    if data is None:
        if edge_type is not None:
            raise typer.BadParameter("needs a dataset with several relations", param_hint="--edge-type")
        return Graph(path), None
    if edge_type is not None:
        key: Any = tuple(edge_type.split(","))
        return data.edges[key].graph, key[0]
    if len(data.edges) > 1:
        square = [",".join(key) for key in data.edges if key[0] == key[2]]
        known = f": {' or '.join(square)}" if square else ", but none connects nodes of one type"
        raise typer.BadParameter(f"choose one relation{known}", param_hint="--edge-type")
    return data.graph, next(iter(data.edges))[0]
