"""A memory limit that the kernel enforces: commands run in a control group of their own, where that is allowed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import _core

__all__ = ["MemoryLimit", "in_group", "memory_limit"]


def in_group(folder: Path, command: Sequence[str]) -> list[str]:
    """Return a command that enters the control group `folder` and becomes `command`."""
    return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(folder / "cgroup.procs"), *command]


class MemoryLimit:
    """A control group (version 1 or 2). All that its processes hold counts, the page cache of their reads included."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Stand for the group `folder`, which exists and has its limit."""
        self.folder = folder
        self.limit = limit

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group and becomes `command`."""
        return in_group(self.folder, command)

    @property
    def peak(self) -> int | None:
        """The most bytes the group has held, page cache included; None where the kernel does not say."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError, ValueError):
                return int((self.folder / name).read_text())
        return None

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed for passing the limit."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                for line in (self.folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Remove the group; its processes must be gone."""
        for _ in range(50):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # busy: the last process is on its way out
                time.sleep(0.1)
            else:
                return


@contextlib.contextmanager
def memory_limit(limit: int) -> Iterator[MemoryLimit | None]:
    """Yield a group limited to `limit` bytes, or None where this user may not make one."""
    group = _make(limit)
    try:
        yield group
    finally:
        if group is not None:
            group.remove()


def _make(limit: int) -> MemoryLimit | None:
    for parent, field in _places():
        folder = parent / f"graphzero-{os.getpid()}-{time.monotonic_ns()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / field).write_text(str(limit))
            with contextlib.suppress(OSError):  # version 2: no swap, or the limit would only move the data there
                (folder / "memory.swap.max").write_text("0")
        except OSError:
            folder.rmdir()
            continue
        return MemoryLimit(folder, limit)
    return None


def _places() -> Iterator[tuple[Path, str]]:
    """Yield folders in which a group might be made, with the name of the file that sets its limit."""
    group = _core.control_group("memory")
    if group is None:
        return
    version, mount, (own, *above) = group
    if version == 1:
        yield Path(mount), "memory.limit_in_bytes"
        yield Path(mount + own), "memory.limit_in_bytes"
        return
    for path in (*above[:1], own):
        yield Path(mount + path), "memory.max"
