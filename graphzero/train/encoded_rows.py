"""Encoded inputs of all nodes of a type, written to a .gd file so that layers can stream them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ..compile.features import compile_features
from ..stores.features import FeatureStore
from .inputs import InputEncoders, Inputs

__all__ = ["encoded_stores"]

_ROWS = 1 << 14  # encoded together


def encoded_stores(
    inputs: Inputs, model: nn.Module, folder: str, device: torch.device, name: str = "x"
) -> dict[str, FeatureStore]:
    """Write the encoded rows of every node type that has an encoder; return them by type."""
    encoders = getattr(model, "input_encoders", None)
    if not isinstance(encoders, InputEncoders):
        return {}
    inputs.check_fit(encoders)
    found = {}
    for number, node_type in enumerate(encoders.specs):
        path = Path(folder, f"encoded{number}.gd")
        count = inputs.counts[node_type]
        if count:
            rows = _rows(inputs, encoders, node_type, count, device)
            compile_features(rows, path, name=name, num_nodes=count, progress=False)
            found[node_type] = FeatureStore(path)
    return found


def _rows(
    inputs: Inputs, encoders: InputEncoders, node_type: str, count: int, device: torch.device
) -> Iterator[npt.NDArray[np.float32]]:
    spec = encoders.specs[node_type]
    stores = inputs.stores[node_type]
    for begin in range(0, count, _ROWS):
        ids = np.arange(begin, min(begin + _ROWS, count))
        part: dict[str, Any] = {alias: _read(stores[alias], ids, device) for alias in spec.get("aliases", {}).values()}
        nodes = torch.from_numpy(ids).to(device)
        degrees = inputs.degrees(node_type, nodes, spec)
        with torch.no_grad():
            yield encoders(node_type, _Part(n_id=nodes, **part), None, degrees).float().cpu().numpy()


class _Part(SimpleNamespace):
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def _read(store: FeatureStore, ids: Any, device: torch.device) -> torch.Tensor:
    dtype = "float32" if store.dtype_name in ("float16", "bfloat16", "int8") else None
    rows: torch.Tensor = store.gather(ids, dtype=dtype, as_torch=True)
    return rows.to(device)
