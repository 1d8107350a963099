"""Batches that are copied to a device, with a device that is made up: order, bounds, errors, ends, statistics."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref

import pytest

import graphzero as gz
from graphzero.load import epochs as loader_module
from graphzero.load.batch import Batch
from graphzero.load.device import copies
from graphzero.load.device.copies import COPIES, MOST_ON_DEVICE, DeviceBatches
from graphzero.load.device.target import NO_PAGE_LOCK, page_lock
from graphzero.load.stats import LoaderStats

torch = pytest.importorskip("torch")


class Device:
    """Copies when it is told to, or at once; being waited for is what tells it."""

    most_bytes = 2**40

    def __init__(self, *_, manual: bool = False) -> None:
        self.started, self.ended, self.arrived, self.marks = [], [], [], 0
        self.copies_done = self.marks_done = 0 if manual else 10**6
        self.waited_for = []

    def start(self, batch, tier):
        self.started.append(int(batch.input_id[0]))
        return Batch(**dict(batch), there=True), len(self.started) - 1

    def is_done(self, copy):
        return copy < self.copies_done

    def wait(self, copy):
        if not self.is_done(copy):
            self.waited_for.append("copy")
            self.copies_done = copy + 1
        self.ended.append(copy)
        return 0.5

    def arrive(self, batch, copy):
        self.arrived.append(copy)

    def mark_used(self):
        self.marks += 1
        return self.marks - 1

    def is_used(self, mark):
        return mark < self.marks_done

    def wait_used(self, mark):
        self.waited_for.append("step")
        self.marks_done = mark + 1


def batch_of(i):
    ids = torch.full((4,), i)
    return Batch(input_id=ids, n_id=ids, edge_index=torch.zeros(2, 3, dtype=torch.int64), batch_size=4)


def batches(count):
    return (batch_of(i) for i in range(count))


def test_batches_arrive_in_order():
    device = Device()
    there = DeviceBatches(batches(20), device)
    assert [int(b.input_id[0]) for b in there] == list(range(20))
    assert device.arrived == device.ended == list(range(20))
    assert device.waited_for == []
    assert list(there) == []


def test_copies_start_ahead_of_those_that_are_ready():
    device = Device(manual=True)
    ready = iter([True, False, False, True, True, False, False])
    there = DeviceBatches(batches(20), device, lambda: next(ready))
    counts = []
    for _ in range(4):
        next(there)
        counts.append(len(device.started))
        device.copies_done = device.marks_done = 100
    assert counts == [2, 2, 5, 5]  # the first is waited for; then one at least, and what is ready


def test_host_batches_are_bounded_and_dropped_when_their_copies_are_done():
    device, made = Device(manual=True), []

    def source():
        for i in range(10):
            batch = batch_of(i)
            made.append(weakref.ref(batch))
            yield batch
            del batch

    there = DeviceBatches(source(), device)
    next(there)
    assert len(made) == len(device.started) == COPIES
    assert all(ref() is not None for ref in made)
    device.copies_done = 2
    next(there)
    assert len(device.started) == MOST_ON_DEVICE
    assert [ref() is not None for ref in made[:3]] == [False, False, True]
    there.stop()
    assert device.ended == list(range(MOST_ON_DEVICE))  # nothing is dropped while the device reads it
    assert list(there) == []


def test_the_device_holds_no_more_than_it_may():
    device = Device(manual=True)
    device.copies_done = 100
    there = DeviceBatches(batches(20), device)
    taken = [next(there) for _ in range(MOST_ON_DEVICE)]
    assert len(taken) == len(device.started) == MOST_ON_DEVICE
    assert device.waited_for == []
    next(there)  # the device has finished with none of them
    assert device.waited_for == ["step"]
    assert len(device.started) == MOST_ON_DEVICE + 1
    assert there.stats()["step_wait_seconds"] > 0


def test_large_batches_are_fewer_on_the_device():
    device = Device(manual=True)
    device.most_bytes = 1
    device.copies_done = 100
    there = DeviceBatches(batches(20), device)
    next(there), next(there)
    assert len(device.started) == 2
    assert len(list(there)) == 18


def test_an_error_comes_after_the_batches_before_it():
    def source():
        yield batch_of(0)
        yield batch_of(1)
        raise OSError("the disk is gone")

    there = DeviceBatches(source(), Device())
    assert int(next(there).input_id[0]) == 0
    assert int(next(there).input_id[0]) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(there)
    assert list(there) == []


def test_an_epoch_that_is_stopped_while_a_copy_starts_delivers_that_batch_and_ends():
    steps, started, stopping = [], threading.Event(), threading.Event()

    class Slow(Device):
        def start(self, batch, tier):
            started.set()
            stopping.wait(10)
            stopper.join(0.1)  # it has to wait for this batch
            steps.append("start")
            return super().start(batch, tier)

        def arrive(self, batch, copy):
            steps.append("arrive")

    def stop():
        started.wait(10)
        stopping.set()
        there.stop()
        steps.append("stopped")

    class Kept:
        def batch_comes(self):
            pass

    kept = Kept()
    there = DeviceBatches(batches(1), Slow(), tier=kept)
    stopper = threading.Thread(target=stop)
    stopper.start()
    assert [int(b.input_id[0]) for b in there] == [0]
    stopper.join()
    assert steps == ["start", "arrive", "stopped"]
    dropped = weakref.ref(kept)
    del kept
    assert dropped() is None  # though the iterator is there still


def test_an_interrupt_does_not_wait_for_the_batches_before_it():
    def source():
        yield batch_of(0)
        yield batch_of(1)
        raise KeyboardInterrupt

    there = DeviceBatches(source(), Device())
    with pytest.raises(KeyboardInterrupt):
        list(there)
    assert there.stats()["batches"] == 0


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("copies") / "data"
    gz.synthesize(path, nodes=2000, edges=10_000, dim=8, seed=0)
    return gz.Dataset(path)


@pytest.fixture
def devices(monkeypatch):
    made = []

    def make(*_):
        made.append(Device())
        return made[-1]

    monkeypatch.setattr(copies, "CudaCopies", make)
    monkeypatch.setattr(loader_module, "as_device", torch.device)
    monkeypatch.setattr(loader_module, "current", lambda device: device)
    monkeypatch.setattr(loader_module, "page_lock", lambda device: NO_PAGE_LOCK)
    return made


def make_loader(data, **extra):
    return gz.NeighborLoader(
        data.graph, data.features["x"], fanouts=[3, 3], batch_size=64, seed=1, memory="64MB", **extra
    )


def test_a_loader_delivers_the_same_batches(data, devices):
    loader = make_loader(data, device="cuda")
    count = 0
    for here, there in zip(make_loader(data), loader, strict=True):
        assert there.there
        assert torch.equal(here.x, there.x)
        assert torch.equal(here.input_id, there.input_id)
        count += 1
    stats = loader.stats()
    assert stats.batches == count == len(loader)
    assert stats.copy_to_device_seconds == pytest.approx(0.5 * count)
    assert stats.copy_to_device_gb_per_second == pytest.approx(
        stats.copy_to_device_bytes / stats.copy_to_device_seconds / 1e9
    )
    assert stats.copy_to_device_bytes > stats.nodes * 8 * 4
    assert "to the device" in str(stats)
    assert stats.to_dict()["copy_to_device_bytes"] == stats.copy_to_device_bytes


@pytest.mark.parametrize("way", ["close", "drop", "raise", "break"])
def test_leaving_early_drops_what_was_started(data, devices, way):
    loader = make_loader(data, device="cuda")
    epoch = iter(loader)
    next(epoch)
    if way == "close":
        epoch.close()
    elif way == "raise":
        with contextlib.suppress(RuntimeError):
            for _ in epoch:
                raise RuntimeError
        del epoch
    else:
        del epoch
    gc.collect()
    assert devices[0].ended == list(range(len(devices[0].started)))
    assert len(list(loader)) == len(loader)  # the next epoch is whole


def test_the_bottleneck_is_named():
    base = {"batches": 10, "starved_seconds": 5.0, "consumer_seconds": 1.0, "sample_seconds": 9.0}
    there = base | {"copy_to_device_bytes": 1}
    assert LoaderStats(**there, copy_wait_seconds=4.0, host_wait_seconds=1.0).bottleneck == "copy to device"
    assert LoaderStats(**there, copy_wait_seconds=1.0, host_wait_seconds=4.0).bottleneck == "sampling"
    assert LoaderStats(**there, copy_wait_seconds=1.0, step_wait_seconds=4.0).bottleneck == "training step"
    assert LoaderStats(**there, launch_seconds=4.0, host_wait_seconds=1.0).bottleneck == "starting copies"
    assert LoaderStats(**there, launch_seconds=4.0, step_wait_seconds=1.0).bottleneck == "starting copies"
    assert LoaderStats(**there, launch_seconds=1.0, host_wait_seconds=4.0).bottleneck == "sampling"
    hidden = there | {"starved_seconds": 0.1, "launch_seconds": 0.1, "host_wait_seconds": 0.0}
    assert LoaderStats(**hidden).bottleneck == "training step"
    beginning = there | {"starved_seconds": 0.1, "host_wait_seconds": 0.1}  # then a batch was always ready
    assert LoaderStats(**beginning).bottleneck == "training step"
    assert LoaderStats(**base).bottleneck == "sampling"
    assert LoaderStats(**base | {"starved_seconds": 0.0}).bottleneck == "training step"


def test_all_time_is_counted_as_waiting_or_as_steps():
    class Slow(Device):
        def start(self, batch, tier):
            time.sleep(0.02)
            return super().start(batch, tier)

    there, begun = DeviceBatches(batches(20), Slow()), time.perf_counter()
    for _ in there:
        time.sleep(0.005)
    took, stats = time.perf_counter() - begun, there.stats()
    assert took >= stats["starved_seconds"] + stats["consumer_seconds"] > 0.9 * took
    assert stats["starved_seconds"] >= stats["launch_seconds"] >= 20 * 0.02


def test_nothing_is_locked_for_the_cpu():
    assert page_lock(None) == page_lock(torch.device("cpu")) == NO_PAGE_LOCK
