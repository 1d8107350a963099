"""Features of any stored type can be trained on, predicted and inferred with: models get float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_model, predict  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
OPTIONS: dict[str, Any] = {"hidden": 4, "fanouts": [2, 2], "batch_size": 16, "epochs": 1, "device": "cpu"}
IDS = np.arange(40)
SPLITS = {"train": IDS[:20], "valid": IDS[20:30], "test": IDS[30:]}


class Mean(torch.nn.Module):  # type: ignore[misc]
    """A module of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: Any, edge_index: Any) -> Any:
        out = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        return self.linear(x + out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_features_of_any_type(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2, (40, 3)).astype(dtype)
    edges = np.stack([IDS, (IDS + 1) % 40])
    parts: dict[str, Any] = {"features": {"x": x}, "labels": IDS % 2, "splits": SPLITS}
    plain = gz.Dataset.create(tmp_path / "plain", edges, direction="in", **parts)
    assert plain.features["x"].dtype_name == dtype
    for task, kind in (("nodes", "csv"), ("links", "csv"), ("nodes", "gd")):
        run = Trainer(plain, TrainOptions(task=task, **OPTIONS), checkpoint=tmp_path / f"{task}.npz")
        run.fit(overwrite=True)
        assert predict(plain, tmp_path / f"{task}.npz", tmp_path / f"{task}.{kind}", device="cpu").rows
    Trainer(plain, TrainOptions(**OPTIONS), model=Mean()).fit()
    for model, layers in ((load_model(tmp_path / "nodes.npz"), None), (Mean(), 1), (Mean().double(), 1)):
        made = gz.inference(model, plain.graph, plain.features["x"], tmp_path / "out.gd", num_layers=layers)
        assert made.shape == (40, 2)
        assert gz.FeatureStore(tmp_path / "out.gd").dtype_name == "float32"
    typed = gz.Dataset.create(
        tmp_path / "typed", graphs={("a", "to", "a"): edges}, direction="in", **{k: {"a": v} for k, v in parts.items()}
    )
    Trainer(typed, TrainOptions(**OPTIONS), checkpoint=tmp_path / "typed.npz").fit()
    assert predict(typed, tmp_path / "typed.npz", tmp_path / "typed.csv", device="cpu").rows == 40
