"""What `graphzero.train` makes of batches on a device, against its own model alone: `gpu.py --only trainer`.

The model alone runs over a few batches that are on the device, in a loop that waits for nothing. Trainer reads every
loss, so it waits until the forward pass of each step is done (graphzero/train/readback.py). "read last" is the loop
that reads the loss at the end of each step, which is what users often write.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

import graphzero as gz
from graphzero.train import Trainer, TrainOptions
from graphzero.train.trainer import make_task

EPOCHS = 4  # the first one warms up
_VALID = 1024


def main(
    loader: Callable[..., gz.NeighborLoader], data: gz.Dataset, seeds: Any, options: TrainOptions, shares: Any
) -> dict[str, float]:
    """Return steps per second: the model alone, and training by `Trainer` with these shares of the rows on the device.

    The budgets of `options` are those of the loader; `shares` are names and bytes of `gpu_memory`.
    """
    splits = {"train": seeds[_VALID:], "valid": seeds[:_VALID]}
    given = SimpleNamespace(graph=data.graph, features=data.features, labels=data.labels, splits=splits)
    figures = {}
    for precision in ("float32", "bfloat16"):
        own = dataclasses.replace(options, precision=precision)
        with loader(device=own.device) as made:
            some = list(itertools.islice(made, 6))
        for title, reads in (("model alone", False), ("model alone, loss read last", True)):
            figures[f"{title}, {precision}"] = max(_rate(given, own, some, reads) for _ in range(3))
        del some
        for title, size in shares:
            result = Trainer(given, dataclasses.replace(own, gpu_memory=size)).fit()
            best = max(record.batches / record.seconds for record in result.epochs[1:])
            figures[f"Trainer, {title}, {precision}"] = best
    return figures


def _rate(given: Any, options: TrainOptions, some: list[Any], reads: bool) -> float:
    """Steps per second over batches that are on the device."""
    device = torch.device(options.device or "cpu")
    task = make_task(given, options, device)
    model = task.make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    count, skip = 60, 10
    for number, batch in enumerate(itertools.islice(itertools.cycle(some), count)):
        if number == skip:
            wait()
            start = time.perf_counter()
        optimizer.zero_grad()
        loss = task.step(model, batch).loss
        loss.backward()
        optimizer.step()
        if reads:
            float(loss.detach())
    wait()
    return (count - skip) / (time.perf_counter() - start)
