"""`graphzero reorder`: copy a dataset with its nodes in an order that reads fewer pages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from graphzero.compile.reorder import ORDERS, reorder

from . import terminal
from .train import numbers

_BATCHES, _FILES = "Batches sampled by presample", "Files"


def command(
    context: typer.Context,
    dataset: Annotated[Path, typer.Argument(help="Dataset to read.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Folder to create.", show_default=False)],
    by: Annotated[
        str | None,
        typer.Option(help=f"Node order: {', '.join(ORDERS)} (default: presample if the split exists, else degree)."),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="Direction that your loader samples: out or in.")] = None,
    fanouts: Annotated[str, typer.Option(help="Neighbours to sample per hop.", rich_help_panel=_BATCHES)] = "15,10,5",
    split: Annotated[str, typer.Option(help="Split to sample from.", rich_help_panel=_BATCHES)] = "train",
    batch_size: Annotated[int, typer.Option(help="Seeds per batch.", rich_help_panel=_BATCHES)] = 1024,
    epochs: Annotated[int, typer.Option(help="Number of epochs to sample.", rich_help_panel=_BATCHES)] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.", rich_help_panel=_BATCHES)] = 0,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget.", rich_help_panel=_FILES)] = "2GB",
    threads: terminal.Threads = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing dataset.", rich_help_panel=_FILES)
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Relabel nodes so that rows used together are stored together. Original ids are kept."""
    if by not in (None, "presample"):
        terminal.refuse_given(
            context, ("fanouts", "split", "batch_size", "epochs", "seed"), "needs --by presample, which samples batches"
        )
    begin = time.perf_counter()
    with terminal.progress_bars() as progress:
        made = reorder(
            dataset,
            out,
            by=by,
            direction=direction,
            fanouts=numbers(fanouts, "--fanouts"),
            split=split,
            batch_size=batch_size,
            epochs=epochs,
            seed=seed,
            memory=memory,
            num_threads=threads,
            progress=progress,
            overwrite=overwrite,
        )
    seconds = time.perf_counter() - begin
    if json:
        terminal.print_json({**made.info, "seconds": seconds})
        return
    terminal.print_facts(
        f"{made.name} in {made.path}",
        [
            ("order", made.info["about"]["reordered"]["by"]),
            ("nodes", f"{made.num_nodes:,}"),
            ("edges", f"{sum(graph.num_edges for graph in made.graphs.values()):,} stored"),
            ("on disk", terminal.size(made.nbytes)),
            ("took", terminal.duration(seconds)),
        ],
    )
