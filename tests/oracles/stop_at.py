"""Ctrl-C at a chosen moment of a training."""

from __future__ import annotations

import signal

from graphzero.train import Observer


class StopAt(Observer):
    """Presses Ctrl-C when a batch is done: of an epoch, or of the "validation" of the first one."""

    def __init__(self, epoch: int | str, batch: int) -> None:
        self.at = (epoch, batch)
        self.evaluations = 0

    def batch(self, epoch: int, done: int, total: int, loss: float, seeds_per_second: float) -> None:
        if (epoch, done) == self.at:
            signal.raise_signal(signal.SIGINT)

    def evaluating(self, split: str, done: int, total: int) -> None:
        self.evaluations += 1
        if ("validation", self.evaluations) == self.at:
            signal.raise_signal(signal.SIGINT)
