"""Loaders that take turns: one budget, and one window of rows that is handed from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .epochs import EpochLoader
from .handoff import HOLD_SECONDS, Handoff

__all__ = ["LoaderGroup"]


class LoaderGroup:
    """Says that loaders are iterated over in turn, as in a loop of training and validation.

    While the last training batches are used, the rows of the validation are read, and during the validation those of
    the next epoch of training. Loaders with the same graph, features and `memory` do so within one budget; sizes are
    planned for the largest of their batches. A loader for which that is not possible has a budget of its own and gets
    it in its turn: what the others hold is released before.

    Iterate over the loaders themselves. Another order than that of the arguments, a loop left early or `set_epoch` are
    fine: batches are always those of the loader by itself, and only what was read ahead is lost.

    >>> import numpy as np
    >>> ds = gz.synthesize("group-example", nodes=2000, edges=10_000, dim=16)
    >>> options = {"fanouts": [5, 5], "batch_size": 256, "memory": "200MB", "seed": 0}
    >>> train = gz.NeighborLoader(ds, split="train", shuffle=True, **options)
    >>> valid = gz.NeighborLoader(ds, split="valid", **options)
    >>> with gz.LoaderGroup(train, valid, repeat=[valid]):
    ...     for epoch in range(2):
    ...         seen = sum(batch.batch_size for batch in train)
    ...         checked = sum(batch.batch_size for batch in valid)
    >>> (seen, checked) == (len(ds.splits["train"]), len(ds.splits["valid"]))
    True
    """

    def __init__(
        self, *loaders: EpochLoader, repeat: Sequence[EpochLoader] = (), hold_seconds: float = HOLD_SECONDS
    ) -> None:
        """Make the loaders take turns in this order. A loader is in one group, the last one that it was given to;
        joining one closes it first.

        `repeat`: those that deliver the same epoch each time (0, unless `set_epoch` chose another), such as a
        validation that is to sample the same neighbours after every epoch. Epochs of the others count up.

        `hold_seconds`: how much longer than the longest pause so far memory and threads are held for the next epoch.
        """
        for loader in (*loaders, *repeat):
            if not isinstance(loader, EpochLoader):
                raise TypeError(f"loaders must be NeighborLoader or LinkNeighborLoader, got {type(loader).__name__}")
        if not loaders:
            raise ValueError("a LoaderGroup needs at least one loader")
        if len({id(loader) for loader in loaders}) != len(loaders):
            raise ValueError("a loader is given twice: each has one turn")
        if any(all(loader is not member for member in loaders) for loader in repeat):
            raise ValueError("repeat has a loader that is not in the group")
        if not hold_seconds >= 0:
            raise ValueError(f"hold_seconds is {hold_seconds}, expected 0 or more")
        self._loaders = list(loaders)
        for loader in loaders:
            loader.close()
        self._handoff = Handoff(loaders, goes_on=True, repeat=repeat, hold_seconds=float(hold_seconds))

    def __iter__(self) -> Iterator[EpochLoader]:
        """Go over the loaders, in order."""
        return iter(self._loaders)

    def __len__(self) -> int:
        """Return the number of loaders."""
        return len(self._loaders)

    def close(self) -> None:
        """Close all loaders: memory and threads are given back. They can be iterated over again."""
        for loader in self._loaders:
            loader.close()

    def __enter__(self) -> LoaderGroup:
        """Return itself; `close()` is called at the end."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close all loaders."""
        self.close()

    def __repr__(self) -> str:
        """Say what it is."""
        return f"LoaderGroup({', '.join(map(repr, self._loaders))})"
