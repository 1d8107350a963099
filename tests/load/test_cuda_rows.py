"""Rows that a GPU keeps: batches are those of the CPU, and training never runs out of memory because of them."""

from __future__ import annotations

import gc
import itertools
import warnings

import numpy as np
import pytest

import graphzero as gz
from graphzero.load.device.assemble import torch_rows

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


def test_both_ways_of_assembling_agree_and_triton_is_there(data):
    from graphzero.load.device.triton_rows import triton_rows

    there = make(data, device="cuda", gpu_memory=NODES * DIM)
    list(itertools.islice(there, 30))
    way = there._tier.parts[0]._way
    print("chosen:", way)
    assert way in (triton_rows, torch_rows)


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


def take_the_rest_in_the_middle(here, there):
    held = []
    for number, (a, b) in enumerate(zip(here, there, strict=True)):
        same(a, b)
        while number == 5:
            try:
                held.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:
                del held[-len(held) // 4 :]
                break
        if number == 12:
            held.clear()
    return held


def test_explicit_memory_that_is_not_there_is_given_back(data):
    filler = torch.empty(free() - (1 << 30), dtype=torch.uint8, device="cuda")
    there = make(data, device="cuda", gpu_memory=int(0.99 * NODES * DIM * 4), batch_size=4096)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        held = take_the_rest_in_the_middle(make(data, batch_size=4096), there)
    print([str(warning.message) for warning in warned], there.stats().device)
    del filler, held


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
