"""The loader behind inference over all nodes: in order, in the largest batches that the budget holds."""

from __future__ import annotations

from typing import Any

from ..errors import BudgetError
from ..load.loader import NeighborLoader

_BATCH_SIZES = (1024, 256, 64, 16, 4, 1)
_WRITER_SHARE = 10  # of the budget: a tenth
_LEAST_WRITER = 1 << 20


def writer_memory(budget: int) -> int:
    """Return the part of the budget that writes the outputs; the loader has the rest."""
    return max(budget // _WRITER_SHARE, _LEAST_WRITER)


def inference_loader(graph: Any, features: Any, *, budget: int, device: Any, **options: Any) -> NeighborLoader:
    """Return a loader that is planned, `options` being those of `NeighborLoader`; BudgetError where no batch fits."""
    for size in _BATCH_SIZES:
        loader = NeighborLoader(
            graph,
            features,
            batch_size=size,
            memory=budget - budget // _WRITER_SHARE,
            device=None if device is None or device.type == "cpu" else device,
            rank=0,
            world_size=1,  # every process that calls this writes all rows
            **options,
        )
        try:
            loader._ready_plan()
        except BudgetError as error:
            reason = error
        else:
            return loader
    raise reason
