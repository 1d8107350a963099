"""Output of commands: tables, JSON, and progress bars on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphzero.args.progress import Callback, amount, renderer
from graphzero.args.progress import duration as duration
from graphzero.args.sizes import format_size

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory budget, such as 1GB.")]
Order = Annotated[
    str | None,
    typer.Option(
        help="Order the nodes so that loaders read fewer bytes: degree, bfs or community. Original ids are kept."
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Number of threads (default: all processors).")]

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def refuse_given(context: typer.Context, options: Sequence[str], reason: str) -> None:
    """Raise for options of the command line that would have no effect; `reason` says when they have one."""
    for option in options:
        if getattr(context.get_parameter_source(option), "name", "") == "COMMANDLINE":
            raise typer.BadParameter(reason, param_hint=f"--{option.replace('_', '-')}")


def print_json(report: Any) -> None:
    """Print one JSON document, without colours or wrapping."""
    typer.echo(json.dumps(report, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print a title and lines of name and value."""
    lines = [(name, str(value)) for name, value in facts]
    width = max((len(name) for name, _ in lines), default=0)
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, value in lines:
        console.print(Text.assemble("  ", (name.ljust(width), "cyan"), "  ", value), soft_wrap=True)


def print_note(mark: str, style: str, text: str) -> None:
    """Print a short mark and a wrapped, indented text."""
    width = max(console.width - 4, 20)
    first, *rest = Text(text).wrap(console, width) or [Text()]
    console.print(Text.assemble((mark.ljust(4), style), first.plain.rstrip()), soft_wrap=True)
    for line in rest:
        console.print(Text("    " + line.plain.rstrip()), soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns whose name starts with '>' are right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print()
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def size(count: int | float) -> str:
    """Format a number of bytes."""
    return format_size(count)


def rate(count: float, seconds: float, unit: str) -> str:
    """Format a rate per second: `rate(30e6, 2, "edges")` is '15 M edges/s'."""
    return f"{short(count / seconds)} {unit}/s" if seconds > 0 else f"many {unit}/s"


def short(count: float) -> str:
    """Format a count in a few digits: 1_234_567 is '1.23 M'."""
    return amount(count, "")


@contextlib.contextmanager
def progress_bars() -> Iterator[Callback]:
    """Yield a progress callback: a bar on a terminal, a line every half minute elsewhere."""
    shown = renderer(stream=sys.stderr)
    try:
        yield shown
    finally:
        shown.close()


@contextlib.contextmanager
def heartbeat(command: str, every: float = 30.0) -> Iterator[None]:
    """Print a line every half minute while a command without progress runs, if standard error is not a terminal."""
    done, begin, stream = threading.Event(), time.monotonic(), sys.stderr

    def beat() -> None:
        while not done.wait(every):
            print(f"{command}: running for {duration(time.monotonic() - begin)}", file=stream, flush=True)

    thread = threading.Thread(target=beat, daemon=True)
    if not stream.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
