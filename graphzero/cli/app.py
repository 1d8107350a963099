"""The commands and what they share: errors as one line, exit codes, --debug, --version."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

import graphzero
from graphzero.errors import GraphZeroError

from . import compile, demo, doctor, export, import_, info, predict, reorder, synth, train, verify

EXIT_FAULT = 1  # something was found wrong, or failed
EXIT_USAGE = 2  # the command was not understood
EXIT_INTERRUPTED = 130

_debug: ContextVar[bool] = ContextVar("debug", default=False)

# A plain ValueError and its like are the library refusing an argument; its own errors are about files and data.
_FAULTS = (GraphZeroError, OSError, IndexError, MemoryError, ImportError)
_REFUSALS = (ValueError, TypeError, KeyError)

app = typer.Typer(
    name="graphzero",
    help="Train graph neural networks on graphs that do not fit in RAM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"graphzero {graphzero.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="GRAPHZERO_DEBUG", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train graph neural networks on graphs that do not fit in RAM."""
    _debug.set(debug)


def register(command: Callable[..., None], name: str | None = None) -> None:
    """Add a command: its function's signature is its usage, its docstring the help."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError:  # the reader of our output is gone: `graphzero info x | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(EXIT_FAULT) from None
        except (*_FAULTS, *_REFUSALS, KeyboardInterrupt) as e:
            if _debug.get():
                raise
            typer.echo(f"graphzero: {_line(e)}", err=True)
            raise typer.Exit(_exit_code(e)) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as e:  # nobody foresaw it: torch without memory, or a fault of ours
            if _debug.get():
                raise
            again = "graphzero --debug shows where, and is worth a report"
            typer.echo(f"graphzero: {_line(e)} ({type(e).__name__}; {again})", err=True)
            raise typer.Exit(EXIT_FAULT) from None

    app.command(name or command.__name__.replace("_", "-"))(guarded)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return EXIT_FAULT if isinstance(error, _FAULTS) else EXIT_USAGE


def _line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and not isinstance(error, GraphZeroError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"error: {where}{error.strerror}"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return f"error: {' '.join(text.split()) or type(error).__name__}"


for module in (demo, synth, compile, import_, export, reorder, info, verify, train, predict, doctor):
    register(module.command, module.__name__.rpartition(".")[2].rstrip("_"))
