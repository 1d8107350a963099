"""What next() of a loader costs the thread that calls it: `gpu.py --only next`.

That thread launches the kernels of the training step as well, so what it spends here is missing there. Its processor
time is measured while batches wait to be taken, because the consumer sleeps or trains: of next() as a whole, and by
phase: the core hands a batch over
("core"), arrays become tensors and what stands for them ("batch"), copies and kernels are started ("move"), the
consumer's stream is made to wait ("arrive"), and the rest.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

import graphzero as gz
from graphzero import _core
from graphzero.load import epochs
from graphzero.load.device import copies, target, tier

Step = Callable[[Any], None]


def main(
    loader: Callable[..., gz.NeighborLoader], rows_bytes: int, device: str, batches: int, steps: dict[str, Step]
) -> None:
    """Print microseconds per batch with all rows on the device, a fifth of them, and none, beside each kind of step.

    The phases are those beside the last one.
    """
    skip = batches // 3
    for title, share in (("all rows", 1.0), ("a fifth of the rows", 0.2), ("no rows", 0.0)):
        with _without_gpu(device, share > 0) as where, loader(**where, gpu_memory=int(share * rows_bytes)) as made:
            for name, step in steps.items():
                used, wall = _measured(iter(made), skip, batches, step)
                print(
                    f"next(), {title}, {name}: {1e6 * statistics.fmean(used):.0f} us of the thread (median "
                    f"{1e6 * statistics.median(used):.0f}, most {1e6 * max(used):.0f}), clock "
                    f"{1e6 * statistics.fmean(wall):.0f}",
                    flush=True,
                )
            spent: Counter[str] = Counter()
            with _timed(device, spent):
                used, _ = _measured(iter(made), skip, batches, step, spent)
            spent = Counter({name: seconds / (batches - skip) for name, seconds in spent.items()})
            spent["rest"] = statistics.fmean(used) - sum(spent.values())
            print("   ", ", ".join(f"{name} {1e6 * seconds:.0f}" for name, seconds in spent.items()), flush=True)
            if device == "cpu":
                print("   ", torch_calls(made, batches), flush=True)


@contextlib.contextmanager
def _without_gpu(device: str, keeps: bool) -> Iterator[dict[str, str]]:
    """What to pass to a loader. On the CPU, make it take batches along the way of those for a GPU."""
    with contextlib.ExitStack() as stack:
        if device == "cpu" and keeps:
            stack.enter_context(mock.patch.object(tier, "caches_on_cpu", True))
        elif device == "cpu":
            plain, device = copies.PlainCopies(torch.device("cpu")), "cuda"
            stack.enter_context(mock.patch.object(copies, "CudaCopies", return_value=plain))
            stack.enter_context(mock.patch.object(epochs, "as_device", torch.device))
            stack.enter_context(mock.patch.object(epochs, "current", lambda device: device))
            stack.enter_context(mock.patch.object(epochs, "page_lock", return_value=target.NO_PAGE_LOCK))
        yield {"device": device}


def _measured(
    epoch: Iterator[Any], skip: int, batches: int, step: Step, spent: Counter[str] | None = None
) -> tuple[list[float], list[float]]:
    """The thread's processor time and the clock's, for each next() after the first `skip`."""
    used, wall = [], []
    for number in range(batches):
        if number == skip and spent is not None:
            spent.clear()
        begin, start = time.thread_time(), time.perf_counter()
        batch = next(epoch)
        if number >= skip:
            used.append(time.thread_time() - begin)
            wall.append(time.perf_counter() - start)
        step(batch)  # batches are made meanwhile
        del batch
    epoch.close()  # type: ignore[attr-defined]
    return used, wall


@contextlib.contextmanager
def _timed(device: str, spent: Counter[str]) -> Iterator[None]:
    """Count the thread's time in the phases of next()."""
    mover = copies.CudaCopies if device == "cuda" else copies.PlainCopies
    places: list[tuple[str, Any, str]] = [
        ("core", _core.LoadEpoch, "next"),
        ("batch", gz.NeighborLoader, "_batch"),
        ("move", mover, "start"),
        ("arrive", mover, "arrive"),
    ]
    with contextlib.ExitStack() as stack:
        for name, owner, attribute in places:
            stack.enter_context(mock.patch.object(owner, attribute, _counting(name, getattr(owner, attribute), spent)))
        yield


def _counting(name: str, call: Callable[..., Any], spent: Counter[str]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        begin = time.thread_time()
        try:
            return call(*arguments)
        finally:
            spent[name] += time.thread_time() - begin

    return counted


def torch_calls(made: gz.NeighborLoader, batches: int) -> str:
    """How many operations of torch a batch takes, by name."""
    from torch.utils._python_dispatch import TorchDispatchMode

    found: Counter[str] = Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found[str(func)] += 1
            return func(*args, **(kwargs or {}))

    epoch = iter(made)
    for _ in itertools.islice(epoch, batches // 3):
        pass
    with Counting():
        taken = sum(1 for _ in itertools.islice(epoch, 40))
    epoch.close()  # type: ignore[attr-defined]
    counts = ", ".join(f"{name.removeprefix('aten.')} {count / taken:.1f}" for name, count in found.most_common())
    return f"{sum(found.values()) / taken:.1f} operations: {counts}"
