"""`graphzero export`: a dataset into Parquet, CSV or .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from graphzero.dataset.dataset import Dataset
from graphzero.exporting.export import export_dataset, export_rows
from graphzero.exporting.table_out import is_table

from . import terminal


def command(
    context: typer.Context,
    dataset: Annotated[Path, typer.Argument(help="Dataset folder.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Folder to create, or table with --rows.", show_default=False)],
    rows: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write this .gd file, one row per node, as a .csv or .parquet with ids."),
    ] = None,
    node_type: Annotated[str | None, typer.Option(help="Node type of --rows, for typed datasets.")] = None,
    format: Annotated[Literal["parquet", "csv", "npy"], typer.Option(help="Output format.")] = "parquet",
    json: terminal.Json = False,
) -> None:
    """Write a dataset as Parquet, CSV or .npy files: edges, features, columns, labels, splits and tasks.

    --rows PREDICTIONS.gd writes the output of `graphzero predict` or of inference as one table, one row per node with
    its original id.
    """
    if rows is None:
        terminal.refuse_given(context, ["node_type"], "needs --rows PATH; a whole dataset has all node types")
    else:
        terminal.refuse_given(context, ["format"], f"cannot be combined with --rows; the name of {out} has the format")
    if rows is not None:
        if not is_table(out):
            raise typer.BadParameter(f"{out.name!r}, expected a name that ends in .csv or .parquet", param_hint="OUT")
        made = [str(out)]
        export_rows(Dataset(dataset), rows, out, node_type=node_type)
    else:
        made = _whole(dataset, out, format)
    if json:
        terminal.print_json({"files": made})
        return
    for path in made:
        terminal.console.print(path, markup=False, soft_wrap=True)


def _whole(dataset: Path, out: Path, format: str) -> list[str]:
    with terminal.progress_bars() as progress:
        return export_dataset(dataset, out, format=format, progress=progress)
