"""What a description says about the columns of a table: their kinds, missing values and rare categories, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..args.suggest import did_you_mean
from ..dataset.columns import KINDS
from ..errors import InputError
from ..sources.date_formats import as_formats

__all__ = ["ColumnRule", "ColumnRules", "check_columns", "read_rules"]

MISSING = ("keep", "mean", "error")
SKIP = "skip"


@dataclass(frozen=True)
class ColumnRule:
    """How one column is imported."""

    kind: str | None = None  # None: by the type of its values
    missing: Any = "keep"  # or "mean", "error", or the value to use instead
    min_count: int = 1  # categories with fewer training rows are joined as "(other)"
    max_categories: int = 1000  # the most frequent are kept
    format: tuple[str, ...] = ()  # of text that holds times, for strptime; the first that fits is used
    embed: Callable[[list[str]], Any] | None = None  # of free text: a list of str -> one row of numbers for each


@dataclass(frozen=True)
class ColumnRules:
    """The rules of a table: those of named columns, and one for all others."""

    default: ColumnRule = field(default_factory=ColumnRule)
    named: Mapping[str, ColumnRule] = field(default_factory=dict)

    def of(self, column: str) -> ColumnRule:
        """Return the rule of a column."""
        return self.named.get(column, self.default)

    @property
    def formatted(self) -> list[str]:
        """The columns whose text holds times in formats of their own."""
        return [name for name, rule in self.named.items() if rule.format]

    def with_kind(self, column: str, kind: str) -> ColumnRules:
        """Return the same rules, with the kind of a column where nothing says it."""
        rule = self.of(column)
        return self if rule.kind is not None else replace(self, named={**self.named, column: replace(rule, kind=kind)})


def read_rules(columns: Any, table: Mapping[str, Any], where: str) -> ColumnRules:
    """Check `columns:` of a table, and what the `table` says for all of its columns."""
    default = _rule(ColumnRule(), {key: value for key, value in table.items() if value is not None}, where)
    if columns is None:
        return ColumnRules(default)
    if not isinstance(columns, Mapping):
        raise InputError(f"{where}.columns: found a {type(columns).__name__}, expected rules by the name of a column")
    named = {}
    for name, given in columns.items():
        entry = given if isinstance(given, Mapping) else {"kind": given}
        named[str(name)] = _rule(default, entry, f"{where}.columns.{name}")
    return ColumnRules(default, named)


def check_columns(named: Iterable[str], columns: Sequence[str], where: str) -> None:
    """Raise InputError for a name in a description that none of the `columns` of its table has."""
    for name in named:
        if name not in columns:
            shown = ", ".join(map(repr, columns[:12])) + (", ..." if len(columns) > 12 else "")
            hint = did_you_mean(name, columns)
            raise InputError(f"{where}: no column {name!r} in the table; found {shown or 'none'}{hint}")


def _rule(base: ColumnRule, entry: Mapping[str, Any], where: str) -> ColumnRule:
    known = ("kind", "missing", "min_count", "max_categories", "format", "embed")
    for key, value in entry.items():
        if key not in known:
            raise InputError(f"{where}: unknown field {key!r}, expected some of {', '.join(known)}")
        if key == "kind" and value not in (*KINDS, SKIP):
            raise InputError(f"{where}.kind: found {value!r}, expected one of {', '.join((*KINDS, SKIP))}")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if key in ("min_count", "max_categories") and not (whole and value >= 1):
            raise InputError(f"{where}.{key}: found {value!r}, expected a whole number of at least 1")
        if key == "missing" and isinstance(value, (Mapping, list)):
            raise InputError(f"{where}.missing: found {value!r}, expected {', '.join(MISSING)} or a value")
        if key == "embed" and not callable(value):
            raise InputError(f"{where}.embed: found {value!r}, expected a Python function of a list of str")
    given = dict(entry)
    if given.get("format") is not None:
        given["format"] = as_formats(given["format"], f"{where}.format")
        if given.setdefault("kind", "time") != "time":
            raise InputError(f"{where}.format: the kind is {given['kind']!r}, expected time, which has a format")
    return replace(base, **given)
