"""All figures of README.md and of the site, drawn from one JSON file per benchmark in benchmarks/results.

    python benchmarks/figures.py                  draws again from the files that are there
    python benchmarks/figures.py --run FOLDER     first runs the quick set, ten minutes, with its data in FOLDER

Written are docs/figures.md (every table, with machine, date and command), the table between the `figures` marks of
README.md and docs/index.md, the tables between marks of docs/measuring.md, and the charts for light and dark pages.
None of these is typed by hand. A benchmark that was not run again keeps its file, and so its date.

The quick set needs root, for control groups and cold caches. GZ02_PYTHON and PYG_PYTHON name interpreters with
GraphZero 0.2 and with torch-sparse; the benchmarks that compare with them run only where they are set.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PICTURES = ROOT / "benchmarks" / "results", ROOT / "docs" / "pictures"
PAGE, MEASURING = ROOT / "docs" / "figures.md", ROOT / "docs" / "measuring.md"
SHORT = (ROOT / "README.md", ROOT / "docs" / "index.md")
BEGIN, END = "<!-- {}: begin (benchmarks/figures.py) -->", "<!-- {}: end -->"
Result = dict[str, Any]

# The short table: file, start of its table's title, start of the row, the row to compare with where that is another
# one, and the label. {0} and {2} in a label are sizes that the title names.
HEADLINES: list[tuple[str, str, str, str | None, str]] = [
    ("outofcore", "Out of core", "training,", "mmap, MADV_RANDOM", "train: {0} of features in {2} of RAM"),
    ("outofcore", "Out of core", "training / in RAM", None, "its speed, relative to training in RAM"),
    ("papers100m", "papers100M", "8GB: epoch", "8GB: with validation", "an epoch, papers100M's shape, in 8 GB of RAM"),
    ("loading", "Loading", "GraphZero", "PyG NeighborLoader, 2 workers", "load [15, 10, 5] x 1,024, all in RAM"),
    ("sampling", "Multi-hop", "[15, 10, 5] x 1,024, 1 thread", None, "sample [15, 10, 5] x 1,024, 1 thread"),
    ("walks", "Walks (warm", "uniform walks", None, "uniform random walks"),
    ("compile", "Compiling", "447 MB CSV", None, "compile a CSV of 30 M edges"),
    ("mount", "Mount", "mount x.gd", None, "open 1.02 GB of features"),
]

# The chart: rows of outofcore.json, and what they are called.
BARS = {
    "mmap, MADV_RANDOM": "np.memmap, a page fault per row",
    "reads alone, batch by batch": "reads batch by batch, without training",
    "training,": "GraphZero",
    "training in RAM, loader": "everything in RAM",
}
PEER_BARS = {
    "PyG, torch-sparse, np.memmap": "PyG over np.memmap",
    "GraphBolt 2.1, np.memmap": "GraphBolt over np.memmap",
    "GraphBolt 2.1, all in RAM": "GraphBolt, everything in RAM",
    "GraphZero": "GraphZero",
}
INKS = {"light": ("#1f2733", "#5b6675", "#2563c9", "#b6bfca"), "dark": ("#e4e8ee", "#98a3b2", "#6ea3f7", "#566171")}


def quick(folder: Path) -> None:
    """Run the quick set; each benchmark writes its own file."""
    bench, small = folder / "bench", folder / "small"
    gz02, pyg = os.environ.get("GZ02_PYTHON"), os.environ.get("PYG_PYTHON")
    outofcore = ["--nodes", "8000000", "--edges", "120000000", "--limit", "1.5GB", "--train-share", "0.02"]
    runs: dict[str, list[str | Path]] = {
        "mount": ["mount.py", bench],
        "gather-warm": ["gather.py", bench, "--warm"],
        "gather-cold": ["gather.py", bench, "--cold", "--gigabytes", "4"],
        "outofcore": ["outofcore.py", small, *outofcore, "--batches", "120", "--epochs", "3", "--plain-seconds", "40"],
    }
    if pyg:
        runs["loading"] = ["loading.py", bench, "--pyg-python", pyg]
        runs["sampling"] = ["sampling.py", bench, "--only", "warm", "--pyg-python", pyg]
    if gz02:
        runs["compile"] = ["compile.py", bench, "--gz02-python", gz02]
    if gz02 and pyg:
        runs["walks"] = ["walks.py", bench, "--only", "warm", "--gz02-python", gz02, "--pyg-python", pyg]
    for name, (program, *arguments) in runs.items():
        command = [sys.executable, ROOT / "benchmarks" / program, *arguments, "--json", RESULTS / f"{name}.json"]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def results() -> dict[str, Result]:
    """Every file of results, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def described(machine: Result) -> str:
    """The machine in one line."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB of RAM, Linux {machine['kernel']}, "
        f"Python {machine['python']}, readahead {machine['read_ahead_kb']} KB"
    )


def page(found: dict[str, Result]) -> str:
    """docs/figures.md."""
    parts = [
        "# All figures\n\nEvery figure here was printed by a program in `benchmarks/` and is drawn from its file in "
        "`benchmarks/results/`: `make figures` runs a quick set again, `make figures-draw` only draws. [How we measure]"
        "(measuring.md) explains what is compared with what. Each section names its date: figures of different dates "
        "come from different machines and states of the code.\n"
    ]
    return "\n".join([*parts, *map(section, found.values())])


def section(result: Result, level: str = "##") -> str:
    """The tables of one file, with what they were measured on."""
    parts = []
    for table in result["tables"]:
        title, _, rest = table["title"].partition(":")
        rows = [[cell.replace("|", "/") for cell in row] for row in table["rows"]]
        lines = [f"| {what.strip()} | {figure} | {against} |" for what, figure, against in rows]
        parts.append(f"{level} {title}\n\n" + (f"{rest.strip()}\n\n" if rest else ""))
        parts.append("| what | figure | remark |\n|---|---:|---|\n" + "\n".join(lines) + "\n")
    return "\n".join([*parts, measured(result)])


def measured(result: Result) -> str:
    """The last line of a section: date, machine and command."""
    machine = result["machine"]
    command = result.get("command") or f"python benchmarks/{result['program']}"
    return f"Measured {machine['date']} on {described(machine)}, by `{command}`.\n"


def peers(result: Result) -> str:
    """The table of benchmarks/peers.py: what was measured in one run, then what others published."""
    heads = ("loader", "an epoch", "rows a second", "read an epoch", "peak memory", "remark")
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---:|---:|---:|---|"]
    for name, run in result["figures"]["runs"].items():
        lines.append(f"| {name} | {' | '.join(run['shown'])} |")
    for name, figure, machine in result["figures"]["published"]:
        lines.append(f"| {name} (published) | {figure} | | | | the whole graph, trained on a GPU: {machine} |")
    what = result["tables"][0]["title"].partition(": ")[2]
    return f"{what[0].upper()}{what[1:]}.\n\n" + "\n".join(lines) + f"\n\n{measured(result)}"


def headlines(found: dict[str, Result]) -> str:
    """The short table of README and of the first page."""
    lines = ["| what | figure | compared with | measured |", "|---|---:|---|---|"]
    for name, title, row, peer, label in HEADLINES:
        table = next((t for t in found.get(name, {}).get("tables", []) if t["title"].startswith(title)), None)
        if table is None:
            continue
        _, figure, against = _row(table, row)
        if peer is not None:
            what, theirs, _ = _row(table, peer)
            against = f"{_bare(what)}: {theirs}"
        date = found[name]["machine"]["date"].replace("-", "\u2011")  # hyphens that do not break
        lines.append(f"| {label.format(*_sizes(table))} | {figure} | {against} | {date} |")
    return "\n".join(lines) + "\n"


def _sizes(table: Result) -> list[str]:
    """The sizes that a title names, as '3 GB'."""
    return [f"{number} {unit}" for number, unit in re.findall(r"([\d.]+) ?([KMGT]B)", table["title"])]


def _bare(what: str) -> str:
    return {"mmap, MADV_RANDOM": "`np.memmap`"}.get(what, re.sub(r"^\d+GB: ", "", what))


def _row(table: Result, start: str) -> list[str]:
    return next((row for row in table["rows"] if row[0].startswith(start)), ["", "", ""])


def chart(result: Result, scheme: str) -> str:
    """The bars of an out-of-core run as SVG, for a light or a dark page."""
    (table,) = result["tables"]
    features, _, limit = _sizes(table)[:3]
    values = {label: float(_row(table, row)[1].split()[0].replace(",", "")) for row, label in BARS.items()}
    title = f"Training on {features} of features in {limit} of RAM"
    text = title, "milliseconds per batch, on a synthetic graph; shorter is better"
    return bars(result, scheme, text, {label: (value, f"{value:,.0f} ms") for label, value in values.items()})


def peers_chart(result: Result, scheme: str) -> str:
    """The bars of benchmarks/peers.py: seconds of an epoch."""
    sizes, runs = _sizes(result["tables"][0]), result["figures"]["runs"]
    values = {label: runs[name]["epoch_seconds"] for name, label in PEER_BARS.items() if "whole" in runs.get(name, {})}
    title = f"Loading an epoch: {sizes[0]} of features in {sizes[2]} of RAM"
    text = title, "seconds, on a synthetic graph; shorter is better"
    return bars(result, scheme, text, {label: (value, f"{value:,.1f} s") for label, value in values.items()})


def bars(result: Result, scheme: str, text: tuple[str, str], values: dict[str, tuple[float, str]]) -> str:
    """A chart as SVG: a title and a line below it, a bar for each value, and where it was measured."""
    ink, dim, own, others = INKS[scheme]
    most, machine = max(value for value, _ in values.values()), result["machine"]
    lines = [_text(0, 20, text[0], 15, ink, bold=True), _text(0, 40, text[1], 13, dim)]
    for number, (label, (value, shown)) in enumerate(values.items()):
        y = 60 + 48 * number
        width = max(3.0, 400 * value / most)
        lines.append(_text(0, y + 12, label, 14, ink, bold=label == "GraphZero"))
        fill = own if label == "GraphZero" else others
        lines.append(f'<rect x="0" y="{y + 18}" width="{width:.1f}" height="16" rx="3" fill="{fill}"/>')
        lines.append(_text(width + 8, y + 31, shown.removesuffix(" ms"), 14, ink, bold=label == "GraphZero"))
    height = 60 + 48 * len(values)
    where = f"{machine['cores']} cores, a cloud SSD, {machine['date']}; benchmarks/{result['program']}"
    lines.append(_text(0, height + 12, where, 12, dim))
    said = "; ".join(f"{label} {shown}" for label, (_, shown) in values.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 460 {height + 22}" width="520" role="img" '
        f'font-family="system-ui, Segoe UI, sans-serif">\n<title>{text[0]}: {said}</title>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, size: int, fill: str, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.0f}" y="{y}" font-size="{size}" fill="{fill}"{weight}>{text}</text>'


def filled(text: str, mark: str, content: str) -> str:
    """A page with `content` between two marks."""
    begin, end = BEGIN.format(mark), END.format(mark)
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}{end}{rest.split(end)[1]}"


def drawn(found: dict[str, Result]) -> dict[Path, str]:
    """Everything that shows figures, by the file that it is written to."""
    short = {path: filled(path.read_text(), "figures", headlines(found)) for path in SHORT}
    tables = filled(MEASURING.read_text(), "peers", peers(found["peers"]))
    tables = filled(tables, "fewer-bytes", section(found["fewer-bytes"], "###"))
    charts = {}
    for scheme in INKS:
        charts[PICTURES / f"chart-{scheme}.svg"] = chart(found["outofcore"], scheme)
        charts[PICTURES / f"peers-{scheme}.svg"] = peers_chart(found["peers"], scheme)
    return {PAGE: page(found), MEASURING: tables, **short, **charts}


def draw() -> None:
    """Write everything that shows figures."""
    for path, text in drawn(results()).items():
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run the quick set with its data in this folder")
    folder = parser.parse_args().run
    if folder is not None:
        quick(folder.resolve())
    draw()


if __name__ == "__main__":
    main()
