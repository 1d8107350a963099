"""`graphzero report`: saved runs as a page with plots; several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphzero.args.target import check_extension

from . import terminal
from .train import require_torch


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Checkpoints, or datasets for all of their runs.")
    ],
    out: Annotated[Path, typer.Option(metavar="PATH", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write saved runs as one page with plots: one in detail, or several compared."""
    check_extension(str(out), "report")
    require_torch()
    from graphzero.train.history import read_result
    from graphzero.train.report import write_comparison, write_report

    paths = [path for run in runs for path in _checkpoints(run)]
    results = {str(path): read_result(path) for path in paths}
    if len(results) == 1:
        write_report(next(iter(results.values())), out)
    else:
        write_comparison(results, out)
    terminal.print_facts("Report", [("runs", len(results)), ("page", out)])


def _checkpoints(run: Path) -> list[Path]:
    if not run.is_dir():
        return [run]
    found = sorted((run / "runs").glob("*.npz"), key=lambda path: (len(path.name), path.name))
    if not found:
        raise typer.BadParameter(f"{run} has no runs; `graphzero train {run}` makes one", param_hint="RUN")
    return found
