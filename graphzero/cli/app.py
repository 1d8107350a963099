"""The commands and what they share: errors as one line, exit codes, --debug, --version."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

import graphzero

from . import (
    append,
    compact,
    compile,
    demo,
    doctor,
    embed,
    examples,
    export,
    faults,
    import_,
    info,
    inspect,
    keywords,
    predict,
    quickstart,
    reorder,
    report,
    stats,
    synth,
    terminal,
    train,
    verify,
)

app = typer.Typer(
    name="graphzero",
    help="Train graph neural networks on graphs that do not fit in RAM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_SILENT = ("doctor", "inspect")  # without progress of their own


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
    faults.debug.set(debug)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"graphzero: warning: {keywords.as_options(' '.join(str(message).split()))}", err=True)


def register(command: Callable[..., None], name: str) -> None:
    """Add a command: its function's signature is its usage, its docstring the help."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                with terminal.heartbeat(name) if name in _SILENT else contextlib.nullcontext():
                    command(*args, **kwargs)
        except BrokenPipeError:  # the reader of our output is gone: `graphzero info x | head -1`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(faults.EXIT_FAULT) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as e:
            if faults.debug.get():
                raise
            typer.echo(f"graphzero: {faults.line(e)}", err=True)
            raise typer.Exit(faults.exit_code(e)) from None

    app.command(name, epilog=examples.epilog(name))(guarded)


for module in (
    quickstart,
    demo,
    synth,
    compile,
    inspect,
    import_,
    append,
    compact,
    export,
    reorder,
    info,
    stats,
    verify,
    train,
    predict,
    embed,
    report,
    doctor,
):
    register(module.command, module.__name__.rpartition(".")[2].rstrip("_"))
