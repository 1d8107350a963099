"""`graphzero import`: convert a file or a folder into a dataset for `graphzero train`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from graphzero.dataset.dataset import Dataset
from graphzero.dataset.trainable import fault_of
from graphzero.importing import import_dataset

from . import terminal
from .compile import Delimiter, Header, IdBase, SkipBadLines, column
from .keywords import as_options

_EDGES, _NODES = "Edges", "Nodes"

Columns = Annotated[
    str | None,
    typer.Option(metavar="SRC,DST", help="Source and target columns, by name or number.", rich_help_panel=_EDGES),
]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Weight column; 'no' for none.", rich_help_panel=_EDGES)
]


def command(
    source: Annotated[
        Path,
        typer.Argument(
            help="Edges (text, .npy, .npz, .gl, Parquet), a description of tables or keys (.yaml, .json), a folder of "
            "tables with a keys.yaml, a SQLite or DuckDB file, or a dataset folder.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Dataset folder to create.", show_default=False)],
    nodes: Annotated[
        Path | None,
        typer.Option(help="Table with one row per node: id, features, label, split.", rich_help_panel=_NODES),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Node features: .npy, .npz, .pt, .gd, or text of id,f1,f2,...",
            rich_help_panel=_NODES,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Node labels: .npy, .npz, .pt or text, one per node; or a table of id,label.", rich_help_panel=_NODES
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of --nodes or --labels with the labels; of several tables, TABLE.COLUMN.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(
            help="File or folder with train, valid and test ids or masks; or shares such as 60/20/20, or 80/20.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Data type of features: float32, float16, int8, ...; columns of tables keep theirs.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    order: terminal.Order = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes (default: detected).", rich_help_panel=_NODES)
    ] = None,
    num_nodes: Annotated[
        int | None, typer.Option(help="Number of nodes; ids are checked against it.", rich_help_panel=_NODES)
    ] = None,
    undirected: Annotated[
        bool | None, typer.Option("--undirected/--directed", help="Store each edge both ways.", rich_help_panel=_EDGES)
    ] = None,
    direction: Annotated[
        Literal["in", "out", "both"],
        typer.Option(
            help="Store edges by target (in, for training), by source (out), or both.", rich_help_panel=_EDGES
        ),
    ] = "in",
    columns: Columns = None,
    weights: Weights = None,
    times: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Timestamp column (default: none).", rich_help_panel=_EDGES)
    ] = None,
    edge_ids: Annotated[
        bool, typer.Option("--edge-ids", help="Store the position of each edge in the input.", rich_help_panel=_EDGES)
    ] = False,
    dedup: Annotated[
        bool, typer.Option("--dedup", help="Drop duplicate edges; keep the first.", rich_help_panel=_EDGES)
    ] = False,
    merge: Annotated[
        Literal["first", "sum", "max"] | None,
        typer.Option(help="Drop duplicate edges; combine their weights this way.", rich_help_panel=_EDGES),
    ] = None,
    self_loops: Annotated[
        bool, typer.Option("--self-loops/--no-self-loops", help="Keep self-loops.", rich_help_panel=_EDGES)
    ] = True,
    edge_features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Edge features, one row per edge: .npy, .npz, .pt or .gd.",
            rich_help_panel=_EDGES,
        ),
    ] = None,
    tag_reverse: Annotated[
        bool,
        typer.Option(
            "--tag-reverse", help="Add the reverse of each edge, marked by an edge feature.", rich_help_panel=_EDGES
        ),
    ] = False,
    edge_types: Annotated[
        str | None,
        typer.Option(metavar="A__R__B,...", help="Edge types to import (default: all).", rich_help_panel=_EDGES),
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Add the reverse of every edge type.", rich_help_panel=_EDGES)
    ] = False,
    id_base: IdBase = None,
    ids: Annotated[
        Literal["auto", "map", "text", "integers"],
        typer.Option(help="Which ids to map to 0, 1, 2, ...: strings (auto), or all (map).", rich_help_panel=_NODES),
    ] = "auto",
    node_ids: Annotated[
        Path | None, typer.Option(help="File with the original id of each row, one per line.", rich_help_panel=_NODES)
    ] = None,
    delimiter: Delimiter = None,
    header: Header = None,
    skip_bad_lines: SkipBadLines = False,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing dataset.")] = False,
    memory: terminal.Memory = "1GB",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Import edges, features, labels and splits into a dataset folder, within a RAM budget."""
    graph: dict[str, Any] = {
        "directed": None if undirected is None else not undirected,
        "columns": None if columns is None else [column(c) for c in columns.split(",")],
        "weights": column(weights),
        "times": column(times),
        "edge_ids": edge_ids or None,
        "dedup": merge or dedup or None,
        "self_loops": self_loops,
        "id_base": id_base,
        "delimiter": delimiter,
        "header": header,
        "on_error": "skip" if skip_bad_lines else None,
    }
    with terminal.progress_bars() as progress:
        report = import_dataset(
            source,
            out,
            nodes=nodes,
            features=named_files(features),
            edge_features=named_files(edge_features, "edge_attr"),
            edge_types=edge_types and edge_types.split(","),
            reverse=reverse,
            tag_reverse=tag_reverse,
            labels=labels,
            label=label,
            splits=splits,
            num_nodes=num_nodes,
            num_classes=classes,
            name=name,
            dtype=dtype,
            ids=ids,
            node_ids=node_ids,
            order=order,
            direction=direction,
            memory=memory,
            num_threads=threads,
            progress=progress,
            overwrite=overwrite,
            **{option: value for option, value in graph.items() if value is not None},
        )
    if json:
        terminal.print_json(dataclasses.asdict(report))
        return
    terminal.console.print(str(report), markup=False, soft_wrap=True)
    _print_next(report.dataset, str(out))


def _print_next(dataset: Dataset, out: str) -> None:
    """Print the command that trains on the dataset, or what it lacks."""
    task, words = next(iter(dataset.tasks), None), ["graphzero", "train", out]
    fault = fault_of(dataset) if task is None else None
    if task is not None:
        words += ["--task", task]
    elif fault is not None:
        _say(f"not ready to learn node labels: {as_options(fault)}")
        if any(node.label_kind for node in dataset.nodes.values()):
            return
        words += ["--task", "links"]
        if len(dataset.edges) > 1:
            words += ["--edge-type", ",".join(next(iter(dataset.edges)))]
    elif any("time" in node.features and node.num_classes for node in dataset.nodes.values()):
        _say("labelled nodes have times; `graphzero train --time time` lets each see only what is older")
    _say(f"next: {shlex.join(words)}")


def _say(text: str) -> None:
    terminal.console.print(text, markup=False, soft_wrap=True)


def named_files(features: list[str] | None, single: str = "x") -> dict[str, str] | None:
    """Return features by name: NAME=FILE, or FILE alone for `single`."""
    if not features:
        return None
    named: dict[str, str] = {}
    for word in features:
        name, equals, path = word.partition("=")
        key, value = (name, path) if equals and name.isidentifier() else (single, word)
        if key in named:
            raise typer.BadParameter(f"duplicate features {key!r}; name them, as in --features emb=FILE")
        named[key] = value
    return named
