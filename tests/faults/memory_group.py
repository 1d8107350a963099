"""A control group with a memory limit (cgroup v1 or v2), and programs run inside it."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Ended:
    """How a program in the group ended."""

    returncode: int
    stdout: str
    stderr: str
    oom_kills: int
    peak_bytes: int


class MemoryGroup:
    """The group. `run` puts a fresh interpreter into it before its first import."""

    def __init__(self, name: str, limit: int) -> None:
        """Make it."""
        self.v1 = (V1 / "memory.limit_in_bytes").exists()
        self.folder = (V1 if self.v1 else V2) / name
        self.folder.mkdir()
        self._write("memory.limit_in_bytes" if self.v1 else "memory.max", limit)
        swap = self.folder / ("memory.memsw.limit_in_bytes" if self.v1 else "memory.swap.max")
        if swap.exists():  # swap would hide what is over the limit
            swap.write_text(str(limit if self.v1 else 0))

    def run(self, code: str, *arguments: object) -> Ended:
        """Run Python code inside the group."""
        enter = f"open({str(self.folder / 'cgroup.procs')!r}, 'w').write(str(__import__('os').getpid()))\n"
        folders = [ROOT, ROOT / "tests" / "oracles", ROOT / "tests" / "faults"]
        done = subprocess.run(
            [sys.executable, "-c", enter + textwrap.dedent(code), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        )
        return Ended(done.returncode, done.stdout, done.stderr, self._kills(), self._peak())

    def remove(self) -> None:
        """Take it away."""
        self.folder.rmdir()

    def _write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(str(value))

    def _kills(self) -> int:
        name = "memory.oom_control" if self.v1 else "memory.events"
        found = re.search(r"^oom_kill (\d+)$", (self.folder / name).read_text(), re.MULTILINE)
        return int(found.group(1)) if found else 0

    def _peak(self) -> int:
        file = self.folder / ("memory.max_usage_in_bytes" if self.v1 else "memory.peak")
        return int(file.read_text()) if file.exists() else 0


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Make a group for one test."""
    group = MemoryGroup(f"graphzero-test-{os.getpid()}-{os.urandom(3).hex()}", limit)
    try:
        yield group
    finally:
        group.remove()


@functools.cache
def refusal() -> str:
    """Why there can be no group here; '' when there can."""
    try:
        with memory_group(256 << 20) as group:
            ended = group.run("print('in')")
    except OSError as error:
        return f"no memory control group can be made: {error}"
    return "" if ended.stdout == "in\n" else f"a program cannot enter a control group: {ended.stderr[-200:]}"


needs_memory_group = pytest.mark.skipif(bool(refusal()), reason=refusal() or "control groups work")
