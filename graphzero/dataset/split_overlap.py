"""Ids that are in two splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray

__all__ = ["shared_ids"]

_STEP = 1 << 22
_SPARSE = 64  # times as large as there are ids: then they are sorted instead of marked


def shared_ids(splits: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the names of each two splits that have ids in common, and how many.

    Splits are ids, or masks; others are ignored. Takes a byte per id for up to 8 splits.

    >>> list(shared_ids({"train": np.array([0, 2]), "valid": np.array([2, 1]), "test": np.array([3])}))
    [('train', 'valid', 1)]
    """
    known = {name: _as_ids(np.asarray(ids)) for name, ids in splits.items() if ids is not None}
    known = dict(islice(((name, ids) for name, ids in known.items() if ids.size), 64))
    largest = max((int(ids.max()) for ids in known.values()), default=0)
    if largest > _SPARSE * sum(map(len, known.values())) + _STEP:
        for one, other in combinations(known, 2):
            if count := len(np.intersect1d(known[one], known[other])):
                yield one, other, count
        return
    marks = np.zeros(largest + 1, np.min_scalar_type((1 << len(known)) - 1))
    for number, ids in enumerate(known.values()):
        for at in range(0, len(ids), _STEP):
            marks[ids[at : at + _STEP]] |= marks.dtype.type(1 << number)
    for (first, one), (second, other) in combinations(enumerate(known), 2):
        both = marks.dtype.type(1 << first | 1 << second)
        if count := sum(
            int(np.count_nonzero(marks[at : at + _STEP] & both == both)) for at in range(0, len(marks), _STEP)
        ):
            yield one, other, count


def _as_ids(ids: npt.NDArray[Any]) -> IdArray:
    if ids.dtype == np.bool_:
        ids = np.flatnonzero(ids)
    is_valid = ids.ndim == 1 and ids.dtype.kind in "iu" and ids.size and int(ids.min()) >= 0
    return ids if is_valid else np.empty(0, np.int64)
