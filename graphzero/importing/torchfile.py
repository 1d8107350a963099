"""`.pt` files, read with torch's restricted loader: tensors and plain containers, never arbitrary code."""

from __future__ import annotations

import pickle
from typing import Any

from ..errors import InputError

__all__ = ["load_pt"]


def load_pt(path: str) -> Any:
    """Return what a `.pt` file holds: mapped where its format allows, so that tensors are read when touched."""
    import torch

    refused: Exception
    for mapped in (True, False):
        try:
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
