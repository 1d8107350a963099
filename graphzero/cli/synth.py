"""`graphzero synth`: a dataset to try things on, of any size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from graphzero.synth import PRESETS, synthesize

from . import terminal

_SHAPE, _LEARNING, _FILES = "Shape", "What can be learned", "Files"


def command(
    out: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    nodes: Annotated[int | None, typer.Option(help="Nodes.", rich_help_panel=_SHAPE)] = None,
    edges: Annotated[int | None, typer.Option(help="Edges.", rich_help_panel=_SHAPE)] = None,
    dim: Annotated[int | None, typer.Option(help="Columns of the features (128).", rich_help_panel=_SHAPE)] = None,
    preset: Annotated[
        str | None,
        typer.Option(help=f"Take the shape of {', '.join(PRESETS)}; options beside it win.", rich_help_panel=_SHAPE),
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
    dtype: Annotated[str, typer.Option(help="float32, float16, ...", rich_help_panel=_FILES)] = "float32",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="RAM it may take.", rich_help_panel=_FILES)] = "1GB",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset that is there.", rich_help_panel=_FILES)
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Make a dataset: a power-law graph with communities, features that tell the class, labels and splits."""
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
            classes=classes,
            communities=communities,
            homophily=homophily,
            power=power,
            signal=signal,
            weights=weights,
            seed=seed,
        )
    seconds = time.perf_counter() - begin
    if json:
        terminal.print_json({**dataset.info, "seconds": seconds})
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
