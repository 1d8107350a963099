"""Text of numbers with currency signs and separators of thousands, such as $1,053.91 and 1.053,91 €."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .categories import encoded

__all__ = ["WrittenNumbers"]

_PLAIN = re.compile(r"\s*([+-]?)\s*[$€£¥]?\s*([+-]?)\s*(.*?)\s*[$€£¥]?\s*", re.DOTALL)
_SPACED = re.compile(r"\d{1,3}(?:\s\d{3})+(?:[.,]\d*)?")
# What shows that a sign is the decimal one: other than three digits after it, or the other sign before three digits.
_SHOWS = {
    ".": re.compile(r"\.(\d{1,2}|\d{4,})$|^[+-]?0?\.\d|,\d{3}[.,]"),
    ",": re.compile(r",(\d{1,2}|\d{4,})$|^[+-]?0?,\d|\.\d{3}[.,]"),
}


class WrittenNumbers:
    """Reads a column batch by batch; which sign is the decimal one is known from the first batch that shows it."""

    def __init__(self, where: str) -> None:
        """Take the name of the column for messages."""
        self._where, self._decimal = where, ""

    def read(self, batch: Any, row: int) -> npt.NDArray[np.float64]:
        """Return the numbers of a batch, NaN for missing; InputError for text that is no number, or is ambiguous."""
        codes, names = encoded(batch, self._where)
        texts = [_plain(str(name)) for name in names]
        shown = [sign for sign, shows in _SHOWS.items() if any(map(shows.search, texts))]
        self._decimal = self._decimal or (shown[0] if len(shown) == 1 else "")
        values = [np.nan if text == "" else self._number(text) for text in texts]
        wrong = next((code for code in codes.tolist() if code >= 0 and values[code] is None), None)
        if wrong is not None:
            at, text = row + int(np.argmax(codes == wrong)), str(names[wrong])
            what = "whose separators may be of thousands or decimals, " if set(",.") & set(texts[wrong]) else ""
            raise InputError(f"{self._where}: row {at}: found {text!r}, {what}expected numbers such as 1053.91")
        return np.array([*values, np.nan], np.float64)[codes]

    def _number(self, text: str) -> float | None:
        """Return the number; None if `text` is no number, or is ambiguous."""
        if not self._decimal and not re.fullmatch(r"[+-]?\d+", text):
            return None
        other = "," if self._decimal == "." else "."
        whole = rf"[+-]?(\d{{1,3}}({re.escape(other)}\d{{3}})+|\d*)"
        if not re.fullmatch(rf"{whole}({re.escape(self._decimal)}\d+)?", text) or not re.search(r"\d", text):
            return None
        return float(text.replace(other, "").replace(self._decimal or ".", "."))


def _plain(text: str) -> str:
    """Return text without a currency sign at its start or end, and without blanks that separate thousands."""
    found = _PLAIN.fullmatch(text)
    assert found is not None, "every part of the pattern may be empty"
    body = found[3]
    if _SPACED.fullmatch(body):
        body = re.sub(r"\s", "", body)
    return found[1] + found[2] + body
