"""strace: counting the system calls of a job, and making one of them fail or the last one the process makes."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from forks import Forks, Outcome
from waiting import PATIENCE, wait_until

# What publishing a file is made of. Python itself makes none of these on the way.
WRITING = ("pwrite64", "fallocate", "ftruncate", "fsync", "rename", "sync_file_range")


@functools.cache
def refusal() -> str:
    """Why strace cannot be used here; '' when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip()[:200]}"


needs_strace = pytest.mark.skipif(bool(refusal()), reason=refusal() or "strace works")


@dataclass(frozen=True)
class Trace:
    """The calls of a job in order, as strace wrote them, and what came of the job."""

    lines: tuple[str, ...]
    outcome: Outcome

    def counts(self) -> Counter[str]:
        """How often each call was made by the thread that made it most: strace's `when` counts by thread."""
        each = Counter(m.groups() for line in self.lines if (m := re.match(r"(\d+) +(\w+)\(", line)))
        most: Counter[str] = Counter()
        for (_, call), count in each.items():
            most[call] = max(most[call], count)
        return most


def traced(forks: Forks, log: Path, job: str, *arguments: object, calls: str, inject: str = "") -> Trace:
    """Run a job under strace. `inject` is strace's: 'fsync:error=EIO:when=1', 'rename:signal=KILL:when=1'."""
    pid = forks.start(job, *arguments)
    command = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={calls}"]
    if inject:
        command += ["-e", f"inject={inject}"]
    tracer = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_traced(pid, tracer)
        outcome = forks.finish(pid)
    finally:
        tracer.wait(timeout=PATIENCE)
    return Trace(tuple(log.read_text(errors="replace").splitlines()), outcome)


def _wait_until_traced(pid: int, tracer: subprocess.Popen[str]) -> None:
    status = Path(f"/proc/{pid}/status")

    def is_traced() -> bool:
        assert tracer.poll() is None, tracer.stderr.read() if tracer.stderr else ""
        return not re.search(r"^TracerPid:\s+0$", status.read_text(), re.MULTILINE)

    assert wait_until(is_traced), "strace did not attach"
