"""Properties of this machine that affect training from disk; None if the system does not report one."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from typing import Any

from .. import _core
from ..args.sizes import format_size
from ..errors import BudgetError

_TORCH_BYTES = 240_000_000  # torch 2.13, an optimizer and a first small step, code pages not counted


def _read_text(path: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path) as f:
        return f.read().strip()
    return ""


def memory() -> dict[str, int | None]:
    """Return RAM in bytes: total, available, and the cgroup's limit and use if there is a limit."""
    found = _core.system_memory()
    return {
        "total": found["total_bytes"] or None,
        "available": found["available_bytes"] or None,
        "swap": found["swap_bytes"],
        "cgroup_limit": found["cgroup_limit"],
        "cgroup_used": None if found["cgroup_limit"] is None else found["cgroup_used"],
    }


def processors() -> dict[str, Any]:
    """Return the number of processors, how many this process may use, and the cgroup's quota."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"count": os.cpu_count(), "usable": usable, "quota": _core.cpu_quota(), "model": _cpu_model()}


def _cpu_model() -> str | None:
    for line in _read_text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def limits() -> dict[str, int | None]:
    """Return limits: locked memory and open files of this process (None: no limit), and memory maps."""
    found: dict[str, int | None] = {"memlock": None, "open_files": None}
    with contextlib.suppress(ImportError):  # not available on Windows
        import resource

        for name, which in (("memlock", resource.RLIMIT_MEMLOCK), ("open_files", resource.RLIMIT_NOFILE)):
            soft = resource.getrlimit(which)[0]
            found[name] = None if soft == resource.RLIM_INFINITY else soft
    # Locked memory is not limited for root.
    found["memlock"] = None if hasattr(os, "geteuid") and os.geteuid() == 0 else found["memlock"]
    maps = _read_text("/proc/sys/vm/max_map_count")
    found["max_map_count"] = int(maps) if maps.isdecimal() else None
    return found


def io_uring() -> dict[str, Any]:
    """Return whether this process may use io_uring, and if not, why."""
    why = _core.uring_refusal()
    return {"works": why is None, "why": why}


def torch() -> dict[str, Any] | None:
    """Return torch's version, threads and GPUs; None if it is not installed. Imports torch, which takes a while."""
    try:
        import torch as t
    except (ImportError, OSError):
        return None
    gpus = [t.cuda.get_device_name(i) for i in range(t.cuda.device_count())] if t.cuda.is_available() else []
    free = t.cuda.mem_get_info()[0] if gpus else 0
    return {"version": str(t.__version__), "threads": t.get_num_threads(), "gpus": gpus, "gpu_free_bytes": free}


def check_room_for_torch() -> None:
    """Raise BudgetError if torch is not loaded yet and does not fit: the kernel would kill the process."""
    found = _core.available_memory()  # 0 if unknown
    if not found or found >= _TORCH_BYTES or "torch" in sys.modules or memory()["swap"]:
        return
    raise BudgetError(
        f"{format_size(found)} of memory is available, but torch and an optimizer need about "
        f"{format_size(_TORCH_BYTES)} before the first batch; raise the memory limit by at least "
        f"{format_size(_TORCH_BYTES - found)}",
        _TORCH_BYTES,
    )
