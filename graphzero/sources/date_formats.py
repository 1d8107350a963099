"""Text of dates in formats other than ISO 8601, as strptime reads them, and which format text seems to have."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .categories import encoded
from .decoding import kind_of

__all__ = ["as_formats", "date_hint", "in_format"]

_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%Y/%m/%d")
_WORDS = ("%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
_HOURS = ("", " %H:%M", " %H:%M:%S")
_SOME_DAY = datetime.datetime(2000, 1, 2, tzinfo=datetime.timezone.utc)
_KNOWN = tuple(day + hour for hour in _HOURS for day in (*_DAYS, *_WORDS))
_LIKE_A_DATE = re.compile(r"(?=.{8,30}$)(?:\d{1,2}[ ./-]|\d{4}[/-]|[A-Z][a-z]{2,8} \d).*\d")
_MOST_SEEN = 500  # different texts that are looked at
_MOST_FORMATS = 3
_SHARE = 0.9  # of the texts that the formats must match


def as_formats(value: Any, where: str) -> tuple[str, ...]:
    """Return the formats of a rule: one or a list; InputError for what strptime does not know."""
    formats = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
    if not formats or not all(isinstance(one, str) for one in formats):
        raise InputError(f"{where}: found {value!r}, expected a format such as '%d/%m/%Y', or a list of them")
    for one in formats:
        if "%Z" in one.replace("%%", ""):
            raise InputError(
                f"{where}: found {one!r}, whose %Z reads the name of a time zone, which is ambiguous; write offsets "
                "such as +0200 and read them with %z"
            )
        try:
            datetime.datetime.strptime(_SOME_DAY.strftime(one), one)
        except (ValueError, re.error) as error:
            raise InputError(
                f"{where}: found {one!r}, expected codes of strptime, such as '%d/%m/%Y': {error}"
            ) from None
        if "%" not in one.replace("%%", ""):
            raise InputError(f"{where}: found {one!r}, expected codes of strptime, such as '%d/%m/%Y'")
    return formats


def in_format(column: Any, formats: Sequence[str], where: str, row: int) -> Any:
    """Return a column of text as datetime64 in UTC, NaT for missing; columns that hold dates are returned unchanged."""
    if kind_of(column) == "date":
        return column
    codes, names = encoded(column, where)
    found = np.full(len(names) + 1, np.datetime64("NaT", "us"))
    for code in np.unique(codes[codes >= 0]).tolist():
        time = _parsed(text := _as_text(names[code]), formats)
        if time is None:
            at = row + int(np.argmax(codes == code))
            expected = " or ".join(map(repr, formats))
            raise InputError(f"{where}: row {at}: found {text!r}, expected a date in the format {expected}")
        found[code] = np.datetime64(time, "us")
    times: npt.NDArray[Any] = found[codes]
    return times


def _as_text(value: Any) -> str:
    """Return a value as text: pandas makes floats of whole numbers where some are missing."""
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value) if whole else value)


def date_hint(texts: Iterable[str]) -> str:
    """Return the rule to read `texts` with if most of them look like dates in known formats, else ""."""
    seen = [text for text, _ in zip(texts, range(_MOST_SEEN), strict=False)]
    left = [text for text in seen if _LIKE_A_DATE.match(text)]
    least = _SHARE * len(seen)
    if len(left) < max(least, 1):
        return ""
    formats: list[str] = []
    also = ""
    while left and len(formats) < _MOST_FORMATS:
        counts = {one: sum(_parsed(text, [one]) is not None for text in left) for one in _KNOWN if one not in formats}
        best = max(counts, key=counts.__getitem__)
        if not counts[best]:
            break
        same = next((one for one in _KNOWN if one != best and counts.get(one) == counts[best]), None)
        also = also or ("" if same is None or formats else same)
        formats.append(best)
        left = [text for text in left if _parsed(text, [best]) is None]
    if not formats or len(left) > len(seen) - least:
        return ""
    if any(_swapped(one) in formats for one in formats):
        return "looks like dates, with day and month in different orders"
    listed = f'"{formats[0]}"' if len(formats) == 1 else "[" + ", ".join(f'"{one}"' for one in formats) + "]"
    either = f' (or "{also}")' if also else ""
    return f"looks like dates; set kind: time with format: {listed}{either}"


def _swapped(format: str) -> str | None:
    """Return the format with day and month the other way round; None if it has none."""
    swapped = re.sub("%[dm](.)%[dm]", lambda found: f"{found[0][-2:]}{found[1]}{found[0][:2]}", format)
    return None if swapped == format else swapped


def _parsed(text: str, formats: Sequence[str]) -> datetime.datetime | None:
    """Return the time that a text means, in UTC, by the first format that fits."""
    for one in formats:
        try:
            time = datetime.datetime.strptime(text, one)
            return time if time.tzinfo is None else time.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        except (ValueError, OverflowError):  # the latter: in UTC it is before the year 1 or after 9999
            continue
    return None
