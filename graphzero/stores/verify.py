"""The full check of a file: everything that mounting does not check."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from .. import _core
from ..args.html_table import HtmlReport
from ..args.ids import as_threads
from .paths import Paths, absolute

__all__ = ["VerifyReport", "verify"]


@dataclass(frozen=True)
class VerifyReport(HtmlReport):
    """The result of `verify`, which returns only if no fault was found."""

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
    deltas: Paths = (),
) -> VerifyReport:
    """Read a whole `.gl` or `.gd` file and check everything that FORMAT.md requires.

    Checked are the checksums of every array, zero padding, monotonic row pointers, neighbours in range, sorted rows,
    and valid weights and times. Raises FormatError for the first fault, with field and position. With
    `deltas`, the files that were appended to it, oldest first, all of them are checked, and the rows that they change.

    >>> import graphzero as gz
    >>> gz.verify("graph.gl").arrays  # doctest: +SKIP
    2
    """
    path = absolute(filename)
    done = _core.verify(path, as_threads(num_threads), progress, list(map(absolute, deltas)))
    return VerifyReport(path, done["bytes"], done["arrays"], done["seconds"], done["checksummed"])
