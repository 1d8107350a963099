"""The factors of floats that are stored as int8: one per column, by which the squared error is least.

The largest magnitude of a column may map to 127, or a smaller one, above which values are clipped: a few outliers would
otherwise take the precision of all other values. Two passes over the rows decide. The first finds the largest
magnitudes and keeps a sample of rows, which gives the candidates, from the largest magnitude down to the 99th
percentile, and the rounding error of each. The second adds the error of clipping, over all rows: it is due to few
values, which a sample may lack.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..args.dtypes import from_bfloat16
from ..errors import InputError
from ..sources.rows import Rows

__all__ = ["int8_scale"]

_SAMPLE_ROWS = 1 << 14
_CANDIDATES, _LEAST_PERCENTILE = 8, 99

Floats = npt.NDArray[np.float64]


def int8_scale(rows: Rows, step: int, sample_bytes: int) -> npt.NDArray[np.float32]:
    """Return the factor of each column; 1 for a column of zeros.

    Blocks have `step` rows. The sample takes at most `sample_bytes`: unless that is small, any budget gives the same.
    """
    most = max(1, min(_SAMPLE_ROWS, sample_bytes // (8 * max(rows.width, 1))))
    largest, sample, count = _survey(rows, step, most)
    limits = _candidates(largest, sample)
    errors = _rounding_errors(sample, limits) * (count / max(len(sample), 1))
    if (limits < largest).any():
        errors += _clipping_errors(rows, step, limits)
    best = np.take_along_axis(limits, errors.argmin(axis=0)[None], axis=0)[0]
    with np.errstate(over="ignore"):
        scale = (best / 127).astype(np.float32)
    if not np.isfinite(scale).all():
        column = int(np.argmin(np.isfinite(scale)))
        raise InputError(f"{rows.name}: column {column}: found {best[column]}, expected a number that float32 can hold")
    return np.where(scale > 0, scale, np.float32(1))


def _magnitudes(rows: Rows, step: int) -> Iterator[npt.NDArray[np.floating]]:
    """Yield the magnitudes of blocks of rows; 0 for what is not finite, which is reported when the rows are written."""
    for block in rows.blocks(step):
        values = np.abs(from_bfloat16(block) if rows.dtype == "bfloat16" else block).reshape(len(block), -1)
        yield values if np.isfinite(values).all() else np.where(np.isfinite(values), values, 0)


def _survey(rows: Rows, step: int, most: int) -> tuple[Floats, Floats, int]:
    """Return the largest magnitude of each column, a sample of at most `most` rows, and the number of rows."""
    largest, sample = np.zeros(rows.width), np.empty((0, rows.width))
    count, stride = 0, 1
    for block in _magnitudes(rows, step):
        if len(block):
            largest = np.maximum(largest, block.max(axis=0))
            sample = np.concatenate([sample, block[-count % stride :: stride]])
            while len(sample) > most:
                sample, stride = sample[::2], 2 * stride
            count += len(block)
    return largest, sample, count


def _candidates(largest: Floats, sample: Floats) -> Floats:
    """Return the magnitudes that may map to 127, by candidate and column, the largest first."""
    least = largest if not len(sample) else np.percentile(sample, _LEAST_PERCENTILE, axis=0)
    shares = np.where(least > 0, least, largest) / np.where(largest > 0, largest, 1)
    return largest * shares ** (np.arange(_CANDIDATES)[:, None] / (_CANDIDATES - 1))


def _rounding_errors(sample: Floats, limits: Floats) -> Floats:
    """Return the squared errors of sampled values that a limit does not clip, by candidate and column."""
    errors = np.zeros(limits.shape)
    for at, limit in enumerate(limits):
        scale = np.where(limit > 0, limit, 127.0) / 127
        rounded = np.rint(sample / scale) * scale
        errors[at] = (np.where(sample <= limit, rounded - sample, 0) ** 2).sum(axis=0)
    return errors


def _clipping_errors(rows: Rows, step: int, limits: Floats) -> Floats:
    """Return the squared errors of all values that a limit clips, by candidate and column."""
    errors = np.zeros(limits.shape)
    least = limits.min(axis=0)
    for block in _magnitudes(rows, step):
        row, column = np.nonzero(block > least)
        above = block[row, column].astype(np.float64)
        for at, limit in enumerate(limits):
            excess = np.maximum(above - limit[column], 0)
            errors[at] += np.bincount(column, excess**2, minlength=rows.width)
    return errors
