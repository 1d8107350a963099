"""What `graphzero train` prints: progress, the result, and the commands that come next."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import terminal

if TYPE_CHECKING:
    from graphzero.train import Observer, Trainer, TrainResult

__all__ = [
    "NOT_SAVED",
    "READ_ONLY",
    "print_next",
    "print_result",
    "print_resume",
    "print_resumed",
    "print_schedule",
    "progress",
]

NOT_SAVED = "the model was not saved (--no-save)"
READ_ONLY = "the model was not saved, since the dataset is read-only (--checkpoint PATH)"


def print_schedule(run: Trainer) -> None:
    """Print the length of the run and the learning rate, which may have been chosen by the size of the data."""
    from graphzero.train.sizing import describe_schedule

    _say(describe_schedule(run.options, run.task.trained()))


def print_next(dataset: Path, checkpoint: Path, report: Path | None) -> None:
    """Print the commands that predict with the run and show it."""
    words = ["graphzero", "predict", str(dataset), "--checkpoint", str(checkpoint), "--out", "predictions.csv"]
    _say(f"next: {shlex.join(words)}")
    if report is None and importlib.util.find_spec("matplotlib"):
        _say(f"then: {shlex.join(['graphzero', 'report', str(checkpoint), '--out', 'report.html'])}")


def _say(text: str) -> None:
    terminal.console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_result(result: TrainResult, report: Path | None, json: bool, unsaved: str = NOT_SAVED) -> None:
    """Write the report, and print the result as facts or as JSON; `unsaved` says why there is no checkpoint."""
    if report is not None and result.epochs:
        result.write_report(report)
    if json:
        terminal.print_json(result.to_dict() | {"report": report})
    else:
        _print_facts(result, report, unsaved)


def _print_facts(result: TrainResult, report: Path | None, unsaved: str) -> None:
    from graphzero.train.metrics import shown

    how = {
        "finished": "all epochs done",
        "patience": "no improvement within the patience",
        "interrupted": "interrupted",
    }
    ranks = result.data["ranks"]
    whose = "whole process" if ranks == 1 else f"of {ranks} processes together"
    facts: list[tuple[str, object]] = [
        ("epochs", len(result.epochs)),
        ("took", terminal.duration(result.seconds)),
        ("peak memory", f"{terminal.size(result.peak_anonymous)} anonymous, {whose}"),
    ]
    if result.epochs:
        facts.append(("throughput", f"{result.seeds_per_second:,.0f} seeds/s"))
        found = shown(result.metric, result.val_score)
        facts.append((f"validation {result.metric}", f"{found} in epoch {result.best_epoch + 1}, the best"))
    if result.test_accuracy is not None:
        facts.append(("test accuracy", f"{result.test_accuracy:.2%}"))
    facts += [(f"test {name}", f"{score:.4f}") for name, score in result.test_metrics.items()]
    if result.own_baseline:
        split = "validation" if result.test_score is None else "test"
        scores = ", ".join(f"{name} {shown(name, score)}" for name, score in result.own_baseline.items())
        what = "largest class" if "accuracy" in result.own_baseline else "mean"
        facts.append((f"{split} baseline", f"{scores}: always the {what} of the training split"))
    facts.append(("checkpoint", result.checkpoint or f"none; {unsaved}"))
    if report is not None and result.epochs:
        facts.append(("report", report))
    terminal.print_facts(f"Training stopped: {how[result.stopped]}", facts)


def print_resume(checkpoint: Path | None) -> None:
    """Print the command that continues an interrupted run."""
    if checkpoint is None:
        terminal.errors.print("Nothing was saved. With --checkpoint PATH, a run can be continued by --resume.")
        return
    given = [argument for argument in sys.argv[1:] if argument not in ("--resume", "--overwrite")]
    where = [] if "--checkpoint" in given else ["--checkpoint", str(checkpoint)]
    again = shlex.join(["graphzero", *given, *where, "--resume"])
    terminal.errors.print(f"Saved to {checkpoint}. To continue:\n  {again}", soft_wrap=True)


def print_resumed(checkpoint: Path) -> None:
    """Print which run is continued, where that was not given."""
    terminal.errors.print(f"Continuing {checkpoint}, the newest interrupted run.", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Observer]:
    """Yield an observer that prints one line per epoch and, on a terminal, shows a bar for the batches."""
    from graphzero.train import Observer
    from graphzero.train.progress import ShownProgress

    class Lines(ShownProgress):
        def note(self, text: str) -> None:
            terminal.errors.print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)

    observer = Observer() if quiet else Lines()
    try:
        yield observer
    finally:
        observer.close()
