"""Paths of mounted files."""

from __future__ import annotations

import os
from collections.abc import Sequence

Paths = Sequence[str | os.PathLike[str]]


def absolute(path: str | os.PathLike[str]) -> str:
    """Return `path` as an absolute str, so that it stays valid when the working directory changes."""
    return os.path.abspath(os.fsdecode(path))
