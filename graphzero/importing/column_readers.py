"""Columns of numbers, times and lists: one pass over the batches finds the statistics, a second one stored values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.columns import MISSING_TIME
from ..errors import InputError
from ..sources.categories import with_nan
from ..sources.date_formats import in_format
from ..sources.dates import FORMAT_FIX, as_time_column, times_or_missing
from ..sources.decoding import kind_of, missing_rows, numbers, without_rows
from ..sources.written_numbers import WrittenNumbers
from .column_rules import ColumnRule

__all__ = ["ColumnReader", "LeftOut", "Lists", "Numbers", "Times", "refuse_missing"]


class LeftOut(Exception):
    """A column that cannot be imported, and why."""


class ColumnReader:
    """Reads one column twice: `scan` for every batch, `finish`, then `values` for every batch again."""

    kind = ""
    dtype = "float32"
    fill: Any = np.nan  # the stored value that means missing
    width: int | None = None  # of an array of its own; None: one column of an array that is shared

    def __init__(self, where: str, rule: ColumnRule) -> None:
        """Take the name of the column for messages, and its rule."""
        self._where, self._rule = where, rule
        self.stats: dict[str, Any] = {}
        self.notes: list[str] = []

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch, whose first row is `row`, to the statistics; `seen`: its training rows, None for all."""
        raise NotImplementedError

    def finish(self) -> None:
        """Compute the statistics; raise LeftOut if the column cannot be imported."""
        raise NotImplementedError

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        raise NotImplementedError


def refuse_missing(rule: ColumnRule, missing: npt.NDArray[np.bool_], where: str, row: int) -> None:
    """Raise InputError at the first missing value if the rule is "error"."""
    if rule.missing == "error" and missing.any():
        at = row + int(np.argmax(missing))
        raise InputError(f"{where} has no value in row {at}; missing: keep imports it as missing")


class Numbers(ColumnReader):
    """Numbers and bools: float32, NaN for missing."""

    def __init__(self, kind: str, where: str, rule: ColumnRule) -> None:
        """Start without values."""
        super().__init__(where, rule)
        self.kind = kind
        self._count = self._missing = self._infinite = self._rows = 0
        self._mean = self._squares = 0.0
        self._least, self._most = np.inf, -np.inf
        self._of = "all"
        self._written = WrittenNumbers(where)
        if rule.missing not in ("keep", "mean", "error") and not isinstance(rule.missing, (int, float)):
            raise InputError(f"{where}: missing is {rule.missing!r}, expected keep, mean, error or a number")

    def _read(self, batch: Any, row: int) -> npt.NDArray[np.float64]:
        if kind_of(batch) == "text" and self._rule.kind == "number":
            return self._written.read(batch, row)
        return np.asarray(with_nan(batch, self._where, row), np.float64)

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        values = self._read(batch, row)
        missing = np.isnan(values)
        refuse_missing(self._rule, missing, self._where, row)
        self._missing += int(missing.sum())
        self._infinite += int(np.isinf(values).sum())
        if seen is not None:
            values, self._of = values[seen], "train"
        self._rows += len(values)
        known = values[np.isfinite(values)]
        if not known.size:
            return
        # Chan's update: the sums of squares about two means become one about their common mean.
        mean, total = float(known.mean()), self._count + known.size
        apart = mean - self._mean
        self._squares += float(((known - mean) ** 2).sum()) + apart**2 * self._count * known.size / total
        self._mean += apart * known.size / total
        self._count = total
        self._least, self._most = min(self._least, float(known.min())), max(self._most, float(known.max()))

    def finish(self) -> None:
        """Compute the statistics."""
        known = self._count > 0
        deviation = float(np.sqrt(self._squares / self._count)) if known else 0.0
        found = (self._mean, deviation, self._least, self._most) if known else (0.0,) * 4
        self.stats = dict(zip(("mean", "std", "min", "max"), found, strict=True))
        self.stats |= {"missing": self._missing, "rows": self._rows, "of": self._of}
        if self._infinite:
            self.notes.append(f"{self._infinite:,} infinite values, which models treat as missing")
        if not known:
            self.notes.append("no values" if self._of == "all" else "no values in the training rows")
        elif self._least == self._most:
            self.notes.append(f"constant: every value is {self._least:g}")

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        values = self._read(batch, row)
        if self._rule.missing not in ("keep", "error"):
            put = self.stats["mean"] if self._rule.missing == "mean" else float(self._rule.missing)
            values = np.where(np.isnan(values), put, values)
        with np.errstate(over="ignore"):
            return values.astype(np.float32)


class Times(ColumnReader):
    """Dates, timestamps and ISO text: int64 seconds since 1970, the least int64 for missing."""

    kind, dtype, fill = "time", "int64", MISSING_TIME

    def __init__(self, where: str, rule: ColumnRule) -> None:
        """Start without values."""
        super().__init__(where, rule)
        self._missing = 0
        self._least: int | None = None
        self._most: int | None = None
        self._put: int | None = None
        if rule.missing not in ("keep", "error"):
            self._put = int(as_time_column(np.array([str(rule.missing)]), f"{where}: missing", 0, "s")[0])

    def _read(self, batch: Any, row: int) -> npt.NDArray[np.int64]:
        times = in_format(batch, self._rule.format, self._where, row) if self._rule.format else batch
        return times_or_missing(times, self._where, row, "s", FORMAT_FIX)

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        values = self._read(batch, row)
        missing = values == MISSING_TIME
        refuse_missing(self._rule, missing, self._where, row)
        self._missing += int(missing.sum())
        known = values[~missing if seen is None else ~missing & seen]
        if known.size:
            least, most = int(known.min()), int(known.max())
            self._least = least if self._least is None else min(self._least, least)
            self._most = most if self._most is None else max(self._most, most)

    def finish(self) -> None:
        """Compute the statistics."""
        self.stats = {"min": self._least or 0, "max": self._most or 0, "missing": self._missing}
        if self._least is not None and self._least == self._most:
            self.notes.append(f"constant: every value is {np.datetime64(self._least, 's')}")

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        values = self._read(batch, row)
        return values if self._put is None else np.where(values == MISSING_TIME, self._put, values)


class Lists(ColumnReader):
    """Lists of numbers, of one length: a float32 matrix, rows of NaN for missing."""

    kind = "embedding"

    def __init__(self, where: str, rule: ColumnRule) -> None:
        """Start without values."""
        super().__init__(where, rule)
        self._missing = 0

    def _matrix(self, batch: Any, row: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        missing = missing_rows(batch)
        kept = without_rows(batch, missing)
        try:
            return missing, numbers(kept, self._where, row, lists=True) if len(kept) else np.empty((0, self.width or 0))
        except InputError as error:
            raise LeftOut(str(error).removeprefix(self._where).strip()) from None

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        missing, found = self._matrix(batch, row)
        refuse_missing(self._rule, missing, self._where, row)
        self._missing += int(missing.sum())
        if len(found):
            if self.width not in (None, found.shape[1]):
                raise LeftOut(f"has lists of {self.width} and of {found.shape[1]} values, expected one length")
            self.width = int(found.shape[1])

    def finish(self) -> None:
        """Compute the statistics."""
        if not self.width:
            raise LeftOut("holds no values")
        self.stats = {"missing": self._missing} if self._missing else {}

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        missing, found = self._matrix(batch, row)
        out = np.full((len(missing), self.width or 1), np.nan, np.float32)
        if len(found):
            out[~missing] = found
        return out
