"""Objects that hold files, memory or threads until `close()`."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Closing"]

_Own = TypeVar("_Own", bound="Closing")


class Closing:
    """Closes itself at the end of a `with` block."""

    def close(self) -> None:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self: _Own) -> _Own:
        """Return self: `with gz.Graph(path) as g:`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
