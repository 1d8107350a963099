"""Write measured figures to the pages; none are typed by hand.

    python benchmarks/mount.py FOLDER --json results/mount.json        (and so on for the others)
    python benchmarks/table.py results/*.json

Each benchmark's table goes between the two `figures` marks of docs/measuring.md, under the machine it was measured on,
replacing the previous one; README.md gets one table of selected rows. Figures that were not measured again stay.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, MEASURING = ROOT / "README.md", ROOT / "docs" / "measuring.md"
BEGIN, END = "<!-- figures: begin (benchmarks/table.py) -->", "<!-- figures: end -->"

# README's rows: their names there, how the title of the benchmark's table begins, how the row of the figure does, and
# the row to compare with, where that is another one.
HEADLINES: dict[str, tuple[str, str, str | None]] = {
    "compile a 447 MB CSV of 30 M edges": ("Compiling", "447 MB CSV", None),
    "open 1.02 GB of features": ("Mount", "mount x.gd", None),
    "sample [15, 10, 5] x 1,024 seeds, 1 thread": ("Multi-hop", "[15, 10, 5] x 1,024, 1 thread", None),
    "uniform random walks": ("Walks (warm", "uniform walks", None),
    "load [15, 10, 5] x 1,024, features in RAM": ("Loading", "GraphZero", "PyG NeighborLoader, 2 workers"),
    "gather 200,000 cold rows of 512 bytes": ("Cold:", "gather, io='auto'", None),
    "train out of core: 12.3 GB of features in 3 GB of RAM": ("Out of core", "training", "mmap, MADV_RANDOM"),
    "the same against training in RAM": ("Out of core", "training / in RAM", None),
    "an epoch of papers100M's shape, 36 GB, in 8 GB of RAM": ("papers100M", "8GB: epoch", "8GB: with validation"),
    "train on an NVIDIA H200": ("Feeding", "training, float32", None),
}


def described(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB RAM, Linux {machine['kernel']}, "
        f"Python {machine['python']}, readahead {machine['read_ahead_kb']} KB"
    )


def tables(results: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """(machine, Markdown) of every table, by its program and the fixed part of its title."""
    found = {}
    for result in results:
        where = f"Measured on {described(result['machine'])}."
        for shown in result["tables"]:
            source = f"benchmarks/{result['program']}, {result['machine']['date']}"
            lines = [f"| {shown['title']} ({source}) | | |", "|---|---:|---|"]
            lines += [f"| {what.replace('|', '/')} | {figure} | {against} |" for what, figure, against in shown["rows"]]
            found[_key(lines[0])] = (where, "\n".join(lines))
    return found


def _key(head: str) -> str:
    """What stays of a table's first line when it is measured again."""
    program = re.search(r"\(benchmarks/(\w+\.py)", head)
    title = re.split(r"[:(\[\d]", head.removeprefix("| "))[0].strip()
    return f"{program.group(1) if program else ''} {title}"


def parsed(block: str) -> dict[str, tuple[str, str]]:
    """The tables of a page, as tables() has them."""
    found, where = {}, ""
    for paragraph in filter(None, (part.strip() for part in block.split("\n\n"))):
        if paragraph.startswith("|"):
            found[_key(paragraph.splitlines()[0])] = (where, paragraph)
        else:
            where = paragraph
    return found


def written(found: dict[str, tuple[str, str]]) -> str:
    """The tables one after the other, the machine named where it changes."""
    parts, last = [], None
    for where, text in found.values():
        parts += [where, text] if where != last else [text]
        last = where
    return "\n\n".join(parts) + "\n"


def headlines(results: list[dict[str, Any]], block: str) -> str:
    """README's table: rows that were measured, and the others as they are."""
    old = {line.split("|")[1].strip(): line for line in block.splitlines() if line.startswith("|")}
    lines = ["| | | |", "|---|---:|---|"]
    for label, (title, row, peer) in HEADLINES.items():
        for shown in (shown for result in results for shown in result["tables"] if shown["title"].startswith(title)):
            _, figure, against = _beginning(shown["rows"], row)
            if peer is not None:
                what, theirs, against = _beginning(shown["rows"], peer)
                against = f"{what}: {theirs}; {against}"
            old[label] = f"| {label} | {figure} | {against} |"
        if label in old:
            lines.append(old[label])
    return "\n".join(lines) + "\n"


def _beginning(rows: list[Any], start: str) -> Any:
    return next((row for row in rows if row[0].startswith(start)), ("", "", ""))


def filled(page: str, results: list[dict[str, Any]], readme: bool) -> str:
    """The page with the results in it."""
    before, rest = page.split(BEGIN)
    block, after = rest.split(END)
    new = headlines(results, block) if readme else written(parsed(block) | tables(results))
    return f"{before}{BEGIN}\n{new}{END}{after}"


def main() -> None:
    results = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    if not results:
        raise SystemExit(__doc__)
    for path in (README, MEASURING):
        path.write_text(filled(path.read_text(), results, readme=path == README))


if __name__ == "__main__":
    main()
