"""A memory limit enforced by the kernel: commands run in their own control group, where that is allowed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import _core

__all__ = ["MemoryLimit", "in_group", "memory_limit"]


def in_group(folder: Path, command: Sequence[str]) -> list[str]:
    """Return a command that joins the control group `folder` and executes `command`."""
    return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(folder / "cgroup.procs"), *command]


class MemoryLimit:
    """A control group (version 1 or 2). The memory of its processes counts, including the page cache of their reads."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Represent the group `folder`, which exists and has its limit set."""
        self.folder = folder
        self.limit = limit

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return a command that joins the group and executes `command`."""
        return in_group(self.folder, command)

    @property
    def peak(self) -> int | None:
        """The peak memory of the group in bytes, including the page cache; None if unknown."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError, ValueError):
                return int((self.folder / name).read_text())
        return None

    @property
    def kills(self) -> int:
        """The number of processes that the kernel has killed for exceeding the limit."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                for line in (self.folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Remove the group; its processes must have ended."""
        for _ in range(50):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # busy: the last process is still exiting
                time.sleep(0.1)
            else:
                return


@contextlib.contextmanager
def memory_limit(limit: int) -> Iterator[MemoryLimit | None]:
    """Yield a group limited to `limit` bytes, or None if this user may not create one."""
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
            with contextlib.suppress(OSError):  # version 2: disable swap, which would bypass the limit
                (folder / "memory.swap.max").write_text("0")
        except OSError:
            folder.rmdir()
            continue
        return MemoryLimit(folder, limit)
    return None


def _places() -> Iterator[tuple[Path, str]]:
    """Yield folders in which a group may be created, with the name of the file that sets its limit."""
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
