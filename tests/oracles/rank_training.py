"""Runs of test_train_ranks.py in a process of their own, one a rank: `python rank_training.py FOLDER`."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

import graphzero as gz
from graphzero.train import GraphSAGE, HeteroSAGE, Trainer, TrainOptions, TrainResult

COMMON: dict[str, Any] = {
    "hidden": 8, "fanouts": [3, 2], "dropout": 0.0, "epochs": 2, "lr": 0.02, "weight_decay": 0.05, "memory": "128MB",
    "num_threads": 1, "device": "cpu", "seed": 5, "eval_negatives": 5,
}  # fmt: skip
# Weight decay makes Adam's steps depend on the size of the gradients, not on their direction alone.
RUNS = {
    "nodes": ("plain", TrainOptions(batch_size=32, **COMMON)),  # 5 batches of 150 seeds: one rank has none at the end
    # The mean of a batch divides by the weights of its classes, or by its known labels.
    "weighted": ("plain", TrainOptions(batch_size=32, class_weights=[1, 5, 0.2], **COMMON)),
    "numbers": ("numbers", TrainOptions(batch_size=32, **COMMON)),
    "typed": ("typed", TrainOptions(batch_size=48, **COMMON)),
    # Embeddings of a type that no batch reaches have no gradient.
    "unreached": ("typed", TrainOptions(batch_size=48, **{**COMMON, "fanouts": [3]})),
    "links": ("plain", TrainOptions(batch_size=400, task="links", **COMMON)),  # held-out edges: uneven numbers of seeds
    "typed links": (
        "typed",
        TrainOptions(batch_size=300, task="links", edge_type=("paper", "cites", "paper"), **COMMON),
    ),
}
DROPPING = dataclasses.replace(RUNS["nodes"][1], dropout=0.5, epochs=3)


class Wide(GraphSAGE):
    """In float64, so that sums in another order are the same to many digits."""

    def forward(self, x: Any, *rest: Any) -> Any:
        return super().forward(x.double(), *rest)


class WideTyped(HeteroSAGE):
    """The same for several types."""

    def _enter(self, name: str, x: Any, count: int) -> Any:
        return super()._enter(name, {key: rows.double() for key, rows in x.items()}, count)


def model_for(run: Trainer) -> torch.nn.Module:
    """Make the model that the trainer would make, in float64 and always the same."""
    torch.manual_seed(1)
    like = run.task.make_model()
    if isinstance(like, HeteroSAGE):
        return run.task.inputs.attach(WideTyped(**like.arguments())).double()
    assert isinstance(like, GraphSAGE)
    return Wide(like.dims[0], like.dims[1], like.dims[-1], len(like.dims) - 1, like.dropout).double()


def trainer(folder: Path, name: str, **options: Any) -> Trainer:
    data, chosen = RUNS[name]
    made = Trainer(gz.Dataset(folder / data), chosen)
    return Trainer(gz.Dataset(folder / data), chosen, model=model_for(made), **options)


def facts(result: TrainResult) -> dict[str, Any]:
    """What two runs can be compared by."""
    found = {f"model.{k}": v.numpy() for k, v in result.model.state_dict().items()}
    found["losses"] = np.array([e.loss for e in result.epochs])
    found["seeds"] = np.array([e.seeds for e in result.epochs])
    found["batches"] = np.array([e.batches for e in result.epochs])
    found["train"] = np.array([-1.0 if e.train_accuracy is None else e.train_accuracy for e in result.epochs])
    found["best"] = np.array(result.best_epoch)
    found["valid"] = np.array(-1.0 if result.val_accuracy is None else result.val_accuracy)
    found["metrics"] = np.array([*result.val_metrics.values(), *result.test_metrics.values()])
    found["test"] = np.array(-1.0 if result.test_accuracy is None else result.test_accuracy)
    return found


def press_ctrl_c(run: Trainer, rank: int, after: int) -> None:
    """Interrupt one rank in a training step, as a signal to it alone would."""
    step, count = run.task.step, 0

    def counting(model: torch.nn.Module, batch: Any) -> Any:
        nonlocal count
        count += model.training
        if model.training and count == after and run.ranks.rank == rank:
            signal.raise_signal(signal.SIGINT)
        return step(model, batch)

    run.task.step = counting  # type: ignore[method-assign]


def stopped_and_resumed(folder: Path, data: gz.Dataset) -> None:
    """One run in a piece, one in two pieces; and a checkpoint from the middle of an epoch, for another world size."""
    saved: dict[str, Any] = {"whole": facts(Trainer(data, DROPPING).fit())}
    for name in ("resumed", "left"):
        path = folder / f"{name}.checkpoint"
        first = Trainer(data, DROPPING, checkpoint=path)
        press_ctrl_c(first, rank=1, after=5)  # the second of three steps of the second epoch
        assert first.fit().stopped == "interrupted"
    saved["resumed"] = facts(Trainer(data, DROPPING, checkpoint=folder / "resumed.checkpoint").fit(resume=True))
    one = Trainer(data, dataclasses.replace(DROPPING, epochs=4), checkpoint=folder / "alone.checkpoint")
    saved["from one"] = facts(one.fit(resume=True))
    if distributed.get_rank() == 0:
        for name, found in saved.items():
            np.savez(folder / f"{name}.npz", **found)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    for name in RUNS:
        path = folder / f"{name}-{distributed.get_rank()}.checkpoint"
        result = trainer(folder, name, checkpoint=path).fit()
        np.savez(folder / f"{name}-{distributed.get_rank()}.npz", **facts(result))
    stopped_and_resumed(folder, gz.Dataset(folder / "plain"))
    # A thread of gloo that still lets go of the last gathered tensors when the interpreter ends aborts the process.
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
