"""Rows in RAM that a device reads by itself: which files it reads, and that it reads what the host would copy."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.load.device import host_rows, tier
from graphzero.load.device.assemble import Conversion, Missing, torch_put
from graphzero.load.device.host_rows import HostRows
from graphzero.load.stats import LoaderStats

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    return gz.synthesize(tmp_path / "data", nodes=3000, edges=20_000, dim=8, seed=0)


def make(data, **extra):
    options = {"fanouts": [4, 4], "batch_size": 64, "seed": 1, "memory": "64MB", "num_threads": 2}
    return gz.NeighborLoader(data, **options | extra)


def host_rows_of(store, dtype=None):
    return HostRows.of(store, Conversion(store, dtype, CPU), CPU)


def read(rows, ids, conversion):
    """The rows of these ids, in their order, as batches have them."""
    wanted, scale = conversion.parts()
    out = torch.empty((len(ids), rows._rows.shape[1]), dtype=wanted or rows._rows.dtype)
    targets = torch.stack([torch.arange(len(ids)), torch.full((len(ids),), -1)], dim=1).int()
    rows.put(out, None, Missing(ids, targets, 0), scale)
    return out


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [(stored, None) for stored in ("float32", "float16", "bfloat16", "int8", "int64")]
    + [(stored, "float32") for stored in ("float16", "bfloat16", "int8")],
)
@pytest.mark.parametrize("columns", [1, 3, 8, 129])
def test_it_reads_what_is_stored(tmp_path, stored, dtype, columns):
    values = np.random.default_rng(0).integers(-100, 100, size=(777, columns)).astype(np.float32)
    if stored not in ("int8", "int64"):
        values[5, 0] = np.nan
    gz.compile_features(values if stored != "int64" else values.astype(np.int64), tmp_path / "x.gd", dtype=stored)
    store = gz.FeatureStore(tmp_path / "x.gd")
    rows, conversion = host_rows_of(store, dtype), Conversion(store, dtype, CPU)
    ids = torch.tensor([776, 0, 0, 5, 775])
    expected = store.gather(ids, dtype=dtype, as_torch=True).reshape(5, columns)
    assert rows is not None
    torch.testing.assert_close(read(rows, ids, conversion), expected, rtol=0, atol=0, equal_nan=True)
    assert read(rows, ids[:0], conversion).shape == (0, columns)


def fails_to_convert(out, table, rows, missing, scale):
    if rows.dtype != out.dtype:
        raise RuntimeError("this conversion does not compile here")
    torch_put(out, table, rows, missing, scale)


def converts_wrongly(out, table, rows, missing, scale):
    torch_put(out, table, rows, missing, scale)
    if rows.dtype != out.dtype:
        out[-1] += 1


def admits_wrongly(out, table, rows, missing, scale):
    torch_put(out, table, rows, missing, scale)
    if table is not None:
        table[0] = 0


@pytest.mark.parametrize(
    ("kernel", "is_used"),
    [(torch_put, True), (fails_to_convert, False), (converts_wrongly, False), (admits_wrongly, False)],
)
def test_a_kernel_is_tried_in_the_form_that_batches_need(tmp_path, data, monkeypatch, kernel, is_used):
    def of_device(*arguments):
        return kernel(*arguments)

    monkeypatch.setattr(host_rows, "_kernel", lambda device: of_device)
    values = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    gz.compile_features(values, tmp_path / "x.gd", dtype="int8")
    options = {"fanouts": [4], "batch_size": 64, "seed": 1, "memory": "64MB"}
    store = gz.FeatureStore(tmp_path / "x.gd")
    there = gz.NeighborLoader(data.graph, store, device="cpu", gpu_memory=500 * 8, **options)
    for a, b in zip(gz.NeighborLoader(data.graph, store, **options), there, strict=True):
        assert torch.equal(a.x, b.x)
    assert there.stats().device["x"]["reads_host"]
    assert (there._tier.parts[0]._host._put is of_device) == is_used


def test_batches_say_that_the_device_reads(data):
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for _ in there:
        pass
    first = there.stats()
    here = make(data)
    here.set_epoch(1)
    for a, b in zip(here, there, strict=True):
        assert torch.equal(a.x, b.x)
    found = there.stats().device["x"]
    assert found["reads_host"]
    misses = found["rows"] - found["hits"]
    assert there.stats().rows == misses > 0
    assert there.stats().copy_to_device_bytes >= misses * 32  # they cross the link all the same
    assert first.copy_to_device_bytes > 0


def test_rates_of_rows_that_the_device_reads_are_those_of_its_copies():
    part = {"rows": 4, "hits": 2, "bytes": 0, "row_bytes": 10, "reads_host": True}
    read = {"rows": 2, "rows_mapped": 2, "bytes_useful": 10**9, "copy_to_device_seconds": 0.5}
    assert LoaderStats(device={"x": part}, **read).tiers["host"]["gb_per_second"] == pytest.approx(2)


def test_locked_pages_are_not_available():
    free, begin = _core.available_memory(), 1 << 50
    assert _core.add_locked_pages(begin, 1 << 45)
    try:
        assert _core.locked_pages() == 1 << 45
        assert _core.available_memory() == 0
    finally:
        _core.remove_locked_pages(begin)
    assert _core.locked_pages() == 0
    assert _core.available_memory() > free // 2


class Driver:
    """A fake driver that records which pages are locked."""

    def __init__(self):
        self.locked, self.fails, self.moves = set(), False, 0

    def cuMemHostRegister_v2(self, begin, size, flags):
        self.locked.add(begin.value)
        return 0

    def cuMemHostGetDevicePointer_v2(self, pointer, begin, flags):
        pointer._obj.value = begin.value + self.moves
        return 0

    def cuMemHostUnregister(self, begin):
        if self.fails:
            return 1
        self.locked.remove(begin.value)
        return 0


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(host_rows, "driver_library", lambda: found)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    yield found
    found.fails = False
    gc.collect()
    for begin in found.locked:
        _core.remove_locked_pages(begin)
    assert _core.locked_pages() == 0


@pytest.mark.parametrize("why", [None, "the driver refuses", "a graph is captured"])
def test_pages_are_locked_once_and_a_file_stays_if_they_cannot_be_unlocked(data, monkeypatch, driver, why):
    kept = []
    monkeypatch.setattr(host_rows, "_kept", kept)
    file = data.features["x"]._open()
    address, size = file.rows_in_ram("x")
    first = host_rows._lock_pages(address, size, file, CPU)
    assert host_rows._lock_pages(address, size, file, CPU) is first
    with pytest.raises(OSError, match="locked for cpu"):
        host_rows._lock_pages(address, size, file, torch.device("cuda", 1))
    assert len(driver.locked) == 1
    assert _core.locked_pages() >= size
    driver.fails = why == "the driver refuses"
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: why == "a graph is captured")
    del first
    assert len(driver.locked) == len(kept) == int(why is not None)
    assert (_core.locked_pages() > 0) == (why is not None)


def test_at_most_half_of_the_memory_is_locked(data, monkeypatch, driver):
    file = data.features["x"]._open()
    begin = file.rows_in_ram("x")[0] // 4096 * 4096
    memory = 10 * 4096  # in all, of which locked pages are not available
    monkeypatch.setattr(_core, "available_memory", lambda: memory - _core.locked_pages())
    held = [host_rows._lock_pages(begin + 4096 * page, 4096, file, CPU) for page in range(5)]
    with pytest.raises(OSError, match="too large"):
        host_rows._lock_pages(begin + 4096 * 5, 4096, file, CPU)
    held.clear()
    assert not driver.locked


def test_pages_that_the_device_sees_elsewhere_are_not_used(data, driver):
    driver.moves = 1 << 40
    file = data.features["x"]._open()
    with pytest.raises(OSError, match="another address"):
        host_rows._lock_pages(*file.rows_in_ram("x"), file, CPU)
    gc.collect()
    assert not driver.locked


def test_pages_are_unlocked_when_the_loader_is_closed(data):
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for end in ("all", "early", "none"):
        for number, _ in enumerate(there):
            if end == "early" and number == 5:
                break
        host = weakref.ref(there._tier.parts[0]._host)
        assert host() is not None
        if end == "none":
            epoch = iter(there)
            next(epoch)
        there.close()
        assert host() is None


def test_an_epoch_tries_again_what_failed_in_the_one_before(data, monkeypatch):
    calls, of = [], HostRows.of

    def fails_twice(*arguments):
        calls.append(arguments)
        return of(*arguments) if len(calls) > 2 else None

    monkeypatch.setattr(HostRows, "of", fails_twice)
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for epoch in range(4):
        for _ in there:
            pass
        assert there.stats().device["x"]["reads_host"] == (epoch >= 2)
    assert len(calls) == 3


@pytest.mark.parametrize("options", [{"io": "pread"}, {"cache": "on"}])
def test_what_the_user_chose_to_read_otherwise_is_copied_by_the_host(data, options):
    there = make(data, device="cpu", gpu_memory=500 * 32, **options)
    for a, b in zip(make(data), there, strict=True):
        assert torch.equal(a.x, b.x)
    assert not there.stats().device["x"]["reads_host"]


@pytest.mark.parametrize("left", [5, 200])
def test_a_file_that_is_truncated_is_noticed(tmp_path, monkeypatch, left):
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    data = gz.synthesize(tmp_path / "big", nodes=30_000, edges=60_000, dim=64, seed=0)
    path = data.features["x"].path
    rows = data.features["x"].gather(np.arange(30_000), as_torch=True)
    there = make(data, device="cpu", gpu_memory=500 * 256)
    epoch = iter(there)
    for _ in range(len(there) - left):
        next(epoch)
    os.truncate(path, os.path.getsize(path) // 8)

    def consume():
        for batch in epoch:
            assert torch.equal(batch.x, rows[batch.n_id])

    with pytest.raises(gz.StorageError, match="truncated"):
        consume()


def test_a_trial_without_memory_leaves_the_cache_as_it_is(data, monkeypatch):
    def fails(*arguments):
        raise torch.cuda.OutOfMemoryError("no")

    monkeypatch.setattr(HostRows, "_works", fails)
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for a, b in zip(make(data), there, strict=True):
        assert torch.equal(a.x, b.x)
    found = there.stats().device["x"]
    assert found["slots"] == 500
    assert not found["reads_host"]


def test_a_store_that_is_closed_is_copied_by_the_host(data):
    there = make(data, device="cpu", gpu_memory=500 * 32)
    epoch = iter(there)
    data.features["x"].close()
    assert sum(1 for _ in epoch) == len(there)


def test_a_write_to_a_view_of_the_user_does_not_reach_batches(data):
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for _ in there:
        pass
    data.features["x"].get_tensor()[:] = -1
    here = make(data)
    here.set_epoch(1)
    for a, b in zip(here, there, strict=True):
        assert torch.equal(a.x, b.x)
        assert not torch.any(b.x == -1)


def test_a_file_that_is_not_in_ram_is_not_read(data):
    store = data.features["x"]
    assert host_rows_of(store) is not None
    store.close()
    path = store.path
    fresh = gz.FeatureStore(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    resident = fresh._open().rows_in_ram(fresh.name)
    if resident is not None:
        pytest.skip("this file system keeps its files in RAM")
    assert host_rows_of(fresh) is None


def test_appended_rows_are_copied_by_the_host(data):
    grown = data.append(edges=np.array([[3000], [0]]), features=np.full((1, 8), 7, np.float32)).dataset
    assert grown.features["x"].deltas
    assert host_rows_of(grown.features["x"]) is None
    for a, b in zip(make(grown), make(grown, device="cpu", gpu_memory=500 * 32), strict=True):
        assert torch.equal(a.x, b.x)


def test_rows_that_a_device_reads_wrongly_are_copied(data, monkeypatch):
    monkeypatch.setattr(host_rows, "torch_put", lambda out, *arguments: out.fill_(1))
    assert host_rows_of(data.features["x"]) is None
    there = make(data, device="cpu", gpu_memory=500 * 32)
    for a, b in zip(make(data), there, strict=True):
        assert torch.equal(a.x, b.x)
    assert not there.stats().device["x"]["reads_host"]
