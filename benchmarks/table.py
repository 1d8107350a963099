"""Put measured figures into the pages: nothing there is typed by hand.

    python benchmarks/mount.py FOLDER --json results/mount.json        (and so on for the others)
    python benchmarks/table.py results/*.json

Each benchmark's table goes between the two `figures` marks of docs/measuring.md, under the machine it was measured on;
README.md gets those that say most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, MEASURING = ROOT / "README.md", ROOT / "docs" / "measuring.md"
SHORT = ("Compiling", "Mount", "Multi-hop", "Walks (warm", "Cold:", "Loading", "Out of core", "Feeding")
BEGIN, END = "<!-- figures: begin (benchmarks/table.py) -->", "<!-- figures: end -->"


def described(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB RAM, Linux {machine['kernel']}, "
        f"Python {machine['python']}, readahead {machine['read_ahead_kb']} KB"
    )


def table(results: list[dict[str, Any]], beginnings: tuple[str, ...] = ("",)) -> str:
    """Markdown of all tables whose titles begin so; the machine once for each that occurs."""
    lines = []
    last = None
    for result in results:
        where = described(result["machine"])
        for shown in result["tables"]:
            if not shown["title"].startswith(beginnings):
                continue
            if where != last:
                lines += [f"Measured on {where}.", ""]
                last = where
            source = f"benchmarks/{result['program']}, {result['machine']['date']}"
            lines += [f"| {shown['title']} ({source}) | | |", "|---|---:|---|"]
            lines += [f"| {what.replace('|', '/')} | {figure} | {against} |" for what, figure, against in shown["rows"]]
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    results = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    if not results:
        raise SystemExit(__doc__)
    for path, beginnings in ((README, SHORT), (MEASURING, ("",))):
        before, rest = path.read_text().split(BEGIN)
        _, after = rest.split(END)
        path.write_text(f"{before}{BEGIN}\n{table(results, beginnings)}{END}{after}")


if __name__ == "__main__":
    main()
