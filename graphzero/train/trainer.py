"""The training loop: batches from the loader, a model, and a run that can be stopped and taken up again exactly."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .._ids import as_ids
from .._sizes import format_size, parse_size
from .._transfer import as_device
from ..errors import GraphZeroError
from ..loader import LoaderStats, NeighborLoader
from .checkpoint import Checkpoint, check_target, has_checkpoint, load_checkpoint, save_checkpoint
from .loaders import Loaders
from .models import SampledModel, make_model
from .monitor import MemoryMonitor
from .records import Observer, Stopped, TrainingData, TrainOptions, TrainResult
from .state import RunState, pack, restore

__all__ = ["Trainer"]

_WIDENED = ("float16", "bfloat16", "int8")


class Trainer:
    """Trains a model on a dataset within a memory budget.

    Stopping with Ctrl-C ends after the batch in hand; with `checkpoint` given, the run is saved after every epoch and
    then too, and `fit(resume=True)` goes on as if nothing had happened: same batches, same weights.

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

        Any module with `forward(x, edge_index)` will do, such as those of PyG: it gets a sampled batch, and the rows of
        the seeds are taken from what it returns.
        """
        self.data = data
        self.options = options if options is not None else TrainOptions()
        self.observer = observer if observer is not None else Observer()
        self.checkpoint = os.fspath(checkpoint) if checkpoint is not None else None
        if self.checkpoint is not None:
            check_target(self.checkpoint)
        name = self.options.device
        self.device = as_device(name if name is not None else "cuda" if torch.cuda.is_available() else "cpu")
        if self.options.feature not in data.features:
            known = ", ".join(map(repr, data.features))
            raise KeyError(f"no feature {self.options.feature!r} in the dataset, it has {known}")
        self._valid = "val" if "val" in data.splits and "valid" not in data.splits else "valid"
        for split in ("train", self._valid):
            if split not in data.splits or len(data.splits[split]) == 0:
                raise ValueError(f"the dataset has no {split!r} split, which training needs")
        self.features = data.features[self.options.feature]
        self.labels = torch.from_numpy(np.asarray(data.labels, dtype=np.int64).reshape(-1))
        self.num_classes = self._count_classes()
        self._given_model = model
        self._memory = 0 if self.options.memory == "auto" else parse_size(self.options.memory)

    # -- the run ------------------------------------------------------------------------------------------------------

    def fit(self, *, resume: bool = False, overwrite: bool = False) -> TrainResult:
        """Train until the epochs are done, the validation accuracy stops rising, or Ctrl-C.

        `resume` takes up the checkpoint where there is one, and starts afresh where there is none. Without it a run
        that was saved there before is an error, unless `overwrite` says that it may be lost.
        """
        if self.checkpoint is not None and not resume and not overwrite and has_checkpoint(self.checkpoint):
            raise FileExistsError(
                f"{self.checkpoint}: a run is saved here already: resume it with resume=True (--resume), give another "
                f"path, or replace it with overwrite=True (--overwrite)"
            )
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda), MemoryMonitor() as monitor, _stop_flag() as stop:
            torch.manual_seed(self.options.seed)
            run = self._start(resume)
            loaders = Loaders(self.loader, self._memory, self.options.num_threads)
            loaders.check(self._valid, "train")
            stopped = self._epochs(run, loaders, stop)
            test_accuracy = self._finish(run, loaders, stopped, stop)
        return TrainResult(
            model=run.model,
            options=self.options,
            epochs=run.records,
            best_epoch=run.best_epoch,
            val_accuracy=run.best_accuracy,
            test_accuracy=test_accuracy,
            stopped=stopped,
            seconds=run.seconds,
            peak_anonymous=monitor.peak_anonymous,
            data=self._describe(),
            checkpoint=self.checkpoint,
            memory=monitor.samples,
            progress=run.progress,
        )

    def _epochs(self, run: RunState, loaders: Loaders, stop: threading.Event) -> Stopped:
        while run.epoch < self.options.epochs:
            if self._patience_spent(run):
                return "patience"
            accuracy = None
            if self._train_epoch(run, loaders, stop):
                begin = time.perf_counter()
                accuracy = self._accuracy(run.model, loaders, self._valid, "validation", stop)
            if accuracy is None:
                self._save(run)
                return "interrupted"
            stats = loaders.stats.get("train", LoaderStats())
            record = run.tally.record(run.epoch, accuracy, time.perf_counter() - begin, stats)
            run.close_epoch(record)
            self._save(run)
            self.observer.epoch(record, best=run.best_epoch == record.epoch)
        return "finished"

    def _train_epoch(self, run: RunState, loaders: Loaders, stop: threading.Event) -> bool:
        """Train over one epoch, or what is left of it; False when asked to stop before its end."""
        model, tally, options = run.model, run.tally, self.options
        model.train()
        done, total = tally.batches, len(loaders.ready("train"))
        if done == total:  # stopped in the evaluation that followed
            return True
        begin = time.perf_counter()
        with closing(loaders.batches("train", run.epoch)) as batches:
            for number, batch in enumerate(batches):
                if number < done:  # trained before the run was stopped
                    continue
                waited = time.perf_counter()
                run.optimizer.zero_grad(set_to_none=True)
                out = self._forward(model, batch)
                loss = functional.cross_entropy(out, batch.y)
                loss.backward()  # type: ignore[no-untyped-call]
                run.optimizer.step()
                value = float(loss.detach())
                if not np.isfinite(value):
                    raise GraphZeroError(
                        f"the loss is {value} at epoch {run.epoch}, batch {number}: lower lr (now {options.lr}) or "
                        f"look at the features of the seeds {batch.n_id[:3].tolist()}..."
                    )
                now = time.perf_counter()
                tally.add(value, int((out.detach().argmax(1) == batch.y).sum()), batch.batch_size)
                tally.add_time(waited - begin, now - waited)
                begin = now
                run.mark(batch.batch_size)
                self.observer.batch(run.epoch, number + 1, total, value, tally.seeds_per_second)
                if stop.is_set():
                    return False
        return True

    def _accuracy(
        self, model: torch.nn.Module, loaders: Loaders, split: str, title: str, stop: threading.Event
    ) -> float | None:
        """The share of right answers; None when asked to stop before it is known."""
        model.eval()
        correct = seen = 0
        total = len(loaders.ready(split))
        # Epoch 0 always: the same neighbours every time, so that epochs can be compared.
        with torch.no_grad(), closing(loaders.batches(split, 0)) as batches:
            for number, batch in enumerate(batches):
                correct += int((self._forward(model, batch).argmax(1) == batch.y).sum())
                seen += batch.batch_size
                self.observer.evaluating(title, number + 1, total)
                if stop.is_set():
                    return None
        return correct / max(seen, 1)

    def _forward(self, model: torch.nn.Module, batch: Any) -> Tensor:
        if not isinstance(model, SampledModel):
            x = batch.x if batch.x.is_floating_point() else batch.x.float()
            return self._checked(model(x, batch.edge_index)[: batch.batch_size], batch.batch_size)
        degree = None
        if model.aggregation == "gcn":
            direction = self.options.direction or self.data.graph.message_direction
            degrees = self.data.graph.degrees(batch.n_id, direction=direction)
            degree = torch.from_numpy(degrees).to(self.device)
        out: Tensor = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges, degree)
        return out[: batch.batch_size]

    def _checked(self, out: Tensor, rows: int) -> Tensor:
        if out.dim() != 2 or len(out) != rows or out.shape[1] < self.num_classes:
            expected = f"a row for each node with at least {self.num_classes} columns, one a class"
            raise ValueError(f"the model returned shape {tuple(out.shape)} for {rows} nodes, expected {expected}")
        return out

    # -- its beginning and its end ------------------------------------------------------------------------------------

    def _start(self, resume: bool) -> RunState:
        options = self.options
        model: torch.nn.Module | None = self._given_model
        if model is None:
            width = self.features.feature_dim
            model = make_model(options.model, width, options.hidden, self.num_classes, options.layers, options.dropout)
        if isinstance(model, SampledModel) and model.num_layers != options.layers:
            raise ValueError(f"the model has {model.num_layers} layers, fanouts name {options.layers} hops")
        model = model.to(self.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
        run = RunState(model, optimizer)
        if resume and self.checkpoint is not None and os.path.exists(self.checkpoint):
            saved = load_checkpoint(self.checkpoint)
            self._refuse_other_run(saved)
            restore(run, saved, self.checkpoint)
        return run

    def _count_classes(self) -> int:
        """The number of classes, once every label that training and evaluation will meet has been looked at."""
        least, most = 0, -1
        for split in ("train", self._valid, "test"):
            if split in self.data.splits and len(self.data.splits[split]):
                known = self.labels[torch.from_numpy(as_ids(self.data.splits[split], split))]
                least, most = min(least, int(known.min())), max(most, int(known.max()))
        if least < 0:
            raise ValueError(f"a node of the splits has the label {least}, expected classes from 0 up")
        classes = max(int(getattr(self.data, "num_classes", 0)), most + 1)
        if classes < 2:
            raise ValueError(f"the labels tell {classes} classes apart, expected at least 2")
        return classes

    def _refuse_other_run(self, saved: Checkpoint) -> None:
        then, now = saved.note.get("options", {}), self.options.defining()
        for name, value in now.items():
            if then.get(name) != value:
                raise ValueError(
                    f"{self.checkpoint}: the checkpoint has {name}={then.get(name)!r}, this run {value!r}: "
                    f"give the same options to resume, or another checkpoint path to start afresh"
                )

    def _save(self, run: RunState) -> None:
        if self.checkpoint is not None:
            save_checkpoint(self.checkpoint, pack(run, self.options))

    def _finish(self, run: RunState, loaders: Loaders, stopped: Stopped, stop: threading.Event) -> float | None:
        if run.best_weights is not None:
            run.model.load_state_dict(run.best_weights)
        if stopped == "interrupted" or "test" not in self.data.splits or len(self.data.splits["test"]) == 0:
            return None
        return self._accuracy(run.model, loaders, "test", "test", stop)

    def _patience_spent(self, run: RunState) -> bool:
        patience = self.options.patience
        return patience is not None and run.best_epoch >= 0 and run.epoch - 1 - run.best_epoch >= patience

    def loader(self, split: str, num_threads: int, memory: int) -> NeighborLoader:
        """The batches of a split: shuffled for training, in order for evaluation."""
        options = self.options
        training = split == "train"
        return NeighborLoader(
            self.data.graph,
            self.features,
            fanouts=list(options.fanouts if training else options.eval_fanouts or options.fanouts),
            seeds=self.data.splits[split],
            labels=self.labels,
            batch_size=options.batch_size,
            shuffle=training,
            seed=options.seed,
            memory=memory or "auto",
            prefetch=options.prefetch,
            num_threads=num_threads,
            device=None if self.device.type == "cpu" else self.device,
            dtype="float32" if self.features.dtype_name in _WIDENED else None,
            direction=options.direction,
            rank=0,  # one process trains on all seeds, wherever it runs
            world_size=1,
        )

    def _describe(self) -> dict[str, Any]:
        graph, store = self.data.graph, self.features
        return {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": list(store.shape),
            "dtype": store.dtype_name,
            "classes": self.num_classes,
            "topology_bytes": graph.info["file_bytes"],
            "feature_bytes": store.info["file_bytes"],
            "budget": format_size(self._memory) if self._memory else "auto",
            "train_seeds": len(self.data.splits["train"]),
        }


@contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """A flag that the first Ctrl-C sets, so that a batch is never cut in two; the second one interrupts at once."""
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
