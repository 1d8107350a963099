"""What a report needs of a run: where and how it ran, memory and progress over time. Saved with the checkpoint."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..args.progress import in_notebook
from ..args.sizes import format_size
from ..errors import FormatError
from ..machine import facts
from ..machine.monitor import MemorySample
from .checkpoint import has_checkpoint, load_checkpoint, save_checkpoint
from .records import EpochRecord, TrainOptions, TrainResult

if TYPE_CHECKING:
    from .state import RunState

__all__ = ["history_note", "read_result", "restore_history", "run_facts", "save_result"]

_MOST = 500  # points kept of each series
_SAVED = ("facts", "data", "val_accuracy", "test_accuracy", "stopped", "seconds", "peak_anonymous", "metric")
_SAVED_TOO = ("val_metrics", "test_metrics", "confusion")
_SAVED_SINCE = ("baseline",)  # older checkpoints have none


def run_facts(data: Any, model: torch.nn.Module, device: torch.device) -> dict[str, Any]:
    """Return where a run took place: dataset, model, date, command, versions, machine."""
    import graphzero

    found = facts.processors()
    machine = [f"{found['usable']} processors ({found['model'] or platform.machine()})"]
    machine.append(f"{format_size(facts.memory()['total'] or 0)} of RAM")
    if device.type == "cuda":
        machine.append(torch.cuda.get_device_name(device))
    return {
        "dataset": str(getattr(data, "name", "") or type(data).__name__),
        "path": str(getattr(data, "path", "")),
        "model": type(model).__name__,
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "command": _command(),
        "versions": {
            "graphzero": graphzero.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "machine": ", ".join([*machine, f"{platform.system()} {platform.release()}"]),
    }


def _command() -> str:
    if in_notebook():
        return "a notebook"
    program, *arguments = sys.argv or ["python"]
    name = os.path.basename(program)
    called = ["graphzero"] if name in ("graphzero", "__main__.py") else ["python", name] if name else ["python"]
    return shlex.join([*called, *arguments])


def _thinned(series: Sequence[Any]) -> list[Any]:
    step = max(1, math.ceil(len(series) / _MOST))
    return [*series[::step], *([series[-1]] if series and (len(series) - 1) % step else [])]


def history_note(run: RunState) -> dict[str, Any]:
    """Return the history of a run as JSON values."""
    return {
        "progress": _thinned(run.progress),
        "memory": [dataclasses.astuple(sample) for sample in _thinned(run.memory)],
        "peak_anonymous": run.peak_anonymous,
        "facts": run.facts,
        "confusion": run.confusion,
    }


def restore_history(run: RunState, note: dict[str, Any]) -> None:
    """Continue the history of a saved run; older checkpoints have none."""
    run.progress = [(float(t), int(n)) for t, n in note.get("progress", [])] or [(0.0, 0)]
    run.earlier = [MemorySample(*sample) for sample in note.get("memory", [])]
    run.earlier_peak = int(note.get("peak_anonymous", 0))
    run.confusion = dict(note.get("confusion", {}))


def save_result(path: str, result: TrainResult) -> None:
    """Add the result of a run to its checkpoint, so that `graphzero report` can show it."""
    if not has_checkpoint(path):
        return
    saved = load_checkpoint(path)
    everything = result.to_dict()
    saved.note["result"] = {name: everything[name] for name in (*_SAVED, *_SAVED_TOO, *_SAVED_SINCE, "options")}
    save_checkpoint(path, saved)


def read_result(path: str | os.PathLike[str]) -> TrainResult:
    """Return the result of a saved run, without its model, which `load_model` reads.

    >>> read_result("papers/runs/1.npz").test_accuracy  # doctest: +SKIP
    0.83
    """
    note, name = load_checkpoint(path).note, os.fspath(path)
    if not isinstance(note.get("result"), dict):
        raise FormatError(f"{name}: holds no result; the run did not end, or an older version wrote it")
    try:
        found, history = note["result"], note.get("history", {})
        return TrainResult(
            model=torch.nn.Module(),
            options=TrainOptions(**found["options"]),
            epochs=[EpochRecord(**record) for record in note["records"]],
            best_epoch=int(note["best_epoch"]),
            checkpoint=name,
            memory=[MemorySample(*sample) for sample in history.get("memory", [])],
            progress=[(float(t), int(n)) for t, n in history.get("progress", [])],
            **{field: found[field] for field in (*_SAVED, *_SAVED_TOO)},
            **{field: found[field] for field in _SAVED_SINCE if field in found},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{name}: its result cannot be read: {error}") from error
