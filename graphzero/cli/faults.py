"""Errors of a command: one line each, and an exit code."""

from __future__ import annotations

from contextvars import ContextVar

from graphzero.errors import GraphZeroError

from .keywords import as_options

EXIT_FAULT = 1  # a check or an operation failed
EXIT_USAGE = 2  # invalid usage
EXIT_INTERRUPTED = 130

debug: ContextVar[bool] = ContextVar("debug", default=False)

# The library raises plain ValueError and the like for invalid arguments; its own errors are about files and data.
FAULTS = (GraphZeroError, OSError, IndexError, MemoryError, ImportError)
REFUSALS = (ValueError, TypeError, KeyError)


def exit_code(error: BaseException) -> int:
    """Return the exit code: invalid usage or failure."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return EXIT_USAGE if isinstance(error, REFUSALS) and not isinstance(error, FAULTS) else EXIT_FAULT


def line(error: BaseException) -> str:
    """Return the line to print after the program's name."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"error: {message(error)}"


def message(error: BaseException) -> str:
    """Return the text of an error in one line."""
    if isinstance(error, OSError) and not isinstance(error, GraphZeroError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return as_options(f"{where}{error.strerror}")
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    if isinstance(error, (*FAULTS, *REFUSALS)):
        return as_options(text)
    if "allocate memory" in text or type(error).__name__ == "OutOfMemoryError":  # torch's, of RAM and of a GPU
        return "out of memory; try a smaller --batch-size, --fanouts or --hidden"
    # unexpected, so a bug
    return f"{text} ({type(error).__name__}; graphzero --debug shows the traceback; please report it)"
