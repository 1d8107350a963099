"""`graphzero compact`: fold what was appended to a dataset into its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphzero.dataset.dataset import Dataset

from . import terminal
from .append import print_report


def command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder to change.", show_default=False)],
    memory: terminal.Memory = "1GB",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Fold what was appended into new files, as if the dataset had been compiled at once.

    Programs that have the dataset open continue to see the old version. Needs disk space for the files that are
    rewritten.
    """
    with terminal.progress_bars() as progress:
        report = Dataset(dataset).compact(memory=memory, num_threads=threads, progress=progress)
    print_report(report, json)
