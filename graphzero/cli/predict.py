"""`graphzero predict`: predictions of a trained model, from a checkpoint to a table or a .gd file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .train import require_torch


def command(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="PATH", help="Output file: .csv, .parquet or .gd.")],
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Checkpoint (default: the newest run in DATASET/runs).")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Number of layers to compute (default: all).", show_default=False)
    ] = None,
    node_type: Annotated[str | None, typer.Option(help="Node type to predict, for typed datasets.")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Predict only the seeds of this split (runs by time, task tables), or evaluate its links."),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Links: targets per source (10 in tables).")] = None,
    exclude: Annotated[str, typer.Option(metavar="train|all|none", help="Links: known edges to exclude.")] = "train",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget.")] = "2GB",
    threads: Annotated[int | None, typer.Option(min=1, help="Number of reading threads.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: cpu, cuda, ... (default: a GPU if available).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Predict all nodes with a trained model, over all neighbours. The suffix of --out selects the format.

    A .csv or .parquet has one row per node: its original id, the predicted class or number, and a probability per
    class. A .gd has the outputs of the model, before softmax. The features and the direction of edges are those of
    the run. For runs by time and task tables there is one row per seed, with its time.

    For a run with --task links, tables have the best targets of each source, and a .gd without --top has embeddings.
    With --split test, embeddings are computed without the edges of the split, known edges are excluded from the
    ranking, and MAP@k, precision@k and recall@k over its sources are printed.
    """
    require_torch()
    import dataclasses

    import graphzero as gz
    from graphzero.train.predictions import predict

    ds = gz.Dataset(dataset)
    if layers is not None and ds.is_typed:
        raise typer.BadParameter(
            "not supported for typed datasets, which are predicted with all layers", param_hint="--layers"
        )
    if exclude not in ("train", "all", "none"):
        raise typer.BadParameter(f"{exclude!r}, expected train, all or none", param_hint="--exclude")
    if out.suffix not in (".csv", ".parquet", ".gd"):
        expected = "expected a name that ends in .csv, .parquet or .gd"
        raise typer.BadParameter(f"{out.name!r}, {expected}", param_hint="--out")
    with terminal.progress_bars() as progress:
        report = predict(
            ds,
            checkpoint or _newest(ds.path),
            out,
            node_type=node_type,
            split=split,
            num_layers=layers,
            top=top,
            exclude=exclude,
            memory=memory,
            num_threads=threads,
            device=device,
            progress=progress,
        )
    if json:
        terminal.print_json(dataclasses.asdict(report) | {"shape": [report.rows, report.columns]})
        return
    terminal.print_facts(
        f"{report.path}",
        [
            *((f"{split} {name}", f"{score:.4f}") for name, score in report.metrics.items()),
            ("rows", f"{report.rows:,} x {report.columns}"),
            ("size", terminal.size(report.bytes_written)),
            ("took", terminal.duration(report.seconds)),
        ],
    )


def _newest(dataset: str) -> Path:
    """Return the run saved last in the dataset's folder."""
    saved = sorted(Path(dataset, "runs").glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)
    if not saved:
        raise typer.BadParameter(
            f"no run is saved in {Path(dataset, 'runs')}; pass a checkpoint file", param_hint="--checkpoint"
        )
    return saved[-1]
