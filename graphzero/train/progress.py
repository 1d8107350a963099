"""Progress of a run in a notebook, on a terminal or in a log: a bar for the batches, and lines for the epochs."""

from __future__ import annotations

import sys
from typing import Any

from ..args.progress import can_show, duration, renderer
from .metrics import shown
from .records import EpochRecord, Observer, TrainOptions

__all__ = ["ShownProgress", "shown_if_watched"]

_ALL, _LINES = 30, 20  # epochs that are all printed; of more, every 5th, 10th, 20th, ... is


class ShownProgress(Observer):
    """Shows batches as a bar, or as a line every half minute where there is no terminal, and prints epochs.

    Of a long run it prints the first epoch, every nth, the best and the last.
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        self._shown: Any = None
        self._every, self._first = 1, True
        self._held: dict[bool, str] = {}  # lines since the last one printed: of the best epoch (True), of the last
        self._best = ""

    @property
    def _render(self) -> Any:
        if self._shown is None:
            self._shown = renderer("batches", sys.stderr)
        return self._shown

    def begin(self, options: TrainOptions, summary: str) -> None:
        """Print what the model sees."""
        epochs = options.epochs or 1
        steps = (scale * step for scale in (10**power for power in range(18)) for step in (1, 2, 5))
        self._every = 1 if epochs <= _ALL else next(step for step in steps if epochs <= _LINES * step)
        self._render.write(summary)

    def batch(self, epoch: int, done: int, total: int, loss: float, seeds_per_second: float) -> None:
        """Show a training batch."""
        self._render(f"epoch {epoch + 1}", done, total, note=f", loss {loss:.3f}{self._best}")

    def evaluating(self, split: str, done: int, total: int) -> None:
        """Show a batch of an evaluation."""
        self._render(split, done, total)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Print an epoch, or keep its line until it is known whether it is the best or the last."""
        name = {"accuracy": "", "auc": "AUC "}.get(record.metric, f"{record.metric} ")
        trained = "" if record.train_accuracy is None else f"train {record.train_accuracy:6.2%}  "
        waits = f"  waiting for: {record.bottleneck}" if record.bottleneck != "nothing yet" else ""
        score = shown(record.metric, record.score())
        line = (
            f"epoch {record.epoch + 1:>3}  loss {record.loss:.4f}  {trained}"
            f"validation {name}{score:>6}{'*' if best else ' '}  "
            f"{duration(record.seconds):>7}  {record.seeds_per_second:>8,.0f} seeds/s{waits}"
        )
        if best:
            self._best = f", best {name}{score}"
            self._held.clear()
        self._held[best] = line
        if self._first or (record.epoch + 1) % self._every == 0:
            self._print_held()
        self._first = False

    def _print_held(self) -> None:
        for best in (True, False):
            if best in self._held:
                self._render.write(self._held.pop(best))

    def close(self) -> None:
        """Print the best epoch and the last one, if they were not, and remove the bar."""
        self._print_held()
        if self._shown is not None:
            self._shown.close()
            self._shown = None


def shown_if_watched() -> Observer:
    """Return an observer that shows progress in a notebook or on a terminal, and nothing elsewhere."""
    return ShownProgress() if can_show() else Observer()
