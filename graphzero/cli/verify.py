"""`graphzero verify`: read every byte of a file or a dataset and report the first fault."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero.dataset.dataset import Dataset
from graphzero.errors import FormatError
from graphzero.stores.verify import verify

from . import terminal
from .info import is_dataset


def command(
    path: Annotated[Path, typer.Argument(help="A .gl file, a .gd file, or a dataset folder.", show_default=False)],
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Check every byte of a file or dataset: checksums, offsets, ids, order. Exits with 1 at the first fault."""
    with terminal.progress_bars() as progress:
        try:
            report: dict[str, Any] = (
                Dataset(path).verify(threads, progress)
                if is_dataset(path)
                else {"files": 1, **dataclasses.asdict(verify(path, num_threads=threads, progress=progress))}
            )
        except FormatError as e:
            if not json:
                raise
            report = {"fault": str(e)}
    ok = "fault" not in report
    if json:
        terminal.print_json({"path": os.fspath(path), "ok": ok, **report})
        raise typer.Exit(0 if ok else 1)
    terminal.console.print(_sentence(path, report), soft_wrap=True, markup=False)


def _sentence(path: Path, report: dict[str, Any]) -> str:
    files = f"{report['files']} files, " if report["files"] > 1 else ""
    speed = terminal.size(report["bytes"] / report["seconds"]) + "/s" if report["seconds"] > 0 else "no time"
    what = f"{files}{report['arrays']} arrays, {terminal.size(report['bytes'])}"
    note = "" if report["checksummed"] else "; files of GraphZero 0.2 hold no checksums, their structure was checked"
    return f"{path}: ok ({what} in {terminal.duration(report['seconds'])}, {speed}{note})"
