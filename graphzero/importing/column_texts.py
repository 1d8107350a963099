"""Columns of text: categories, lists of them, dates, and embeddings by a function of the caller."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.columns import OTHER
from ..errors import InputError
from ..sources.categories import encoded
from ..sources.date_formats import date_hint
from ..sources.decoding import decoded, is_arrow, is_missing
from .column_readers import ColumnReader, LeftOut, Times, refuse_missing
from .column_rules import ColumnRule

__all__ = ["Categories", "CategoryLists", "Embedded"]

MASKED = ("keep", "error")
_MOST_NAMES = 100_000  # different values that are counted; beyond these, text is not a category
_WORDS = 4  # on average, beyond which text is prose
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?Z?$")
_WIDEST = 64  # values of a list of categories that are kept


class _Names:
    """Counts values of text, and gives the frequent ones codes."""

    def __init__(self, rule: ColumnRule) -> None:
        """Start without values."""
        self._rule = rule
        self.counts: dict[str, int] = {}  # of training rows; 0 for values of other rows only
        self._codes: dict[str, int] = {}
        self._other = -1
        self.missing = self.rows = 0

    def count(self, codes: npt.NDArray[np.int64], names: list[Any], seen: npt.NDArray[np.bool_] | None) -> None:
        """Count the codes of a batch; -1 is missing."""
        self.missing += int((codes < 0).sum())
        self.rows += len(codes)
        of = codes if seen is None else codes[seen]
        often = np.bincount(of[of >= 0], minlength=len(names))
        used = np.bincount(codes[codes >= 0], minlength=len(names)) > 0
        for name, number, is_used in zip(names, often.tolist(), used.tolist(), strict=True):
            if is_used:
                self.counts[str(name)] = self.counts.get(str(name), 0) + number

    def choose(self) -> tuple[dict[str, Any], list[str]]:
        """Return names and counts by code, the most frequent first, and lines for the report."""
        ordered = sorted(self.counts, key=lambda name: (-self.counts[name], name))
        kept = [name for name in ordered if self.counts[name] >= self._rule.min_count]
        most = self._rule.max_categories
        kept = kept if len(kept) <= most and len(kept) == len(ordered) else kept[: most - 1]
        joined = len(ordered) - len(kept)
        names, tally = list(kept), [self.counts[name] for name in kept]
        if joined:
            self._other = len(names)
            names.append(OTHER)
            tally.append(sum(self.counts.values()) - sum(tally))
        put = self._rule.missing
        if put not in ("keep", "error") and str(put) not in names:
            names.append(str(put))
            tally.append(0)
        self._codes = {name: code for code, name in enumerate(names)}
        notes = [f"{joined:,} rare values joined as {OTHER}"] if joined else []
        if len(names) == 1:
            notes.append(f"constant: every value is {names[0]!r}")
        return {"names": names, "counts": tally, "missing": self.missing}, notes

    def code(self, codes: npt.NDArray[np.int64], names: list[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of a batch by the names that were chosen."""
        place = np.array([*(self._codes.get(str(name), self._other) for name in names), -1], np.int32)
        return np.asarray(place[codes])

    def code_of(self, name: str) -> int:
        """Return the code of one name."""
        return self._codes[name]


class Categories(ColumnReader):
    """Text, or any other values as text: int32 codes, -1 for missing. Text of dates becomes times."""

    kind, dtype, fill = "category", "int32", -1

    def __init__(self, where: str, rule: ColumnRule) -> None:
        """Start without values."""
        super().__init__(where, rule)
        self._names = _Names(rule)
        self._dates: Times | None = Times(where, rule) if rule.kind is None and rule.missing in MASKED else None
        self._words = self._texts = 0
        self._hint = ""
        if rule.missing == "mean":
            raise InputError(f"{where}: missing is 'mean', but text has no mean; expected keep, error or a value")

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        try:
            codes, names = encoded(batch, self._where)
        except InputError as error:
            raise LeftOut(str(error).removeprefix(self._where).strip()) from None
        refuse_missing(self._rule, codes < 0, self._where, row)
        if len(self._names.counts) <= _MOST_NAMES:
            self._names.count(codes, names, seen)
            known = [str(name) for name in names if name not in (None, "")]
            self._texts += len(known)
            self._words += sum(name.count(" ") + 1 for name in known)
            if not row and self._rule.kind is None:
                self._hint = date_hint(known)
        if self._dates is not None:
            if all(isinstance(name, str) and _DATE.match(name) for name in names if name not in (None, "")):
                self._dates.scan(batch, row, seen)
            else:
                self._dates = None

    def finish(self) -> None:
        """Compute the statistics."""
        counts = self._names.counts
        if not counts:
            raise LeftOut("holds no values")
        if self._dates is not None:
            self._dates.finish()
            self.kind, self.dtype, self.fill = self._dates.kind, self._dates.dtype, self._dates.fill
            self.stats, self.notes = self._dates.stats, self._dates.notes
            return
        most, known = self._rule.max_categories, self._names.rows - self._names.missing
        prose = self._words > _WORDS * max(self._texts, 1)
        if len(counts) > _MOST_NAMES or (self._rule.kind is None and (prose or len(counts) > max(most, known / 2))):
            much = f"{'more than ' * (len(counts) > _MOST_NAMES)}{min(len(counts), _MOST_NAMES):,}"
            if self._hint:
                raise LeftOut(self._hint)
            raise LeftOut(
                f"is free text ({much} different values); to use it, pass a function that embeds it in Python, "
                "columns={...: {'embed': function}}, or import its codes with kind: category"
            )
        self.stats, self.notes = self._names.choose()
        self.notes += [self._hint] if self._hint else []

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        if self._dates is not None:
            return self._dates.values(batch, row)
        codes = self._names.code(*encoded(batch, self._where))
        if self._rule.missing not in MASKED:
            codes[codes < 0] = self._names.code_of(str(self._rule.missing))
        return codes


class CategoryLists(ColumnReader):
    """Lists of text: int32 codes, rows filled up with -1."""

    kind, dtype, fill = "multicategory", "int32", -1

    def __init__(self, where: str, rule: ColumnRule) -> None:
        """Start without values."""
        super().__init__(where, rule)
        self._names = _Names(rule)
        self.width = 1
        self._cut = 0

    def _lists(self, batch: Any) -> tuple[npt.NDArray[np.int64], Any]:
        lists = decoded(batch).to_pylist() if is_arrow(batch) else list(batch)
        lists = [[] if is_missing(one) else list(one) for one in lists]
        flat = np.array([value for one in lists for value in one], object)
        return np.array([len(one) for one in lists], np.int64), encoded(flat, self._where)

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        lengths, (codes, names) = self._lists(batch)
        refuse_missing(self._rule, lengths == 0, self._where, row)
        self._names.count(codes, names, None if seen is None else np.repeat(seen, lengths))
        if len(self._names.counts) > _MOST_NAMES:
            raise LeftOut(f"holds lists of more than {_MOST_NAMES:,} different values")
        self.width = max(self.width or 1, min(int(lengths.max(initial=0)), _WIDEST))
        self._cut += int((lengths > _WIDEST).sum())

    def finish(self) -> None:
        """Compute the statistics."""
        if not self._names.counts:
            raise LeftOut("holds no values")
        self.stats, self.notes = self._names.choose()
        if self._cut:
            self.notes.append(f"{self._cut:,} lists cut to {_WIDEST} values")

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        lengths, found = self._lists(batch)
        codes, width = self._names.code(*found), self.width or 1
        out = np.full((len(lengths), width), -1, np.int32)
        at = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        inside = at < width
        out[rows[inside], at[inside]] = codes[inside]
        return out


class Embedded(ColumnReader):
    """Text through a function of the caller: a list of str -> one row of numbers for each."""

    kind = "embedding"

    def scan(self, batch: Any, row: int, seen: npt.NDArray[np.bool_] | None) -> None:
        """Add a batch to the statistics."""
        if self.width is None and len(batch):
            self.width = int(self.values(batch[:1], row).shape[1])

    def finish(self) -> None:
        """Compute the statistics."""
        if self.width is None:
            raise LeftOut("holds no values")

    def values(self, batch: Any, row: int) -> npt.NDArray[Any]:
        """Return the stored values of a batch."""
        assert self._rule.embed is not None
        given = decoded(batch).to_pylist() if is_arrow(batch) else list(batch)
        texts = ["" if is_missing(text) else str(text) for text in given]
        found = np.asarray(self._rule.embed(texts), np.float32)
        if found.ndim != 2 or len(found) != len(texts) or self.width not in (None, found.shape[1]):
            expected = f"({len(texts)}, {self.width or 'width'})"
            raise InputError(f"{self._where}: embed returned an array of shape {found.shape}, expected {expected}")
        return found
