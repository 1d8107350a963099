"""`graphzero inspect`: which keys, times and labels tables have, as a file for `graphzero import`."""

from __future__ import annotations

import json as json_module
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from graphzero.importing.keyed import type_name
from graphzero.importing.propose import Proposal, propose

from . import terminal


def command(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="Folder of tables, a table, or a SQLite or DuckDB file.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the keys to this file (.yaml, .json).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    json: terminal.Json = False,
) -> None:
    """Propose the primary key, the foreign keys and the time column of each table.

    Keys are inferred from column names and from values that tables share. Check the file written by --out before
    importing with it.
    """
    if out is None:
        terminal.refuse_given(context, ["overwrite"], "needs --out PATH, the file to replace")
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
    for line in _next(found, source, out):
        terminal.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _write(found: Proposal, out: Path, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out}: file already exists; pass overwrite=True to replace it")
    value = found.to_dict(os.path.abspath(out.parent))
    if out.suffix == ".json":
        out.write_text(json_module.dumps(value, indent=2) + "\n", encoding="utf-8")
        return
    try:
        import yaml
    except ImportError as error:
        raise ImportError(f"{out}: PyYAML is needed for YAML; pip install 'graphzero[import]'") from error
    out.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


def _next(found: Proposal, source: Path, out: Path | None) -> Iterator[str]:
    """Yield the next commands: writing the keys where they are only proposed, the import, the training."""
    if not any(table.foreign_keys for table in found.tables.values()):
        yield "no foreign keys found, so there are no edges; name them in a keys file (see the guide on tables)"
        return
    label, plain = found.label(), found.plain() if out is None else None
    name = f"{(source.name if source.is_dir() else source.stem) or 'tables'}-dataset"
    train = ["graphzero", "train", name]
    if label is None:
        yield "no column looks like a label; the links can be learned (--task links)"
        train += ["--task", "links", *([] if plain else ["--edge-type", _first_edge_type(found)])]
    elif found.tables[label[0]].label is None:
        others = [f"{table}.{column}" for table, one in found.tables.items() for column in one.label_like]
        others.remove(".".join(label))
        rest = f"; others: {', '.join(others)}" if others else ""
        yield f"label: {'.'.join(label)} is a guess; --label chooses the column to learn{rest}"
    steps = []
    if plain is not None:
        steps.append(_plain_import(found, *plain, name))
    else:
        keys = out
        if out is None and not found.declared:
            keys = source / "keys.yaml" if source.is_dir() else source.with_name("keys.yaml")
            steps.append(["graphzero", "inspect", str(source), "--out", str(keys)])
        steps.append(["graphzero", "import", str(source if keys is None else keys), name])
    if label is not None:
        table, column = label
        asked = column if plain else f"{type_name(table)}.{column}"
        steps[-1] += [] if found.tables[table].label else ["--label", asked]
        steps[-1] += [] if found.tables[table].split else ["--splits", "70/15/15"]
    for number, words in enumerate([*steps, train]):
        yield f"{'then' if number else 'next'}: {shlex.join(words)}"


def _plain_import(found: Proposal, edges: str, nodes: str, name: str) -> list[str]:
    """Return the import of a table of edges with a table of its nodes."""
    table = found.tables[edges]
    words = ["graphzero", "import", str(table.file), name, "--nodes", str(found.tables[nodes].file)]
    words += ["--columns", ",".join(table.foreign_keys)]
    return [*words, *(["--times", table.time] if table.time else [])]


def _first_edge_type(found: Proposal) -> str:
    keys = ((table, *key) for table, one in found.tables.items() for key in one.foreign_keys.items())
    return ",".join(map(type_name, next(keys)))
