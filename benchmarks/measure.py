"""Shared by all benchmarks: a description of the machine, best-of timing, peers in their own interpreter, cold caches.

A speed here is a ratio to a peer or to a plain version in the same run, best of several: machines differ and are noisy,
ratios less so. Each benchmark prints a table and, with --json PATH, writes the same figures for scripts.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_shown: list[dict[str, Any]] = []  # what show() printed so far


def machine(folder: str | os.PathLike[str] = ".") -> dict[str, Any]:
    """What the figures were measured on."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = next((int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release().partition("-")[0],  # without the name of a build
        "python": platform.python_version(),
        "read_ahead_kb": _read_ahead(folder),
        "date": time.strftime("%Y-%m-%d"),
    }


def best_of(repeat: int, work: Callable[[], Any]) -> float:
    """The shortest time of `repeat` runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def run_peer(python: str, code: str, *arguments: object) -> Any:
    """Run `code` under another interpreter and return the JSON of its last output line."""
    command = [python, "-c", code, *map(str, arguments)]
    options: dict[str, Any] = {}
    if python != sys.executable:  # a peer must find its own packages, not this tree's
        options["cwd"] = tempfile.gettempdir()
        options["env"] = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{python} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def drop_caches() -> None:
    """Empty the page cache: needs root."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def show(title: str, rows: list[tuple[str, str, str]], folder: str | os.PathLike[str] = ".") -> None:
    """Print a table of (what, figure, against)."""
    _shown.append({"title": title, "rows": rows})
    where = machine(folder)
    print(f"\n{title}")
    print(
        f"  {where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, Linux {where['kernel']}, {where['date']}"
    )
    width = max(len(row[0]) for row in rows)
    middle = max(len(row[1]) for row in rows)
    for what, figure, against in rows:
        print(f"  {what:<{width}}  {figure:>{middle}}  {against}")


def save(path: str | None, figures: dict[str, Any], folder: str | os.PathLike[str] = ".") -> None:
    """Write the figures, the tables that were shown and the machine as JSON: what benchmarks/figures.py reads."""
    if path:
        program, *arguments = sys.argv
        given = [Path(part).name if os.path.isabs(part) else part for part in arguments]
        if "--json" in given:
            del given[given.index("--json") : given.index("--json") + 2]
        content = {
            "program": Path(program).name,
            "command": shlex.join(["python", f"benchmarks/{Path(program).name}", *given]),
            "machine": machine(folder),
            "figures": figures,
            "tables": _shown,
        }
        Path(path).write_text(json.dumps(content, indent=1) + "\n")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _read_ahead(folder: str | os.PathLike[str]) -> int | None:
    device = os.stat(folder).st_dev
    path = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    for candidate in (path / "queue/read_ahead_kb", path.resolve().parent / "queue/read_ahead_kb"):
        if candidate.exists():
            return int(candidate.read_text())
    return None
