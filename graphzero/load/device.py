"""Batches on their way to a device: page-locked memory, a side stream, and a thread that keeps copies in flight.

The consumer takes batches whose copies have started; its stream waits for them, its thread does not. On devices other
than CUDA a batch is copied when it is requested.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .batch import AnyBatch
from .device_rows import DeviceTier, device_bytes, link_bytes, move

if TYPE_CHECKING:
    import torch

COPIES = 3  # host batches that are being copied at once: one moves, the others wait behind it
MOST_ON_DEVICE = 5  # batches there that the device has not finished with: those COPIES, one in use, and one after it

PageLock = tuple[int, int, int, int, int]
NO_PAGE_LOCK: PageLock = (0, 0, 0, 0, 0)

# One per device, for all epochs of all loaders: torch keeps freed device memory for the stream it was made on, so a new
# stream would request all of it from the driver again.
_side_streams: dict[int, Any] = {}


def as_device(device: Any) -> torch.device:
    """Return `device` as a torch.device; ValueError if there is no such device."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"device is {device!r}, expected one such as 'cpu' or 'cuda' ({reason})") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ValueError(
            f"device is {device!r}, but torch finds {count or 'no'} CUDA device{'' if count == 1 else 's'}"
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

    def __init__(self, device: torch.device, tier: DeviceTier | None = None) -> None:
        """Take a side stream of the device, behind what the current stream was given so far."""
        import torch

        self._device, self._tier = device, tier
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

        if self._tier is not None:
            self._tier.batch_comes()
        host = batch._map(_pinned)
        begin, end = (_event(enable_timing=True) for _ in range(2))
        begin.record(self._side)
        moved = move(host, lambda tensor: tensor.to(self._device, non_blocking=True), self._tier)
        end.record(self._side)
        return moved, (begin, end, host)

    def leave(self) -> None:
        """The epoch ends early: batches that were planned will not come."""
        if self._tier is not None:
            self._tier.forget()

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


class PlainCopies:
    """Moves batches at once, on a device without streams: what a `CopyStage` drives in tests of the rows it keeps."""

    most_bytes = 1 << 62

    def __init__(self, device: torch.device, tier: DeviceTier) -> None:
        """Move to `device`, which keeps rows in `tier`."""
        self._device, self._tier = device, tier

    def enter(self) -> Any:
        """Do nothing."""
        return contextlib.nullcontext()

    def start(self, batch: AnyBatch) -> tuple[AnyBatch, Any]:
        """Move a batch."""
        self._tier.batch_comes()
        return move(batch, lambda tensor: tensor.to(self._device, copy=True), self._tier), None

    def wait(self, copy: Any) -> float:
        """Do nothing: it was moved when it started."""
        return 0.0

    def arrive(self, batch: AnyBatch, copy: Any) -> None:
        """Do nothing."""

    def mark_used(self) -> Any:
        """Return nothing."""

    def wait_used(self, mark: Any) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """The epoch ends early: batches that were planned will not come."""
        self._tier.forget()


def _event(enable_timing: bool = False) -> Any:
    import torch

    return torch.cuda.Event(enable_timing=enable_timing, blocking=True)  # type: ignore[no-untyped-call]


def _pinned(value: torch.Tensor) -> torch.Tensor:
    if value.device.type != "cpu" or value.is_pinned():
        return value
    return value.pin_memory()  # from torch's own cache, which asks the driver for new sizes only


class CopyStage:
    """An iterator over the batches of an epoch on a device. One thread at a time may call it."""

    def __init__(self, batches: Iterator[AnyBatch], copies: CudaCopies | PlainCopies) -> None:
        """Start the thread; it takes from `batches`, which must end soon after they are stopped."""
        self._copies = copies
        self._process = os.getpid()
        self._changed = threading.Condition()
        # All below: guarded by _changed.
        self._ready: deque[tuple[AnyBatch, Any]] = deque()  # copies that have started
        self._marks: deque[Any] = deque()  # one per batch that the consumer is done with, and the device maybe not
        self._on_device = 0  # batches that have no mark which was waited for
        self._stopping = False
        self._ended = False
        self._error: BaseException | None = None
        self._stats = {
            **dict.fromkeys(("batches", "nodes", "edges", "copy_to_device_bytes"), 0),
            **dict.fromkeys(("copy_to_device_seconds", "copy_wait_seconds", "step_wait_seconds"), 0.0),
            **dict.fromkeys(("starved_seconds", "consumer_seconds"), 0.0),
        }
        self._handed_out = False  # the consumer has a batch
        self._returned = 0.0  # when it got it
        self._thread = threading.Thread(target=self._run, args=(batches,), name="graphzero-copy", daemon=True)
        self._thread.start()

    def __iter__(self) -> CopyStage:
        """Return itself."""
        return self

    def __next__(self) -> AnyBatch:
        """Return the next batch on the device."""
        start = time.perf_counter()
        mark = self._copies.mark_used() if self._handed_out else None
        with self._changed:
            if self._handed_out:
                self._handed_out = False
                self._marks.append(mark)
                self._stats["consumer_seconds"] += start - self._returned
                self._changed.notify_all()
            room = self._stats["step_wait_seconds"]
            self._changed.wait_for(lambda: self._ready or self._ended or self._stopping)
            self._count_wait(time.perf_counter() - start, self._stats["step_wait_seconds"] - room)
            if self._stopping or not self._ready:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                raise StopIteration
            batch, copy = self._ready.popleft()
            self._handed_out = True
            for name, count in (("batches", 1), ("nodes", batch.num_nodes), ("edges", batch.num_edges)):
                self._stats[name] += count
        self._copies.arrive(batch, copy)
        self._returned = time.perf_counter()
        return batch

    def _count_wait(self, waited: float, room: float) -> None:
        """Waiting while the device is busy with earlier batches is time of the training step, which runs there."""
        busy = min(waited, room)
        self._stats["starved_seconds"] += waited - busy
        self._stats["consumer_seconds"] += busy

    def stats(self) -> dict[str, Any]:
        """What the consumer saw, and the copies: seconds, bytes, and what the thread waited for."""
        if self._process != os.getpid():
            return {}
        with self._changed:
            return dict(self._stats)

    def stop(self) -> None:
        """Ask the thread to stop: it does when the batch that it waits for comes, or there are no more."""
        if self._process != os.getpid():  # the thread is the parent's
            return
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._copies.leave()

    def join(self) -> None:
        """Wait for the thread, and drop what it made."""
        if self._process != os.getpid() or threading.current_thread() is self._thread:
            return
        self._thread.join()
        with self._changed:
            self._ready.clear()
            self._marks.clear()

    def _run(self, batches: Iterator[AnyBatch]) -> None:
        under_way: deque[tuple[Any, Any]] = deque()  # copies, and the batches on the host that they read
        try:
            with self._copies.enter():
                while self._copy_next(batches, under_way):
                    pass
        except BaseException as error:
            with self._changed:
                self._error = error
        finally:
            while under_way:  # their memory is read until they are done
                self._retire(under_way)
            del batches
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _copy_next(self, batches: Iterator[AnyBatch], under_way: deque[tuple[Any, Any]]) -> bool:
        while len(under_way) >= COPIES:
            self._retire(under_way)
        host = next(batches, None)
        if host is None or not self._wait_for_room(device_bytes(host)):
            return False
        moved, copy = self._copies.start(host)
        under_way.append((copy, host))
        with self._changed:
            self._on_device += 1
            self._stats["copy_to_device_bytes"] += link_bytes(host)
            self._ready.append((moved, copy))
            self._changed.notify_all()
        return True

    def _retire(self, under_way: deque[tuple[Any, Any]]) -> None:
        start = time.perf_counter()
        copy, _ = under_way.popleft()
        seconds = self._copies.wait(copy)
        with self._changed:
            self._stats["copy_to_device_seconds"] += seconds
            self._stats["copy_wait_seconds"] += time.perf_counter() - start

    def _wait_for_room(self, more: int) -> bool:
        """Wait until the device has finished with enough batches; False when the epoch is stopped."""
        most = max(2, min(MOST_ON_DEVICE, self._copies.most_bytes // max(more, 1)))
        start = time.perf_counter()
        while True:
            with self._changed:
                if self._on_device >= most:
                    self._changed.wait_for(lambda: self._marks or self._stopping)
                if self._stopping:
                    return False
                if self._on_device < most:
                    self._stats["step_wait_seconds"] += time.perf_counter() - start
                    return True
                mark = self._marks.popleft()
            self._copies.wait_used(mark)
            with self._changed:
                self._on_device -= 1
