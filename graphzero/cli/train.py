"""`graphzero train`: learn labels of nodes, or links, of a dataset out of core, with checkpoints and a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from graphzero.args.target import check_extension
from graphzero.machine.facts import check_room_for_torch

from . import faults, launch, terminal
from .train_output import (
    NOT_SAVED,
    READ_ONLY,
    print_next,
    print_result,
    print_resume,
    print_resumed,
    print_schedule,
    progress,
)

_MODEL, _TRAINING, _RUNNING, _OUTPUT = "Model", "Training", "Running", "Output"
_BY_SIZE = "by the number of training seeds"


def numbers(text: str, option: str) -> list[int]:
    """Return the comma-separated numbers of `text`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}, expected numbers separated by commas, such as 15,10", param_hint=option
        ) from None


def _weights(text: str | None) -> str | list[float] | None:
    """Return class weights: "balanced", or comma-separated numbers."""
    if text is None or text == "balanced":
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        wanted = "balanced, or one number per class, such as 1,2.5"
        raise typer.BadParameter(f"{text!r}, expected {wanted}", param_hint="--class-weights") from None


def command(
    dataset: Annotated[
        Path, typer.Argument(help="Dataset folder, as made by `graphzero import` or `synth`.", show_default=False)
    ],
    task: Annotated[
        str,
        typer.Option(
            metavar="nodes|links|NAME",
            help="What to learn: node labels, links, or a task table of the dataset.",
            rich_help_panel=_MODEL,
        ),
    ] = "nodes",
    model: Annotated[
        str, typer.Option(help="Model: sage or gcn (typed datasets: sage).", rich_help_panel=_MODEL)
    ] = "sage",
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.", rich_help_panel=_MODEL)] = 128,
    layers: Annotated[
        int | None,
        typer.Option(
            help="Number of layers; must match the number of fanouts.", rich_help_panel=_MODEL, show_default=False
        ),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Dropout probability.", rich_help_panel=_MODEL)] = 0.5,
    feature: Annotated[str, typer.Option(help="Name of the feature array.", rich_help_panel=_MODEL)] = "x",
    node_type: Annotated[
        str | None, typer.Option(help="Node type to learn, for typed datasets.", rich_help_panel=_MODEL)
    ] = None,
    edge_type: Annotated[
        str | None,
        typer.Option(metavar="SRC,REL,DST", help="Edge type to learn, for typed datasets.", rich_help_panel=_MODEL),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="classification|regression|multilabel",
            help="Kind of node labels (default: detected from their values).",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    loss: Annotated[
        str, typer.Option(metavar="mse|mae", help="Loss of a regression.", rich_help_panel=_TRAINING)
    ] = "mse",
    class_weights: Annotated[
        str | None,
        typer.Option(
            metavar="balanced|N,N",
            help="Class weights in the loss; balanced gives all classes equal weight.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Metric that selects the best epoch, such as auc or f1_macro.", rich_help_panel=_TRAINING),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|edges",
            help="Column of node times, or edges for links; newer nodes and edges are not sampled.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    split_by_time: Annotated[
        str | None,
        typer.Option(
            metavar="70/15/15|DATE/DATE",
            help="Split by time, oldest first: fractions, or start dates of validation and test.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    table_encoder: Annotated[
        str,
        typer.Option(metavar="sum|attention", help="How table columns are combined.", rich_help_panel=_MODEL),
    ] = "sum",
    id_embedding_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Maximum size of learned embeddings for nodes without features; beyond it, degrees are used.",
            rich_help_panel=_MODEL,
        ),
    ] = "256MB",
    id_embeddings: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE,...",
            help="Node types that get learned embeddings in addition to their columns or features.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    fanouts: Annotated[
        str, typer.Option(metavar="N,N", help="Neighbours to sample per hop; -1 for all.", rich_help_panel=_TRAINING)
    ] = "15,10",
    eval_fanouts: Annotated[
        str | None,
        typer.Option(
            metavar="N,N", help="Fanouts for evaluation (default: as for training).", rich_help_panel=_TRAINING
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help=f"Seeds per batch (default: 32 to 1024, {_BY_SIZE}).", rich_help_panel=_TRAINING),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            metavar="in|out",
            help="Edges that carry messages: in, those that end at a node; out, those that start at it (default: in, "
            "if the file has it).",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help=f"Maximum number of epochs (default: 10 to 200, {_BY_SIZE}).", rich_help_panel=_TRAINING),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of Adam (default: 0.003).", rich_help_panel=_TRAINING)
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Weight decay (Adam).", rich_help_panel=_TRAINING)] = 0.0,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many epochs without improvement (default: a fifth of the epochs, at least 10, unless "
            "--epochs is given).",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", rich_help_panel=_TRAINING)] = 0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory budget for the loaders, or auto.", rich_help_panel=_RUNNING)
    ] = "auto",
    gpu_memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="GPU memory to keep rows in, auto or 0 for none.", rich_help_panel=_RUNNING),
    ] = "0",
    prefetch: Annotated[
        int | None, typer.Option(help="Batches to prefetch (default: threads + 2).", rich_help_panel=_RUNNING)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of loader threads.", rich_help_panel=_RUNNING)
    ] = None,
    nproc: Annotated[
        int,
        typer.Option(
            min=1, help="Number of processes, each training on its share of every epoch.", rich_help_panel=_RUNNING
        ),
    ] = 1,
    device: Annotated[
        str | None, typer.Option(help="Device: cpu, cuda, ... (default: a GPU if available).", rich_help_panel=_RUNNING)
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            metavar="float32|bfloat16",
            help="Precision of the model; bfloat16 is faster on most GPUs, and on processors that compute in it.",
            rich_help_panel=_RUNNING,
        ),
    ] = "float32",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint file (.npz), saved every epoch (default: in DATASET/runs).",
            rich_help_panel=_RUNNING,
        ),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Whether to save the run.", rich_help_panel=_RUNNING)
    ] = True,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the run of --checkpoint (default: the newest interrupted run in DATASET/runs).",
            rich_help_panel=_RUNNING,
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing checkpoint.", rich_help_panel=_RUNNING)
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a report with plots (.html).", rich_help_panel=_OUTPUT)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Train a graph neural network on a dataset that need not fit in RAM.

    Ctrl-C stops after the current batch and saves the run to --checkpoint; --resume continues it exactly.

    --nproc 2 trains in two processes (torchrun), on one GPU each where there are GPUs. Each process takes --batch-size
    seeds per step. A run may be resumed with another number of processes. On several hosts: torchrun ... -m graphzero
    train ...
    """
    require_torch()
    from graphzero.dataset.dataset import Dataset
    from graphzero.train import Observer, Trainer, TrainOptions
    from graphzero.train.report import require_plots

    class NoNotes(Observer):
        def note(self, text: str) -> None:
            """Leave notes to the first rank."""

    if report is not None:
        require_plots()
        if report.is_dir():
            raise typer.BadParameter(f"{report} is a folder, expected the name of a file", param_hint="--report")
        check_extension(str(report), "report")
    if resume and checkpoint is None:
        checkpoint = interrupted_run(Dataset(dataset).path)
        if not launch.is_rank():
            print_resumed(checkpoint)
    if checkpoint is None and overwrite:
        raise typer.BadParameter("needs --checkpoint PATH; other runs get a new name", param_hint="--overwrite")
    if checkpoint is not None and not save:
        reason = "cannot be combined with --checkpoint PATH, where the run is saved"
        raise typer.BadParameter(reason, param_hint="--no-save")
    if resume and overwrite:
        raise typer.BadParameter(
            "cannot be combined with --resume, which continues the saved run", param_hint="--overwrite"
        )
    if direction not in (None, "in", "out"):
        raise typer.BadParameter(f"{direction!r}, expected in or out", param_hint="--direction")
    hops = numbers(fanouts, "--fanouts")
    if layers is not None and layers != len(hops):
        raise typer.BadParameter(
            f"{layers}, but --fanouts has {len(hops)} numbers; need one per layer", param_hint="--layers"
        )
    options = TrainOptions(
        model=model,
        hidden=hidden,
        dropout=dropout,
        feature=feature,
        task=task,
        node_type=node_type,
        edge_type=None if edge_type is None else edge_type.split(","),
        direction=direction,
        fanouts=hops,
        eval_fanouts=None if eval_fanouts is None else numbers(eval_fanouts, "--eval-fanouts"),
        batch_size=batch_size,
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        patience=patience,
        seed=seed,
        memory=memory,
        gpu_memory=gpu_memory,
        prefetch=prefetch,
        num_threads=threads,
        device=device,
        precision=precision,
        target=target,
        loss=loss,
        class_weights=_weights(class_weights),
        metric=metric,
        time=time,
        table_encoder=table_encoder,
        id_embedding_memory=id_embedding_memory,
        id_embeddings=[] if id_embeddings is None else id_embeddings.split(","),
        split_by_time=split_by_time,
    )
    unsaved = NOT_SAVED
    if checkpoint is None and save:
        checkpoint = free_checkpoint(Dataset(dataset).path)
        unsaved = READ_ONLY
    if nproc > 1 and not launch.is_rank():
        # Check the arguments before several processes are started.
        checked = Trainer(Dataset(dataset), options, checkpoint=checkpoint, observer=NoNotes())
        checked.check_start(resume=resume, overwrite=overwrite)
        launch.launch(nproc)
        return
    with launch.joined(device) as reports:
        with progress(quiet=json or not reports) as observer:
            run = Trainer(Dataset(dataset), options, checkpoint=checkpoint, observer=observer)
            if reports and not json:
                print_schedule(run)
            result = run.fit(resume=resume, overwrite=overwrite)
        if reports:
            print_result(result, report, json, unsaved)
            if not json and checkpoint is not None and result.epochs and result.stopped != "interrupted":
                print_next(dataset, checkpoint, report)
        if result.stopped == "interrupted":
            if reports:
                print_resume(checkpoint)
            raise typer.Exit(faults.EXIT_INTERRUPTED)


def free_checkpoint(dataset: str) -> Path | None:
    """Return the path of the next run of a dataset, `DATASET/runs/1.npz`, 2, ...; None if it is read-only."""
    if not os.access(dataset, os.W_OK):
        terminal.errors.print(
            f"{dataset} is read-only, so the run is not saved; use --checkpoint PATH to save it elsewhere"
        )
        return None
    folder = Path(os.path.relpath(dataset) if not os.path.relpath(dataset).startswith("..") else dataset, "runs")
    taken = {path.stem for path in folder.glob("*.npz")}
    return folder / f"{next(n for n in range(1, len(taken) + 2) if str(n) not in taken)}.npz"


def interrupted_run(dataset: str) -> Path:
    """Return the newest run of a dataset that was interrupted, by Ctrl-C or a crash."""
    from graphzero.train.checkpoint import is_in_use, load_note

    folder = Path(dataset, "runs")
    runs = [path for path in folder.glob("*.npz") if path.is_file() and not is_in_use(path)]
    for path in sorted(runs, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        note = load_note(path)
        result = note.get("result") or {"stopped": "interrupted"}  # a crash leaves none
        if note and result.get("stopped") == "interrupted":
            return Path(os.path.relpath(path) if not os.path.relpath(path).startswith("..") else path)
    reason = f"no interrupted run in {folder}; pass --checkpoint PATH, the file of the run to continue"
    raise typer.BadParameter(reason, param_hint="--resume")


def require_torch() -> None:
    """Import torch; raise ImportError with the install command if it is missing, BudgetError if memory is too low.

    torch's OpenMP threads spin while they wait for one another, on cores that the loader could use. With a passive
    wait policy, a training step next to a loader on two cores took half the processor time. The policy must be set
    before torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    check_room_for_torch()
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("training needs torch: pip install 'graphzero[torch]'") from error
