"""`graphzero synth`: a dataset to try things on, of any size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero.dataset import Dataset
from graphzero.synth import PRESETS, TYPED_PRESETS, synthesize

from . import terminal

_SHAPE, _LEARNING, _FILES = "Shape", "What can be learned", "Files"
_NAMES = ", ".join([*PRESETS, *TYPED_PRESETS])


def command(
    out: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    nodes: Annotated[int | None, typer.Option(help="Nodes.", rich_help_panel=_SHAPE)] = None,
    edges: Annotated[int | None, typer.Option(help="Edges.", rich_help_panel=_SHAPE)] = None,
    dim: Annotated[int | None, typer.Option(help="Columns of the features (128).", rich_help_panel=_SHAPE)] = None,
    preset: Annotated[
        str | None,
        typer.Option(help=f"Take the shape of {_NAMES}; options beside it win.", rich_help_panel=_SHAPE),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Multiply the preset's nodes, edges and splits.", rich_help_panel=_SHAPE)
    ] = 1.0,
    power: Annotated[
        float | None, typer.Option(help="Exponent of the degrees' power law (2.7).", rich_help_panel=_SHAPE)
    ] = None,
    undirected: Annotated[
        bool | None,
        typer.Option("--undirected/--directed", help="Store each edge both ways.", rich_help_panel=_SHAPE),
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Give edges weights.", rich_help_panel=_SHAPE)] = False,
    dedup: Annotated[bool, typer.Option("--dedup", help="Drop repeated edges.", rich_help_panel=_SHAPE)] = False,
    classes: Annotated[int | None, typer.Option(help="Classes (16).", rich_help_panel=_LEARNING)] = None,
    communities: Annotated[
        int | None, typer.Option(help="Communities (as many as classes).", rich_help_panel=_LEARNING)
    ] = None,
    homophily: Annotated[
        float | None,
        typer.Option(help="Share of edges that stay in their community (0.7).", rich_help_panel=_LEARNING),
    ] = None,
    signal: Annotated[
        float | None,
        typer.Option(help="How far features tell the class, in units of the noise (1).", rich_help_panel=_LEARNING),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.", rich_help_panel=_LEARNING)] = 0,
    feature_types: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE,...", help="Of mag: node types that have features (paper).", rich_help_panel=_LEARNING
        ),
    ] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Of mag: edges carry the year of their paper.", rich_help_panel=_SHAPE)
    ] = False,
    dtype: Annotated[str, typer.Option(help="float32, float16, ...", rich_help_panel=_FILES)] = "float32",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="RAM it may take.", rich_help_panel=_FILES)] = "1GB",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset that is there.", rich_help_panel=_FILES)
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Make a dataset: a power-law graph with communities, features that tell the class, labels and splits."""
    options: dict[str, Any] = {"classes": classes, "homophily": homophily, "power": power, "signal": signal}
    if preset not in TYPED_PRESETS:
        options |= {"communities": communities, "weights": weights}
    elif communities is not None or weights:
        raise typer.BadParameter(f"--communities and --weights are not for the preset {preset}")
    if feature_types is not None or times:
        options |= {"feature_types": feature_types and feature_types.split(","), "times": times}
    begin = time.perf_counter()
    with terminal.progress_bars() as progress:
        dataset = synthesize(
            out,
            nodes=nodes,
            edges=edges,
            dim=dim,
            preset=preset,
            scale=scale,
            dtype=dtype,
            undirected=undirected,
            dedup=dedup,
            memory=memory,
            progress=progress,
            overwrite=overwrite,
            seed=seed,
            **options,
        )
    seconds = time.perf_counter() - begin
    if json:
        terminal.print_json({**dataset.info, "seconds": seconds})
        return
    if dataset.is_typed:
        _print_typed(dataset, seconds)
        return
    graph, x = dataset.graph, dataset.features["x"]
    terminal.print_facts(
        f"{dataset.name} in {dataset.path}",
        [
            ("nodes", f"{graph.num_nodes:,}, {dataset.num_classes} classes"),
            ("edges", f"{graph.num_edges:,} stored, {graph.num_edges / graph.num_nodes:.1f} a node"),
            ("features", f"{x.feature_dim} x {x.dtype_name}"),
            ("splits", ", ".join(f"{name} {len(ids):,}" for name, ids in dataset.splits.items())),
            ("on disk", terminal.size(dataset.nbytes)),
            ("took", f"{terminal.duration(seconds)} ({terminal.rate(graph.num_edges, seconds, 'edges')})"),
        ],
    )


def _print_typed(dataset: Dataset, seconds: float) -> None:
    edges = sum(data.num_edges for data in dataset.edges.values())
    facts: list[tuple[str, object]] = []
    for name, data in dataset.nodes.items():
        rows = ", ".join(
            f"{key} {' x '.join(map(str, s.shape[1:])) or 1} {s.dtype_name}" for key, s in data.features.items()
        )
        classes = f", {data.num_classes} classes" if data.num_classes else ""
        facts.append((name, f"{data.num_nodes:,}{classes}{', ' + rows if rows else ''}"))
    facts += [(" ".join(key), f"{data.num_edges:,}") for key, data in dataset.edges.items()]
    facts += [
        ("splits", ", ".join(f"{name} {len(ids):,}" for name, ids in dataset.splits.items())),
        ("on disk", terminal.size(dataset.nbytes)),
        ("took", f"{terminal.duration(seconds)} ({terminal.rate(edges, seconds, 'edges')})"),
    ]
    terminal.print_facts(f"{dataset.name} in {dataset.path}", facts)
