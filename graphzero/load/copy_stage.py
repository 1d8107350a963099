"""The stage between finished batches and a device: a thread that keeps several copies under way.

The consumer takes batches whose copies have started; its stream waits for them, its thread does not.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from .batch import AnyBatch

COPIES = 3  # host batches that are being copied at once: one moves, the others wait behind it
MOST_ON_DEVICE = 5  # batches there that the device has not finished with: those COPIES, one in use, and one after it


class Copies(Protocol):
    """How a device copies; see `transfer.CudaCopies`."""

    most_bytes: int

    def enter(self) -> Any:
        """Make the device current in the copying thread, as a context manager."""

    def start(self, batch: AnyBatch) -> tuple[AnyBatch, Any]:
        """Start copying; return the batch on the device, and the copy to wait for."""

    def wait(self, copy: Any) -> float:
        """Wait until a copy is complete; return how long it ran."""

    def arrive(self, batch: AnyBatch, copy: Any) -> None:
        """Let the consumer's stream use the batch."""

    def mark_used(self) -> Any:
        """Return a mark in the consumer's stream, after which the last batch is no longer used."""

    def wait_used(self, mark: Any) -> None:
        """Wait for a mark."""


class CopyStage:
    """An iterator over the batches of an epoch on a device. One thread at a time may call it."""

    def __init__(self, batches: Iterator[AnyBatch], copies: Copies) -> None:
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
        if host is None or not self._wait_for_room(_bytes(host)):
            return False
        moved, copy = self._copies.start(host)
        under_way.append((copy, host))
        with self._changed:
            self._on_device += 1
            self._stats["copy_to_device_bytes"] += _bytes(moved)
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


def _bytes(batch: AnyBatch) -> int:
    return sum(value.numel() * value.element_size() for value in batch._tensors())
