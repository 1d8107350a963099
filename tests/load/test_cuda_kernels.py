"""The kernels that assemble batches on a GPU, and what a batch's memory is used for after it was delivered."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

import graphzero as gz
from graphzero.load.device import copies
from graphzero.load.device.assemble import TORCH, Missing, torch_put, torch_take

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


def equal(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def random_rows(count, columns, dtype):
    rows = torch.randint(0, 256, (count, columns * dtype.itemsize), dtype=torch.uint8, device="cuda")
    return rows.view(dtype)


def finite_rows(count, columns, stored, wanted):
    """Random bytes; where they are converted, no NaN: how such are converted is not said."""
    rows = random_rows(count, columns, stored)
    return rows if stored == wanted else rows.nan_to_num(0)


# What is stored, what batches get, whether columns are scaled, and columns.
KINDS = [("float32", None, False, columns) for columns in (1, 3, 100, 128, 1000)]
KINDS += [("int8", "float32", True, columns) for columns in (1, 3, 100, 128, 1000)]
KINDS += [(stored, None, False, 100) for stored in ("float16", "bfloat16", "int8", "uint8", "int64", "float64")]
KINDS += [("float16", "float32", False, 100), ("bfloat16", "float32", False, 100)]


@pytest.mark.parametrize(("stored", "wanted", "is_scaled", "columns"), KINDS)
def test_rows_are_taken_alike_by_both_ways(stored, wanted, is_scaled, columns):
    from graphzero.load.device.triton_rows import launch_take, triton_take

    stored, wanted = getattr(torch, stored), getattr(torch, wanted or stored)
    table = finite_rows(5000, columns, stored, wanted)
    scale = torch.rand(columns, device="cuda") if is_scaled else None
    for count in (4096, 1, 0, 16, 17, 999):
        # Not aligned, as e_id may be.
        slots = torch.randint(0, 5000, (count + 1,), dtype=torch.int32, device="cuda")[1:]
        placed = torch.stack([torch.randperm(count + 7, device="cuda")[:count].int(), slots], dim=1)
        for source in (slots, slots.long(), placed):
            shape = (count + (7 if source is placed else 0), columns)
            outs = [torch.zeros(shape, dtype=wanted, device="cuda") for _ in range(2)]
            torch_take(outs[0], table, source, scale)
            triton_take(outs[1], table, source, scale)
            assert equal(*outs), (count, source.dim())
    assert launch_take.is_direct


@pytest.mark.parametrize(("stored", "wanted", "is_scaled", "columns"), KINDS)
def test_rows_are_put_alike_by_both_ways(stored, wanted, is_scaled, columns):
    from graphzero.load.device.triton_rows import launch_put, launch_read, triton_put, triton_read

    stored, wanted = getattr(torch, stored), getattr(torch, wanted or stored)
    rows = finite_rows(5000, columns, stored, wanted)
    scale = torch.rand(columns, device="cuda") if is_scaled else None
    for count in (0, 1, 31, 32, 33, 511, 4097):
        place, slot = (torch.randperm(5000, device="cuda").int()[:count] for _ in range(2))
        for kept in (0.0, 0.3, 1.0):
            slots = torch.where(torch.rand(count, device="cuda") < kept, slot, -1)
            targets = torch.stack([place, slots], dim=1)
            ids = torch.randint(0, 5000, (count + 1,), device="cuda")[1:]
            for listed in (ids, None):
                # As where there are no slots: no table.
                missing = Missing(listed, targets, int((slots >= 0).sum()))
                made = []
                for way in (torch_put, triton_put, triton_read):
                    out = torch.zeros((5000, columns), dtype=wanted, device="cuda")
                    table = torch.zeros_like(rows) if kept else None
                    way(out, table, rows if listed is not None else rows[:count], missing, scale)
                    made.append((out, table))
                for out, table in made[1:]:
                    assert equal(out, made[0][0]), (count, kept)
                    assert table is None or equal(table, made[0][1]), (count, kept)
    assert launch_put.is_direct
    assert launch_read.is_direct


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
