"""Element types of features and checked conversions between them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .suggest import did_you_mean

NAMES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FLOATS = ("float64", "float32", "float16", "bfloat16")


class DataType(enum.Enum):
    """The element types of GraphZero 0.2, for `convert_csv_to_gd`; `compile_features` takes names such as "float16"."""

    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype given as a name, a NumPy or torch dtype, or a DataType.

    >>> dtype_name(np.float16), dtype_name("bfloat16")
    ('float16', 'bfloat16')
    """
    if isinstance(dtype, DataType):
        return str(dtype.value)
    text = str(dtype) if isinstance(dtype, str) or str(dtype).startswith("torch.") else np.dtype(dtype).name
    name = {"half": "float16", "float": "float32", "double": "float64"}.get(text, text.removeprefix("torch."))
    if name not in NAMES:
        raise ValueError(f"dtype is {text!r}, expected one of {', '.join(NAMES)}{did_you_mean(text, NAMES)}")
    return name


def refuse_text(array: npt.NDArray[Any], what: str) -> None:
    """Raise TypeError where an array holds text."""
    text = array.dtype.kind in "US" or (array.dtype == object and any(isinstance(v, str) for v in array.flat))
    if text:
        shown = next((v for v in array.flat if isinstance(v, (str, bytes))), "")
        codes = f"np.unique({what}, return_inverse=True)[1] maps each value to a number"
        raise TypeError(f"{what} must be numbers, found text such as {str(shown)!r}; {codes}")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype that holds `name`: uint16 for bfloat16, which NumPy lacks."""
    return np.dtype(np.uint16 if name == "bfloat16" else name)


def from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Return the float32 values of bfloat16 bits, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return the nearest bfloat16 bits, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


@dataclass
class Loss:
    """The error of storing floats in a smaller type, over all finite values."""

    dtype: str
    largest: float = 0.0  # absolute
    error_squares: float = 0.0
    value_squares: float = 0.0

    def add(self, values: npt.NDArray[Any], kept: npt.NDArray[Any]) -> None:
        """Add a block: its values, and the values that a reader of the file gets."""
        exact = values.astype(np.float64)
        error = np.abs(kept.astype(np.float64) - exact)
        error[~np.isfinite(error)] = 0
        exact[~np.isfinite(exact)] = 0
        self.largest = max(self.largest, float(error.max(initial=0)))
        self.error_squares += float(np.vdot(error, error))
        self.value_squares += float(np.vdot(exact, exact))

    @property
    def relative(self) -> float:
        """The root mean square of the error, as a share of that of the values."""
        return math.sqrt(self.error_squares / self.value_squares) if self.value_squares else 0.0

    def __str__(self) -> str:
        """Return `stored as float16: largest error 0.00049, 0.021 % (root mean square)`."""
        share = f"{100 * self.relative:.2g} % (root mean square)"
        return f"stored as {self.dtype}: largest error {self.largest:.2g}, {share}"


class Converter:
    """Converts blocks of rows from one type to another; errors name the row and column."""

    def __init__(
        self,
        name: str,
        source: str,
        target: str,
        scale: npt.NDArray[np.float32] | None = None,
        loss: Loss | None = None,
    ) -> None:
        """Take the array's name (for messages) and both types; `scale` for floats stored as int8.

        `loss`, if given, measures the rounding error of every block.
        """
        self._name = name
        self._source = source
        self._target = target
        self._scale = scale
        self._loss = loss

    def __call__(self, block: npt.NDArray[Any], first_row: int) -> npt.NDArray[Any]:
        """Return `block`, whose first row has number `first_row`, in the target type."""
        out = self._converted(block, first_row)
        if self._loss is not None:
            kept: npt.NDArray[Any] = from_bfloat16(out) if self._target == "bfloat16" else out
            kept = kept * self._scale if self._scale is not None else kept
            self._loss.add(from_bfloat16(block) if self._source == "bfloat16" else block, kept)
        return out

    def _converted(self, block: npt.NDArray[Any], first_row: int) -> npt.NDArray[Any]:
        if self._source == self._target and self._scale is None:
            return np.ascontiguousarray(block)
        if self._source == "bfloat16":
            block = from_bfloat16(block)
        if self._scale is not None:
            self._refuse(~np.isfinite(block), block, first_row, "a finite number to scale to int8")
            return np.clip(np.rint(block / self._scale), -127, 127).astype(np.int8)
        if self._target == "bfloat16":
            out = to_bfloat16(self._narrow(block, np.dtype(np.float32), first_row))
            lost = np.isfinite(block) & ~np.isfinite(from_bfloat16(out))
            self._refuse(lost, block, first_row, "a number that bfloat16 can hold")
            return out
        target = numpy_dtype(self._target)
        if target.kind == "f":
            return self._narrow(block, target, first_row)
        return self._whole(block, target, first_row)

    def _narrow(self, block: npt.NDArray[Any], target: np.dtype[Any], first_row: int) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):
            out = np.ascontiguousarray(block, dtype=target)
        if block.dtype.kind != "b" and target.itemsize < max(block.dtype.itemsize, 4):
            lost = ~np.isfinite(out) & np.isfinite(block)
            self._refuse(lost, block, first_row, f"a number that {self._target} can hold")
        return out

    def _whole(self, block: npt.NDArray[Any], target: np.dtype[Any], first_row: int) -> npt.NDArray[Any]:
        if block.dtype.kind == "b":
            return np.ascontiguousarray(block, dtype=target)
        low, high = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
        bad = (block < low) | (block > high)
        if block.dtype.kind == "f":
            bad = bad | ~np.isfinite(block) | (block != np.rint(block)) | (block >= 2.0**63)
        self._refuse(bad, block, first_row, f"a whole number from {low} to {high}")
        return np.ascontiguousarray(block, dtype=target)

    def _refuse(self, bad: npt.NDArray[Any], block: npt.NDArray[Any], first_row: int, expected: str) -> None:
        if not bad.any():
            return
        at = np.argwhere(bad)[0]
        column = f", column {at[1]}" if len(at) > 1 else ""
        raise InputError(
            f"{self._name}: row {first_row + int(at[0])}{column}: found {block[tuple(at)]}, expected {expected}"
        )
