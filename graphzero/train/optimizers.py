"""The optimisers of a run: Adam, and SparseAdam for embedding tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .inputs import InputEncoders

__all__ = ["Optimizers"]


class Optimizers:
    """Adam for a model, with SparseAdam for its embeddings of ids, which updates only the rows of a batch.

    Weight decay is not applied to embeddings of ids: it would update all of them in every step.
    """

    def __init__(self, model: nn.Module, lr: float, weight_decay: float, *, sparse: bool = True) -> None:
        """Use the parameters of a model; `sparse=False` where the backend cannot reduce sparse gradients."""
        encoders = getattr(model, "input_encoders", None)
        tables = encoders.sparse_parameters() if isinstance(encoders, InputEncoders) else []
        for module in encoders.modules() if isinstance(encoders, InputEncoders) else ():
            if isinstance(module, nn.Embedding) and any(module.weight is table for table in tables):
                module.sparse = sparse
        others = [p for p in model.parameters() if not any(p is table for table in tables)]
        self._parts: list[torch.optim.Optimizer] = []
        if others:
            self._parts.append(torch.optim.Adam(others, lr=lr, weight_decay=weight_decay))
        if tables:
            kind = torch.optim.SparseAdam if sparse else torch.optim.Adam
            self._parts.append(kind(tables, lr=lr))

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Update the weights."""
        for part in self._parts:
            part.step()

    def state(self) -> dict[int, dict[str, Any]]:
        """Return the state of each parameter by number, those of the tables last."""
        found: dict[int, dict[str, Any]] = {}
        for part, first in self._numbered():
            found |= {first + index: values for index, values in part.state_dict()["state"].items()}
        return found

    def load_state(self, state: dict[int, dict[str, Any]]) -> None:
        """Restore what `state` returned."""
        for part, first in self._numbered():
            count = sum(len(group["params"]) for group in part.param_groups)
            own = {index - first: values for index, values in state.items() if first <= index < first + count}
            if isinstance(part, torch.optim.SparseAdam):
                own = {index: {**values, "step": int(values["step"])} for index, values in own.items()}
            part.load_state_dict({"state": own, "param_groups": part.state_dict()["param_groups"]})

    def _numbered(self) -> list[tuple[torch.optim.Optimizer, int]]:
        found, first = [], 0
        for part in self._parts:
            found.append((part, first))
            first += sum(len(group["params"]) for group in part.param_groups)
        return found
