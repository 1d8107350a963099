"""`graphzero compile`: edges into a .gl file, rows into a .gd file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from graphzero import FeatureReport, GraphReport, compile_features, compile_graph

from . import terminal

_EDGES, _ROWS, _TEXT = "Edges (.gl)", "Rows (.gd)", "Text sources"
_COLUMN = "COLUMN"


def command(
    source: Annotated[
        Path, typer.Argument(help="Input: text (CSV, .mtx, gzip), .npy, .gl or .gd.", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(help="Output: a .gl file for edges, a .gd file for rows.", show_default=False)],
    undirected: Annotated[
        bool | None, typer.Option("--undirected/--directed", help="Store each edge both ways.", rich_help_panel=_EDGES)
    ] = None,
    direction: Annotated[
        Literal["out", "in", "both"] | None,
        typer.Option(help="Store edges by source (out, the default), by target (in), or both.", rich_help_panel=_EDGES),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="SRC,DST",
            help="Source and target columns, by name or number (default: 0,1).",
            rich_help_panel=_EDGES,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar=_COLUMN, help="Weight column; 'no' for none (default: the third of three).", rich_help_panel=_EDGES
        ),
    ] = None,
    times: Annotated[
        str | None, typer.Option(metavar=_COLUMN, help="Timestamp column (default: none).", rich_help_panel=_EDGES)
    ] = None,
    edge_ids: Annotated[
        bool | None,
        typer.Option("--edge-ids", help="Store the position of each edge in the input.", rich_help_panel=_EDGES),
    ] = None,
    dedup: Annotated[
        bool | None, typer.Option("--dedup", help="Drop duplicate edges; keep the first.", rich_help_panel=_EDGES)
    ] = None,
    self_loops: Annotated[
        bool | None, typer.Option("--self-loops/--no-self-loops", help="Keep self-loops.", rich_help_panel=_EDGES)
    ] = None,
    spill_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for temporary files (default: next to the output).", rich_help_panel=_EDGES),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the array (default: x).", rich_help_panel=_ROWS)] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Data type to store: float32, float16, int8, ... (default: as the input).", rich_help_panel=_ROWS
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Column separator (default: detected).", rich_help_panel=_TEXT)
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line is a header (default: detected).",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Skip malformed lines and count them.", rich_help_panel=_TEXT)
    ] = False,
    id_base: Annotated[int | None, typer.Option(help="Smallest node id (default: 0).", rich_help_panel=_TEXT)] = None,
    allow_empty: Annotated[
        bool | None, typer.Option("--allow-empty", help="Accept an input without edges.", rich_help_panel=_EDGES)
    ] = None,
    num_nodes: Annotated[int | None, typer.Option(help="Number of nodes; ids are checked against it.")] = None,
    num_sources: Annotated[int | None, typer.Option(help="Number of source nodes, for bipartite edges.")] = None,
    num_targets: Annotated[int | None, typer.Option(help="Number of target nodes, for bipartite edges.")] = None,
    memory: terminal.Memory = "1GB",
    threads: terminal.Threads = None,
    json: terminal.Json = False,
) -> None:
    """Compile edges into a .gl file or rows into a .gd file, within a RAM budget."""
    edges: dict[str, Any] = {
        "undirected": undirected,
        "direction": direction,
        "columns": None if columns is None else [_column(c) for c in columns.split(",")],
        "weights": _column(weights),
        "times": _column(times),
        "edge_ids": edge_ids,
        "dedup": dedup,
        "self_loops": self_loops,
        "spill_dir": spill_dir,
        "allow_empty": allow_empty,
        "num_sources": num_sources,
        "num_targets": num_targets,
    }
    rows: dict[str, Any] = {"name": name, "dtype": dtype}
    chosen = _only_for(out, edges, rows)
    if "undirected" in chosen:
        chosen["directed"] = not chosen.pop("undirected")
    shared = {
        "delimiter": delimiter,
        "header": header,
        "on_error": "skip" if skip_bad_lines else None,
        "id_base": id_base,
        "num_nodes": num_nodes,
        "num_threads": threads,
    }
    chosen.update({option: value for option, value in shared.items() if value is not None})
    make: Callable[..., GraphReport | FeatureReport] = compile_graph if out.suffix == ".gl" else compile_features
    with terminal.progress_bars() as progress:
        report = make(source, out, memory=memory, progress=progress, **chosen)
    if json:
        terminal.print_json(dataclasses.asdict(report))
    else:
        terminal.console.print(str(report), markup=False, soft_wrap=True)


def _only_for(out: Path, edges: dict[str, Any], rows: dict[str, Any]) -> dict[str, Any]:
    """Return the options that apply to the kind of file `out` is; raise for options of the other kind."""
    if out.suffix not in (".gl", ".gd"):
        raise typer.BadParameter(f"{out} ends in neither .gl (edges) nor .gd (rows)", param_hint="OUT")
    wanted, other, what = (edges, rows, "rows (.gd)") if out.suffix == ".gl" else (rows, edges, "edges (.gl)")
    for option, value in other.items():
        if value is not None:
            raise typer.BadParameter(f"--{option.replace('_', '-')} is for {what}, not for {out}", param_hint="OUT")
    return {option: value for option, value in wanted.items() if value is not None}


def _column(text: str | None) -> str | int | bool | None:
    """Return a column as it was named: a number, a name, or 'no' for none."""
    if text is None:
        return None
    return False if text == "no" else int(text) if text.isdecimal() else text
