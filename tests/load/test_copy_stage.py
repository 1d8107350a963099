"""The stage that copies batches to a device, with a device that is made up: order, bounds, errors, ends, statistics."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

import pytest
from waiting import PATIENCE

import graphzero as gz
from graphzero.load import epochs as loader_module
from graphzero.load.batch import Batch
from graphzero.load.device import COPIES, MOST_ON_DEVICE, NO_PAGE_LOCK, CopyStage, page_lock
from graphzero.load.stats import LoaderStats

torch = pytest.importorskip("torch")


class Device:
    """Copies when it is told to, or at once."""

    most_bytes = 2**40

    def __init__(self, *_, manual: bool = False) -> None:
        self.manual = manual
        self.started, self.ended, self.arrived, self.marks = [], [], [], 0
        self.changed = threading.Condition()
        self.copies_allowed = self.marks_allowed = 0
        self.threads = set()

    def enter(self):
        return contextlib.nullcontext()

    def start(self, batch):
        self.threads.add(threading.current_thread())
        with self.changed:
            self.started.append(int(batch.input_id[0]))
            self.changed.notify_all()
        return Batch(**dict(batch), there=True), len(self.started) - 1

    def wait(self, copy):
        with self.changed:
            assert not self.manual or self.changed.wait_for(lambda: copy < self.copies_allowed, PATIENCE)
        self.ended.append(copy)
        return 0.5

    def arrive(self, batch, copy):
        self.arrived.append(copy)

    def mark_used(self):
        self.marks += 1
        return self.marks - 1

    def wait_used(self, mark):
        with self.changed:
            assert not self.manual or self.changed.wait_for(lambda: mark < self.marks_allowed, PATIENCE)

    def leave(self):
        pass

    def allow(self, copies=0, marks=0):
        with self.changed:
            self.copies_allowed += copies
            self.marks_allowed += marks
            self.changed.notify_all()

    def reached(self, count):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.started) >= count, PATIENCE)


def batch_of(i):
    ids = torch.full((4,), i)
    return Batch(input_id=ids, n_id=ids, edge_index=torch.zeros(2, 3, dtype=torch.int64), batch_size=4)


def ended(stage):
    stage.stop()
    stage.join()
    return not stage._thread.is_alive()


def test_batches_arrive_in_order_and_copies_start_in_another_thread():
    device = Device()
    stage = CopyStage((batch_of(i) for i in range(20)), device)
    assert [int(b.input_id[0]) for b in stage] == list(range(20))
    assert device.arrived == list(range(20))
    assert sorted(device.ended) == list(range(20))
    assert device.threads == {stage._thread}
    assert list(stage) == []


def test_host_batches_are_bounded_and_dropped_when_their_copies_are_done():
    device, made = Device(manual=True), []

    def source():
        for i in range(10):
            batch = batch_of(i)
            made.append(weakref.ref(batch))
            yield batch
            del batch

    stage = CopyStage(source(), device)
    assert device.reached(COPIES)
    assert len(made) == COPIES
    assert all(ref() is not None for ref in made)
    device.allow(copies=2)
    assert device.reached(COPIES + 2)
    assert [ref() is not None for ref in made[:3]] == [False, False, True]
    device.allow(copies=100, marks=100)
    assert ended(stage)


def test_the_device_holds_no_more_than_it_may():
    device = Device(manual=True)
    device.allow(copies=100)
    stage = CopyStage((batch_of(i) for i in range(20)), device)
    taken = [next(stage) for _ in range(MOST_ON_DEVICE)]
    assert len(taken) == len(device.started) == MOST_ON_DEVICE  # the device has finished with none of them
    device.allow(marks=1)
    next(stage)
    assert len(device.started) == MOST_ON_DEVICE + 1
    device.allow(marks=100)
    assert ended(stage)


def test_large_batches_are_fewer_on_the_device():
    device = Device(manual=True)
    device.most_bytes = 1
    device.allow(copies=100)
    stage = CopyStage((batch_of(i) for i in range(20)), device)
    next(stage), next(stage)
    assert len(device.started) == 2
    device.allow(marks=100)
    assert len(list(stage)) == 18


def test_an_error_comes_after_the_batches_before_it():
    def source():
        yield batch_of(0)
        yield batch_of(1)
        raise OSError("the disk is gone")

    stage = CopyStage(source(), Device())
    assert int(next(stage).input_id[0]) == 0
    assert int(next(stage).input_id[0]) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stage)
    assert ended(stage)


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

    monkeypatch.setattr(loader_module, "CudaCopies", make)
    monkeypatch.setattr(loader_module, "as_device", torch.device)
    monkeypatch.setattr(loader_module, "page_lock", lambda device: NO_PAGE_LOCK)
    return made


def make_loader(data, **extra):
    return gz.NeighborLoader(
        data.graph, data.features["x"], fanouts=[3, 3], batch_size=64, seed=1, memory="64MB", **extra
    )


def test_a_loader_delivers_the_same_batches_through_the_stage(data, devices):
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
def test_leaving_early_ends_the_thread(data, devices, way):
    loader = make_loader(data, device="cuda")
    epoch = iter(loader)
    next(epoch)
    thread = loader._copies._thread
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
    assert not thread.is_alive()
    assert len(list(loader)) == len(loader)  # the next epoch is whole


def test_the_bottleneck_is_named():
    base = {"batches": 10, "starved_seconds": 5.0, "consumer_seconds": 1.0, "sample_seconds": 9.0}
    there = base | {"copy_to_device_bytes": 1}
    assert LoaderStats(**there, copy_wait_seconds=4.0, host_wait_seconds=1.0).bottleneck == "copy to device"
    assert LoaderStats(**there, copy_wait_seconds=1.0, host_wait_seconds=4.0).bottleneck == "sampling"
    assert LoaderStats(**there, copy_wait_seconds=1.0, step_wait_seconds=4.0).bottleneck == "training step"
    assert LoaderStats(**base).bottleneck == "sampling"
    assert LoaderStats(**base | {"starved_seconds": 0.0}).bottleneck == "training step"


def test_waiting_for_a_busy_device_is_time_of_the_training_step():
    stage = CopyStage(iter(()), Device())
    stage._count_wait(3.0, 2.0)
    stage._count_wait(1.0, 4.0)
    assert stage.stats()["starved_seconds"] == 1.0
    assert stage.stats()["consumer_seconds"] == 3.0
    assert ended(stage)


def test_nothing_is_locked_for_the_cpu():
    assert page_lock(None) == page_lock(torch.device("cpu")) == NO_PAGE_LOCK
