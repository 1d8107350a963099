"""Memory use of the process, the page cache and the engine, and how much is available."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from .. import _core
from ..args.html_table import html_table
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
    """One mounted file: its size, and how much of it is in the page cache (None if unknown)."""

    path: str
    kind: str
    bytes: int
    cached_bytes: int | None


@dataclass(frozen=True)
class MemoryReport:
    """The result of `memory_report()`, in bytes; None where the system does not report a value.

    Mounting a file takes no memory, but pages of it that are in use take RAM in the page cache; the kernel reclaims
    them when memory is short. `anonymous_rss` cannot be reclaimed.
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
        """The bytes that the engine has allocated."""
        return sum(self.engine.values())

    @property
    def cached_bytes(self) -> int:
        """Page-cache bytes of all mounted files, each file counted once."""
        return sum({f.path: f.cached_bytes or 0 for f in self.files}.values())

    def _rows(self) -> list[tuple[str, str, int | None, str]]:
        """Return lines of group, name, bytes and remark."""
        rows: list[tuple[str, str, int | None, str]] = [
            ("process", "anonymous", self.anonymous_rss, "heap and arrays, not reclaimable"),
            ("", "mapped files", self.file_rss, "shared with the page cache"),
            ("machine", "available", self.available, f"of {_size(self.total)}"),
        ]
        if self.cgroup_path is not None:
            limit = "no limit" if self.cgroup_limit is None else f"of {_size(self.cgroup_limit)}"
            rows.append(("cgroup", "used", self.cgroup_used, f"{limit}, {self.cgroup_path}"))
            rows.append(("", "page cache, of the above", self.cgroup_cached, ""))
        for i, (purpose, held) in enumerate((k, v) for k, v in self.engine.items() if v):
            rows.append(("engine" if i == 0 else "", _PURPOSES.get(purpose, purpose), held, ""))
        rows.append(("", "idle, of the above", self.engine_idle, "kept for the next batch"))
        rows.append(("", "peak", self.engine_peak, ""))
        for i, file in enumerate(self.files):
            name = os.path.basename(file.path)
            rows.append(("page cache" if i == 0 else "", name, file.cached_bytes, f"of {_size(file.bytes)}"))
        return rows

    def __str__(self) -> str:
        """Return a table."""
        rows = self._rows()
        first = max(len(r[0]) for r in rows)
        second = max(len(r[1]) for r in rows)
        lines = (f"{a:<{first}}  {b:<{second}}  {_size(c):>8}  {d}".rstrip() for a, b, c, d in rows)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        rows = [(group, name, _size(size), remark) for group, name, size, remark in self._rows()]
        return html_table("MemoryReport", rows, ("", "", ">bytes", ""))


def memory_report() -> MemoryReport:
    """Return the current memory use of the process, its container, the mounted files and the engine.

    All values are known on Linux; other systems leave some as None.

    >>> import graphzero as gz
    >>> report = gz.memory_report()
    >>> report.engine_total >= 0
    True
    """
    system = _core.system_memory()
    held = _core.bytes_held()
    known = sys.platform.startswith("linux")
    grouped = known and system["cgroup_version"] != 0
    engine = {purpose: int(held[purpose]) for purpose in _PURPOSES}
    return MemoryReport(
        anonymous_rss=system["anonymous_rss"] if known else None,
        file_rss=system["file_rss"] if known else None,
        total=system["total_bytes"] if known else None,
        available=system["available_bytes"] if known else None,
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
