"""Batches on a GPU: the same as in RAM, and the user's own. Where there is no GPU nothing is tested."""

from __future__ import annotations

import itertools

import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def data(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "data"
    gz.synthesize(path, nodes=60_000, edges=1_000_000, dim=128, dtype=request.param, seed=0)
    return gz.Dataset(path)


def make_loader(data, **extra):
    return gz.NeighborLoader(
        data.graph,
        data.features["x"],
        fanouts=[10, 10],
        batch_size=2048,
        labels=data.labels,
        seed=1,
        memory="4GB",
        **extra,
    )


def same(here, there):
    for name, value in here:
        if isinstance(value, torch.Tensor):
            assert there[name].device.type == "cuda", name
            assert there[name].dtype == value.dtype, name
            assert torch.equal(value, there[name].cpu()), name
    return True


def test_batches_are_the_same_and_stay_so(data):
    loader = make_loader(data, device="cuda")
    kept = list(loader)
    for _ in loader:  # in other memory than theirs
        pass
    assert all(same(*pair) for pair in zip(make_loader(data), kept, strict=True))


def test_leaving_early_and_beginning_anew(data):
    loader = make_loader(data, device="cuda")
    for epoch in range(3):
        loader.set_epoch(0)
        for here, there in itertools.islice(zip(make_loader(data), loader, strict=True), epoch + 1):
            assert same(here, there)


def test_int8_crosses_the_link_as_it_is(data, tmp_path):
    rows = data.features["x"].gather(range(data.num_nodes), dtype="float32")
    gz.compile_features(rows, tmp_path / "x.gd", dtype="int8")
    store = gz.FeatureStore(tmp_path / "x.gd")
    options = {"fanouts": [10, 10], "batch_size": 2048, "seed": 1, "memory": "4GB"}
    here, there = (
        gz.NeighborLoader(data.graph, store, **options),
        gz.NeighborLoader(data.graph, store, **options, device="cuda"),
    )
    for a, b in zip(here, there, strict=True):
        assert b.x.dtype == torch.float32
        assert same(a, b)
    stats = there.stats()
    assert stats.copy_to_device_bytes < stats.nodes * 200 + stats.edges * 24


def test_rows_are_widened_on_the_way(data):
    here, there = make_loader(data, dtype="float32"), make_loader(data, dtype="float32", device="cuda")
    for a, b in itertools.islice(zip(here, there, strict=True), 3):
        assert b.x.dtype == torch.float32
        assert same(a, b)
