"""Labels as tables have them: absent classes, constant numbers, gaps. No run ends in an error about shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.train import Observer, Trainer, TrainOptions, predict  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

NODES = 24
OPTIONS: dict[str, Any] = {"hidden": 8, "fanouts": [3], "epochs": 2, "memory": "64MB", "device": "cpu"}


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def dataset(folder: Path, labels: Any, *, train: Any = slice(0, 12), typed: bool = True) -> gz.Dataset:
    rng = np.random.default_rng(0)
    ids = np.arange(NODES)
    splits = {"train": ids[train], "valid": ids[12:18], "test": ids[18:]}
    x = rng.random((NODES, 2), dtype=np.float32)
    edges = rng.integers(0, NODES, (2, 60))
    if not typed:
        return gz.Dataset.create(folder, edges, features=x, labels=labels, splits=splits, direction="in")
    return gz.Dataset.create(
        folder,
        graphs={("user", "knows", "user"): edges},
        features={"user": {"x": x}},
        labels={"user": labels},
        splits={"user": splits},
        num_nodes={"user": NODES},
        typed=True,
    )


CLASSES = {
    "one class in training": np.repeat([0, 1], 12),
    "a row per class": np.arange(NODES),
    "a class that no split has": np.where(np.arange(NODES) % 2 == 0, 0, 2),
}
OTHERS = {
    "a label that no node has": np.stack([np.arange(NODES) % 2, np.zeros(NODES, int)], axis=1),
    "labels with gaps": np.where(np.eye(NODES, 3) > 0, np.nan, np.arange(3 * NODES).reshape(-1, 3) % 2),
    "a constant number": np.full(NODES, 3.5),
    "numbers with gaps": np.where(np.arange(NODES) % 5 == 0, np.nan, np.arange(NODES) + 0.5),
    "large numbers": 1e30 * np.arange(NODES) + 1e29,
}


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("case", [*CLASSES, *OTHERS])
def test_a_run_and_its_predictions(tmp_path: Path, case: str, typed: bool) -> None:
    ds = dataset(tmp_path / "data", (CLASSES | OTHERS)[case], typed=typed)
    observer = Notes()
    result = Trainer(ds, TrainOptions(**OPTIONS), checkpoint=tmp_path / "run.npz", observer=observer).fit()
    assert all(np.isfinite(record.loss) for record in result.epochs)
    assert all(np.isfinite(score) for score in result.test_metrics.values())
    assert any("not in the training split" in note for note in observer.notes) == (case in CLASSES)
    report = predict(ds, tmp_path / "run.npz", tmp_path / "p.csv", memory="64MB", device="cpu", num_threads=1)
    assert report.rows == NODES
    assert "nan" not in (tmp_path / "p.csv").read_text()


def test_balanced_weights_with_a_class_that_training_does_not_have(tmp_path: Path) -> None:
    ds = dataset(tmp_path / "data", CLASSES["one class in training"])
    with pytest.warns(UserWarning, match="1 of 2 classes is not in the training split"):
        run = Trainer(ds, TrainOptions(**OPTIONS, class_weights="balanced", metric="auc"))
    assert run.fit().epochs


@pytest.mark.parametrize(
    ("labels", "train", "message"),
    [
        (np.arange(NODES) % 2, slice(0, 0), "split 'train' is empty"),
        (np.zeros(NODES, int), slice(0, 12), "found 1 class; need at least 2"),
        (np.where(np.arange(NODES) == 3, -1, np.arange(NODES) % 2), slice(0, 12), "has 1 nodes without a label"),
        (np.full(NODES, np.nan), slice(0, 12), "has 12 nodes without a label"),
    ],
)
def test_labels_that_cannot_be_learned(tmp_path: Path, labels: Any, train: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trainer(dataset(tmp_path / "data", labels, train=train), TrainOptions(**OPTIONS))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"lr": 1e38}, "lr is 1e.38, expected more than 0 and at most 10"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"weight_decay": float("inf")}, "weight_decay is inf"),
        ({"seed": 2**64}, "seed is 18446744073709551616, expected 0 to"),
        ({"class_weights": [1, float("nan")]}, "class_weights is .1, nan., expected numbers of at least 0"),
        ({"class_weights": [0, 0]}, "not all 0"),
        ({"id_embedding_memory": "much"}, "id_embedding_memory is 'much', expected a size such as '256MB'"),
    ],
)
def test_options_that_cannot_be(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainOptions(**option)
