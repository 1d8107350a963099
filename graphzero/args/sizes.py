"""Parses and formats sizes in bytes."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def parse_size(size: int | float | str, name: str = "memory") -> int:
    """Return a size in bytes: a number, or text such as "1GB" (10^9), "1.5 GiB" (2^30), "512m".

    >>> parse_size("1GB"), parse_size("2 KiB"), parse_size(10)
    (1000000000, 2048, 10)
    """
    if isinstance(size, bool) or not isinstance(size, (int, float, str)):
        raise TypeError(f"{name} must be a number of bytes or text such as '2GB', got {type(size).__name__}")
    if isinstance(size, str):
        match = _PATTERN.fullmatch(size)
        if match is None:
            raise ValueError(f"{name} is {size!r}, expected a size such as '2GB', '512MB' or '1.5GiB'")
        number, unit, binary = match.groups()
        if binary and not unit:
            raise ValueError(f"{name} is {size!r}, expected a size such as '2GB', '512MB' or '1.5GiB'")
        value = float(number) * (_BINARY if binary else _UNITS)[unit.lower()]
    else:
        value = float(size)
    if not 1 <= value < 2**62:
        raise ValueError(f"{name} is {size!r}, expected at least 1 byte and less than 2^62")
    return int(value)


def format_size(size: int | float) -> str:
    """Return a readable size: `format_size(1_500_000)` is '1.5 MB'."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 999.5:
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
