"""`graphzero export`: a dataset into Parquet or .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from graphzero.importing.export import export_dataset

from . import terminal


def command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Folder to create.", show_default=False)],
    format: Annotated[Literal["parquet", "npy"], typer.Option(help="Output format.")] = "parquet",
    json: terminal.Json = False,
) -> None:
    """Write a dataset as Parquet or .npy files: edges, features, labels and splits."""
    with terminal.progress_bars() as progress:
        made = export_dataset(dataset, out, format=format, progress=progress)
    if json:
        terminal.print_json({"files": made})
        return
    for path in made:
        terminal.console.print(path, markup=False, soft_wrap=True)
