"""The training loop: batches from the loader, a model, and a run that can be stopped and resumed exactly."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch

from ..args.sizes import format_size, parse_size
from ..dataset.dataset import Dataset
from ..dataset.manifest import edge_key
from ..errors import GraphZeroError
from ..load.epochs import EpochLoader
from ..load.stats import LoaderStats
from ..machine.monitor import MemoryMonitor
from ..machine.ranks import local_threads
from .checkpoint import Checkpoint, check_target, has_checkpoint, load_checkpoint, lock_of_run, save_checkpoint
from .hetero import HeteroSAGE
from .history import run_facts, save_result
from .link_tasks import LinkTask
from .loaders import Loaders
from .models import SampledModel
from .optimizers import Optimizers
from .overlap import overlap_notes
from .progress import shown_if_watched
from .ranks import Ranks, combine, random_state
from .records import Observer, Stopped, TrainingData, TrainOptions, TrainResult
from .seeds import class_names, table_of
from .state import RunState, pack, restore
from .tasks import NodeTask, Task
from .typed_tasks import TypedNodeTask
from .unused import refuse_unused

__all__ = ["Trainer"]


class Trainer:
    """Trains a model on a dataset within a memory budget.

    Ctrl-C stops after the current batch. With `checkpoint`, the run is saved then and after every epoch, and
    `fit(resume=True)` continues it exactly: same batches, same weights.

    >>> from graphzero.train import Trainer, TrainOptions
    >>> run = Trainer(gz.Dataset("data"), TrainOptions(fanouts=[15, 10], memory="2GB"))  # doctest: +SKIP
    >>> run.fit().test_accuracy  # doctest: +SKIP
    0.83
    """

    def __init__(
        self,
        data: TrainingData,
        options: TrainOptions | None = None,
        *,
        model: torch.nn.Module | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Check that the data can be trained on. `model` overrides `options.model`.

        Any module with `forward(x, edge_index)` can be used, such as those of PyG: it gets a sampled batch, and the
        rows of the seeds are taken from its output. For a dataset of several types it gets `x_dict` and
        `edge_index_dict`, and returns a dict by node type. For links, it returns embeddings.
        """
        self.data = data
        options = options if options is not None else TrainOptions()
        self.checkpoint = os.fspath(checkpoint) if checkpoint is not None else None
        if self.checkpoint is not None:
            check_target(self.checkpoint)
        self.ranks = Ranks()
        self.device = self.ranks.device(options.device, options.gpu_memory)
        self.task = make_task(data, options, self.device)
        self.options = self.task.options  # with numbers for those that depend on the data
        self.task.rank, self.task.world_size = self.ranks.rank, self.ranks.size
        self.task.pads_nodes = model is None and self.task.gains_from_padding()
        self.observer = (observer or shown_if_watched()) if self.ranks.first else Observer()
        self.reads = f"memory {self.options.memory}"  # what the loaders read within
        for note in (*self.task.inputs.notes, *overlap_notes(self.task)) if self.ranks.first else ():
            self.observer.note(note)
        self._given_model = model
        self._confusion: dict[str, Any] = {}  # of the last evaluation
        self._memory = 0 if self.options.memory == "auto" else parse_size(self.options.memory)

    # -- the run ------------------------------------------------------------------------------------------------------

    def fit(self, *, resume: bool = False, overwrite: bool = False) -> TrainResult:
        """Train until all epochs are done, the validation score stops improving, or Ctrl-C.

        `resume` continues from the checkpoint if it exists, and starts a new run otherwise. Without it, an existing
        checkpoint is an error unless `overwrite` is true. Progress is shown in a notebook and on a terminal, unless
        another `observer` was given.
        """
        with lock_of_run(self.checkpoint if self.ranks.first else None):
            return self._fit(resume, overwrite)

    def _fit(self, resume: bool, overwrite: bool) -> TrainResult:
        if self.ranks.first:
            self.check_start(resume=resume, overwrite=overwrite)
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda), MemoryMonitor() as monitor, _stop_flag() as stop:
            torch.manual_seed(self.options.seed)
            run = self._start(resume)
            run.monitor, run.facts = monitor, run_facts(self.data, run.model, self.device)
            cuda_used = self.device.type == "cuda"
            plans_rows = cuda_used and self.options.gpu_memory not in (0, "0")
            threads = self.options.num_threads or local_threads(feeds_gpu=cuda_used, plans_rows=plans_rows)
            loaders = Loaders(self.loader, self._memory, threads)
            with closing(loaders), closing(self.observer):
                loaders.check("train", "valid")
                self.observer.begin(self.options, f"{self.task.summary()} | {self.reads}")
                stopped = self._epochs(run, loaders, stop)
                test = self._finish(run, loaders, stopped, stop)
                plan = loaders.stats.get("train", LoaderStats()).plan
        budget = {"budget": format_size(self._memory) if self._memory else "auto", "ranks": self.ranks.size}
        budget |= {"budget_bytes": self._memory or plan.get("memory")}
        best = run.records[run.best_epoch] if run.best_epoch >= 0 else None
        result = TrainResult(
            model=run.model,
            options=self.options,
            epochs=run.records,
            best_epoch=run.best_epoch,
            val_accuracy=best.val_accuracy if best is not None else None,
            test_accuracy=None if test is None else test.pop("accuracy", None),
            stopped=stopped,
            seconds=run.seconds,
            peak_anonymous=sum(self.ranks.gather(run.peak_anonymous)),
            data=self.task.describe() | budget,
            checkpoint=self.checkpoint,
            memory=run.memory,
            progress=run.progress,
            metric=self.task.metric,
            val_metrics=best.metrics if best is not None else {},
            test_metrics=test or {},
            facts=run.facts,
            confusion=run.confusion,
            baseline={split: dict(scores) for split, scores in self.task.baseline.items()},
        )
        if self.checkpoint is not None and self.ranks.first:
            try:
                save_result(self.checkpoint, result)
            except OSError as error:
                lost = "the weights are saved, but not the scores that `graphzero report` shows"
                self.observer.note(f"{self.checkpoint}: {error.strerror or error}; {lost}")
        return result

    def check_start(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Raise what `fit` would raise before anything is read: an existing checkpoint, an unknown model."""
        if self.checkpoint is not None and not resume and not overwrite and has_checkpoint(self.checkpoint):
            raise FileExistsError(
                f"{self.checkpoint}: a run is already saved here; continue it with resume=True, replace it with "
                f"overwrite=True, or choose another path"
            )
        if self._given_model is None:
            with torch.random.fork_rng(devices=[]):
                self.task.make_model()

    def _epochs(self, run: RunState, loaders: Loaders, stop: threading.Event) -> Stopped:
        while run.epoch < self._last_epoch:
            if self._patience_spent(run):
                return "patience"
            scores = None
            if self._train_epoch(run, loaders, stop):
                begin = time.perf_counter()
                then = self._after_epoch(run)
                scores = self._evaluate(run, loaders, "valid", "validation", stop, then)
            if scores is None:
                self._save(run)
                return "interrupted"
            stats = loaders.stats.get("train", LoaderStats())
            record = run.tally.record(run.epoch, scores, time.perf_counter() - begin, stats, self.task.metric)
            record = combine(self.ranks.gather(record))
            run.close_epoch(record)
            if run.best_epoch == record.epoch:
                run.confusion = self._confusion
            self._save(run)
            self.observer.epoch(record, best=run.best_epoch == record.epoch)
        return "finished"

    def _train_epoch(self, run: RunState, loaders: Loaders, stop: threading.Event) -> bool:
        """Train one epoch, or the rest of it; False if stopped before its end."""
        tally, ranks, total = run.tally, self.ranks, self.task.batches()
        if tally.batches == total:  # stopped in the evaluation that followed
            return True
        run.model.train()
        begin = time.perf_counter()
        then = [("valid", 0), *self._after_epoch(run)[:1]]
        with closing(loaders.batches("train", run.epoch, tally.batches, then)) as batches:
            for batch in batches:
                number = tally.batches + ranks.rank
                waited = time.perf_counter()
                run.optimizer.zero_grad()
                step = run.step(batch)
                read_round = ranks.backward(step, number < total, stop.is_set())
                run.optimizer.step()
                round_ = read_round()
                if not np.isfinite(round_.own_loss):
                    raise GraphZeroError(
                        f"the loss is {round_.own_loss} at epoch {run.epoch}, batch {number}: "
                        f"{self.task.explain_loss(batch)}"
                    )
                now = time.perf_counter()
                tally.add(round_)
                tally.add_time(waited - begin, now - waited)
                begin = now
                run.mark(round_.seeds)
                self.observer.batch(run.epoch, tally.batches, total, round_.loss, tally.seeds_per_second)
                if round_.stop or (ranks.size == 1 and stop.is_set()):  # several ranks stop after the same step
                    return False
        return True

    def _evaluate(
        self,
        run: RunState,
        loaders: Loaders,
        split: str,
        title: str,
        stop: threading.Event,
        then: Sequence[tuple[str, int]] = (),
    ) -> dict[str, float] | None:
        """Scores by name; None if stopped before they are known."""
        model = run.model.eval()
        meter = self.task.meter()
        total = loaders.count(split)
        # Epoch 0 always: the same neighbours every time, so that epochs can be compared.
        with torch.no_grad(), closing(loaders.batches(split, 0, then=then)) as batches:
            for number, batch in enumerate(batches):
                meter.add(model, batch)
                self.observer.evaluating(title, number + 1, total)
                if stop.is_set():
                    break
        found = self.ranks.gather((meter.state(), stop.is_set()))
        if any(stopped for _, stopped in found):
            return None
        meter.merge([state for state, _ in found])
        counts = meter.confusion()
        names = class_names(self.data, self.options, getattr(self.task, "node_type", None))
        self._confusion = {"split": title, "classes": names, "counts": counts} if counts else {}
        return meter.scores()

    # -- start and end of a run ---------------------------------------------------------------------------------------

    def _start(self, resume: bool) -> RunState:
        options = self.options
        model: torch.nn.Module | None = self._given_model
        if model is None:
            model = self.task.make_model()
        if isinstance(model, (SampledModel, HeteroSAGE)) and model.num_layers != options.layers:
            raise ValueError(f"the model has {model.num_layers} layers, but fanouts has {options.layers} hops")
        model = self.task.inputs.attach(model, given=self._given_model is not None).to(self.device)
        sparse = self.ranks.size == 1 or self.device.type == "cpu"  # NCCL does not reduce sparse gradients
        assert options.lr is not None
        run = RunState(model, Optimizers(model, options.lr, options.weight_decay, sparse=sparse))
        saved = self.ranks.from_first(self._saved) if resume else None
        if saved is not None:
            self.ranks.seed_others(options.seed, int(saved.note.get("epoch", 0)))
            restore(run, saved, str(self.checkpoint), self.ranks.rank)
        else:
            self.ranks.seed_others(options.seed)
        run.step = self.ranks.stepping(model, self.task)
        return run

    def _saved(self) -> Checkpoint | None:
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return None
        saved = load_checkpoint(self.checkpoint)
        self._refuse_other_run(saved)
        return saved

    def _refuse_other_run(self, saved: Checkpoint) -> None:
        then, now = {**TrainOptions().defining(), **saved.note.get("options", {})}, self.options.defining()
        for name, value in now.items():
            if then.get(name) != value:
                raise ValueError(
                    f"{self.checkpoint}: the checkpoint has {name}={then.get(name)!r}, this run has {value!r}; "
                    f"use the same options to resume, or another checkpoint path to start a new run"
                )
        before, after = saved.note.get("about", {}).get("data"), data_counts(self.data)
        if before is not None and after is not None and before != after:
            raise ValueError(
                f"{self.checkpoint}: the run was saved with {_counted(before)}, the dataset has {_counted(after)} now; "
                "a run cannot be resumed after an append, since its batches would differ. Start a new one with "
                "overwrite=True or another checkpoint"
            )

    def _save(self, run: RunState) -> None:
        if self.checkpoint is None:
            return
        random = self.ranks.gather(random_state(self.device))
        if self.ranks.first:
            about = {**self.task.about(), "data": data_counts(self.data)}
            try:
                save_checkpoint(self.checkpoint, pack(run, self.options, random, about))
            except OSError as error:
                kept = f"the file still has the run up to epoch {run.saved}" if run.saved else "nothing of it is saved"
                reason = f"{error.strerror or error}. The run stopped after epoch {run.epoch}; {kept}"
                raise OSError(error.errno, reason, error.filename or self.checkpoint) from error
            run.saved = run.epoch

    def _finish(
        self, run: RunState, loaders: Loaders, stopped: Stopped, stop: threading.Event
    ) -> dict[str, float] | None:
        if run.best_weights is not None:
            run.model.load_state_dict(run.best_weights)
        if stopped == "interrupted" or self.task.size("test") == 0:
            return None
        scores = self._evaluate(run, loaders, "test", "test", stop)
        run.confusion = self._confusion if scores is not None else run.confusion
        return scores

    def _after_epoch(self, run: RunState) -> list[tuple[str, int]]:
        """The splits and epochs that follow the validation of this epoch, unless patience ends before."""
        if run.epoch + 1 < self._last_epoch:
            return [("train", run.epoch + 1), ("valid", 0)]
        return [("test", 0)] if self.task.size("test") else []

    @property
    def _last_epoch(self) -> int:
        assert self.options.epochs is not None
        return self.options.epochs

    def _patience_spent(self, run: RunState) -> bool:
        patience = self.options.patience
        return patience is not None and run.best_epoch >= 0 and run.epoch - 1 - run.best_epoch >= patience

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """The batches of a split: shuffled for training, in order for evaluation."""
        return self.task.loader(split, num_threads, memory)


def data_counts(data: TrainingData) -> dict[str, dict[str, int]] | None:
    """Return the nodes and edges of a dataset by type, which tell whether it has grown; None for other data."""
    if not isinstance(data, Dataset):
        return None
    edges = {edge_key(kind): edge.num_edges for kind, edge in data.edges.items()}
    return {"nodes": {name: node.num_nodes for name, node in data.nodes.items()}, "edges": edges}


def _counted(counts: dict[str, dict[str, int]]) -> str:
    return f"{sum(counts['nodes'].values()):,} nodes and {sum(counts['edges'].values()):,} edges"


def make_task(data: TrainingData, options: TrainOptions, device: torch.device) -> Task:
    """The task that the options select, for data of one type or of several."""
    refuse_unused(data, options)
    if options.task == "links":
        return LinkTask(data, options, device)
    table_of(data, options)  # raises for an unknown task
    if isinstance(data, Dataset) and data.is_typed:
        return TypedNodeTask(data, options, device)
    return NodeTask(data, options, device)


@contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """A flag set by the first Ctrl-C, so that the current batch is completed; the second one interrupts at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    signal.signal(signal.SIGINT, ask)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
