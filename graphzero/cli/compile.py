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
        Path, typer.Argument(help="Text (CSV, .mtx, ...; gzip too), .npy, .gl, .gd.", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(help="graph.gl or x.gd: the suffix says what to make.", show_default=False)],
    undirected: Annotated[
        bool | None, typer.Option("--undirected/--directed", help="Store each edge both ways.", rich_help_panel=_EDGES)
    ] = None,
    direction: Annotated[
        Literal["out", "in", "both"] | None,
        typer.Option(help="Rows of targets (out, the default), of sources, or both.", rich_help_panel=_EDGES),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="SRC,DST", help="Names or numbers of the columns (0,1).", rich_help_panel=_EDGES),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar=_COLUMN, help="Name or number (the third of three); 'no': none.", rich_help_panel=_EDGES),
    ] = None,
    times: Annotated[
        str | None, typer.Option(metavar=_COLUMN, help="Name or number (none).", rich_help_panel=_EDGES)
    ] = None,
    edge_ids: Annotated[
        bool | None, typer.Option("--edge-ids", help="Keep each edge's number in the source.", rich_help_panel=_EDGES)
    ] = None,
    dedup: Annotated[
        bool | None, typer.Option("--dedup", help="Keep the first of equal edges.", rich_help_panel=_EDGES)
    ] = None,
    self_loops: Annotated[
        bool | None, typer.Option("--self-loops/--no-self-loops", help="Keep self-loops.", rich_help_panel=_EDGES)
    ] = None,
    spill_dir: Annotated[
        Path | None, typer.Option(help="Where to put what exceeds the memory.", rich_help_panel=_EDGES)
    ] = None,
    name: Annotated[str | None, typer.Option(help="The array's name (x).", rich_help_panel=_ROWS)] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16, int8, ... (the source's own).", rich_help_panel=_ROWS)
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Found out by itself where not given.", rich_help_panel=_TEXT)
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Found out by itself where not given.", rich_help_panel=_TEXT),
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count bad lines, do not stop.", rich_help_panel=_TEXT)
    ] = False,
    id_base: Annotated[int | None, typer.Option(help="The first node's id (0).", rich_help_panel=_TEXT)] = None,
    allow_empty: Annotated[
        bool | None, typer.Option("--allow-empty", help="A source without edges is no error.", rich_help_panel=_EDGES)
    ] = None,
    num_nodes: Annotated[int | None, typer.Option(help="How many nodes there are; ids are checked.")] = None,
    num_sources: Annotated[int | None, typer.Option(help="Sources, where targets are other nodes.")] = None,
    num_targets: Annotated[int | None, typer.Option(help="Targets, where sources are other nodes.")] = None,
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
        "num_sources": num_sources,
        "num_targets": num_targets,
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
    """Return the options given for the kind of file that `out` is; options of the other kind are refused."""
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
