"""Which passes over rows a loader takes on a GPU, and what a batch's memory is used for after it was delivered."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

import graphzero as gz
from graphzero.load.device import copies
from graphzero.load.device.assemble import TORCH

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

NODES, DIM = 100_000, 64


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return gz.synthesize(tmp_path_factory.mktemp("cuda") / "data", nodes=NODES, edges=1_000_000, dim=DIM, seed=0)


def make(data, **extra):
    options = {"fanouts": [10, 10], "batch_size": 512, "seed": 1, "memory": "2GB", "labels": data.labels}
    return gz.NeighborLoader(data.graph, data.features["x"], **options | extra)


def test_a_loader_takes_the_faster_way(data):
    there = make(data, device="cuda", gpu_memory=NODES * DIM)
    list(itertools.islice(there, 40))
    passes = there._tier.parts[0]._passes
    print("chosen:", passes)
    assert passes is not None
    assert passes is not TORCH, "Triton is slower, or not installed"


def test_batches_are_those_of_the_cpu_by_the_plain_way(data, monkeypatch):
    monkeypatch.setattr("graphzero.load.device.part_rows.choose_passes", lambda *_: TORCH)
    for share in (0.2, 1):
        there = make(data, device="cuda", gpu_memory=int(share * NODES * DIM * 4))
        for a, b in itertools.islice(zip(make(data), there, strict=True), 50):
            assert all(torch.equal(v, b[k].cpu()) for k, v in a if isinstance(v, torch.Tensor))


@pytest.mark.parametrize("share", [0, 0.2, 1])
def test_memory_is_not_reused_while_the_consumer_reads_it(data, share):
    there = make(data, device="cuda", gpu_memory=int(share * NODES * DIM * 4))
    sums = []
    for batch in itertools.islice(there, 100):
        torch.cuda._sleep(5_000_000)  # the kernels below run long after their batch was dropped
        parts = (batch.n_id.sum(), batch.edge_index.sum(), batch.e_id.sum(), batch.y.sum(), batch.input_id.sum())
        sums.append(torch.stack([*parts, batch.x.view(torch.int32).sum()]))
        del batch
    for found, here in zip(torch.stack(sums).cpu(), make(data), strict=False):
        parts = (here.n_id.sum(), here.edge_index.sum(), here.e_id.sum(), here.y.sum(), here.input_id.sum())
        assert torch.equal(found, torch.stack([*parts, here.x.view(torch.int32).sum()]))


@pytest.mark.parametrize("share", [0, 0.2, 1])
def test_batches_that_a_transform_keeps_stay_as_they_are(data, share):
    kept = []
    there = make(data, device="cuda", gpu_memory=int(share * NODES * DIM * 4), transform=lambda b: kept.append(b) or b)
    for _ in itertools.islice(there, 30):
        time.sleep(0.01)  # copies are known to be done before their batch is taken
    for a, b in zip(make(data), kept, strict=False):
        assert all(torch.equal(v, b[k].cpu()) for k, v in a if isinstance(v, torch.Tensor))


def test_a_consumer_with_a_stream_of_its_own(data):
    there = make(data, device="cuda", gpu_memory=int(0.2 * NODES * DIM * 4))
    with torch.cuda.stream(torch.cuda.Stream()):
        for a, b in itertools.islice(zip(make(data), there, strict=True), 50):
            assert torch.equal(b.x, a.x.cuda())
            assert torch.equal(b.edge_index, a.edge_index.cuda())


def test_events_are_used_again(data, monkeypatch):
    made, event = [], copies._event
    monkeypatch.setattr(copies, "_event", lambda **options: made.append(1) or event(**options))
    epoch = iter(make(data, device="cuda", gpu_memory=int(0.2 * NODES * DIM * 4)))
    for _ in itertools.islice(epoch, 100):
        torch.cuda._sleep(100_000)
    assert len(made) <= 2 * (copies.COPIES + 1) + copies.MOST_ON_DEVICE + 1


def test_labels_that_stay_on_the_host(data):
    wide = np.random.default_rng(0).normal(size=(NODES, 200)).astype(np.float32)  # too large to be kept there
    options = {"labels": wide, "gpu_memory": int(0.2 * NODES * DIM * 4)}
    for a, b in itertools.islice(zip(make(data, labels=wide), make(data, device="cuda", **options), strict=True), 20):
        assert torch.equal(a.y, b.y.cpu())
