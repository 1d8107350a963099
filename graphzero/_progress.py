"""Progress of long work: one line on a terminal, with rate and time left; silent elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from ._sizes import format_size

Callback = Callable[[str, int, int], None]


class TerminalLine:
    """Rewrites one line of `stream`: phase, share, rate, time left. `unit` is "B" for bytes, else a noun."""

    def __init__(self, unit: str = "B", stream: TextIO | None = None) -> None:
        """Write to `stream`, standard error unless told."""
        self._stream = stream if stream is not None else sys.stderr
        self._unit = unit
        self._phase = ""
        self._start = 0.0
        self._shown = 0.0
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take one report; the line changes ten times a second at most."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._start = phase, now
        elif now - self._shown < 0.1 and done != total:
            return
        self._shown = now
        self._write(self._line(done, total, now - self._start))

    def _line(self, done: int, total: int, seconds: float) -> str:
        amount = format_size(done) if self._unit == "B" else f"{done:,} {self._unit}"
        line = f"{self._phase}: {amount}"
        if total > 0:
            line = f"{self._phase}: {min(1.0, done / total):4.0%} of {self._amount(total)}"
        if seconds > 0.3 and done > 0:
            rate = done / seconds
            line += f", {self._amount(rate)}/s"
            if total > done:
                line += f", {_duration((total - done) / rate)} left"
        return line

    def _amount(self, value: float) -> str:
        return format_size(value) if self._unit == "B" else f"{value:,.0f} {self._unit}"

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Wipe the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min {rest:02} s"


class Reporting:
    """What a `progress=` argument means, as a context: `with Reporting(progress) as callback:`.

    None: a line on standard error if that is a terminal. True: the line in any case. False: nothing. A callable gets
    (phase, done, total), total 0 when nobody knows it.
    """

    def __init__(self, progress: bool | Callback | None, unit: str = "B") -> None:
        """Decide who listens."""
        self._line: TerminalLine | None = None
        self.callback: Callback | None = None
        if callable(progress):
            self.callback = progress
        elif progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            self._line = TerminalLine(unit)
            self.callback = self._line
        elif progress not in (None, False):
            raise TypeError(f"progress must be None, True, False or a callable, got {type(progress).__name__}")

    def __enter__(self) -> Callback | None:
        """Return the callback, None for silence."""
        return self.callback

    def __exit__(self, *_: object) -> None:
        """Wipe the line, whatever happened."""
        if self._line is not None:
            self._line.close()
