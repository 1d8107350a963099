"""Tasks on a Ray cluster, and the shared folder in which they exchange files."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..args.ids import as_count
from ..dataset.folder_lock import FolderLock, is_abandoned

Callback = Callable[[str, int, int], None]


def require_ray() -> Any:
    """Return Ray, connected to the cluster of this program (or RAY_ADDRESS); raise ImportError if it is missing."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("graphzero.ray needs Ray; pip install 'graphzero[ray]'") from error
    if not ray.is_initialized():
        ray.init()
    return ray


@dataclass(frozen=True)
class Tasks:
    """How tasks are run: the resources of each, and how often Ray retries one whose worker died."""

    num_cpus: float = 1
    num_gpus: float = 0
    max_retries: int = 3

    @classmethod
    def of(cls, num_cpus: float, num_gpus: float, max_retries: int) -> Tasks:
        """Check the numbers before anything is started."""
        for name, value in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError(f"{name} is {value!r}, expected a number of at least 0")
        return cls(num_cpus, num_gpus, as_count(max_retries, "max_retries", least=0))

    @property
    def num_threads(self) -> int:
        """The threads that one task may use."""
        return max(1, int(self.num_cpus))

    def slots(self) -> int:
        """Return how many tasks the cluster can currently run in parallel."""
        total = require_ray().cluster_resources()
        asked = (("CPU", self.num_cpus), ("GPU", self.num_gpus))
        most = [int(total.get(kind, 0) / each) for kind, each in asked if each > 0]
        return max(1, min(most, default=1))

    def run(
        self,
        work: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        phase: str = "",
        progress: Callback | None = None,
        folder: str | None = None,
    ) -> list[Any]:
        """Return the results of `work(*call)` in order; the first error stops the others and is raised here.

        No task runs after this returns or raises, so nothing is written to `folder` afterwards. Long tasks poll
        `is_stopped`, which checks for a file in it.
        """
        ray = require_ray()
        task = ray.remote(work).options(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            max_retries=self.max_retries,
            scheduling_strategy="SPREAD",
        )
        refs: list[Any] = []
        waiting: list[Any] = []
        try:
            while waiting or len(refs) < len(calls):
                # enough to keep a cluster busy and let it scale up; tasks not submitted need not be stopped
                most = 2 * self.slots()
                while len(refs) < len(calls) and len(waiting) < most:
                    refs.append(task.remote(*calls[len(refs)]))
                    waiting.append(refs[-1])
                ready, waiting = ray.wait(waiting, num_returns=1)
                ray.get(ready)  # raises an error now, not when all others are done
                if progress is not None:
                    progress(phase, len(refs) - len(waiting), len(calls))
            return list(ray.get(refs))
        except BaseException as error:
            # not ray.cancel: if the task ends at the same moment, Ray 2.60 aborts this process
            _stop(folder)
            if waiting:
                ray.wait(waiting, num_returns=len(waiting))
            if isinstance(error, ray.exceptions.RayTaskError):
                raise error.cause from error
            raise


_STOP = "stop"


def _stop(folder: str | None) -> None:
    """Signal the tasks that share the folder to stop, since their results are not needed."""
    if folder is not None:
        with contextlib.suppress(OSError):  # such as a full disk: the tasks run to completion
            Path(folder, _STOP).touch()


def is_stopped(folder: str) -> bool:
    """Return whether another task failed or the driver was interrupted, so that a task should stop."""
    return os.path.exists(os.path.join(folder, _STOP))


class WorkFolder:
    """A folder next to the target for files that tasks exchange; removed when the work is done or has failed.

    It is locked, so that the next writer of the same target can detect and remove the folder of a dead process.
    """

    def __init__(self, target: str) -> None:
        """Remove abandoned folders; create the folder."""
        parent, name = os.path.split(target)
        self._mark = f".{name}.gzray-"
        for found in os.listdir(parent):
            if found.startswith(self._mark) and is_abandoned(os.path.join(parent, found, "lock")):
                shutil.rmtree(os.path.join(parent, found), ignore_errors=True)
        made = tempfile.mkdtemp(prefix=f".{name}.gznew-", dir=parent)
        os.chmod(made, 0o777 & ~_umask())  # like other folders: workers may run as another user of the group
        self._lock = FolderLock(os.path.join(made, "lock"))
        # renamed only after it is locked, since an unlocked folder looks abandoned
        self.path = os.path.join(parent, self._mark + made.rsplit("-", 1)[1])
        os.rename(made, self.path)

    def __enter__(self) -> str:
        """Return the path."""
        return self.path

    def __exit__(self, *_: object) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def put_together(file: Any, written: Iterable[Sequence[tuple[str, Any, list[tuple[int, bytes]]]]]) -> int:
    """Finish a shared file from the results of its writers, in the order of their ranges; return its size."""
    import numpy as np

    sums: dict[str, list[Any]] = {name: [] for name, _, _ in file.arrays}
    for parts in written:
        for name, part, fragments in parts:
            sums[name].append(part)
            for at, data in fragments:
                file.put(name, at, data)
    for name, parts in sums.items():
        file.seal(name, np.concatenate([np.empty((0, 2), np.uint32), *parts]))
    return int(file.finish())
