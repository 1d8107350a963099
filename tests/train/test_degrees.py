"""Degrees as inputs of models: the same, whether they are looked up on the host or kept on a device."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions, degrees  # noqa: E402
from graphzero.train.degrees import Degrees  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    model="gcn", hidden=8, fanouts=[3, 2], batch_size=64, epochs=2, memory="64MB", device="cpu", seed=1
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    splits = {"train": 0.5, "valid": 0.25, "test": 0.25}
    return gz.synthesize(tmp_path_factory.mktemp("deg") / "d", nodes=500, edges=4000, dim=4, classes=3, splits=splits)


@pytest.mark.parametrize("step", [1, 7, 499, 500, 501])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_kept_degrees_are_those_of_the_graph(tmp_path: Path, monkeypatch, step: int, direction: str) -> None:
    rng = np.random.default_rng(0)
    sizes = {"in": (30, 500), "out": (500, 30)}[direction]  # sources and targets
    edges = np.stack([rng.integers(0, sizes[0], 2000), rng.integers(0, sizes[1], 2000)])
    gz.compile_graph(edges, tmp_path / "g.gl", direction=direction, num_nodes=sizes)
    graph, ids = gz.Graph(tmp_path / "g.gl"), rng.integers(0, 500, 1000)
    expected = torch.from_numpy(graph.degrees(ids, direction=direction))
    assert torch.equal(Degrees(graph, direction).of(torch.from_numpy(ids)), expected)
    monkeypatch.setattr(degrees, "_STEP", step)
    monkeypatch.setattr(degrees, "_free_bytes", lambda device: 500 * 4 * 16)
    kept = Degrees(graph, direction)
    assert torch.equal(kept.of(torch.from_numpy(ids)).long(), expected)
    assert kept._table is not None
    monkeypatch.setattr(degrees, "_free_bytes", lambda device: 500 * 4 * 16 - 1)
    refused = Degrees(graph, direction)
    assert torch.equal(refused.of(torch.from_numpy(ids)), expected)
    assert refused._table is None


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_training_is_the_same_with_kept_degrees(data: gz.Dataset, monkeypatch, task: str) -> None:
    options = dataclasses.replace(OPTIONS, task=task)
    before = Trainer(data, options).fit()
    monkeypatch.setattr(degrees, "_free_bytes", lambda device: 1 << 40)
    run = Trainer(data, options)
    after = run.fit()
    assert run.task.degrees._table is not None
    assert [epoch.loss for epoch in after.epochs] == [epoch.loss for epoch in before.epochs]


def test_degrees_as_features_are_the_same(tmp_path: Path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    data = gz.Dataset.create(
        tmp_path / "data", rng.integers(0, 300, (2, 3000)), labels=np.arange(300) % 2,
        splits={"train": np.arange(150), "valid": np.arange(150, 300)},
    )  # fmt: skip
    options = dataclasses.replace(OPTIONS, model="sage", id_embedding_memory="1KB")
    losses = []
    for free in (0, 1 << 40):
        monkeypatch.setattr(degrees, "_free_bytes", lambda device, free=free: free)
        with pytest.warns(UserWarning, match="degrees are used"):
            losses.append([epoch.loss for epoch in Trainer(data, options).fit().epochs])
    assert losses[0] == losses[1]
