"""`.pt` files, read with torch's restricted loader: tensors and plain containers, never arbitrary code."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

from ..errors import InputError

__all__ = ["load_pt"]


def _harmless() -> list[Any]:
    """Return what a file may name in addition to tensors: NumPy arrays, and the classes of PyG's stores."""
    import numpy as np

    allowed: list[Any] = [np.ndarray, np.dtype, *{type(np.dtype(code)) for code in "?bBhHiIlLqQefd"}]
    make = np.empty(0).__reduce__()[0]  # NumPy's own, whose module has had two names
    allowed += [(make, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    try:
        from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.hetero_data import HeteroData
        from torch_geometric.data.storage import GlobalStorage
    except ImportError:
        return allowed
    return [*allowed, Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, HeteroData]


def load_pt(path: str) -> Any:
    """Return what a `.pt` file holds: mapped where its format allows, so that tensors are read when touched."""
    import torch

    refused: Exception
    for mapped in (True, False):
        try:
            safe = getattr(torch.serialization, "safe_globals", None)  # since torch 2.5
            with safe(_harmless()) if safe is not None else contextlib.nullcontext():
                return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except pickle.UnpicklingError as error:
            refused = error
            break
        except (RuntimeError, EOFError, ValueError) as error:  # mmap needs the newer zip format
            refused = error
    why = " ".join(str(refused).split())[:200]
    raise InputError(
        f"{path}: holds more than tensors and plain containers, which is not unpickled for safety; load it in Python "
        f"and pass the object to import_dataset ({why})"
    ) from refused
