"""Rows that a device keeps, on the CPU: batches are those of a loader without a cache, whatever the device has."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from kept_rows import check_epochs, make_loader, same, typed_data

import graphzero as gz
from graphzero import _core
from graphzero.load import epochs
from graphzero.load.device import copies, part_rows, tier
from graphzero.load.device.pending import NarrowArray, move

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, params=["the device reads", "the host copies"])
def on_cpu(monkeypatch, request):
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    if request.param == "the host copies":
        monkeypatch.setattr(part_rows.HostRows, "of", lambda *arguments: None)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return gz.synthesize(tmp_path_factory.mktemp("rows") / "data", nodes=3000, edges=20_000, dim=8, seed=0)


@pytest.mark.parametrize("rows", [1, 100, 1000, 2999, 3000, 10_000])
def test_batches_are_those_of_a_loader_without_a_cache(data, rows):
    there = make_loader(data, device="cpu", gpu_memory=rows * 32)
    check_epochs(make_loader(data), there, 3)
    found = there.stats().device["x"]
    assert found["rows"] == there.stats().nodes
    assert found["slots"] == min(rows, 3000)
    assert found["hits"] > 0 if rows >= 100 else found["hits"] < found["rows"]
    assert found["bytes"] == min(rows, 3000) * 32
    if rows >= 3000:
        assert found["hits"] == found["rows"]
        assert there.stats().rows == 0  # that the host copied


@pytest.mark.parametrize("stored", ["float32", "float16", "bfloat16", "int8", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(5,), (8,), (), (0,)])
def test_rows_keep_their_dtype_or_are_converted_on_the_device(data, tmp_path, stored, shape):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, *shape)) * 20
    source = rows.astype(np.float32) if stored in ("float16", "bfloat16", "int8") else rows.astype(stored)
    gz.compile_features(source, tmp_path / "x.gd", dtype=stored)
    store = gz.FeatureStore(tmp_path / "x.gd")
    for dtype in (None, "float32"):
        for size in (300, 3000):
            memory = max(size * store.dtype.itemsize * store.feature_dim, 1)
            there = make_loader(data.graph, store, dtype=dtype, device="cpu", gpu_memory=memory)
            check_epochs(make_loader(data.graph, store, dtype=dtype), there, 1)


def test_edge_features_are_kept_too(tmp_path):
    edges = np.random.default_rng(0).integers(0, 500, (2, 4000))
    gz.compile_graph(edges, tmp_path / "g.gl", edge_ids=True, direction="in")
    gz.compile_features(np.arange(8000, dtype=np.float32).reshape(4000, 2), tmp_path / "e.gd")
    gz.compile_features(np.arange(1000, dtype=np.float32).reshape(500, 2), tmp_path / "x.gd")
    graph, stores = gz.Graph(tmp_path / "g.gl"), {name: gz.FeatureStore(tmp_path / f"{name}.gd") for name in "xe"}
    for memory in ("4KB", "12KB", "1MB"):
        extra = {"edge_features": stores["e"], "disjoint": True}
        there = make_loader(graph, stores["x"], device="cpu", gpu_memory=memory, **extra)
        check_epochs(make_loader(graph, stores["x"], **extra), there)
        assert set(there.stats().device) == {"x", "edge_attr"}


def test_typed_graphs_and_links(tmp_path):
    graph, stores = typed_data(tmp_path)
    for memory in ("3KB", "12KB", "1MB"):
        options = {"device": "cpu", "gpu_memory": memory}
        nodes = {"input_type": "paper"}
        for a, b in zip(
            make_loader(graph, stores, **nodes), make_loader(graph, stores, **nodes, **options), strict=True
        ):
            for key, values in a:
                same(values, b[key])
        links = {"fanouts": [3], "batch_size": 100, "seed": 0, "neg_sampling": "binary", "memory": "64MB"}
        kind = ("author", "writes", "paper")
        here = gz.LinkNeighborLoader(graph, stores, edge_type=kind, **links)
        there = gz.LinkNeighborLoader(graph, stores, edge_type=kind, **links, **options)
        for a, b in zip(here, there, strict=True):
            for key, values in a:
                same(values, b[key])


@pytest.mark.parametrize("rows", [1, 500, 3000])
def test_ids_that_do_not_fit_in_32_bits(data, monkeypatch, rows):
    batch_of = gz.NeighborLoader._batch

    def with_wide_ids(self, raw):
        if raw["narrow"] is not None:  # as the core delivers ids of such a graph
            ids = NarrowArray(*raw["narrow"])
            raw["edges"][0].update(edge_index=ids.ids(0).reshape(2, -1), e_id=ids.ids(1))
            raw["nodes"][0]["n_id"] = ids.ids(2)
            raw["narrow"] = None
        return batch_of(self, raw)

    monkeypatch.setattr(gz.NeighborLoader, "_batch", with_wide_ids)
    there = make_loader(data, device="cpu", gpu_memory=rows * 32)
    check_epochs(make_loader(data), there)
    assert there.stats().copy_to_device_bytes > there.stats().edges * 24


@pytest.mark.parametrize("rows", [500, 3000])
def test_batches_stay_as_they_are_while_others_are_made(data, rows):
    kept = []
    there = make_loader(data, device="cpu", gpu_memory=rows * 32, transform=lambda batch: kept.append(batch) or batch)
    assert len(list(there)) == len(kept)
    for a, b in zip(make_loader(data), kept, strict=True):
        same(a, b)


def test_leaving_early_and_other_epochs(data):
    there = make_loader(data, device="cpu", gpu_memory=500 * 32)
    for epoch in range(4):
        there.set_epoch(epoch)
        here = make_loader(data)
        here.set_epoch(epoch)
        for a, b in itertools.islice(zip(here, there, strict=True), 3 + 7 * epoch):
            same(a, b)
    there.close()
    there.set_epoch(0)
    check_epochs(make_loader(data), there, 1)


def test_rows_that_another_epoch_has_the_cache_of_cross_as_stored(data, tmp_path):
    rows = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    gz.compile_features(rows, tmp_path / "x.gd", dtype="int8")
    store = gz.FeatureStore(tmp_path / "x.gd")
    there = make_loader(data.graph, store, device="cpu", gpu_memory=500 * 8)
    first, second = iter(there), iter(there)
    here = make_loader(data.graph, store)
    here.set_epoch(1)
    for a, _, c in itertools.islice(zip(here, first, second, strict=True), 10):
        assert c.x.dtype == torch.float32
        same(a, c)


def test_two_iterators_of_one_loader(data):
    there = make_loader(data, device="cpu", gpu_memory=500 * 32)
    first, second = iter(there), iter(there)
    for a, b, c in itertools.islice(zip(make_loader(data), first, second, strict=True), 10):
        same(a, b)
        assert c.x.shape == (c.num_nodes, 8)
        assert torch.equal(c.x, torch.from_numpy(data.features["x"].gather(c.n_id.numpy())))


@pytest.mark.parametrize("number", [0, 3])
def test_a_batch_of_an_epoch_that_was_left_is_moved_after_one_of_the_next(data, number):
    there, rows = make_loader(data, device="cpu", gpu_memory=500 * 32), data.features["x"]
    left = iter(there)
    for _ in range(number):
        next(left)
    late = next(left._copies._batches)  # the core has delivered it
    left.close()
    epoch = iter(there)
    for _ in range(2):
        next(epoch)
    moved, _ = move(late, lambda tensor, page_locked=False: tensor, None)
    assert torch.equal(moved.x, rows.gather(moved.n_id.numpy(), as_torch=True))
    for batch in itertools.chain(epoch, there):
        assert torch.equal(batch.x, rows.gather(batch.n_id.numpy(), as_torch=True))


def test_threads_that_begin_epochs_at_once_share_a_plan(data, monkeypatch):
    made, plan = [], _core.LoadPlan.make

    def make_slowly(*arguments, **options):
        made.append(plan(*arguments, **options))
        time.sleep(0.05)  # until the others have begun
        return made[-1]

    monkeypatch.setattr(epochs._core, "LoadPlan", SimpleNamespace(make=make_slowly, outline=_core.LoadPlan.outline))
    there = make_loader(data, device="cpu", gpu_memory=500 * 32, memory="200MB")
    rows, wrong = data.features["x"], []

    def consume():
        for batch in there:
            if not torch.equal(batch.x, rows.gather(batch.n_id.numpy(), as_torch=True)):
                wrong.append(batch)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert there._tier is not None
    assert not wrong


def test_loaders_of_a_group_get_rows_in_their_own_dtypes(data, tmp_path):
    gz.compile_features(np.ones((3000, 8), np.float32), tmp_path / "x.gd", dtype="float16")
    store = gz.FeatureStore(tmp_path / "x.gd")
    for gpu_memory in (500 * 16, 3000 * 16):
        options = {"device": "cpu", "gpu_memory": gpu_memory}
        wide, narrow = (
            make_loader(data.graph, store, dtype="float32", **options),
            make_loader(data.graph, store, **options),
        )
        with gz.LoaderGroup(wide, narrow):
            check_epochs(make_loader(data.graph, store, dtype="float32"), wide, 1)
            check_epochs(make_loader(data.graph, store), narrow, 1)


def test_loaders_of_a_group_share_the_cache(data):
    options = {"device": "cpu", "gpu_memory": 500 * 32}
    train, valid = make_loader(data, split="train", **options), make_loader(data, split="valid", **options)
    with gz.LoaderGroup(train, valid, repeat=[valid]):
        for epoch in range(2):
            here = make_loader(data, split="train")
            here.set_epoch(epoch)
            check_epochs(here, train, 1)
            check_epochs(make_loader(data, split="valid"), valid, 1)
        for loader in (train, valid):
            found = loader.stats().device["x"]
            assert found["rows"] == loader.stats().nodes
            assert found["slots"] == 500


def test_rows_of_files_that_do_not_fit_are_swept_for_what_the_device_lacks(tmp_path):
    data = gz.synthesize(tmp_path / "data", nodes=20_000, edges=60_000, dim=512, seed=0)
    options = {"memory": "36MB", "cache": "on", "batch_size": 16, "num_threads": 1, "seeds": np.arange(1000)}
    there = make_loader(data, device="cpu", gpu_memory="2MB", **options)
    check_epochs(make_loader(data, **options), there)
    assert there.stats().plan["ways"]["x"] == "window"
    assert 0 < there.stats().device["x"]["hits"] < there.stats().device["x"]["rows"]


@pytest.mark.parametrize("slots", [700, 3000])
def test_memory_that_runs_out_in_the_middle_is_given_back(data, monkeypatch, slots):
    there, made = make_loader(data, device="cpu", gpu_memory=slots * 32), []
    rows = part_rows.PartRows.rows

    def fails(self, planned, *arguments):
        made.append(planned)
        if len(made) in (5, 7, 30):
            raise torch.cuda.OutOfMemoryError("made up")
        return rows(self, planned, *arguments)

    monkeypatch.setattr(part_rows.PartRows, "rows", fails)
    with pytest.warns(UserWarning, match="out of memory: its cache of rows is emptied and gets"):
        check_epochs(make_loader(data), there)
    assert there.stats().device["x"]["bytes"] < slots * 32


def test_memory_that_runs_out_is_known_to_old_versions_of_torch(data, monkeypatch):
    monkeypatch.delattr(torch, "OutOfMemoryError")  # its name before 2.5 is the only one
    test_memory_that_runs_out_in_the_middle_is_given_back(data, monkeypatch, 700)


@pytest.mark.parametrize("slots", [700, 2990])
def test_a_table_that_another_thread_frees_serves_the_batch_that_is_made(data, monkeypatch, slots):
    there, calls, assemble = make_loader(data, device="cpu", gpu_memory=slots * 32), [], part_rows.PartRows._assemble

    def freed(self, *arguments):
        calls.append(self)
        if len(calls) % 9 == 0:
            there._tier.give_back()
        return assemble(self, *arguments)

    monkeypatch.setattr(part_rows.PartRows, "_assemble", freed)
    with pytest.warns(UserWarning, match="out of memory"):
        check_epochs(make_loader(data), there)


def test_batches_of_inference_mode_can_be_used_for_training(data):
    labels = np.arange(3000)
    for gpu_memory in (500 * 32, 3000 * 32):
        there = make_loader(data, labels=labels, device="cpu", gpu_memory=gpu_memory)
        with torch.inference_mode():
            made = list(there)
        assert not any(batch.x.is_inference() for batch in made)
        there.set_epoch(0)
        check_epochs(make_loader(data, labels=labels), there)


def test_a_finished_iterator_keeps_nothing_on_the_device(data):
    there = make_loader(data, device="cpu", gpu_memory=500 * 32)
    first = iter(there)
    list(first)
    list(there)
    kept = weakref.ref(there._tier)
    there.close()
    gc.collect()
    assert kept() is None
    assert next(first, None) is None


def test_an_interrupted_upload_is_repeated(data, monkeypatch):
    uploads, upload = [], part_rows.PartRows._upload

    def interrupted_once(self, table):
        uploads.append(self)
        if len(uploads) == 1:
            raise KeyboardInterrupt
        upload(self, table)

    monkeypatch.setattr(part_rows.PartRows, "_upload", interrupted_once)
    there = make_loader(data, device="cpu", gpu_memory=3000 * 32)
    with pytest.raises(KeyboardInterrupt):
        list(there)
    monkeypatch.setattr(part_rows.PartRows, "from_host", None)
    there.set_epoch(0)
    check_epochs(make_loader(data), there)
    assert len(uploads) == 2


def test_rows_are_counted_on_the_device_as_they_are_made(data, tmp_path, monkeypatch):
    gz.compile_features(np.ones((3000, 8), np.float32), tmp_path / "x.gd", dtype="int8")
    counted, sizes_of = [], copies.sizes_of
    monkeypatch.setattr(copies, "sizes_of", lambda batch: counted.append((batch, sizes_of(batch))) or sizes_of(batch))
    there = make_loader(data.graph, gz.FeatureStore(tmp_path / "x.gd"), device="cpu", gpu_memory=3000 * 8)
    made = list(there)
    for batch, (_, (_, size)) in zip(made, counted, strict=True):
        assert batch.x.dtype == torch.float32
        assert size >= batch.x.nbytes + batch.edge_index.nbytes + batch.e_id.nbytes + batch.n_id.nbytes


def test_memory_that_is_short_without_a_cache_is_told_as_it_is(data, monkeypatch):
    def fails(self, planned, *arguments):
        raise torch.cuda.OutOfMemoryError("made up")

    monkeypatch.setattr(part_rows.PartRows, "rows", fails)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(torch.cuda.OutOfMemoryError, match="made up"):
            list(make_loader(data, device="cpu", gpu_memory="auto"))


@pytest.mark.parametrize("is_urgent", [False, True])
def test_auto_waits_for_some_batches_and_gives_back_what_training_needs(data, monkeypatch, is_urgent):
    # For a start, at two looks, and then twice more because the last look found too little.
    rooms = iter([1000 * 32, 1, -1, -1 if is_urgent else 1, -200 * 32])
    memory = SimpleNamespace(
        add=lambda tier: None, look=lambda: None, return_unused=lambda: None, room=lambda *_: next(rooms, 1)
    )
    monkeypatch.setattr(tier, "_CHECK_EVERY", 4)
    monkeypatch.setattr(tier.DeviceMemory, "of", lambda device: memory)
    there = make_loader(data, device="cpu", gpu_memory="auto", labels=np.zeros(3000))
    check_epochs(make_loader(data, labels=np.zeros(3000)), there)
    assert there.stats().device["x"]["slots"] == 800


def test_what_gpu_memory_may_be(data, monkeypatch):
    assert make_loader(data, gpu_memory="auto").stats().device == {}
    for wrong, error in (("much", ValueError), (-1, ValueError), (True, TypeError), (None, TypeError)):
        with pytest.raises(error, match="gpu_memory"):
            make_loader(data, device="cpu", gpu_memory=wrong)
    monkeypatch.setattr(tier, "caches_on_cpu", False)
    with pytest.raises(ValueError, match=r"gpu_memory is '1GB', but the loader has device='cpu'; pass device=\"cuda\""):
        make_loader(data, device="cpu", gpu_memory="1GB")
    with pytest.raises(ValueError, match="but the loader has no device"):
        make_loader(data, gpu_memory="1GB")
    assert len(list(make_loader(data, device="cpu", gpu_memory=0))) == len(make_loader(data))
