"""The truth about memory: what the process holds, what the page cache holds for it, and what may still be taken."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from .. import _core
from ..args.sizes import format_size

__all__ = ["FileMemory", "MemoryReport", "memory_report"]

_PURPOSES = {
    "compile": "compiling",
    "cache": "held rows",
    "reads": "reads in flight",
    "batches": "batches and results",
    "tables": "sampling tables",
}


@dataclass(frozen=True)
class FileMemory:
    """One mounted file: its size, and how much of it the page cache holds (None where the system does not say)."""

    path: str
    kind: str
    bytes: int
    cached_bytes: int | None


@dataclass(frozen=True)
class MemoryReport:
    """What `memory_report()` found, in bytes. None stands for what this system does not tell.

    A mounted file costs the process nothing by itself, but its pages take RAM in the page cache while they are used;
    the kernel gives them up when memory is short. `anonymous_rss` is what cannot be given up.
    """

    anonymous_rss: int | None
    file_rss: int | None
    total: int | None
    available: int | None
    cgroup_path: str | None
    cgroup_used: int | None
    cgroup_cached: int | None
    cgroup_limit: int | None
    files: tuple[FileMemory, ...]
    engine: dict[str, int]
    engine_idle: int
    engine_peak: int

    @property
    def engine_total(self) -> int:
        """All that the engine allocated and still holds."""
        return sum(self.engine.values())

    @property
    def cached_bytes(self) -> int:
        """Page-cache bytes of all mounted files, those mounted twice counted once."""
        return sum({f.path: f.cached_bytes or 0 for f in self.files}.values())

    def __str__(self) -> str:
        """Return a table."""
        rows = [
            ("process", "anonymous", self.anonymous_rss, "heap and arrays: cannot be given up"),
            ("", "mapped files", self.file_rss, "shared with the page cache"),
            ("machine", "available", self.available, f"of {_size(self.total)}"),
        ]
        if self.cgroup_path is not None:
            limit = "no limit" if self.cgroup_limit is None else f"of {_size(self.cgroup_limit)}"
            rows.append(("cgroup", "used", self.cgroup_used, f"{limit}, {self.cgroup_path}"))
            rows.append(("", "of it page cache", self.cgroup_cached, ""))
        for i, (purpose, held) in enumerate((k, v) for k, v in self.engine.items() if v):
            rows.append(("engine" if i == 0 else "", _PURPOSES.get(purpose, purpose), held, ""))
        rows.append(("", "idle, of the above", self.engine_idle, "kept for the next batch"))
        rows.append(("", "peak", self.engine_peak, ""))
        for i, file in enumerate(self.files):
            name = os.path.basename(file.path)
            rows.append(("page cache" if i == 0 else "", name, file.cached_bytes, f"of {_size(file.bytes)}"))
        first = max(len(r[0]) for r in rows)
        second = max(len(r[1]) for r in rows)
        lines = (f"{a:<{first}}  {b:<{second}}  {_size(c):>8}  {d}".rstrip() for a, b, c, d in rows)
        return "\n".join(lines)

    __repr__ = __str__


def memory_report() -> MemoryReport:
    """Look at the process, its container, the mounted files and the engine's own allocations, now.

    Linux tells all of it; other systems leave None where they do not.

    >>> import graphzero as gz
    >>> report = gz.memory_report()
    >>> report.engine_total >= 0
    True
    """
    system = _core.system_memory()
    held = _core.bytes_held()
    told = sys.platform.startswith("linux")
    grouped = told and system["cgroup_version"] != 0
    engine = {purpose: int(held[purpose]) for purpose in _PURPOSES}
    return MemoryReport(
        anonymous_rss=system["anonymous_rss"] if told else None,
        file_rss=system["file_rss"] if told else None,
        total=system["total_bytes"] if told else None,
        available=system["available_bytes"] if told else None,
        cgroup_path=system["cgroup_path"] if grouped else None,
        cgroup_used=system["cgroup_used"] if grouped else None,
        cgroup_cached=system["cgroup_cached"] if grouped else None,
        cgroup_limit=system["cgroup_limit"] if grouped else None,
        files=tuple(FileMemory(*file) for file in _core.mounted_files()),
        engine=engine,
        engine_idle=int(held["idle"]),
        engine_peak=int(held["peak"]),
    )


def _size(size: int | None) -> str:
    return "?" if size is None else format_size(size)
