"""Where gathered rows go: a fresh NumPy array, a torch tensor, or a buffer from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .dtypes import numpy_dtype


def is_torch(value: Any) -> bool:
    """Return whether `value` is a torch tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch"


@dataclass
class Destination:
    """The destination of one gather: `buffer()` before it is filled, `result()` after."""

    out: Any
    torch: bool
    pinned: bool

    @classmethod
    def of(cls, out: Any, ids: Any, as_torch: bool | None, pinned: bool) -> Destination:
        """Decide from the arguments of gather()."""
        if out is not None and (as_torch is not None or pinned):
            raise ValueError("out= cannot be combined with as_torch= or pinned=")
        torch = pinned or (is_torch(ids) if as_torch is None else as_torch)
        return cls(out, torch and out is None, pinned)

    def buffer(self, matrix: _core.Matrix, shape: tuple[int, ...], dtype: str | None) -> npt.NDArray[np.uint8] | None:
        """Return the bytes to fill; None lets the core allocate them."""
        name = dtype or matrix.dtype
        if self.pinned:
            import torch

            self.out = torch.empty(shape, dtype=getattr(torch, name), pin_memory=True)
        if self.out is None:
            return None
        if is_torch(self.out):
            return _tensor_bytes(self.out, shape, name)
        if not isinstance(self.out, np.ndarray):
            raise TypeError(f"out must be a NumPy array or a torch tensor, got {type(self.out).__name__}")
        _check(self.out.shape, self.out.dtype.name, shape, numpy_dtype(name).name)
        if not (self.out.flags.c_contiguous and self.out.flags.writeable):
            raise ValueError("out must be contiguous (C order) and writeable")
        return self.out.reshape(-1).view(np.uint8)

    def result(self, found: npt.NDArray[Any] | None, tail: tuple[int, ...], dtype: str) -> Any:
        """Return what gather() returns: rows of shape `tail`."""
        if found is None:
            return self.out
        found = found.reshape(len(found), *tail)
        if not self.torch:
            return found
        import torch

        tensor = torch.from_numpy(found)
        return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _check(found: tuple[int, ...], found_dtype: str, shape: tuple[int, ...], dtype: str) -> None:
    if tuple(found) != shape:
        raise ValueError(f"out has shape {tuple(found)}, expected {shape}")
    if found_dtype != dtype:
        raise ValueError(f"out has dtype {found_dtype}, expected {dtype}")


def _tensor_bytes(tensor: Any, shape: tuple[int, ...], dtype: str) -> npt.NDArray[np.uint8]:
    import torch

    _check(tensor.shape, str(tensor.dtype).removeprefix("torch."), shape, dtype)
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError(f"out must be contiguous and on the CPU, got {tensor.device} with strides {tensor.stride()}")
    bytes_: npt.NDArray[np.uint8] = tensor.detach().view(-1).view(torch.uint8).numpy()
    return bytes_
