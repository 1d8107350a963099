"""`graphzero export`: a dataset into Parquet, CSV or .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from graphzero.dataset.dataset import Dataset
from graphzero.exporting.columns_out import joined_notes
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an older export.")] = False,
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
        terminal.refuse_given(context, ["overwrite"], "cannot be combined with --rows, which replaces an older table")
    if rows is not None:
        if not is_table(out):
            raise typer.BadParameter(f"{out.name!r}, expected a name that ends in .csv or .parquet", param_hint="OUT")
        made, notes = [str(out)], []
        export_rows(Dataset(dataset), rows, out, node_type=node_type)
    else:
        with terminal.progress_bars() as progress:
            made = export_dataset(dataset, out, format=format, overwrite=overwrite, progress=progress)
        notes = [] if format == "npy" else joined_notes(Dataset(dataset))
    if json:
        terminal.print_json({"files": made, "notes": notes})
        return
    for line in [*made, *notes]:
        terminal.console.print(line, markup=False, soft_wrap=True)
