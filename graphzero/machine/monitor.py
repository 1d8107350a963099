"""Memory over time, as the kernel reports it: anonymous and file pages of the process, and its control group."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

from .. import _core

__all__ = ["MemoryMonitor", "MemorySample"]

_MOST_SAMPLES = 2000


@dataclass(frozen=True)
class MemorySample:
    """One sample: seconds since the start, and bytes.

    `group` is the control group's use, including the page cache; `engine` what GraphZero's buffers hold, which is what
    a budget limits.
    """

    seconds: float
    anonymous: int
    file: int
    group: int | None = None
    engine: int | None = None


class MemoryMonitor:
    """Samples memory on a thread while it is open; keeps at most a few thousand samples.

    >>> with MemoryMonitor() as monitor:
    ...     _ = bytes(10)
    >>> len(monitor.samples) > 0
    True
    """

    def __init__(self, interval: float = 0.1) -> None:
        """Sample every `interval` seconds; the interval doubles each time the list is full."""
        self.samples: list[MemorySample] = []
        self._interval = interval
        self._start = time.perf_counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="graphzero-memory", daemon=True)

    @property
    def peak_anonymous(self) -> int:
        """The most anonymous memory seen, in bytes."""
        return max((s.anonymous for s in self.samples), default=0)

    def look(self) -> MemorySample:
        """Take one sample now."""
        now = _core.system_memory()
        anonymous = now["anonymous_rss"] or _peak_resident()  # not Linux: only the peak is known
        group = now["cgroup_used"] if now["cgroup_version"] else None
        engine = int(_core.bytes_held()["total"])
        return MemorySample(time.perf_counter() - self._start, anonymous, now["file_rss"], group, engine)

    def __enter__(self) -> MemoryMonitor:
        """Start."""
        self._start = time.perf_counter()
        self.samples.append(self.look())
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()
        self.samples.append(self.look())

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.samples.append(self.look())
            if len(self.samples) > _MOST_SAMPLES:
                # keep the greater of each pair, so that thinning does not hide a peak
                pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
                self.samples[:] = [max(pair, key=lambda s: s.anonymous) for pair in pairs]
                self._interval *= 2


def _peak_resident() -> int:
    try:
        import resource
        import sys
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
