"""Batches on their way to a device: their copies start on a side stream, some batches ahead of the consumer.

All of it happens in the consumer's thread. That thread launches the kernels of a training step as well, and a second
one that copies takes the interpreter's lock and the driver's from it: a step of 4.6 ms takes 5.5 ms beside such a
thread (docs/how-the-gpu-tier-works.md). Nothing here waits for the device unless it is some batches behind.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..batch import AnyBatch
from .pending import move, sizes_of

if TYPE_CHECKING:
    import torch

    from .tier import DeviceTier

COPIES = 3  # host batches that are being copied at once: one moves, the others wait behind it
_FEW_BYTES = 64 << 10  # that the driver copies from any memory without waiting for the device
MOST_ON_DEVICE = 5  # batches there that the device has not finished with: those COPIES, one in use, and one after it

# One per device, for all epochs of all loaders: torch keeps freed device memory for the stream it was made on, so a new
# stream would request all of it from the driver again.
_side_streams: dict[torch.device, Any] = {}


def copies_to(
    device: torch.device, tier: DeviceTier | None, batches: Iterator[AnyBatch], is_ready: Callable[[], bool]
) -> tuple[Iterator[AnyBatch], DeviceBatches | None]:
    """Return the batches on a device, twice if they are copied ahead; else each is copied when it is requested."""
    if device.type != "cuda" and tier is None:
        return (batch.to(device) for batch in batches), None
    ahead = DeviceBatches(batches, (CudaCopies if device.type == "cuda" else PlainCopies)(device), is_ready, tier)
    return ahead, ahead


class _Copy:
    """A batch that is being copied: the events before and after it, and what it made on the device."""

    __slots__ = ("events", "tensors")

    def __init__(self, events: tuple[Any, Any], tensors: list[torch.Tensor]) -> None:
        self.events: tuple[Any, Any] | None = events  # None once it is known to be done
        self.tensors = tensors  # one of each memory; none once the consumer has the batch


class CudaCopies:
    """Starts copies to a CUDA device on a stream of their own; what `DeviceBatches` drives.

    A copy is known by two events that measure it. They block rather than spin: the loader's threads need the cores.
    Events are used again once the device has passed them.
    """

    def __init__(self, device: torch.device) -> None:
        """Take a side stream of the device, behind what the current stream was given so far."""
        import torch

        self._device = device
        if device not in _side_streams:
            # What a batch takes there is little, and waits for no processor that kernels of training are about to get.
            _side_streams[device] = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self._side = _side_streams[device]
        self._on_side = torch.cuda.stream(self._side)
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        # Other allocators than torch's own may not know that a stream still reads what another one made.
        self._follows = torch.cuda.get_allocator_backend() == "pluggable"
        self.most_bytes = torch.cuda.get_device_properties(self._device).total_memory // 8
        self._timers: list[tuple[Any, Any]] = []  # events that can be used again
        self._marks: list[Any] = []

    def start(self, batch: AnyBatch, tier: DeviceTier | None) -> tuple[AnyBatch, _Copy]:
        """Start to copy a batch; the host's must be kept until the copy is done."""
        if self._follows:
            import torch

            self._side.wait_stream(torch.cuda.current_stream(self._device))
        begin, end = self._timers.pop() if self._timers else (_event(enable_timing=True), _event(enable_timing=True))
        try:
            with self._on_side:
                begin.record(self._side)
                moved, tensors = move(batch, self._to_device, tier)
                end.record(self._side)
        except BaseException:
            self._side.synchronize()  # what was started may still read the host's batch, which is dropped now
            raise
        return moved, _Copy((begin, end), tensors)

    def _to_device(self, tensor: torch.Tensor, page_locked: bool = False) -> torch.Tensor:
        # The driver takes a few bytes of any memory along with the command, and is done with them at once.
        if not page_locked and tensor.nbytes > _FEW_BYTES and tensor.device.type == "cpu" and not tensor.is_pinned():
            tensor = tensor.pin_memory()  # torch's own cache, which keeps it until the copy is done
        return tensor.to(self._device, non_blocking=True)

    def is_done(self, copy: _Copy) -> bool:
        """Whether a copy is done."""
        return copy.events is None or bool(copy.events[1].query())

    def wait(self, copy: _Copy) -> float:
        """Wait until a copy is done and return the seconds it took."""
        if copy.events is None:
            return 0.0
        begin, end = copy.events
        if not end.query():
            end.synchronize()
        copy.events = None
        self._timers.append((begin, end))
        return float(begin.elapsed_time(end)) / 1000

    def arrive(self, batch: AnyBatch, copy: _Copy) -> None:
        """Let the consumer's stream wait for the copy; the consumer itself continues."""
        import torch

        current = torch.cuda.current_stream(self._device)
        if copy.events is not None:
            current.wait_event(copy.events[1])
        for tensor in copy.tensors:
            tensor.record_stream(current)  # the allocator must not reuse its memory while this stream reads it
        copy.tensors = []  # the consumer decides how long they live

    def mark_used(self) -> Any:
        """Return a mark behind all that the consumer's stream was given so far."""
        import torch

        mark = self._marks.pop() if self._marks else _event()
        mark.record(torch.cuda.current_stream(self._device))
        return mark

    def is_used(self, mark: Any) -> bool:
        """Whether the device has come to a mark; if so, it is taken back."""
        if not mark.query():
            return False
        self._marks.append(mark)
        return True

    def wait_used(self, mark: Any) -> None:
        """Wait until the device has come to a mark, and take it back."""
        mark.synchronize()
        self._marks.append(mark)


class PlainCopies:
    """Moves batches at once, on a device without streams: for tests of the rows that a device keeps."""

    most_bytes = 1 << 62

    def __init__(self, device: torch.device) -> None:
        """Move to `device`."""
        self._device = device

    def start(self, batch: AnyBatch, tier: DeviceTier | None) -> tuple[AnyBatch, Any]:
        """Move a batch."""
        return move(batch, self._to_device, tier)[0], None

    def _to_device(self, tensor: torch.Tensor, page_locked: bool = False) -> torch.Tensor:
        return tensor.to(self._device, copy=True)

    def is_done(self, copy: Any) -> bool:
        """It was moved when it started."""
        return True

    def wait(self, copy: Any) -> float:
        """Do nothing: it was moved when it started."""
        return 0.0

    def arrive(self, batch: AnyBatch, copy: Any) -> None:
        """Do nothing."""

    def mark_used(self) -> Any:
        """Return nothing."""

    def is_used(self, mark: Any) -> bool:
        """There is nothing to wait for."""
        return True

    def wait_used(self, mark: Any) -> None:
        """Do nothing."""


def _event(enable_timing: bool = False) -> Any:
    import torch

    return torch.cuda.Event(enable_timing=enable_timing, blocking=True)  # type: ignore[no-untyped-call]


class DeviceBatches:
    """An iterator over the batches of an epoch on a device. Threads may share it, and any of them may stop it.

    Each call starts the copies of batches that are ready on the host, as far as there is room, and returns the first
    one that was started: the consumer's stream waits for it, the consumer does not.
    """

    def __init__(
        self,
        batches: Iterator[AnyBatch],
        copies: CudaCopies | PlainCopies,
        is_ready: Callable[[], bool] = lambda: True,
        tier: DeviceTier | None = None,
    ) -> None:
        """Take from `batches`; `is_ready` says whether the next one can be taken without waiting for it.

        `tier` is what the device keeps.
        """
        self._batches, self._copies, self._is_ready = batches, copies, is_ready
        self._tier = tier
        self._process = os.getpid()
        self._lock = threading.RLock()  # a loader may be collected while it is held
        self._started: deque[tuple[AnyBatch, Any]] = deque()  # not yet delivered
        self._copying: deque[tuple[Any, AnyBatch]] = deque()  # copies, and the batches on the host that they read
        self._marks: deque[Any] = deque()  # one per batch that the consumer is done with, and the device maybe not
        self._most = 2  # batches on the device
        self._handed_out = self._ended = False
        self._returned = 0.0  # when the consumer got its batch
        self._error: BaseException | None = None  # raised once the batches before it are delivered
        self._stats = {
            **dict.fromkeys(("batches", "nodes", "edges", "copy_to_device_bytes"), 0),
            **dict.fromkeys(("copy_to_device_seconds", "copy_wait_seconds", "step_wait_seconds"), 0.0),
            **dict.fromkeys(("launch_seconds", "starved_seconds", "consumer_seconds"), 0.0),
        }

    def __iter__(self) -> DeviceBatches:
        """Return itself."""
        return self

    def __next__(self) -> AnyBatch:
        """Return the next batch on the device."""
        with self._lock:
            return self._next()

    def _next(self) -> AnyBatch:
        begun, stats = time.perf_counter(), self._stats
        if self._handed_out:
            self._handed_out = False
            self._marks.append(self._copies.mark_used())
            stats["consumer_seconds"] += begun - self._returned
        stepped = stats["step_wait_seconds"]
        try:
            return self._take()
        finally:
            self._returned = time.perf_counter()
            stepped = stats["step_wait_seconds"] - stepped
            stats["consumer_seconds"] += stepped
            stats["starved_seconds"] += self._returned - begun - stepped

    def _take(self) -> AnyBatch:
        while self._has_room(must=not self._started) and self._start_next():
            pass
        if not self._started:
            self._finish_copies()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            raise StopIteration
        batch, copy = self._started.popleft()
        self._copies.arrive(batch, copy)
        stats = self._stats
        stats["batches"] += 1
        stats["nodes"] += batch.num_nodes
        stats["edges"] += batch.num_edges
        self._handed_out = True
        return batch

    def _has_room(self, must: bool) -> bool:
        """Whether another copy may start: `must` waits until it may, or there are no more batches."""
        if self._ended:
            return False
        self._retire_done()
        if len(self._copying) >= COPIES:
            if not must:
                return False
            self._retire()
        while self._marks and self._copies.is_used(self._marks[0]):
            self._marks.popleft()
        while len(self._started) + len(self._marks) >= self._most:
            if not must:
                return False
            # The device is behind: that is time of the training step, which runs there.
            start = time.perf_counter()
            self._copies.wait_used(self._marks.popleft())
            self._count(start, "step_wait_seconds")
        return must or self._is_ready()

    def _start_next(self) -> bool:
        """Start to copy the next batch, for which there is room; False if there is none."""
        try:
            host = next(self._batches, None)
            if host is None:
                self._ended = True
                return False
            crossing, there = sizes_of(host)
            self._most = max(2, min(MOST_ON_DEVICE, self._copies.most_bytes // max(there, 1)))
            start = time.perf_counter()
            tier = self._tier
            if tier is not None:
                tier.batch_comes()
            moved, copy = self._copies.start(host, tier)
            self._count(start, "launch_seconds")
        except BaseException as error:
            self._ended = True
            if not isinstance(error, Exception):  # such as Ctrl-C, which must not wait for the batches before
                raise
            self._error = error
            return False
        self._copying.append((copy, host))
        self._started.append((moved, copy))
        self._stats["copy_to_device_bytes"] += crossing
        return True

    def _retire_done(self) -> None:
        while self._copying and self._copies.is_done(self._copying[0][0]):
            self._retire()

    def _retire(self) -> None:
        copy, _ = self._copying.popleft()
        start = time.perf_counter()
        self._stats["copy_to_device_seconds"] += self._copies.wait(copy)
        self._count(start, "copy_wait_seconds")

    def _finish_copies(self) -> None:
        while self._copying:  # the memory of the host is read until they are done
            self._retire()

    def _count(self, start: float, name: str) -> None:
        self._stats[name] += time.perf_counter() - start

    def stats(self) -> dict[str, Any]:
        """What the consumer saw, and the copies: seconds, bytes, and what was waited for."""
        return dict(self._stats)

    def stop(self) -> None:
        """There are no more batches. Those whose copies have started are dropped once they are done."""
        if self._process != os.getpid():  # the device is the parent's
            return
        with self._lock:
            self._ended = True
            self._finish_copies()
            self._started.clear()
            self._marks.clear()
            self._batches = iter(())
            self.release()

    def release(self) -> None:
        """No more batches come: let go of what the device keeps."""
        self._tier = None
