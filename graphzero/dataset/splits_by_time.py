"""Splits by time: training on the past, validation after it, test last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray
from ..args.shares import as_shares, is_shares
from ..args.times import as_times

__all__ = ["split_by_time"]

_NAMES = ("train", "valid", "test")


def split_by_time(times: IdArray, spec: str, unit: str = "s", known: npt.NDArray[Any] | None = None) -> dict[str, Any]:
    """Return positions by split: "70/15/15" in percent of the rows, or two dates at which validation and test start.

    Rows of the same time are in the same split. `known`: the rows to split (default: all).

    >>> {name: rows.tolist() for name, rows in split_by_time(np.array([5, 1, 9, 3]), "50/25/25").items()}
    {'train': [1, 3], 'valid': [0], 'test': [2]}
    """
    rows = np.arange(len(times)) if known is None else np.flatnonzero(known)
    own = times[rows]
    first, second = _cuts(own, spec, unit)
    parts = (own < first, (own >= first) & (own < second), own >= second)
    found = {name: rows[part] for name, part in zip(_NAMES, parts, strict=True)}
    for name in ("train", "valid"):
        if len(found[name]) == 0:
            raise ValueError(f"splitting by time with {spec!r} leaves {name!r} empty; choose other shares or dates")
    return found


def _cuts(times: IdArray, spec: str, unit: str) -> tuple[int, int]:
    parts = spec.split("/")
    if len(parts) == 3:
        shares = as_shares(spec) if is_shares(spec) else None
        if shares is not None and len(times):
            ordered = np.sort(times)
            places = np.cumsum(shares)[:2] * len(times)
            first, second = (int(ordered[min(round(place), len(times) - 1)]) for place in places)
            return first, second if shares[2] > 0 else int(ordered[-1]) + 1
    if len(parts) == 2:
        first, second = (int(as_times(part, "a date", unit=unit)[0]) for part in parts)
        if first < second:
            return first, second
    raise ValueError(
        f"{spec!r} is not a valid split by time, expected shares such as 70/15/15, or the dates at which "
        "validation and test start, such as 2023-01-01/2023-07-01"
    )
