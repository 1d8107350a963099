"""Runs the parts of a benchmark in separate processes, in a control group with a memory limit, with a cold cache.

A program calls itself: main() calls run("part", ...) for each part, and the child, which has --run part, prints a dict
as JSON on its last line. It needs root, for the control group and for emptying the page cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure

from graphzero.machine.facts import check_room_for_torch
from graphzero.machine.memory_limit import memory_limit

check_room_for_torch()  # a BudgetError explains more than a kill

from graphzero.train import MemoryMonitor  # noqa: E402 (torch is loaded here)

ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as `graphzero train` sets it, for all runs


def run(part: str, limit: int | None, *options: str, cold: bool = True) -> dict[str, Any]:
    """Run this program again with --run PART and `options`, in a group of `limit` bytes (None: in no group).

    A child that fails does not end the benchmark: its figures are then {"failed": why, "kills": how many}.
    """
    command = [sys.executable, sys.argv[0], *sys.argv[1:], *options, "--run", part]
    return execute(command, limit, cold=cold)


def execute(command: list[str], limit: int | None, *, cold: bool = True) -> dict[str, Any]:
    """Run a command that prints JSON, in a group of `limit` bytes; its figures with the group's peak and kills."""
    if cold:
        measure.drop_caches()
    if limit is None:
        return _figures(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT))
    with memory_limit(limit) as group:
        if group is None:
            raise SystemExit(f"{Path(sys.argv[0]).name}: cannot make a control group: run as root")
        done = subprocess.run(group.wrap(command), stdout=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT)
        return _figures(done) | {"kills": group.kills, "group_peak": group.peak}


def _figures(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode != 0:
        return {"failed": f"exit code {done.returncode}"}
    text = done.stdout.strip()
    figures: dict[str, Any] = json.loads(text if text.startswith("{") else text.splitlines()[-1])
    return figures


def child(work: Callable[[], dict[str, Any]]) -> None:
    """Do a part's work and print its figures, with the most anonymous memory and all bytes read from the disk."""
    before = bytes_read()
    with MemoryMonitor() as monitor:
        figures = work()
    print(json.dumps(figures | {"peak_anonymous": monitor.peak_anonymous, "disk_bytes": bytes_read() - before}))


def bytes_read() -> int:
    """The bytes that this process has read from disks so far, page faults included."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))
