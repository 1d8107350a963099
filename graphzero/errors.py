"""The exceptions GraphZero raises beside Python's own IndexError, TypeError and ValueError."""

from __future__ import annotations

import errno
from typing import Any

__all__ = ["BudgetError", "FormatError", "GraphZeroError", "InputError", "MissingFileError", "StorageError"]


class GraphZeroError(Exception):
    """The root of the family: `except gz.GraphZeroError` catches every error that is GraphZero's own."""


class FormatError(GraphZeroError, ValueError):
    """A `.gl` or `.gd` file whose bytes are not what FORMAT.md says: damaged, cut short, or of a newer version."""


class InputError(GraphZeroError, ValueError):
    """Source data that cannot be compiled. The message names the file and the line or block."""


class BudgetError(GraphZeroError, MemoryError):
    """The `memory=` budget cannot hold the least that the work needs: `needed_bytes`, which the message says too."""

    def __init__(self, message: str, needed_bytes: int) -> None:
        """Keep both; they are the arguments that pickling repeats."""
        super().__init__(message, needed_bytes)
        self.needed_bytes = needed_bytes

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])


class StorageError(GraphZeroError, OSError):
    """The operating system refused a read, a write or a mapping; `errno` and `filename` are set.

    As Python's own OSError becomes a FileNotFoundError, one for a missing file is a MissingFileError.
    """

    def __new__(cls, *args: Any) -> StorageError:
        """Make the subclass that the error number asks for."""
        missing = cls is StorageError and bool(args) and args[0] == errno.ENOENT
        return super().__new__(MissingFileError if missing else cls, *args)

    def __str__(self) -> str:
        """Return the message alone: it already names the file and the reason."""
        return str(self.args[1]) if len(self.args) > 1 else super().__str__()


class MissingFileError(StorageError, FileNotFoundError):
    """A file or dataset that is not there: both a StorageError and Python's FileNotFoundError."""
