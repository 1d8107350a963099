"""Ranges of rows of about equal work, from the number of edges in each bucket of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ._compile_tasks import Part

_ROW_BYTES = 8  # of indptr
_PART_RECORDS = 1 << 25  # bounds the work lost when a worker dies to seconds


def plan_parts(
    side: str, cuts: Sequence[tuple[str, int, int, list[Any]]], rows: int, bytes_each: int, slots: int
) -> list[Part]:
    """Return parts that cover all rows of a side; a cut is (file, bits of buckets, largest neighbour, runs)."""
    bits = cuts[0][1] if cuts else 0
    runs = [(path, *run) for path, _, _, of in cuts for run in of]
    shift = max((run[1] for run in runs), default=0)
    counts = np.zeros(1 << bits, np.int64)
    for run in runs:
        own = np.diff(run[-1].astype(np.int64))
        np.add.at(counts, np.arange(len(own)) >> (shift - run[1]), own)
    used = min(len(counts), max(1, -(-rows // (1 << shift))))
    bounds = _bounds(counts[:used], shift, rows, bytes_each, slots)
    largest = max((cut[2] for cut in cuts), default=0)
    return [
        Part(
            side,
            row_begin=begin << shift,
            row_end=rows if end == used else end << shift,
            bucket_bits=bits,
            shift=shift,
            largest_neighbour=largest,
            records=int(counts[begin:end].sum()),
            runs=[view for run in runs if (view := _view(run, shift, begin, end)) is not None],
        )
        for begin, end in pairwise(bounds)
    ]


def _bounds(counts: npt.NDArray[np.int64], shift: int, rows: int, bytes_each: int, slots: int) -> list[int]:
    """Cut buckets into consecutive groups of about equal bytes: four per slot, more if they would be large."""
    starts = np.minimum(np.arange(len(counts) + 1) << shift, rows)
    starts[-1] = rows  # rows after the last id belong to the last bucket
    work = np.concatenate([[0], np.cumsum(counts * bytes_each + np.diff(starts) * _ROW_BYTES)])
    each = max(4, -(-int(counts.sum()) // (_PART_RECORDS * slots)))  # the same for each: all finish together
    parts = each * slots
    cuts = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)
    return sorted({0, len(counts), *(int(cut) for cut in cuts)})


def _view(run: tuple[Any, ...], shift: int, begin: int, end: int) -> tuple[Any, ...] | None:
    """Return a run with only the offsets of buckets [begin, end); None if they are empty."""
    *rest, offsets = run
    finer, last = shift - run[1], len(offsets) - 1
    own_begin, own_end = min(begin << finer, last), min(end << finer, last)
    part = offsets[own_begin : own_end + 1]
    return (*rest, np.ascontiguousarray(part)) if part[-1] > part[0] else None
