"""Progress of long work: a bar in a notebook, and on a terminal where rich is installed; else an occasional line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
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

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Show one report; `note` follows the name of the phase."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._begin = phase, now
        if now - self._shown >= self._every:
            self._shown = now
            line = _described(phase + note, self._unit, done, total, now - self._begin)
            print(line, file=self._stream, flush=True)

    def write(self, text: str) -> None:
        """Print a line of its own to standard output."""
        print(text, flush=True)

    def close(self) -> None:
        """Do nothing; printed lines stay."""


def _described(phase: str, unit: str, done: int, total: int, seconds: float) -> str:
    """Return one report as a line: phase, share, rate, time left."""
    line = f"{phase}: {amount(done, unit)}"
    if total > 0:
        line = f"{phase}: {min(1.0, done / total):.0%} of {amount(total, unit)}"
    if seconds > 0.3 and done > 0:
        line += f", {amount(done / seconds, unit)}/s"
        if total > done:
            line += f", {duration((total - done) * seconds / done)} left"
    return line


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

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Show one report; `note` follows the name of the phase."""
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
        text = phase + note
        self._bars.update(self._task, description=text, completed=done, total=total or None, share=share, rate=rate)
        self._bars.refresh()

    def write(self, text: str) -> None:
        """Print a line of its own to standard output, above the bar."""
        self._bars.stop()
        print(text, flush=True)
        self._bars.start()

    def close(self) -> None:
        """Remove the bar."""
        self._bars.stop()


class NotebookBar:
    """A bar in the output of a notebook cell, removed on close. Needs IPython, which a notebook has, and no widgets."""

    def __init__(self, unit: str) -> None:
        """Show nothing yet."""
        self._unit, self._phase, self._begin, self._drawn = unit, "", 0.0, 0.0
        self._handle: Any = None

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Show one report; `note` follows the name of the phase."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._begin = phase, now
        if now - self._drawn < _REDRAW and done != total:
            return
        self._drawn = now
        share = f' value="{min(1.0, done / total):.4f}"' if total > 0 else ""
        text = escape(_described(phase + note, self._unit, done, total, now - self._begin))
        self._show(f'<progress{share} style="vertical-align:middle"></progress> {text}')

    def _show(self, content: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(content), display_id=True)
        else:
            self._handle.update(HTML(content))

    def write(self, text: str) -> None:
        """Print a line of its own to the cell."""
        print(text, flush=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            self._show("")
            self._handle = None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def can_show() -> bool:
    """Whether progress is shown without being asked for: in a notebook, and if standard error is a terminal."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def renderer(unit: str = "", stream: TextIO | None = None) -> Lines | Bars | NotebookBar:
    """Return a renderer of progress: in the notebook, or on `stream` (default: standard error)."""
    if in_notebook():
        return NotebookBar(unit)
    stream = stream if stream is not None else sys.stderr
    if not stream.isatty():
        return Lines(unit, stream)
    try:
        return Bars(unit, stream)
    except ImportError:
        return Lines(unit, stream, _EVERY_ON_TERMINAL)


class Reporting:
    """A `progress=` argument as a context manager: `with Reporting(progress) as callback:`.

    None: show progress in a notebook, and on standard error if that is a terminal. True: always; a line every half
    minute if it is neither. False: show nothing. A callable receives (phase, done, total); total is 0 if unknown.
    """

    def __init__(self, progress: bool | Callback | None, unit: str = "B") -> None:
        """Choose the callback."""
        self._shown: Lines | Bars | NotebookBar | None = None
        self.callback: Callback | None = None
        if callable(progress):
            self.callback = progress
        elif progress is True or (progress is None and can_show()):
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
