"""The exceptions GraphZero raises in addition to Python's own IndexError, TypeError and ValueError."""

from __future__ import annotations

import errno
from typing import Any

__all__ = ["BudgetError", "FormatError", "GraphZeroError", "InputError", "MissingFileError", "StorageError"]


class GraphZeroError(Exception):
    """Base class: `except gz.GraphZeroError` catches every error that GraphZero defines."""


class FormatError(GraphZeroError, ValueError):
    """A `.gl` or `.gd` file that violates FORMAT.md: damaged, truncated, or of a newer version."""


class InputError(GraphZeroError, ValueError):
    """Source data that cannot be compiled. The message names the file and the line or block."""


class BudgetError(GraphZeroError, MemoryError):
    """The `memory=` budget is too small; `needed_bytes` is the minimum, which the message states too."""

    def __init__(self, message: str, needed_bytes: int) -> None:
        """Store both as arguments, so that the error pickles."""
        super().__init__(message, needed_bytes)
        self.needed_bytes = needed_bytes

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class StorageError(GraphZeroError, OSError):
    """A read, a write or a mapping failed in the operating system; `errno` and `filename` are set.

    For a missing file it is a MissingFileError, as Python's OSError becomes a FileNotFoundError.
    """

    def __new__(cls, *args: Any) -> StorageError:
        """Create the subclass that matches the error number."""
        missing = cls is StorageError and bool(args) and args[0] == errno.ENOENT
        return super().__new__(MissingFileError if missing else cls, *args)

    def __str__(self) -> str:
        """Return only the message, which already names the file and the reason."""
        return str(self.args[1]) if len(self.args) > 1 else super().__str__()


class MissingFileError(StorageError, FileNotFoundError):
    """A file or dataset that does not exist: both a StorageError and Python's FileNotFoundError."""
