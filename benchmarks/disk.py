"""Baselines for cold reads: the disk by fio (or `graphzero doctor`), mmap, and mmap with MADV_RANDOM.

A mapping with the default advice reads `read_ahead_kb` for each fault, which may be 8 MB for a row of 512 bytes. With
MADV_RANDOM it reads one page: the strongest baseline of a mapping, and the one that figures are compared with.
"""

from __future__ import annotations

import json
import mmap
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz
from graphzero.machine import disk as _disk

# For programs that run as `python -c`: MADV_RANDOM for all mappings of a file that the process has.
ADVISE = """
def advise_random(path):
    import ctypes, os
    libc = ctypes.CDLL(None)
    for line in open("/proc/self/maps"):
        if line.rstrip().endswith(os.path.realpath(path)):
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), 1)
"""
RANDOM_READS = 400_000  # 4 KiB each, by two jobs
SEQUENTIAL_BYTES = 4 << 30


def fio(path: Path, **options: object) -> dict[str, Any]:
    """The read section of fio's report for a direct, read-only job on the file."""
    given = {"name": "peer", "filename": path, "direct": 1, "ioengine": "io_uring", **options}
    command = ["fio", "--output-format=json", "--group_reporting", "--readonly"]
    command += [f"--{name}={value}" for name, value in given.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return report


def speed(path: Path) -> dict[str, Any]:
    """Random 4 KiB reads and sequential bytes per second, direct, with many in flight; "by" names the tool.

    fio if installed: 2 jobs of depth 256, and 2 MiB at depth 16. Otherwise `graphzero doctor`.
    """
    if shutil.which("fio") is None:
        found = _disk.measure(str(path), gz._core.uring_refusal() is None, 2.0)
        return {"by": "graphzero doctor", "random": found["random_256"], "sequential": found["sequential"]}
    random = fio(
        path, rw="randread", bs="4k", iodepth=256, numjobs=2, norandommap=1, io_size=RANDOM_READS * 2048, runtime=10
    )
    size = min(SEQUENTIAL_BYTES, path.stat().st_size // (2 << 20) * (2 << 20))
    bandwidth = fio(path, rw="read", bs="2m", iodepth=16, size=size)["bw_bytes"] if size else 0
    return {"by": "fio", "random": random["iops"], "sequential": bandwidth}


def rows_of(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The two table rows with the figures of speed()."""
    return [
        (f"{found['by']}, random 4 KiB", f"{found['random'] / 1e3:.0f} K/s", "2 jobs of depth 256, direct"),
        (f"{found['by']}, sequential 2 MiB", f"{found['sequential'] / 1e9:.2f} GB/s", "direct"),
    ]


def mapped(store: gz.FeatureStore, random: bool) -> np.memmap[Any, Any]:
    """The rows of a store as a separate mapping, with MADV_RANDOM or the default advice."""
    offset = next(a["offset"] for a in store.info["arrays"] if a["name"] == store.name)
    rows = np.memmap(store.path, dtype=store.dtype, mode="r", offset=offset, shape=store.shape)
    if random:
        rows._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return rows
