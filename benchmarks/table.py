"""Put measured figures into README.md: nothing there is typed by hand.

    python benchmarks/mount.py FOLDER --json results/mount.json        (and so on for the others)
    python benchmarks/table.py results/*.json

Each benchmark's table goes between the two `figures` marks, under the machine it was measured on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- figures: begin (benchmarks/table.py) -->", "<!-- figures: end -->"


def described(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB RAM, Linux {machine['kernel']}, "
        f"Python {machine['python']}, readahead {machine['read_ahead_kb']} KB"
    )


def table(results: list[dict[str, Any]]) -> str:
    """Markdown of all tables, grouped by title; the machine once for each that occurs."""
    lines = []
    last = None
    for result in results:
        where = described(result["machine"])
        for shown in result["tables"]:
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
    page = README.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    README.write_text(f"{before}{BEGIN}\n{table(results)}{END}{after}")


if __name__ == "__main__":
    main()
