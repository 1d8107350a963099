"""Small HTML tables for notebooks: readable on light and dark pages, and safe for any text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .progress import duration
from .sizes import format_size

__all__ = ["HtmlReport", "html_table"]

# Inline styles only, and no colours but a translucent grey: notebooks, editors and sites each have their own theme.
_LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.35)"
_CELL = f"{_LINE};padding:2px 14px 2px 0;background:none;vertical-align:top;text-align:"


def html_table(title: str, rows: Iterable[Sequence[object]], heads: Sequence[str] = (), note: str = "") -> str:
    """Return a table with a title. A column whose head starts with '>' is right-aligned; everything is escaped.

    >>> "&lt;b&gt;" in html_table("a title", [("name", "<b>")])
    True
    """
    right = [head.startswith(">") for head in heads]
    head = "".join(_cell("th", head.lstrip(">"), right, i) for i, head in enumerate(heads))
    body = "".join("<tr>" + "".join(_cell("td", str(c), right, i) for i, c in enumerate(row)) + "</tr>" for row in rows)
    return (
        '<div style="overflow-x:auto;max-width:100%;line-height:1.45">'
        f'<div style="font-weight:600;margin-bottom:2px">{escape(title)}</div>'
        '<table style="border-collapse:collapse;margin:0;font-size:.93em;font-variant-numeric:tabular-nums">'
        + (f"<thead><tr>{head}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table>"
        + (f'<div style="opacity:.7;font-size:.9em;margin-top:2px">{escape(note)}</div>' if note else "")
        + "</div>"
    )


def _cell(tag: str, text: str, right: Sequence[bool], column: int) -> str:
    align = "right" if column < len(right) and right[column] else "left"
    weak = ";opacity:.7;font-weight:500" if tag == "th" or (column == 0 and not right) else ""
    return f'<{tag} style="{_CELL}{align}{weak}">{"<br>".join(escape(text).split(chr(10)))}</{tag}>'


class HtmlReport:
    """A dataclass that notebooks show as a table of its fields: sizes and times readable, empty fields left out."""

    def _repr_html_(self) -> str:
        """Return the table."""
        rows = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, HtmlReport) or (not value and value is not False):
                continue
            rows.append((field.name.replace("_", " "), _readable(field.name, value)))
        return html_table(type(self).__name__, rows)


def _readable(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_readable(name, one)}" for key, one in value.items())
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if any(word in name for word in ("bytes", "memory", "buffers", "anonymous")):
        return format_size(value)
    if "seconds" in name:
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
