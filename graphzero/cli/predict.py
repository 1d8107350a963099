"""`graphzero predict`: the outputs of a trained model for every node, from a checkpoint to a .gd file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import terminal
from .train import require_torch


def command(
    dataset: Annotated[Path, typer.Argument(help="The dataset folder.", show_default=False)],
    checkpoint: Annotated[Path, typer.Option(metavar="PATH", help="What `graphzero train --checkpoint` saved.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="The .gd file to write, a row for each node.")],
    layers: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many layers: hidden rows.", show_default=False)
    ] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="RAM that it may take.")] = "2GB",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that read.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; the GPU where there is one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Compute a trained model's output for all nodes, over all neighbours, and write it to a .gd file.

    The features and the direction of edges are those of the run. A row has one number for each class, before softmax:
    the largest is the prediction.
    """
    require_torch()
    import dataclasses

    import torch

    import graphzero as gz
    from graphzero.train import load_checkpoint, load_model

    ds = gz.Dataset(dataset)
    options: dict[str, Any] = load_checkpoint(checkpoint).note.get("options", {})
    feature, direction = options.get("feature", "x"), options.get("direction")
    if feature not in ds.features:
        known = ", ".join(map(repr, ds.features)) or "none"
        raise ValueError(f"{checkpoint}: trained on the feature {feature!r}, the dataset has {known}")
    model = load_model(checkpoint)
    width = getattr(model, "dims", [0])[0]
    if width != ds.features[feature].feature_dim:
        raise ValueError(
            f"{checkpoint}: trained on rows of {width} numbers, {feature!r} of {dataset} has "
            f"{ds.features[feature].feature_dim}"
        )
    device = device if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    report = gz.inference(
        model.to(device),
        ds.graph,
        ds.features[feature],
        out,
        memory=memory,
        num_layers=layers,
        direction=direction,
        device=device,
        num_threads=threads,
    )
    if json:
        terminal.print_json(dataclasses.asdict(report))
        return
    terminal.print_facts(
        f"{report.path}",
        [
            ("rows", f"{report.shape[0]:,} x {report.shape[1]}"),
            ("layers", report.layers),
            ("size", terminal.size(report.bytes_written)),
            ("took", terminal.duration(report.seconds)),
        ],
    )
