"""The deep check of a file: what mounting cannot afford to look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from .. import _core
from ..args.ids import as_threads

__all__ = ["VerifyReport", "verify"]


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` read. That it returned at all means that no fault was found."""

    path: str
    bytes: int
    arrays: int
    seconds: float
    checksummed: bool  # False for files of GraphZero 0.1 and 0.2, which carry no checksums


def verify(
    filename: str | os.PathLike[str],
    *,
    num_threads: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> VerifyReport:
    """Read the whole of a `.gl` or `.gd` file and check all that FORMAT.md says about it.

    Checksums of every array, zero padding, row pointers that never fall, neighbours that exist, rows in the promised
    order, weights and times that make sense. Raises FormatError for the first fault, by field and position.

    >>> import graphzero as gz
    >>> gz.verify("graph.gl").arrays  # doctest: +SKIP
    2
    """
    path = os.path.abspath(os.fsdecode(filename))
    done = _core.verify(path, as_threads(num_threads), progress)
    return VerifyReport(path, done["bytes"], done["arrays"], done["seconds"], done["checksummed"])
