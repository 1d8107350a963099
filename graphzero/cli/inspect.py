"""`graphzero inspect`: which keys, times and labels tables have, as a file for `graphzero import`."""

from __future__ import annotations

import json as json_module
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from graphzero.importing.propose import Proposal, propose

from . import terminal


def command(
    source: Annotated[
        Path, typer.Argument(help="Folder of tables, a table, or a SQLite or DuckDB file.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the keys to this file (.yaml, .json).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    json: terminal.Json = False,
) -> None:
    """Propose the keys of tables: which rows they identify, which tables they refer to, and when rows were made.

    Names of columns and values that tables share decide. Check the file that --out writes before importing with it.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such file or folder")
    if out is not None and out.suffix not in (".yaml", ".yml", ".json"):
        raise typer.BadParameter(f"{out.name!r}, expected a name that ends in .yaml or .json", param_hint="--out")
    found = propose(os.fspath(source))
    if out is not None:
        _write(found, out, overwrite)
    if json:
        terminal.print_json(found.to_dict(os.fspath(out.parent if out is not None else source)))
        return
    for line in found.lines():
        terminal.console.print(line, markup=False, highlight=False, soft_wrap=True)
    terminal.console.print(_next(found, source, out), markup=False, highlight=False, soft_wrap=True)


def _write(found: Proposal, out: Path, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out}: the file exists already (overwrite=True replaces it)")
    value = found.to_dict(os.path.abspath(out.parent))
    if out.suffix == ".json":
        out.write_text(json_module.dumps(value, indent=2) + "\n", encoding="utf-8")
        return
    try:
        import yaml
    except ImportError as error:
        raise ImportError(f"{out}: PyYAML is needed for YAML; pip install 'graphzero[import]'") from error
    out.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


def _next(found: Proposal, source: Path, out: Path | None) -> str:
    """Return the command that goes on: the import, or writing the keys where they are only proposed."""
    if not any(table.foreign_keys for table in found.tables.values()):
        return "no foreign keys found, so there are no edges; name them in a keys file (see the guide on tables)"
    if out is None and not found.declared:
        keys = source / "keys.yaml" if source.is_dir() else source.with_name("keys.yaml")
        return f"next: {shlex.join(['graphzero', 'inspect', str(source), '--out', str(keys)])}"
    name = (source.name if source.is_dir() else source.stem) or "tables"
    words = ["graphzero", "import", str(out if out is not None else source), f"{name}-dataset"]
    labelled = [table for table in found.tables.values() if table.label]
    if labelled and not any(table.split for table in labelled):
        words += ["--splits", "70/15/15"]
    return f"next: {shlex.join(words)}"
