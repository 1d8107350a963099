"""Labels that are missing, weighted or no classes at all: what a loss is a mean over, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions  # noqa: E402
from graphzero.train.targets import count_classes  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

COUNT = 400
SPLITS = {"train": np.arange(300), "valid": np.arange(300, 350), "test": np.arange(350, COUNT)}


def options(**changed: Any) -> TrainOptions:
    common = {"fanouts": [2], "dropout": 0.0, "batch_size": 8, "epochs": 2, "lr": 0.01, "memory": "64MB", "seed": 3}
    return TrainOptions(**{**common, "device": "cpu", **changed})


def dataset(folder: Path, labels: Any) -> gz.Dataset:
    rng = np.random.default_rng(0)
    edges, rows = rng.integers(0, COUNT, (2, 900)), rng.normal(size=(COUNT, 4)).astype(np.float32)
    return gz.Dataset.create(folder, edges, features=rows, labels=labels, splits=SPLITS, direction="in")


class Linear(torch.nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, outputs)

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.linear(x)


def test_the_loss_of_an_epoch_is_a_mean_over_known_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = dataset(tmp_path / "data", np.where(rng.random(COUNT) < 0.9, np.nan, rng.normal(size=COUNT)))
    found = Trainer(data, options(epochs=1), model=Linear(1)).fit().epochs[0]
    labels = torch.from_numpy(np.asarray(data.labels)).float()
    known = labels[:300][~labels[:300].isnan()].double()
    model, total, count, empty = Linear(1), 0.0, 0, 0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = gz.NeighborLoader(data, split="train", fanouts=[2], batch_size=8, shuffle=True, seed=3, memory="64MB")
    for batch in loader:
        wanted = (labels[batch.n_id[: batch.batch_size]] - known.mean()) / known.std(unbiased=False)
        is_known = ~wanted.isnan()
        out = model(batch.x, None)[: batch.batch_size, 0]
        squares = ((out - wanted)[is_known] ** 2).sum()
        total, count, empty = total + float(squares.detach()), count + int(is_known.sum()), empty + (not is_known.any())
        optimizer.zero_grad()
        (squares / max(int(is_known.sum()), 1)).backward()
        optimizer.step()
    assert empty > 0  # batches without a label count for nothing
    assert found.loss == pytest.approx(total / count, rel=1e-4)


def test_batches_of_classes_without_weight_train_nothing(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", (np.arange(COUNT) % 40 == 0).astype(int))
    result = Trainer(data, options(class_weights=[0, 1])).fit()
    assert all(np.isfinite(epoch.loss) for epoch in result.epochs)


def test_whole_numbers_are_not_taken_for_a_billion_classes(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", np.random.default_rng(0).integers(0, 10**9, COUNT))
    with pytest.raises(ValueError, match=r"classes for 400 seeds; if they are numbers, .*use target='regression'"):
        Trainer(data, options())
    assert Trainer(data, options(target="regression", epochs=1)).fit().metric == "rmse"


def test_many_classes_that_a_dataset_names_or_that_are_asked_for_are_classes(tmp_path: Path) -> None:
    assert count_classes({"train": np.arange(3)}, 20_000) == 20_000
    assert count_classes({"train": np.array([0, 30_000])}, 0, asked=True) == 30_001
    with pytest.raises(ValueError, match="would be 30,001 classes for 2 seeds"):
        count_classes({"train": np.array([0, 30_000])}, 0)
    assert count_classes({"train": np.arange(30_000)}, 0) == 30_000


def test_a_type_without_features_and_edges_that_end_at_it_has_a_constant_degree(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = gz.Dataset.create(
        tmp_path / "data",
        graphs={("a", "w", "p"): np.stack([rng.integers(0, 30, 600), rng.integers(0, 200, 600)])},
        num_nodes={"a": 30, "p": 200},
        features={"p": rng.normal(size=(200, 4)).astype(np.float32)},
        labels={"p": rng.integers(0, 2, 200)},
        splits={"p": {"train": np.arange(100), "valid": np.arange(100, 200)}},
    )
    with pytest.warns(UserWarning, match="degrees are used"):
        result = Trainer(data, options(epochs=1, id_embedding_memory="1KB")).fit()
    assert result.data["inputs"] == {"a": "degrees"}
