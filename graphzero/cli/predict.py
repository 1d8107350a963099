"""`graphzero predict`: the outputs of a trained model for every node, from a checkpoint to a .gd file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import terminal
from .train import require_torch

if TYPE_CHECKING:
    from graphzero.dataset import Dataset
    from graphzero.inference import InferenceReport


def command(
    dataset: Annotated[Path, typer.Argument(help="The dataset folder.", show_default=False)],
    checkpoint: Annotated[Path, typer.Option(metavar="PATH", help="What `graphzero train --checkpoint` saved.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="The .gd file to write, a row for each node.")],
    layers: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many layers: hidden rows.", show_default=False)
    ] = None,
    node_type: Annotated[str | None, typer.Option(help="Whose rows to write, of several types.")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="RAM that it may take.")] = "2GB",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that read.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; the GPU where there is one.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Compute a trained model's output for all nodes, over all neighbours, and write it to a .gd file.

    The features and the direction of edges are those of the run. A row has one number for each class, before softmax:
    the largest is the prediction. In a dataset of several types, rows are of the type that was trained on. For
    a run with --task links, rows are embeddings.
    """
    require_torch()
    import dataclasses

    import torch

    import graphzero as gz
    from graphzero.train import load_checkpoint

    ds = gz.Dataset(dataset)
    options: dict[str, Any] = load_checkpoint(checkpoint).note.get("options", {})
    device = device if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    running = {"memory": memory, "device": device, "num_threads": threads}
    if ds.is_typed:
        report = _typed(ds, checkpoint, options | {"node_type": node_type}, out, layers, running)
    else:
        report = _plain(ds, checkpoint, options, out, layers, running)
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


def _plain(
    ds: Dataset, checkpoint: Path, options: Any, out: Path, layers: int | None, running: dict[str, Any]
) -> InferenceReport:
    import tempfile

    import torch

    import graphzero as gz
    from graphzero.train import TrainOptions, load_model
    from graphzero.train.encoded_rows import encoded_stores
    from graphzero.train.inputs import Inputs, plain_type

    feature, direction = options.get("feature", "x"), options.get("direction")
    model = load_model(checkpoint).to(running["device"])
    inputs = Inputs(ds, TrainOptions(feature=feature), typed=False)
    width = getattr(model, "dims", [0])[0]
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as folder:
        encoded = encoded_stores(inputs, model, folder, torch.device(running["device"]))
        rows = encoded.get(plain_type) or inputs.stores[plain_type].get("x")
        if rows is None or width != rows.feature_dim:
            found = "no such feature" if rows is None else f"rows of {rows.feature_dim}"
            raise ValueError(f"{checkpoint}: trained on rows of {width} numbers, {feature!r} of {ds.path} has {found}")
        return gz.inference(model, ds.graph, rows, out, num_layers=layers, direction=direction, **running)


def _typed(
    ds: Dataset, checkpoint: Path, options: Any, out: Path, layers: int | None, running: dict[str, Any]
) -> InferenceReport:
    from graphzero.train import HeteroSAGE, load_model, typed_inference

    if layers is not None:
        raise typer.BadParameter("a dataset of several types is predicted with all layers", param_hint="--layers")
    model = load_model(checkpoint)
    if not isinstance(model, HeteroSAGE) or (model.node_types, model.edge_types) != ds.metadata():
        raise ValueError(f"{checkpoint}: trained on other node and edge types than {ds.path} has: {ds.metadata()}")
    node_type = options["node_type"] or model.targets[0]
    if node_type not in model.targets:
        known = ", ".join(model.targets)
        raise typer.BadParameter(f"{node_type!r}, the model has outputs for {known}", param_hint="--node-type")
    return typed_inference(
        model,
        ds,
        out,
        node_type=node_type,
        feature=options.get("feature", "x"),
        **running,
    )
