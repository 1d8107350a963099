"""Rows of scaled int8: loaders deliver the floats that they represent, and hold and read one byte per value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

NODES, WIDTH = 3000, 16


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[gz.Dataset, gz.Dataset]:
    """A dataset in int8, and one of the floats that it represents."""
    folder = tmp_path_factory.mktemp("int8")
    small = gz.synthesize(folder / "int8", nodes=NODES, edges=30_000, dim=WIDTH, classes=4, dtype="int8")
    rows = small.features["x"].gather(np.arange(NODES), dtype="float32")
    floats = gz.Dataset.create(
        folder / "floats",
        small.graph.path,
        features=rows,
        labels=small.labels,
        splits=dict(small.splits),
    )
    return small, floats


def batches(ds: gz.Dataset, **options: Any) -> list[Any]:
    settings = {"split": "train", "fanouts": [5, 5], "batch_size": 100, "seed": 1, "num_threads": 2, "memory": "100MB"}
    return list(gz.NeighborLoader(ds, **(settings | options)))


@pytest.mark.parametrize(
    "options",
    [{}, {"dtype": "float32"}, {"cache": "on"}, {"cache": "off", "io": "pread"}],
)
def test_batches_are_the_floats_that_int8_represents(
    pair: tuple[gz.Dataset, gz.Dataset], options: dict[str, Any]
) -> None:
    small, floats = pair
    assert small.features["x"].dtype == np.int8
    for batch, other in zip(batches(small, **options), batches(floats), strict=True):
        assert batch.x.dtype == torch.float32
        assert torch.equal(batch.n_id, other.n_id)
        assert torch.equal(batch.x, other.x)


def test_held_rows_take_one_byte_per_value(pair: tuple[gz.Dataset, gz.Dataset]) -> None:
    held = []
    for ds in pair:
        loader = gz.NeighborLoader(ds, split="train", fanouts=[5], batch_size=100, memory="100MB", cache="on")
        list(loader)
        held.append(loader.stats().plan["held_rows_bytes"])
    assert held[0] >= NODES * WIDTH
    assert held[1] - held[0] >= 3 * NODES * WIDTH * 0.9


def test_plain_int8_stays_as_it_is_unless_floats_are_asked_for(tmp_path: Path) -> None:
    codes = np.arange(12, dtype=np.int8).reshape(6, 2)
    ds = gz.Dataset.create(tmp_path / "ds", np.array([[0, 1, 2], [1, 2, 3]]), num_nodes=6, features=codes)
    assert ds.features["x"].scale is None
    for dtype, expected in ((None, torch.int8), ("float32", torch.float32)):
        (batch,) = gz.NeighborLoader(ds, fanouts=[2], batch_size=6, dtype=dtype)
        assert batch.x.dtype == expected
        assert np.array_equal(batch.x.numpy(), codes[batch.n_id])


def test_inference_equals_that_of_the_floats(pair: tuple[gz.Dataset, gz.Dataset], tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = GraphSAGE(WIDTH, 8, 2, 4)
    for number, ds in enumerate(pair):
        gz.inference(model, ds.graph, ds.features["x"], tmp_path / f"{number}.gd")
    first, second = (gz.FeatureStore(tmp_path / f"{number}.gd").get_tensor() for number in range(2))
    assert np.array_equal(first, second)
