"""Facts about this machine that decide how fast training from disk can go. Linux tells most; elsewhere None is told."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import Any

from . import _core

_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a huge number


def read_text(path: str) -> str | None:
    """Return a small file's text without its final newline, or None where it cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path) as f:
        return f.read().strip()
    return None


def read_number(path: str) -> int | None:
    """Return the number in a file such as those of /proc/sys, or None."""
    text = read_text(path)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def memory() -> dict[str, int | None]:
    """Return RAM in bytes: in all, available now, and the cgroup's limit and use where there is a limit."""
    fields: dict[str, int] = {}
    for line in (read_text("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) * 1024
    limit, used = cgroup_memory()
    return {
        "total": fields.get("MemTotal"),
        "available": fields.get("MemAvailable"),
        "swap": fields.get("SwapTotal"),
        "cgroup_limit": limit,
        "cgroup_used": used,
    }


def cgroup_memory() -> tuple[int | None, int | None]:
    """Return the tightest memory limit on the way from this process's cgroup to the root, and the use there."""
    found: tuple[int | None, int | None] = (None, None)
    for folder, limit_name, used_name in (
        *((f, "memory.max", "memory.current") for f in _cgroup_folders("")),
        *((f, "memory.limit_in_bytes", "memory.usage_in_bytes") for f in _cgroup_folders("memory")),
    ):
        limit = read_number(os.path.join(folder, limit_name))
        if limit is not None and limit < _NO_LIMIT and (found[0] is None or limit < found[0]):
            found = (limit, read_number(os.path.join(folder, used_name)))
    return found


def _cgroup_folders(controller: str) -> list[str]:
    # "0::/path" is version 2, "5:memory:/path" version 1. Inside a container the path may not be visible: the root of
    # the mount is then the container's own group, and it is on the list too.
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            root = f"/sys/fs/cgroup/{controller}".rstrip("/")
            parts = [p for p in path.split("/") if p and p != ".."]
            return ["/".join([root, *parts[:n]]) for n in range(len(parts), -1, -1)]
    return []


def processors() -> dict[str, Any]:
    """Return how many processors there are, how many this process may use, and the cgroup's quota of them."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"count": os.cpu_count(), "usable": usable, "quota": _cpu_quota(), "model": _cpu_model()}


def _cpu_quota() -> float | None:
    quotas = []
    for folder in _cgroup_folders(""):
        words = (read_text(os.path.join(folder, "cpu.max")) or "").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    for folder in _cgroup_folders("cpu"):
        quota = read_number(os.path.join(folder, "cpu.cfs_quota_us"))
        period = read_number(os.path.join(folder, "cpu.cfs_period_us"))
        if quota is not None and quota > 0 and period:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _cpu_model() -> str | None:
    for line in (read_text("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def limits() -> dict[str, int | None]:
    """Return the limits that matter: locked memory and open files of this process (None: no limit), maps of any."""
    found: dict[str, int | None] = {"memlock": None, "open_files": None}
    with contextlib.suppress(ImportError):  # there is no such module on Windows
        import resource

        for name, which in (("memlock", resource.RLIMIT_MEMLOCK), ("open_files", resource.RLIMIT_NOFILE)):
            soft = resource.getrlimit(which)[0]
            found[name] = None if soft == resource.RLIM_INFINITY else soft
    # What root may lock is not limited.
    found["memlock"] = None if hasattr(os, "geteuid") and os.geteuid() == 0 else found["memlock"]
    found["max_map_count"] = read_number("/proc/sys/vm/max_map_count")
    return found


def io_uring() -> dict[str, Any]:
    """Return whether the kernel lets this process have an io_uring, and if not, why."""
    why = _core.uring_refusal()
    return {"works": why is None, "why": why}


def torch() -> dict[str, Any] | None:
    """Return torch's version, threads and GPUs, or None where it is not installed. Importing it takes a while."""
    try:
        import torch as t
    except (ImportError, OSError):
        return None
    gpus = [t.cuda.get_device_name(i) for i in range(t.cuda.device_count())] if t.cuda.is_available() else []
    return {"version": str(t.__version__), "threads": t.get_num_threads(), "gpus": gpus}
