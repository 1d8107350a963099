"""Shares of splits, such as '60/20/20'."""

from __future__ import annotations

import re

__all__ = ["as_shares", "is_shares"]

_SHARES = re.compile(r"\d+(?:\.\d+)?(?:[/,:]\d+(?:\.\d+)?)+")
_TOLERANCE = 0.011  # of the whole, so that 33/33/33 and 33.3/33.3/33.3 are thirds


def is_shares(source: object) -> bool:
    """Return whether `source` is written as shares."""
    return isinstance(source, str) and _SHARES.fullmatch(source) is not None


def as_shares(text: str) -> tuple[float, float, float]:
    """Return the shares of train, valid and test, which sum to 1; two shares are those of train and valid.

    >>> as_shares("80/20"), as_shares("0.5/0.25/0.25")
    ((0.8, 0.2, 0.0), (0.5, 0.25, 0.25))
    >>> as_shares("60/20")
    Traceback (most recent call last):
    ValueError: '60/20': shares sum to 80, expected 100 (or 1); add the share of test: 60/20/20
    """
    parts = [float(part) for part in re.split("[/,:]", text)] if is_shares(text) else []
    if len(parts) not in (2, 3):
        raise ValueError(f"{text!r}: expected the shares of train, valid and test, such as 60/20/20, or 80/20")
    total = sum(parts)
    whole = 1 if total < 2 else 100
    if abs(total - whole) > whole * _TOLERANCE:
        rest = f"{whole - total:.4g}"
        fix = f"; add the share of test: {text}{re.sub('[0-9.]', '', text)}{rest}"
        hint = fix if len(parts) == 2 and whole / 2 <= total < whole else ""  # '1/1' may be a ratio
        expected = "100 (or 1)" if whole == 100 else "1 (or 100)"
        raise ValueError(f"{text!r}: shares sum to {total:g}, expected {expected}{hint}")
    if not parts[0] or not parts[1]:
        raise ValueError(f"{text!r}: the share of {'valid' if parts[0] else 'train'} is 0, but training needs it")
    train, valid, test = (part / total for part in (*parts, 0.0)[:3])
    return train, valid, test
