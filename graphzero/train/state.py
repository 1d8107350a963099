"""The state of a run (weights, optimiser, random numbers, counters), saved to and restored from a checkpoint."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FormatError
from ..load.stats import LoaderStats
from ..machine.monitor import MemoryMonitor, MemorySample
from .checkpoint import Checkpoint, load_checkpoint
from .hetero import HeteroSAGE
from .history import history_note, restore_history
from .inputs import InputEncoders
from .metrics import better
from .models import MODELS, make_model
from .optimizers import Optimizers
from .records import EpochRecord, TrainOptions

if TYPE_CHECKING:
    from .ranks import Round

__all__ = ["EpochSums", "RunState", "load_model", "pack", "restore"]


@dataclasses.dataclass
class EpochSums:
    """Sums over the current epoch."""

    loss: float = 0.0
    weight: float = 0.0
    correct: int = 0
    seeds: int = 0
    batches: int = 0
    wait_seconds: float = 0.0
    compute_seconds: float = 0.0

    def add(self, step: Round) -> None:
        """Count one batch, or one of each rank."""
        self.loss += step.loss * step.weight
        self.weight += step.weight
        self.correct += step.right
        self.seeds += step.seeds
        self.batches += step.batches

    def add_time(self, waited: float, computed: float) -> None:
        """Count the time of one batch: waiting for it, and training on it."""
        self.wait_seconds += waited
        self.compute_seconds += computed

    @property
    def seeds_per_second(self) -> float:
        """Training seeds per second in this epoch so far."""
        seconds = self.wait_seconds + self.compute_seconds
        return self.seeds / seconds if seconds > 0 else 0.0

    def record(
        self, epoch: int, scores: dict[str, float], eval_seconds: float, stats: LoaderStats, metric: str
    ) -> EpochRecord:
        """End the epoch: return the sums and the loader's statistics."""
        return EpochRecord(
            epoch=epoch,
            loss=self.loss / self.weight if self.weight > 0 else 0.0,
            train_accuracy=self.correct / max(self.seeds, 1) if "accuracy" in scores else None,
            val_accuracy=scores.get("accuracy"),
            batches=self.batches,
            seeds=self.seeds,
            seconds=self.wait_seconds + self.compute_seconds,
            eval_seconds=eval_seconds,
            stages={
                "sample": float(stats.sample_seconds),
                "read": float(stats.read_seconds),
                "copy": float(stats.copy_seconds),
                "compute": self.compute_seconds,
                "wait": self.wait_seconds,
            },
            bytes_read=int(stats.bytes_read),
            topology_bytes_read=int(stats.topology_bytes_read),
            bytes_useful=int(stats.bytes_useful),
            hit_rate=float(stats.hit_rate),
            device_bytes=int(stats.copy_to_device_bytes),
            kept_bytes=int(stats.tiers["device"]["bytes"]),
            bottleneck=str(stats.bottleneck),
            metrics={name: score for name, score in scores.items() if name != "accuracy"},
            metric=metric,
        )


class RunState:
    """Everything that changes during a run."""

    def __init__(self, model: torch.nn.Module, optimizer: Optimizers) -> None:
        """Begin at the first batch of the first epoch."""
        self.model = model
        self.step = model  # computes a `Step` from a batch; wraps the model
        self.optimizer = optimizer
        self.epoch = 0
        self.saved = 0  # epochs in the checkpoint
        self.tally = EpochSums()
        self.records: list[EpochRecord] = []
        self.best_epoch = -1
        self.best_score = 0.0
        self.best_weights: dict[str, Tensor] | None = None
        self.progress: list[tuple[float, int]] = [(0.0, 0)]
        self.facts: dict[str, Any] = {}
        self.confusion: dict[str, Any] = {}
        self.monitor: MemoryMonitor | None = None
        self.earlier: list[MemorySample] = []  # of the runs that this one continues
        self.earlier_peak = 0
        self._before = 0.0  # seconds of earlier runs
        self._begin = time.perf_counter()
        self._unmarked = 0  # seeds since the last mark

    @property
    def seconds(self) -> float:
        """The seconds that the run has taken, including the time before it was resumed."""
        return self._before + time.perf_counter() - self._begin

    def mark(self, seeds: int) -> None:
        """Record the progress, at most four times per second."""
        self._unmarked += seeds
        now = self.seconds
        if now - self.progress[-1][0] >= 0.25:
            self.progress.append((now, self.progress[-1][1] + self._unmarked))
            self._unmarked = 0

    @property
    def memory(self) -> list[MemorySample]:
        """Samples of memory, including those before the run was resumed."""
        own = [] if self.monitor is None else list(self.monitor.samples)
        start = max(self._before, self.earlier[-1].seconds if self.earlier else 0.0)
        return self.earlier + [dataclasses.replace(s, seconds=s.seconds + start) for s in own]

    @property
    def peak_anonymous(self) -> int:
        """The most anonymous memory, including the time before the run was resumed."""
        return max(self.earlier_peak, 0 if self.monitor is None else self.monitor.peak_anonymous)

    def close_epoch(self, record: EpochRecord) -> None:
        """Add a finished epoch; keep its weights if it is the best so far."""
        self.records.append(record)
        score = record.score()
        if self.best_weights is None or better(record.metric, score, self.best_score):
            self.best_epoch, self.best_score = record.epoch, score
            self.best_weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        self.epoch += 1
        self.tally = EpochSums()


def pack(
    run: RunState, options: TrainOptions, random: Sequence[Mapping[str, Tensor]], about: Mapping[str, Any]
) -> Checkpoint:
    """The run as named arrays and JSON. `random` has the random states of the ranks, `about` describes the task."""
    arrays = {f"model.{k}": _array(v) for k, v in run.model.state_dict().items()}
    arrays |= {f"best.{k}": _array(v) for k, v in (run.best_weights or {}).items()}
    for index, values in run.optimizer.state().items():
        arrays |= {f"optimizer.{index}.{k}": _array(v) for k, v in values.items()}
    for rank, state in enumerate(random):
        arrays |= {_random_name(kind, rank): _array(v) for kind, v in state.items()}
    encoders, of_edges = (getattr(run.model, f"{what}_encoders", None) for what in ("input", "edge"))
    note = {
        "options": options.defining(),
        "model_class": f"{type(run.model).__module__}.{type(run.model).__qualname__}",
        "model_arguments": run.model.arguments() if isinstance(run.model, HeteroSAGE) else None,
        "inputs": encoders.arguments() if isinstance(encoders, InputEncoders) else None,
        "edge_inputs": of_edges.arguments() if isinstance(of_edges, InputEncoders) else None,
        "epoch": run.epoch,
        "tally": dataclasses.asdict(run.tally),
        "records": [dataclasses.asdict(r) for r in run.records],
        "best_epoch": run.best_epoch,
        "best_accuracy": run.best_score,
        "seconds": run.seconds,
        "about": dict(about),
        "history": history_note(run),
    }
    return Checkpoint(arrays, note)


def restore(run: RunState, saved: Checkpoint, path: str, rank: int = 0) -> None:
    """Restore the run from `saved`; FormatError if the checkpoint does not fit the model.

    A rank without a saved state, because fewer ranks ran before, keeps its random state.
    """
    device = next(run.model.parameters()).device
    try:
        _load_weights(run.model, saved.under("model"))
        best = {k: torch.from_numpy(v.copy()).to(device) for k, v in saved.under("best").items()}
        run.best_weights = best or None
        optimizer: dict[int, dict[str, Tensor]] = {}
        for name, value in saved.under("optimizer").items():
            index, key = name.split(".", 1)
            optimizer.setdefault(int(index), {})[key] = torch.from_numpy(value.copy())
        run.optimizer.load_state(optimizer)
        if rank == 0 or _random_name("cpu", rank) in saved.arrays:
            torch.set_rng_state(torch.from_numpy(saved.arrays[_random_name("cpu", rank)].copy()))
        if device.type == "cuda" and _random_name("cuda", rank) in saved.arrays:
            torch.cuda.set_rng_state(torch.from_numpy(saved.arrays[_random_name("cuda", rank)].copy()), device)
        note = saved.note
        run.epoch = run.saved = int(note["epoch"])
        run.tally = EpochSums(**{"weight": note["tally"]["seeds"], **note["tally"]})  # older ones have no weight
        run.records = [EpochRecord(**r) for r in note["records"]]
        run.best_epoch, run.best_score = int(note["best_epoch"]), float(note["best_accuracy"])
        run._before = float(note["seconds"])
        restore_history(run, note.get("history", {}))
    except Exception as error:  # whatever names, shapes and types in the file make torch raise
        raise FormatError(f"{path}: the checkpoint does not fit this model: {error}") from error


def load_model(path: str | os.PathLike[str], model: torch.nn.Module | None = None) -> torch.nn.Module:
    """Return the model of a saved run with the weights of its best epoch, ready to predict.

    Models of `graphzero.train` are recreated from the checkpoint. For another model pass `model`, constructed as for
    training; a checkpoint holds weights, never code. Its weights are replaced.

    >>> model = load_model("run.npz")  # doctest: +SKIP
    >>> gz.inference(model, ds.graph, ds.features["x"], "out.gd")  # doctest: +SKIP
    """
    saved, name = load_checkpoint(path), os.fspath(path)
    weights = saved.under("best") or saved.under("model")
    try:
        if model is None:
            model = _made_like(saved, weights, name)
        if saved.note.get("inputs") is not None and not hasattr(model, "input_encoders"):
            model.input_encoders = InputEncoders(**saved.note["inputs"])
        if saved.note.get("edge_inputs") is not None and not hasattr(model, "edge_encoders"):
            model.edge_encoders = InputEncoders(**saved.note["edge_inputs"])
        _load_weights(model, weights)
    except FormatError:
        raise
    except Exception as error:  # whatever names, shapes and types in the file make torch raise
        raise FormatError(f"{name}: the checkpoint does not fit this model: {error}") from error
    return model.eval()


def _made_like(saved: Checkpoint, weights: dict[str, Any], path: str) -> torch.nn.Module:
    """Create a model of `graphzero.train` in the shape of the saved weights."""
    if saved.note.get("model_arguments") is not None:
        return HeteroSAGE(**saved.note["model_arguments"])
    ours = {f"{kind.__module__}.{kind.__qualname__}": name for name, kind in MODELS.items()}
    options = saved.note.get("options", {})
    of = saved.note.get("model_class")  # older checkpoints have none
    name = ours.get(of) if of is not None else options.get("model")
    stack = {"sage": "neighbours", "gcn": "linear"}.get(str(name))
    shapes = [weights[f"{stack}.{i}.weight"].shape for i in range(len(weights)) if f"{stack}.{i}.weight" in weights]
    if not shapes:
        of = of or "a model that is not from graphzero.train"
        raise FormatError(f"{path}: holds the weights of {of}; create the model and pass it: load_model(path, model)")
    dropout = float(options.get("dropout", 0.5))
    return make_model(str(name), shapes[0][1], shapes[0][0], shapes[-1][0], len(shapes), dropout)


def _load_weights(model: torch.nn.Module, arrays: dict[str, Any]) -> None:
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in arrays.items()})


def _random_name(kind: str, rank: int) -> str:
    return f"random.{kind}" if rank == 0 else f"random.{kind}.{rank}"


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
