"""gpu_memory="auto", with a GPU and an allocator that are made up: what rows get, and what training needs."""

from __future__ import annotations

import random
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from graphzero.load.device import tier
from graphzero.load.device.device_memory import DeviceMemory
from graphzero.load.device.tier import DeviceTier, as_gpu_memory

torch = pytest.importorskip("torch")

GB = 1 << 30
CUDA = torch.device("cuda", 0)
PLANNED_AHEAD = 45  # batches between a change of sizes and the first batch that is planned with it
ROW_BYTES, ALL_ROWS = 512, 400 * GB // 512


class Gpu:
    """A device of 140 GB, and torch's allocator: memory that is freed is kept for the stream that it was made on."""

    def __init__(self) -> None:
        self.total, self.others = 140 * GB, 0  # what other processes have
        self.training_reserved = self.training = self.peak = 0
        self.segments: list[list[int]] = []  # of tables: bytes, and how many of them are in use

    @property
    def reserved(self):
        return self.training_reserved + sum(size for size, _ in self.segments)

    @property
    def free(self):
        return self.total - self.others - self.reserved

    def mem_get_info(self, device):
        return self.free, self.total

    def memory_stats(self, device):
        return {"reserved_bytes.all.current": self.reserved, "allocated_bytes.all.peak": self.peak}

    def empty_cache(self):
        self.segments = [segment for segment in self.segments if segment[1] > 0]
        self.training_reserved = self.training

    def reserve(self, size):
        """torch asks the device, and then frees what no stream uses."""
        if size > self.free:
            self.segments = [segment for segment in self.segments if segment[1] > 0]
        if size > self.free:
            raise torch.OutOfMemoryError("made up")

    def step(self, size):
        """A training step takes so much, and frees it."""
        if size > self.training_reserved:
            self.reserve(size - self.training_reserved)
            self.training_reserved = size
        self.training = size
        self._note()
        self.training = 0

    def table(self, size):
        unused = [segment for segment in self.segments if segment[1] == 0 and segment[0] >= size]
        if unused:
            segment = min(unused)
        else:
            self.reserve(size)
            segment = [size, 0]
            self.segments.append(segment)
        segment[1] = size
        self._note()
        return segment

    def _note(self):
        self.peak = max(self.peak, self.training + sum(used for _, used in self.segments))


class Core:
    """What the core says of a part: its slots, by generation."""

    def __init__(self) -> None:
        self.slots = self.generation = 0

    def resize(self, slots):
        self.slots, self.generation = min(slots, ALL_ROWS), self.generation + 1


class Part:
    """The table of a part."""

    row_bytes, num_rows = ROW_BYTES, ALL_ROWS

    def __init__(self, gpu, core, return_unused) -> None:
        self.gpu, self.core, self.return_unused = gpu, core, return_unused
        self.segment, self.generation, self.without = None, 0, 0

    @property
    def table_bytes(self):
        return 0 if self.segment is None else self.segment[1]

    def drop(self):
        if self.segment is not None:
            self.segment[1] = 0
        self.segment = None

    def rows(self, generation, slots):
        """A batch that was planned with these."""
        if generation != self.generation:
            if self.segment is not None:
                self.drop()
                self.return_unused()
            self.segment = self.gpu.table(slots * ROW_BYTES) if slots else None
            self.generation = generation
        elif slots and self.segment is None:
            self.without += 1


class Loader:
    """A loader with gpu_memory="auto" beside training, batch by batch."""

    def __init__(self, gpu, memory=None) -> None:
        self.gpu, self.core = gpu, Core()
        plan = SimpleNamespace(device_rows=[self.core], info={"rows": {"x": 1}})
        self.tier = DeviceTier(plan, [()], CUDA, memory)
        (self.part,) = self.tier.parts
        self.coming = [(self.core.generation, self.core.slots)] * PLANNED_AHEAD
        self.sizes: list[float] = []  # granted, in GB, whenever it changed

    def run(self, batches, step):
        for _ in range(batches):
            self.coming.append((self.core.generation, self.core.slots))
            self.tier.batch_comes()
            self.part.rows(*self.coming.pop(0))
            self.gpu.step(int(step() if callable(step) else step))
            granted = self.core.slots * ROW_BYTES / GB
            if not self.sizes or abs(self.sizes[-1] - granted) > 0.01:
                self.sizes.append(granted)
        return self.sizes


@pytest.fixture
def gpu(monkeypatch):
    made = Gpu()
    for name in ("mem_get_info", "memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0, raising=False)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(DeviceMemory, "_of", {})
    monkeypatch.setattr(tier, "PartRows", lambda core, device, return_unused: Part(made, core, return_unused))
    return made


def test_training_keeps_what_it_needed_and_a_margin(gpu):
    sizes = Loader(gpu).run(100, 20 * GB)
    assert sizes[0] == 0  # until the tenth batch
    assert sizes[1:] == [pytest.approx(140 * 0.95 - 1.15 * 20, abs=0.1)]


def test_steps_that_vary_a_little_change_nothing(gpu):
    rng = random.Random(0)
    loader = Loader(gpu)
    sizes = loader.run(1000, lambda: 20 * GB * (1 + 0.01 * rng.gauss(0, 1)))
    assert len(sizes) == 2
    assert loader.part.without == 0


def test_a_step_that_grows_once_reduces_the_cache_once(gpu):
    loader = Loader(gpu)
    loader.run(120, 20 * GB)
    assert len(loader.run(100, 22 * GB)) == 2  # most of the margin is left
    sizes = loader.run(1000, 26 * GB)
    assert sizes[2:] == [pytest.approx(140 * 0.95 - 1.15 * 26, abs=0.1)]
    assert loader.part.table_bytes == pytest.approx(sizes[-1] * GB, rel=0.01)
    assert loader.part.without == 0  # the old table served until the new one came
    assert gpu.free > 0.9 * (0.05 * 140 + 0.15 * 26) * GB  # nothing is left where training cannot use it


def test_steps_that_keep_growing_never_run_out_of_memory(gpu):
    loader, size = Loader(gpu), 20 * GB
    loader.run(100, size)
    while size < 120 * GB:
        size = int(size * 1.04)
        loader.run(100, size)
    assert loader.core.slots * ROW_BYTES < 15 * GB


def test_memory_that_another_process_takes_is_given_back_once(gpu):
    loader = Loader(gpu)
    loader.run(120, 20 * GB)
    gpu.others = 6 * GB
    sizes = loader.run(1000, 20 * GB)
    assert sizes[2:] == [pytest.approx(sizes[1] - 6, abs=0.1)]
    assert loader.part.without == 0


def test_where_hardly_any_memory_is_left_the_table_is_freed_at_once(gpu):
    loader = Loader(gpu)
    loader.run(120, 20 * GB)
    gpu.others = gpu.free - GB // 2
    loader.run(tier._CHECK_EVERY, 20 * GB)
    assert loader.part.table_bytes == 0
    assert gpu.free > 80 * GB
    loader.run(PLANNED_AHEAD, 20 * GB)
    assert 0 < loader.part.without <= PLANNED_AHEAD + 1
    assert loader.part.table_bytes > 80 * GB


@pytest.mark.parametrize("memory", [None, 50 * GB])
def test_a_loader_after_another_one_gets_as_much(gpu, memory):
    first = Loader(gpu, memory)
    first.run(120, 20 * GB)
    first.part.drop()  # as when it is collected: torch keeps the memory
    del first
    assert Loader(gpu).run(100, 20 * GB)[1:] == [pytest.approx(140 * 0.95 - 1.15 * 20, abs=0.1)]


def test_tables_of_other_loaders_are_not_taken_for_training(gpu):
    fixed = Loader(gpu, 50 * GB)
    fixed.run(60, 20 * GB)
    sizes = Loader(gpu).run(100, 20 * GB)
    assert sizes[1:] == [pytest.approx(140 * 0.95 - 1.15 * 20 - 50, abs=0.1)]


def test_a_peak_that_the_user_reset_is_learned_again(gpu):
    loader = Loader(gpu)
    loader.run(120, 20 * GB)
    gpu.peak = 0
    loader.run(100, 24 * GB)
    assert DeviceMemory.of(CUDA).training_bytes == 24 * GB


def test_a_table_that_could_not_be_made_is_halved_with_a_warning(gpu):
    loader = Loader(gpu, 60 * GB)
    assert not Loader(gpu).tier.give_back()  # it has none: the reason is another one
    with pytest.warns(UserWarning, match="its cache of rows is emptied and gets 32.2 GB instead of 64.4 GB"):
        assert loader.tier.give_back()


def test_an_allocator_that_does_not_count_is_refused_for_auto(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "pluggable")
    with pytest.raises(ValueError, match="allocator was replaced by one that does not count"):
        as_gpu_memory("auto", CUDA)
    assert as_gpu_memory("20GB", CUDA) == 20 * 10**9
    loader = Loader(gpu, 20 * GB)  # looks at nothing
    assert loader.run(50, 20 * GB) == [20.0]
