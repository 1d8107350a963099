"""Batches on their way to another device: page-locked memory and a side stream for CUDA, a plain copy elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .batch import Batch

if TYPE_CHECKING:
    import torch


def as_device(device: Any) -> torch.device:
    """Return `device` as torch has it; ValueError where there is no such device here."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"device is {device!r}, expected one such as 'cpu' or 'cuda' ({reason})") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ValueError(
            f"device is {device!r}, torch finds {count or 'no'} CUDA device{'' if count == 1 else 's'} here"
        )
    return found


def page_lock(device: torch.device | None) -> tuple[int, int]:
    """The addresses of the functions that lock and unlock a device's pages; zeros where there is nothing to lock."""
    return (0, 0)


def to_device(batches: Iterator[Batch], target: torch.device) -> Iterator[Batch]:
    """Copy each batch on a side stream while the one before it is in use."""
    import torch

    if target.type != "cuda":
        for batch in batches:
            yield batch.to(target)
        return
    side = torch.cuda.Stream(target)  # type: ignore[no-untyped-call]
    waiting: tuple[Batch, torch.cuda.Event] | None = None  # on its way, and when it will be there
    for host in batches:
        pinned = Batch(**{k: _pinned(v) for k, v in host})
        with torch.cuda.stream(side):
            moved = pinned.to(target, non_blocking=True)
            done = side.record_event()
        del host, pinned  # torch keeps page-locked memory until the copies that read it are done
        if waiting is not None:
            yield _arrived(*waiting, target)
        waiting = (moved, done)
    if waiting is not None:
        yield _arrived(*waiting, target)


def _pinned(value: Any) -> Any:
    import torch

    return value if not isinstance(value, torch.Tensor) or value.is_pinned() else value.pin_memory()


def _arrived(batch: Batch, done: Any, device: Any) -> Batch:
    import torch

    current = torch.cuda.current_stream(device)
    current.wait_event(done)
    for _, value in batch:
        if isinstance(value, torch.Tensor):
            value.record_stream(current)  # the allocator must not reuse it while this stream reads it
    return batch
