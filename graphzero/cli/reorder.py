"""`graphzero reorder`: the same dataset with its nodes in an order that reads fewer pages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from graphzero.reorder import ORDERS, reorder

from . import terminal
from .train import numbers

_BATCHES, _FILES = "Batches that presample draws", "Files"


def command(
    dataset: Annotated[Path, typer.Argument(help="The dataset to read.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    by: Annotated[
        str | None,
        typer.Option(help=f"The order: {', '.join(ORDERS)}; presample where there is the split, else degree."),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="Which rows your loader samples: out or in.")] = None,
    fanouts: Annotated[str, typer.Option(help="Edges a hop.", rich_help_panel=_BATCHES)] = "15,10,5",
    split: Annotated[str, typer.Option(help="The split.", rich_help_panel=_BATCHES)] = "train",
    batch_size: Annotated[int, typer.Option(help="Seeds a batch.", rich_help_panel=_BATCHES)] = 1024,
    epochs: Annotated[int, typer.Option(help="Epochs.", rich_help_panel=_BATCHES)] = 1,
    seed: Annotated[int, typer.Option(help="The seed.", rich_help_panel=_BATCHES)] = 0,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="RAM it may take.", rich_help_panel=_FILES)] = "2GB",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset that is there.", rich_help_panel=_FILES)
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Relabel a dataset's nodes so that rows which are used together lie together; original ids are kept."""
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
