"""What commands print with: tables for people, JSON for programs, progress on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from graphzero._sizes import format_size

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory budget, such as 1GB.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Number of threads (default: all processors).")]

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def print_json(report: Any) -> None:
    """Print one JSON document, plain: no colours, no wrapping."""
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
    """Print a short mark and a text that wraps beside it."""
    room = max(console.width - 4, 20)
    first, *rest = Text(text).wrap(console, room) or [Text()]
    console.print(Text.assemble((mark.ljust(4), style), first.plain.rstrip()), soft_wrap=True)
    for line in rest:
        console.print(Text("    " + line.plain.rstrip()), soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns whose name starts with '>' are numbers, set to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print()
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def size(count: int | float) -> str:
    """Return bytes as people read them."""
    return format_size(count)


def rate(count: float, seconds: float, unit: str) -> str:
    """Return how many a second: `rate(30e6, 2, "edges")` is '15 M edges/s'."""
    return f"{short(count / seconds)} {unit}/s" if seconds > 0 else f"many {unit}/s"


def short(count: float) -> str:
    """Return a count in a few digits: 1_234_567 is '1.23 M'."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(count) >= 0.9995 * scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g}"


def duration(seconds: float) -> str:
    """Return a time as people read it: '12 ms', '3.4 s', '2 min 5 s', '1 h 20 min'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


class _Share(ProgressColumn):
    """The percentage, where the total is known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.percentage:3.0f}%" if task.total else "    ")


class _Rate(ProgressColumn):
    """How many a second: bytes or edges, as the phase counts."""

    def render(self, task: Task) -> Text:
        return Text(f"{short(task.speed)}/s" if task.speed else "", style="green")


@contextlib.contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a progress callback that draws the bar of the phase at work, or None where stderr is no terminal."""
    if not errors.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        _Share(),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=errors, expand=True, transient=True) as bars:
        current: dict[str, TaskID] = {}

        def report(phase: str, done: int, total: int) -> None:
            if phase not in current:
                for finished in current.values():
                    bars.remove_task(finished)
                current.clear()
                current[phase] = bars.add_task(phase, total=total or None)
            bars.update(current[phase], completed=done, total=total or None)

        yield report
