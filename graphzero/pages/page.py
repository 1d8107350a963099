"""The frame and the style of report pages: one file without scripts or links, for light and dark themes and phones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

__all__ = ["fact_list", "page_of", "table_of_rows", "tile", "write_whole"]


def page_of(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """Return the page; `title` and `subtitle` are escaped, `parts` are HTML."""
    return _PAGE.format(title=escape(title), subtitle=escape(subtitle), style=_STYLE, parts="\n".join(parts))


def tile(figure: str, label: str, note: str) -> str:
    """Return one large figure with its label."""
    figure, label, note = (escape(part) for part in (figure, label, note))
    return f'<div class="tile"><b>{figure}</b><span>{label}</span><small>{note}</small></div>'


def table_of_rows(heads: Sequence[str], rows: Iterable[Sequence[str]], marked: int | None = None) -> str:
    """Return a table; one of many columns becomes a list of labelled values on a phone."""
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(
            f'<td data-label="{escape(head)}">{escape(cell)}</td>' for head, cell in zip(heads, row, strict=True)
        )
        lines.append(f"<tr{' class=best' if number == marked else ''}>{cells}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="card"><table{" class=rows" if len(heads) > 4 else ""}>{body}</table></div>'


def fact_list(facts: Iterable[tuple[str, object]]) -> str:
    """Return names and values; empty values are left out."""
    items = [(name, str(value)) for name, value in facts if value not in (None, "", [], {})]
    return '<dl class="card">' + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in items) + "</dl>"


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #1f2733; --dim: #5b6675; --grid: #dfe3e9;
  --s0: #2563c9; --s1: #d9730d; --s2: #21885b; --s3: #8a4fd0; --s4: #98a2b0; --mark: #eaf1fd; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b212a; --ink: #e4e8ee; --dim: #98a3b2;
  --grid: #343d4a; --s0: #6ea3f7; --s1: #f0a35c; --s2: #5cc596; --s3: #b98df0; --s4: #6b7787; --mark: #22304a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 24px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 12px; }
header p { margin: 0 0 20px; color: var(--dim); overflow-wrap: anywhere; } p.note { color: var(--dim); margin: 8px 0; }
.tiles { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); margin-bottom: 14px; }
.tile, figure, .card { background: var(--card); border: 1px solid var(--grid); border-radius: 10px;
  padding: 16px 18px; }
.tile b { display: block; font-size: 27px; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { display: block; } .tile small { color: var(--dim); }
.plots { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(min(440px, 100%), 1fr)); }
figure { margin: 0; } figcaption b { display: block; } figcaption span { color: var(--dim); font-size: 13px; }
figure svg { display: block; width: 100%; height: auto; margin-top: 8px; } figure svg text { font-family: inherit; }
.card { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--dim); font-weight: 500; } tr:last-child td { border-bottom: 0; } .best td { background: var(--mark); }
table.confusion { width: auto; } table.confusion td { text-align: center; border: 0; min-width: 44px; }
table.confusion th { border: 0; max-width: 12em; overflow: hidden; text-overflow: ellipsis; }
table.confusion.many { font-size: 12px; } table.confusion.many td { min-width: 30px; padding: 4px; }
table.confusion.many tr:first-child th { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 10em;
  padding: 4px; text-align: left; }
table.rows td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 5em; }
@media (max-width: 1100px) { table.rows { font-size: 13px; } table.rows th, table.rows td { padding: 5px; } }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 20px 12px 32px; } .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tile { padding: 10px 12px; }
  .tile b { font-size: 21px; } figure, .card { padding: 12px; } .plots { gap: 8px; }
  table.rows thead { display: none; } table.rows, table.rows tbody { display: block; }
  table.rows tr { display: block; padding: 8px 0; border-bottom: 1px solid var(--grid); }
  table.rows tr:last-child { border-bottom: 0; }
  table.rows td { display: flex; justify-content: space-between; gap: 12px; border: 0; padding: 1px 6px;
    white-space: normal; }
  table.rows td::before { content: attr(data-label); color: var(--dim); text-align: left; }
  dl { display: block; } dd { margin-bottom: 6px; }
}
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header><h1>{title}</h1><p>{subtitle}</p></header>
{parts}
</main>
</body>
</html>
"""
