"""Degrees of the nodes of a batch, where the batch is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Degrees"]

_SHARE = 16  # degrees of all nodes are kept on a GPU if they take at most one part in so many of its free memory
_STEP = 1 << 22  # nodes that are looked up together


class Degrees:
    """Degrees by id. Those of all nodes are kept on a GPU, if there is room.

    A look-up on the host waits for all that a GPU was given before, and takes longer than the step of a small model:
    some 20 ms for 640,000 nodes.
    """

    def __init__(self, graph: Any, direction: str) -> None:
        """Count edges in this direction; nothing is read yet."""
        self._graph, self._direction = graph, direction
        self._table: Tensor | None = None
        self._tried: torch.device | None = None

    def of(self, ids: Tensor) -> Tensor:
        """Return the degrees of nodes, on the device that has their ids."""
        if self._tried != ids.device:
            self._table, self._tried = self._uploaded(ids.device), ids.device
        if self._table is None:
            return torch.from_numpy(self._on_host(ids.cpu().numpy())).to(ids.device)
        return self._table.index_select(0, ids)

    def _on_host(self, ids: Any) -> Any:
        return self._graph.degrees(ids, direction=self._direction)

    def _uploaded(self, device: torch.device) -> Tensor | None:
        """Return the degrees of all nodes as int32; None where they do not fit, or need not be there."""
        count = self._graph.num_targets if self._direction == "in" else self._graph.num_sources
        if 4 * count * _SHARE > _free_bytes(device):
            return None
        try:
            table = torch.empty(count, dtype=torch.int32, device=device)
        except torch.cuda.OutOfMemoryError:
            return None
        for first in range(0, count, _STEP):
            last = min(first + _STEP, count)
            found = self._on_host(np.arange(first, last))
            if found.max() >= 2**31:
                return None
            table[first:last] = torch.from_numpy(found.astype(np.int32)).to(device)
        return table


def _free_bytes(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
