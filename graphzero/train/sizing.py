"""Batch size, epochs, patience and learning rate by the number of training seeds, where they are not given."""

from __future__ import annotations

import dataclasses
import math

from .records import TrainOptions

__all__ = ["describe_schedule", "sized"]

_BATCH = 1024  # and smaller powers of two where an epoch would have fewer than _PER_EPOCH steps
_PER_EPOCH, _LEAST_BATCH = 8, 32
_STEPS = 1500  # of a run, within these numbers of epochs
_EPOCHS = (10, 200)
_LR = 0.003


def sized(options: TrainOptions, seeds: int) -> TrainOptions:
    """Return the options with numbers for those that are None.

    A run takes some 1,500 steps of Adam: batches of 1,024 seeds and at least 10 epochs; with fewer than 8,192 seeds
    smaller batches, down to 32, and at most 200 epochs. Chosen epochs come with a patience of a fifth of them, at least
    10 epochs; the weights of the best epoch are kept.

    >>> small = sized(TrainOptions(), 420)
    >>> small.batch_size, small.epochs, small.patience
    (64, 200, 40)
    >>> large = sized(TrainOptions(), 1_000_000)
    >>> large.batch_size, large.epochs
    (1024, 10)
    """
    batch, epochs, patience = options.batch_size, options.epochs, options.patience
    if batch is None:
        wanted = max(seeds // _PER_EPOCH, _LEAST_BATCH)
        batch = min(_BATCH, 1 << (wanted - 1).bit_length())
    if epochs is None:
        steps = max(-(-seeds // batch), 1)
        epochs = min(max(math.ceil(_STEPS / steps), _EPOCHS[0]), _EPOCHS[1])
        patience = patience or max(epochs // 5, 10)
    lr = _LR if options.lr is None else options.lr
    return dataclasses.replace(options, batch_size=batch, epochs=epochs, patience=patience, lr=lr)


def describe_schedule(options: TrainOptions, seeds: int) -> str:
    """Describe the steps of a run in one line."""
    patience = "" if options.patience is None else f", patience {options.patience}"
    return (
        f"{seeds:,} training seeds, batches of {options.batch_size:,}, at most {options.epochs} "
        f"epoch{'s' * (options.epochs != 1)}{patience}, "
        f"lr {options.lr:g}"
    )
