"""Measures how fast this machine and disk can train from disk, and suggests what to change."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

from ..args.sizes import format_size, parse_size
from ..dataset.dataset import Dataset
from ..dataset.manifest import MANIFEST
from . import disk as _disk
from . import facts
from .estimate import BATCH, FANOUTS, check, estimate

__all__ = ["Finding", "advise", "examine"]

_LEAST_MEMLOCK = 64 << 20  # a ring's registered buffers
_LEAST_OPEN_FILES = 1024
_LEAST_MAPS = 65530
_LEAST_FILE = 64 << 20  # a smaller file may fit in the disk's own cache
_MUCH_READAHEAD = 256 << 10
_UNKNOWN = 1 << 62  # bytes of RAM, if the system does not report it


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding: its level ("good" or "warning"), a text, and a fix if there is one."""

    level: str
    text: str
    fix: str | None = None


def examine(
    folder: str | os.PathLike[str] = ".",
    *,
    size: int | str = "256MB",
    seconds: float = 0.7,
    fanouts: Sequence[int] = FANOUTS,
    batch_size: int = BATCH,
    memory: int | str = "auto",
    check_seconds: float = 0.0,
) -> dict[str, Any]:
    """Measure the disk of `folder` and this machine; return figures and findings as a JSON-serializable dict.

    A dataset folder is measured by reading its largest file; elsewhere a temporary file of at most `size` is written.
    Each measurement takes `seconds`. For a dataset, the cost of a training epoch is estimated (see `estimate`);
    with `check_seconds`, it is compared with runs of that length.

    >>> report = examine(".", size="8MB", seconds=0.05)
    >>> sorted(report)
    ['dataset', 'disk', 'findings', 'folder', 'io_uring', 'limits', 'memory', 'processors', 'python', 'torch']
    """
    path = os.path.abspath(os.fspath(folder))
    if not os.path.isdir(path):
        raise NotADirectoryError(20, "not a folder", path)
    dataset = Dataset(path) if os.path.exists(os.path.join(path, MANIFEST)) else None
    ring = facts.io_uring()
    report: dict[str, Any] = {
        "folder": path,
        "processors": facts.processors(),
        "memory": facts.memory(),
        "io_uring": ring,
        "limits": facts.limits(),
        "disk": {**_disk.kind(path), **_measure(path, dataset, ring["works"], parse_size(size, "size"), seconds)},
        "python": sys.version.split()[0],
        "torch": facts.torch(),
    }
    report["dataset"] = None
    if dataset is not None:
        gpu = (report["torch"] or {}).get("gpu_free_bytes", 0) // 2  # the model has the rest
        asked: dict[str, Any] = {"fanouts": fanouts, "batch_size": batch_size, "memory": memory}
        expected = estimate(dataset, report["disk"], **asked, gpu_bytes=gpu)
        report["dataset"] = expected
        if check_seconds > 0 and "batches" in expected:
            expected["check"] = check(path, expected, seconds=check_seconds)
    report["findings"] = [dataclasses.asdict(finding) for finding in advise(report)]
    return report


def _measure(folder: str, dataset: Dataset | None, ring: bool, most: int, seconds: float) -> dict[str, Any]:
    if dataset is not None:
        largest = max(dataset.files, key=os.path.getsize)
        if os.path.getsize(largest) >= _LEAST_FILE:
            return {"measured": largest, "write": None, **_disk.measure(largest, ring, seconds)}
    with _disk.scratch_file(folder, most, 4 * seconds) as (path, size, write):
        measured = f"a scratch file of {format_size(size)}"
        return {"measured": measured, "write": write, **_disk.measure(path, ring, seconds)}


def advise(report: dict[str, Any]) -> list[Finding]:
    """Return findings from the figures of a report, the most important first."""
    return [*_about_disk(report["disk"]), *_about_reads(report), *_about_memory(report), *_about_processors(report)]


def _about_disk(disk: dict[str, Any]) -> list[Finding]:
    found = []
    if disk["in_ram"]:
        found.append(Finding("warning", f"This folder is in RAM ({disk['file_system']}), not on a disk."))
    if disk["remote"]:
        found.append(
            Finding(
                "warning",
                f"This folder is on a network or shared file system ({disk['file_system']}).",
                "Copy the dataset to a local SSD; each random read costs a network round trip here.",
            )
        )
    deep, single = disk["random_256"], disk["random_1"]
    gain = deep / single if single else 0.0
    words = f"Cold rows: about {_count(deep)} per second with many reads in flight, {_count(single)} with one."
    if deep < 5_000:
        found.append(Finding("warning", f"{words} That is slow.", "Use a local SSD (NVMe gives 100,000 and more)."))
    elif gain < 2 and not disk["in_ram"]:
        found.append(Finding("warning", f"{words} Queue depth helps little; the disk may be throttled or shared."))
    else:
        found.append(Finding("good", f"{words} 256 reads in flight are {gain:.0f} times as fast as one at a time."))
    ahead = disk["readahead_bytes"]
    if ahead is not None and ahead > _MUCH_READAHEAD:
        found.append(
            Finding(
                "warning",
                f"Readahead is {ahead >> 10} KiB; programs that read memory-mapped rows fetch that much per row. "
                "GraphZero's own reads are not affected.",
                f"echo 128 | sudo tee /sys/block/{disk['device'] or 'DEVICE'}/queue/read_ahead_kb",
            )
        )
    return found


def _about_reads(report: dict[str, Any]) -> list[Finding]:
    found = []
    ring, limits = report["io_uring"], report["limits"]
    if ring["works"]:
        found.append(Finding("good", "io_uring works; hundreds of reads can be in flight."))
    else:
        found.append(
            Finding(
                "warning",
                f"io_uring is not available ({ring['why']}); a thread pool is used instead, which takes more CPU.",
                "In Docker: --security-opt seccomp=unconfined, or a profile that allows io_uring_*. "
                "On the host: sysctl kernel.io_uring_disabled=0.",
            )
        )
    if not report["disk"]["o_direct"]:
        found.append(
            Finding(
                "warning",
                f"The file system ({report['disk']['file_system']}) does not support O_DIRECT; reads go through "
                "the page cache, so the figures above may be too high.",
                "ext4 and xfs on a local disk support it.",
            )
        )
    for name, least, command in (
        ("memlock", _LEAST_MEMLOCK, "ulimit -l unlimited"),
        ("open_files", _LEAST_OPEN_FILES, "ulimit -n 65536"),
        ("max_map_count", _LEAST_MAPS, "sysctl vm.max_map_count=262144"),
    ):
        value = limits[name]
        if value is not None and value < least and (name != "memlock" or ring["works"]):
            what = {"memlock": "Locked memory is", "open_files": "Open files are", "max_map_count": "Maps are"}[name]
            shown = format_size(value) if name == "memlock" else f"{value:,}"
            wanted = format_size(least) if name == "memlock" else f"{least:,}"
            found.append(Finding("warning", f"{what} limited to {shown}; at least {wanted} is recommended.", command))
    return found


def _free(memory: dict[str, int | None]) -> int:
    return min(v for v in (memory["cgroup_limit"], memory["available"], memory["total"], _UNKNOWN) if v is not None)


def _about_memory(report: dict[str, Any]) -> list[Finding]:
    memory = report["memory"]
    limit, total = memory["cgroup_limit"], memory["total"]
    free = _free(memory)
    if free == _UNKNOWN:
        return []
    budget = format_size(free // 2)
    if limit is not None and (total is None or limit < total):
        text = f"A cgroup limits this process to {format_size(limit)}; the RAM of the machine is not available to it."
        return [Finding("warning", text, f"Give the loader at most memory='{format_size(limit // 2)}'.")]
    return [Finding("good", f"{format_size(free)} of RAM is free; memory='{budget}' is a safe budget for a loader.")]


def _about_processors(report: dict[str, Any]) -> list[Finding]:
    cpu, torch = report["processors"], report["torch"]
    usable = min(cpu["usable"] or 1, cpu["quota"] or 1 << 20)
    found = []
    if cpu["quota"] is not None and cpu["quota"] < (cpu["usable"] or 1):
        found.append(
            Finding(
                "warning",
                f"A cgroup allows {cpu['quota']:.1f} of {cpu['usable']} processors; more threads do not help.",
                f"num_threads={max(1, int(cpu['quota']))}",
            )
        )
    if torch is None:
        found.append(
            Finding("warning", "torch is not installed; the loader needs it.", "pip install 'graphzero[torch]'")
        )
    elif torch["threads"] > usable + 0.5:
        found.append(
            Finding(
                "warning",
                f"torch runs {torch['threads']} threads on {usable:g} processors.",
                f"OMP_NUM_THREADS={max(1, int(usable))}",
            )
        )
    return found


def _count(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"
