"""`graphzero synth`: generate a dataset of any size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero.compile.synth import PRESETS, TYPED_PRESETS, synthesize
from graphzero.dataset.dataset import Dataset

from . import terminal

_SHAPE, _LEARNING, _FILES = "Shape", "Labels and features", "Files"
_NAMES = ", ".join([*PRESETS, *TYPED_PRESETS])


def command(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="Folder to create.", show_default=False)],
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.", rich_help_panel=_SHAPE)] = None,
    edges: Annotated[int | None, typer.Option(help="Number of edges.", rich_help_panel=_SHAPE)] = None,
    dim: Annotated[int | None, typer.Option(help="Feature columns (default: 128).", rich_help_panel=_SHAPE)] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Shape of a published dataset: {_NAMES}. Other options override it.", rich_help_panel=_SHAPE
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Factor for the preset's nodes, edges and splits.", rich_help_panel=_SHAPE)
    ] = 1.0,
    power: Annotated[
        float | None, typer.Option(help="Power-law exponent of the degrees (default: 2.7).", rich_help_panel=_SHAPE)
    ] = None,
    core: Annotated[
        float | None,
        typer.Option(
            help="Share of the nodes that form the core, which most edges lead to (default: 1, no core).",
            rich_help_panel=_SHAPE,
        ),
    ] = None,
    core_edges: Annotated[
        float | None,
        typer.Option(help="Share of the edges that lead to core nodes (default: 0.95).", rich_help_panel=_SHAPE),
    ] = None,
    core_power: Annotated[
        float | None,
        typer.Option(help="Power-law exponent of the degrees of core nodes (default: 2.35).", rich_help_panel=_SHAPE),
    ] = None,
    undirected: Annotated[
        bool | None,
        typer.Option("--undirected/--directed", help="Store each edge both ways.", rich_help_panel=_SHAPE),
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Add edge weights.", rich_help_panel=_SHAPE)] = False,
    dedup: Annotated[bool, typer.Option("--dedup", help="Drop duplicate edges.", rich_help_panel=_SHAPE)] = False,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes (default: 16).", rich_help_panel=_LEARNING)
    ] = None,
    communities: Annotated[
        int | None, typer.Option(help="Number of communities (default: one per class).", rich_help_panel=_LEARNING)
    ] = None,
    homophily: Annotated[
        float | None,
        typer.Option(help="Fraction of edges within a community (default: 0.7).", rich_help_panel=_LEARNING),
    ] = None,
    signal: Annotated[
        float | None,
        typer.Option(help="Signal-to-noise ratio of the features (default: 1).", rich_help_panel=_LEARNING),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", rich_help_panel=_LEARNING)] = 0,
    feature_types: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE,...",
            help="Node types with features, for the preset mag (default: paper).",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Add years as edge times, for the preset mag.", rich_help_panel=_SHAPE)
    ] = False,
    dtype: Annotated[
        str, typer.Option(help="Data type of features: float32, float16, int8, ...", rich_help_panel=_FILES)
    ] = "float32",
    order: terminal.Order = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget.", rich_help_panel=_FILES)] = "1GB",
    threads: terminal.Threads = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing dataset.", rich_help_panel=_FILES)
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Generate a dataset: a power-law graph with communities, features, labels and splits."""
    if preset is None:
        terminal.refuse_given(context, ["scale"], "needs --preset; without one, set --nodes and --edges")
        if core is None:
            terminal.refuse_given(context, ["core_edges", "core_power"], "needs --core, the share of the nodes")
    options: dict[str, Any] = {"classes": classes, "homophily": homophily, "power": power, "signal": signal}
    plain = {"communities": communities, "core": core, "core_edges": core_edges, "core_power": core_power}
    if preset not in TYPED_PRESETS:
        options |= plain | {"weights": weights}
    elif weights or any(value is not None for value in plain.values()):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in plain)
        raise typer.BadParameter(f"{names} and --weights cannot be used with the preset {preset}")
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
            order=order,
            memory=memory,
            num_threads=threads,
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
            ("edges", f"{graph.num_edges:,} stored, {graph.num_edges / graph.num_nodes:.1f} per node"),
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
