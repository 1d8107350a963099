"""Batches on their way to another device: page-locked memory and a side stream for CUDA, a plain copy elsewhere."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .batch import AnyBatch

if TYPE_CHECKING:
    import torch

PageLock = tuple[int, int, int, int, int]
NO_PAGE_LOCK: PageLock = (0, 0, 0, 0, 0)

# One a device, for all epochs of all loaders: torch keeps freed device memory for the stream it was made on, so a new
# stream would ask the driver for all of it anew.
_side_streams: dict[int, Any] = {}


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


def page_lock(device: torch.device | None) -> PageLock:
    """The context of a CUDA device and the driver's functions that lock and unlock pages; zeros where there are none.

    Without them batches are copied to page-locked memory of torch's on their way: slower, with the same result.
    """
    import torch

    if device is None or device.type != "cuda" or torch.version.cuda is None:
        return NO_PAGE_LOCK
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # the device's context exists from here on
        index = torch.cuda.current_device()
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        names = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemHostRegister_v2", "cuMemHostUnregister")
        functions = [ctypes.cast(getattr(driver, name), ctypes.c_void_p).value or 0 for name in names]
        number, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuDeviceGet(ctypes.byref(number), index) != 0:
            return NO_PAGE_LOCK
        # torch holds this context until the process ends, and so do we: it is never released.
        if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) != 0:
            return NO_PAGE_LOCK
    except (OSError, AttributeError):  # no driver under this name, or an old one
        return NO_PAGE_LOCK
    push, pop, lock, unlock = functions
    return (context.value or 0, push, pop, lock, unlock)


def plain_copies(batches: Iterator[AnyBatch], target: torch.device) -> Iterator[AnyBatch]:
    """Copy each batch when it is requested, on devices other than CUDA."""
    for batch in batches:
        yield batch.to(target)


class CudaCopies:
    """Starts copies to a CUDA device on a stream of their own; what a `CopyStage` drives.

    A copy is known by two events that measure it. They block rather than spin: the loader's threads need the cores.
    """

    def __init__(self, device: torch.device) -> None:
        """Take a side stream of the device, behind what the current stream was given so far."""
        import torch

        self._device = device
        index = torch.cuda.current_device() if device.index is None else device.index
        if index not in _side_streams:
            _side_streams[index] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._side = _side_streams[index]
        self._side.wait_stream(torch.cuda.current_stream(device))  # labels may be there, just made
        self.most_bytes = torch.cuda.get_device_properties(device).total_memory // 8

    def enter(self) -> Any:
        """Make the side stream the current one of the copying thread; a context manager."""
        import torch

        return torch.cuda.stream(self._side)

    def start(self, batch: AnyBatch) -> tuple[AnyBatch, Any]:
        """Start to copy a batch; the host's must be kept until `wait` returns."""

        host = batch._map(_pinned)
        begin, end = (_event(enable_timing=True) for _ in range(2))
        begin.record(self._side)
        moved = host.to(self._device, non_blocking=True)
        end.record(self._side)
        return moved, (begin, end, host)

    def wait(self, copy: Any) -> float:
        """Wait until a copy is done and return the seconds it took."""
        begin, end, _ = copy
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    def arrive(self, batch: AnyBatch, copy: Any) -> None:
        """Let the consumer's stream wait for the copy; the consumer itself continues."""
        import torch

        current = torch.cuda.current_stream(self._device)
        current.wait_event(copy[1])
        for value in batch._tensors():
            if value.device.type == "cuda":
                value.record_stream(current)  # the allocator must not reuse it while this stream reads it

    def mark_used(self) -> Any:
        """Return a mark behind all that the consumer's stream was given so far."""
        import torch

        return torch.cuda.current_stream(self._device).record_event(_event())

    def wait_used(self, mark: Any) -> None:
        """Wait until the device has come to a mark."""
        mark.synchronize()


def _event(enable_timing: bool = False) -> Any:
    import torch

    return torch.cuda.Event(enable_timing=enable_timing, blocking=True)  # type: ignore[no-untyped-call]


def _pinned(value: torch.Tensor) -> torch.Tensor:
    if value.device.type != "cpu" or value.is_pinned():
        return value
    return value.pin_memory()  # from torch's own cache, which asks the driver for new sizes only
