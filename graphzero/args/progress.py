"""Progress of long work: a bar on a terminal where rich is installed, otherwise an occasional line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from .sizes import format_size

Callback = Callable[[str, int, int], None]

_EVERY, _EVERY_ON_TERMINAL = 30.0, 2.0  # seconds between lines
_REDRAW = 0.1  # seconds between redraws of a bar


def amount(value: float, unit: str) -> str:
    """Return a count in a few digits: amount(3e9, "B") is '3 GB', amount(2e6, "edges") '2 M edges'."""
    if unit == "B":
        return format_size(value)
    for letter, scale in ((" G", 1e9), (" M", 1e6), (" K", 1e3)):
        if abs(value) >= 0.9995 * scale:
            return f"{value / scale:.3g}{letter} {unit}".rstrip()
    return f"{value:.3g} {unit}".rstrip()


def duration(seconds: float) -> str:
    """Return a readable time: '12 ms', '3.4 s', '2 min 5 s', '1 h 20 min'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def named(progress: Callback | bool | None, file: str) -> Callback | bool | None:
    """Return `progress` with the name of a file before the phase."""
    if not callable(progress):
        return progress
    return lambda phase, done, total: progress(f"{file}: {phase}", done, total)


class Lines:
    """Prints a line to `stream` every `every` seconds: phase, share, rate, time left. Short work prints nothing."""

    def __init__(self, unit: str, stream: TextIO, every: float = _EVERY) -> None:
        """Count in `unit`: "B" for bytes, a noun, or "" if phases count different things."""
        self._unit, self._stream, self._every = unit, stream, every
        self._phase, self._begin = "", 0.0
        self._shown = time.monotonic()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show one report."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._begin = phase, now
        if now - self._shown >= self._every:
            self._shown = now
            print(self._line(done, total, now - self._begin), file=self._stream, flush=True)

    def _line(self, done: int, total: int, seconds: float) -> str:
        line = f"{self._phase}: {amount(done, self._unit)}"
        if total > 0:
            line = f"{self._phase}: {min(1.0, done / total):.0%} of {amount(total, self._unit)}"
        if seconds > 0.3 and done > 0:
            line += f", {amount(done / seconds, self._unit)}/s"
            if total > done:
                line += f", {duration((total - done) * seconds / done)} left"
        return line

    def close(self) -> None:
        """Do nothing; printed lines stay."""


class Bars:
    """A rich progress bar for the current phase, removed on close."""

    def __init__(self, unit: str, stream: TextIO) -> None:
        """Raise ImportError where rich is not installed."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[share]:>4}"),
            TextColumn("{task.fields[rate]}", style="green"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(compact=True),
        )
        console = Console(file=stream, force_terminal=True, highlight=False)
        # No refresh thread and no redirection: this runs inside other programs.
        quiet: dict[str, Any] = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
        self._bars: Any = Progress(*columns, console=console, expand=True, transient=True, **quiet)
        self._unit, self._phase, self._begin, self._drawn = unit, "", 0.0, 0.0
        self._task: Any = None
        self._bars.start()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show one report."""
        if phase != self._phase:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._phase, self._begin = phase, time.monotonic()
            self._task = self._bars.add_task(phase, total=total or None, share="", rate="")
        now = time.monotonic()
        if now - self._drawn < _REDRAW and done != total:
            return
        self._drawn, seconds = now, now - self._begin
        share = f"{min(1.0, done / total):.0%}" if total > 0 else ""
        rate = f"{amount(done / seconds, self._unit)}/s" if seconds > 0.3 else ""
        self._bars.update(self._task, completed=done, total=total or None, share=share, rate=rate)
        self._bars.refresh()

    def close(self) -> None:
        """Remove the bar."""
        self._bars.stop()


def renderer(unit: str = "", stream: TextIO | None = None) -> Lines | Bars:
    """Return a renderer of progress on `stream` (default: standard error)."""
    stream = stream if stream is not None else sys.stderr
    if not stream.isatty():
        return Lines(unit, stream)
    try:
        return Bars(unit, stream)
    except ImportError:
        return Lines(unit, stream, _EVERY_ON_TERMINAL)


class Reporting:
    """A `progress=` argument as a context manager: `with Reporting(progress) as callback:`.

    None: show progress on standard error if that is a terminal. True: always; a line every half minute if it is not a
    terminal. False: show nothing. A callable receives (phase, done, total); total is 0 if unknown.
    """

    def __init__(self, progress: bool | Callback | None, unit: str = "B") -> None:
        """Choose the callback."""
        self._shown: Lines | Bars | None = None
        self.callback: Callback | None = None
        if callable(progress):
            self.callback = progress
        elif progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            self._shown = self.callback = renderer(unit)
        elif progress not in (None, False):
            raise TypeError(f"progress must be None, True, False or a callable, got {type(progress).__name__}")

    def __enter__(self) -> Callback | None:
        """Return the callback; None reports nothing."""
        return self.callback

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        if self._shown is not None:
            self._shown.close()
