"""Rows that a GPU keeps: batches are those of the CPU, and training never runs out of memory because of them."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

NODES, DIM = 200_000, 128


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return gz.synthesize(tmp_path_factory.mktemp("cuda") / "data", nodes=NODES, edges=2_000_000, dim=DIM, seed=0)


def make(data, features=None, **extra):
    options = {"fanouts": [10, 10], "batch_size": 1024, "seed": 1, "memory": "4GB", "seeds": np.arange(100_000)}
    return gz.NeighborLoader(data.graph, features or data.features["x"], labels=data.labels, **options | extra)


def same(here, there):
    for name, value in here:
        if isinstance(value, torch.Tensor):
            assert there[name].device.type == "cuda", name
            assert there[name].dtype == value.dtype, name
            assert torch.equal(value, there[name].cpu()), name


def free():
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9, 1])
def test_batches_are_those_of_the_cpu(data, share):
    there = make(data, device="cuda", gpu_memory=int(share * NODES * DIM * 4))
    kept = []
    for epoch in range(2):
        here = make(data)
        here.set_epoch(epoch)
        for a, b in zip(here, there, strict=True):
            same(a, b)
            kept.append((a, b))
    for a, b in kept[::10]:  # in memory of their own
        same(a, b)
    found = there.stats().device["x"]
    print(share, found["hits"] / found["rows"], there.stats())
    assert found["hits"] > 0


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "int8", "float32"])
@pytest.mark.parametrize("dim", [128, 100, 3])
def test_rows_are_converted_on_the_device(data, tmp_path, stored, dim):
    rows = np.random.default_rng(0).normal(size=(NODES, dim)).astype(np.float32)
    gz.compile_features(rows, tmp_path / "x.gd", dtype=stored)
    store = gz.FeatureStore(tmp_path / "x.gd")
    for dtype, share in itertools.product((None, "float32"), (0.2, 1)):
        memory = int(share * NODES * dim * store.dtype.itemsize)
        there = make(data, store, dtype=dtype, device="cuda", gpu_memory=memory)
        for a, b in itertools.islice(zip(make(data, store, dtype=dtype), there, strict=True), 20):
            same(a, b)


def test_pages_are_locked_once_and_unlocked_with_the_last_loader(data):
    from graphzero.load.device.host_rows import _locked

    gc.collect()
    memory = NODES * DIM * 4 // 5
    for _ in range(2):
        loaders = [make(data, device="cuda", gpu_memory=memory) for _ in range(2)]
        for loader in loaders:
            for a, b in itertools.islice(zip(make(data), loader, strict=True), 40):
                same(a, b)
            assert loader.stats().device["x"]["reads_host"]
        assert len(_locked) == 1
        for loader in loaders:
            loader.close()
        assert len(_locked) == 0


def test_auto_takes_what_training_leaves_and_never_makes_it_fail(data):
    filler = torch.empty(free() - (3 << 30), dtype=torch.uint8, device="cuda")  # 3 GiB are left
    there = make(data, device="cuda", gpu_memory="auto")
    grown = []
    for epoch in range(3):
        for number, batch in enumerate(there):
            # A step whose memory grows from epoch to epoch.
            step = [torch.empty(200 << 20, dtype=torch.uint8, device="cuda") for _ in range(2 + 2 * epoch)]
            assert batch.x.shape[0] == batch.num_nodes
            if number % 10 == 0:
                expected = data.features["x"].gather(batch.n_id.cpu().numpy(), as_torch=True)
                assert torch.equal(batch.x.cpu(), expected)
            del step
        grown.append((there.stats().device["x"]["slots"], torch.cuda.mem_get_info()[0] >> 20))
    print("slots, free MB:", grown)
    del filler


def take_all():
    """Allocate until the device is out of memory."""
    held, size = [], 1 << 30
    while size >= 1 << 20:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    return held


def test_an_allocation_that_fails_in_the_middle_gives_rows_back(data):
    filler = torch.empty(free() - (1 << 30), dtype=torch.uint8, device="cuda")
    there = make(data, device="cuda", gpu_memory=int(0.99 * NODES * DIM * 4), batch_size=4096)
    held = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number, (a, b) in enumerate(zip(make(data, batch_size=4096), there, strict=True)):
            same(a, b)
            del b
            if number == 5:
                held = take_all()
            if number == 12:
                held.clear()
    found = [str(warning.message) for warning in warned]
    print(found, there.stats().device)
    assert any("the device is out of memory: its cache of rows is emptied" in message for message in found)
    del filler


def test_a_second_process_takes_memory(data):
    free()  # what torch keeps of the tests before this one
    there = make(data, device="cuda", gpu_memory="auto")
    code = "import torch; f = torch.cuda.mem_get_info()[0]; a = torch.empty(f - (2 << 30), dtype=torch.uint8, "
    code += "device='cuda'); print('taken', flush=True); input()"
    slots = []
    for epoch in range(2):
        here = make(data)
        here.set_epoch(epoch)
        for number, (a, b) in enumerate(zip(here, there, strict=True)):
            same(a, b)
            if (epoch, number) == (0, 30):
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                other = subprocess.Popen([sys.executable, "-c", code], **pipes)
                assert other.stdout.readline() == "taken\n"
        slots.append(there.stats().device["x"]["slots"])
    other.communicate("\n")
    print("slots with a second process:", slots)


def test_dropped_loaders_free_their_rows(data):
    before = free()
    loader = make(data, device="cuda", gpu_memory="100MB")
    for _ in itertools.islice(loader, 5):
        pass
    assert free() < before
    del loader, _
    assert free() >= before - (64 << 20)


def test_two_loaders_on_one_device(data):
    loaders = [make(data, device="cuda", gpu_memory=memory) for memory in ("20MB", "auto", "1GB")]
    for a, *others in itertools.islice(zip(make(data), *loaders, strict=True), 60):
        for b in others:
            same(a, b)


def test_nothing_waits_for_the_device_in_the_steady_state(data):
    there = make(data, device="cuda", gpu_memory=NODES * DIM)
    for _ in itertools.islice(iter(there), 90):  # the way of assembling is chosen
        pass
    there = make(data, device="cuda", gpu_memory=NODES * DIM)
    epoch = iter(there)
    for _ in itertools.islice(epoch, 40):
        pass
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in itertools.islice(epoch, 30):
            time.sleep(0.01)  # a step whose kernels the device has done by then
    found = {event.name for event in profile.events() if "ynchronize" in event.name or event.name == "cudaMemcpy"}
    assert found <= {"cudaDeviceSynchronize"}  # the profiler's own, at its end


@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_inference_on_the_device_gives_the_same(data, tmp_path, name):
    from graphzero.train import make_model

    torch.manual_seed(0)
    model = make_model(name, DIM, 32, 5, num_layers=2)
    found = []
    for device in ("cpu", "cuda"):
        begin = time.perf_counter()
        gz.inference(model.to(device), data.graph, data.features["x"], tmp_path / f"{device}.gd", device=device)
        print(name, device, f"{time.perf_counter() - begin:.2f} s")
        found.append(gz.FeatureStore(tmp_path / f"{device}.gd").get_tensor())
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)
