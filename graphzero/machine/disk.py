"""The disk of a folder: its kind, and its measured speed for sequential and random reads at depth 1 and 256."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .. import _core
from ..args.sizes import format_size

PAGE = 4096
_CHUNK = 1 << 20
_PIECE = 256 << 10  # bytes per sequential read
_MOST_THREADS = 64  # used where io_uring is not available
_RAM_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")
_REMOTE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "lustre", "afs")


def kind(folder: str) -> dict[str, Any]:
    """Return what is known about the disk of `folder` without reading from it."""
    device = os.stat(folder).st_dev
    known = _core.disk_info(os.major(device), os.minor(device)) if hasattr(os, "major") else _core.disk_info(0, 0)
    system = known["file_system"]
    return {
        **known,
        "in_ram": system in _RAM_SYSTEMS,
        "remote": system in _REMOTE_SYSTEMS or (system or "").startswith("fuse"),
        "free_bytes": shutil.disk_usage(folder).free,
    }


@contextlib.contextmanager
def scratch_file(folder: str, most_bytes: int, seconds: float) -> Iterator[tuple[str, int, float]]:
    """Yield (path, size, bytes written per second) of a temporary file of random bytes.

    On Linux the file has no name, so it is removed even if the process is killed. Writing stops at `most_bytes`, at a
    tenth of the free space, or after `seconds`.
    """
    free = shutil.disk_usage(folder).free
    limit = min(most_bytes, free // 10) // _CHUNK * _CHUNK
    if limit < 4 * _CHUNK:
        raise OSError(errno.ENOSPC, f"not enough free space to measure the disk ({format_size(free)} free)", folder)
    random = np.random.default_rng()
    nameless = sys.platform.startswith("linux")
    make = tempfile.TemporaryFile if nameless else tempfile.NamedTemporaryFile
    with make(dir=folder, prefix=".graphzero-doctor-", buffering=0) as f:
        begin, size = time.perf_counter(), 0
        while size < limit and (size == 0 or time.perf_counter() - begin < seconds):
            for _ in range(min(16, (limit - size) // _CHUNK)):
                size += f.write(random.bytes(_CHUNK))
            os.fsync(f.fileno())  # after each chunk, to avoid one long sync at the end
        path = f"/proc/self/fd/{f.fileno()}" if nameless else f.name
        yield path, size, size / (time.perf_counter() - begin)


def forget(files: Iterable[str]) -> None:
    """Evict files from the page cache where the system allows it, so that the next reads are cold."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(path: str, ring: bool, seconds: float) -> dict[str, Any]:
    """Return sequential bytes per second and random 4 KiB reads per second, bypassing the page cache where possible.

    The engine's own readers are measured: io_uring where it is allowed, otherwise threads that call pread.
    """

    def rate(depth: int, read_bytes: int, sequential: bool) -> float:
        deep = ring and depth > 1
        seed = secrets.randbits(62)
        done = _core.measure_reads(
            path, deep, min(depth, _MOST_THREADS if not deep else depth), read_bytes, sequential, seconds, seed
        )
        found["o_direct"] = done["direct"]
        return float(done["reads"] / done["seconds"])

    found: dict[str, Any] = {}
    found["sequential"] = _PIECE * rate(8, _PIECE, sequential=True)
    found["random_1"] = rate(1, PAGE, sequential=False)
    found["random_256"] = rate(256, PAGE, sequential=False)
    return found
