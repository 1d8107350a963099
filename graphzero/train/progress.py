"""Progress of a run in a notebook, on a terminal or in a log: a bar for the batches, one line per epoch."""

from __future__ import annotations

import sys
from typing import Any

from ..args.progress import can_show, duration, renderer
from .metrics import shown
from .records import EpochRecord, Observer

__all__ = ["ShownProgress", "shown_if_watched"]


class ShownProgress(Observer):
    """Shows batches as a bar, or as a line every half minute where there is no terminal, and prints each epoch."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._shown: Any = None

    @property
    def _render(self) -> Any:
        if self._shown is None:
            self._shown = renderer("batches", sys.stderr)
        return self._shown

    def batch(self, epoch: int, done: int, total: int, loss: float, seeds_per_second: float) -> None:
        """Show a training batch."""
        self._render(f"epoch {epoch + 1}", done, total, note=f", loss {loss:.3f}")

    def evaluating(self, split: str, done: int, total: int) -> None:
        """Show a batch of an evaluation."""
        self._render(split, done, total)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Print an epoch."""
        name = {"accuracy": "", "auc": "AUC "}.get(record.metric, f"{record.metric} ")
        trained = "" if record.train_accuracy is None else f"train {record.train_accuracy:6.2%}  "
        waits = f"  waiting for: {record.bottleneck}" if record.bottleneck != "nothing yet" else ""
        self._render.write(
            f"epoch {record.epoch + 1:>3}  loss {record.loss:.4f}  {trained}"
            f"validation {name}{shown(record.metric, record.score()):>6}{'*' if best else ' '}  "
            f"{duration(record.seconds):>7}  {record.seeds_per_second:>8,.0f} seeds/s{waits}"
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None


def shown_if_watched() -> Observer:
    """Return an observer that shows progress in a notebook or on a terminal, and nothing elsewhere."""
    return ShownProgress() if can_show() else Observer()
