"""The events and streams of copies to a GPU, with a GPU that is made up: what is reused, awaited and kept alive."""

from __future__ import annotations

import contextlib
import weakref

import pytest

from graphzero.load.batch import Batch
from graphzero.load.device import copies
from graphzero.load.device.copies import COPIES, MOST_ON_DEVICE, CudaCopies, DeviceBatches

torch = pytest.importorskip("torch")


class Stream:
    """Runs nothing: work is done when the test says how much of it."""

    def __init__(self) -> None:
        self.given = self.done = 0  # events
        self.waited_for = []

    def wait_event(self, event):
        assert not event.query(), "it is done, so there is nothing to wait for"
        self.waited_for.append((event, event.at))

    def wait_stream(self, other):
        self.waited_for.append(other)


class Event:
    """A place in a stream; using it before the device has passed its last place is an error."""

    made = 0

    def __init__(self, **_) -> None:
        Event.made += 1
        self.stream = None

    def record(self, stream):
        assert self.stream is None or self.query(), "the device has not passed it"
        stream.given += 1
        self.stream, self.at = stream, stream.given

    def query(self):
        return self.at <= self.stream.done

    def synchronize(self):
        self.stream.done = max(self.stream.done, self.at)

    def elapsed_time(self, end):
        assert self.query()
        assert end.query()
        assert self.at < end.at
        return 500.0


class Moved:
    """A tensor on the device."""

    def __init__(self) -> None:
        self.recorded = []

    def record_stream(self, stream):
        self.recorded.append(stream)


@pytest.fixture
def device(monkeypatch):
    """The copies, and the consumer's stream."""
    consumer, made, moved = Stream(), CudaCopies.__new__(CudaCopies), []
    made._device, made._side, made._on_side = None, Stream(), contextlib.nullcontext()
    made._follows = False
    made._timers, made._marks, made.most_bytes, made.moved = [], [], 2**40, moved

    def move(batch, *_):
        tensor = Moved()
        moved.append(weakref.ref(tensor))
        return Batch(**dict(batch), there=tensor), [tensor]

    Event.made = 0
    monkeypatch.setattr(copies, "_event", Event)
    monkeypatch.setattr(copies, "move", move)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: consumer)
    return made, consumer


def batches(count):
    for i in range(count):
        ids = torch.full((4,), i)
        yield Batch(input_id=ids, n_id=ids, edge_index=torch.zeros(2, 3, dtype=torch.int64))


@pytest.mark.parametrize("is_behind", [False, True])
def test_events_are_used_again(device, is_behind):
    made, consumer = device
    there = DeviceBatches(batches(100), made)
    for number, batch in enumerate(there):
        assert int(batch.input_id[0]) == number
        if not is_behind:
            made._side.done, consumer.done = made._side.given, consumer.given
    assert Event.made <= 2 * (COPIES + 1) + MOST_ON_DEVICE + 1
    assert there.stats()["copy_to_device_seconds"] == pytest.approx(50)


def test_the_consumer_waits_for_copies_that_are_not_done(device):
    made, consumer = device
    there = DeviceBatches(batches(20), made)
    ends = []
    for _ in range(COPIES):
        next(there)
        ends.append(consumer.waited_for[-1][1])
        consumer.done = consumer.given
    assert ends == [2, 4, 6]  # each copy is between two events
    for _ in range(2):
        made._side.done, consumer.done = made._side.given, consumer.given
        next(there)  # the first time, this starts several
    assert len(consumer.waited_for) == COPIES + 1  # this one was known to be done


def test_memory_is_the_consumers_once_it_has_the_batch(device):
    made, consumer = device
    there = DeviceBatches(batches(20), made)
    batch = next(there)
    assert batch.there.recorded == [consumer]
    del batch
    assert [ref() is None for ref in made.moved] == [True, False, False]
    there.stop()
    assert all(ref() is None for ref in made.moved)


def test_a_batch_outlives_the_ones_after_it(device):
    made, consumer = device
    kept = []
    for batch in DeviceBatches(batches(20), made):
        kept.append(batch)
        made._side.done, consumer.done = made._side.given, consumer.given
    assert all(ref() is not None for ref in made.moved)
    assert [int(batch.input_id[0]) for batch in kept] == list(range(20))
    assert all(len(batch.there.recorded) == 1 for batch in kept)


@pytest.mark.parametrize("follows", [False, True])
def test_copies_follow_the_consumer_if_the_allocator_does_not_know_streams(device, follows):
    made, consumer = device
    made._follows = follows
    list(DeviceBatches(batches(5), made))
    assert made._side.waited_for == ([consumer] * 5 if follows else [])


def test_small_tensors_are_not_asked_about(monkeypatch):
    made = CudaCopies.__new__(CudaCopies)
    made._device = torch.device("cpu")
    asked = []
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: asked.append(tensor.nbytes) or True)
    for count, locked in ((10, False), (copies._FEW_BYTES, True), (copies._FEW_BYTES, False)):
        made._to_device(torch.zeros(count), locked)
    assert asked == [4 * copies._FEW_BYTES]
