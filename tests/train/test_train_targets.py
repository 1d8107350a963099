"""Training on classes with weights, on several labels, and on numbers; scores are in the result and in the report."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.cli.app import app  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=16, fanouts=[3], dropout=0.0, batch_size=64, epochs=12, lr=0.03, memory="64MB", device="cpu", seed=1
)
SPLITS = {"train": np.arange(200), "valid": np.arange(200, 250), "test": np.arange(250, 300)}


def make(folder: Path, labels: Any, **changes: Any) -> gz.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    edges = rng.integers(0, 300, (2, 900))
    made = labels(x)
    return gz.Dataset.create(
        folder, edges, num_nodes=300, direction="in", features=x, labels=made, splits=SPLITS, **changes
    )


def test_numbers_are_learned_in_their_own_units(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", lambda x: 1000 + 100 * x[:, 0])
    assert (ds.label_kind, ds.num_classes) == ("regression", 1)
    assert ds.verify()["files"] == 6
    result = Trainer(ds, OPTIONS, checkpoint=tmp_path / "run.npz").fit()
    assert result.metric == "rmse"
    assert result.test_metrics["r2"] > 0.8
    assert result.test_metrics["mae"] < 40
    assert (result.test_accuracy, result.epochs[0].train_accuracy) == (None, None)
    assert result.val_score == min(e.metrics["rmse"] for e in result.epochs)
    assert load_checkpoint(tmp_path / "run.npz").note["about"]["target"]["mean"] == pytest.approx(1000, abs=20)
    by_mae = Trainer(ds, dataclasses.replace(OPTIONS, loss="mae", epochs=1)).fit()
    assert by_mae.metric == "mae"


def test_several_labels_are_learned(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", lambda x: (x[:, :3] > 0).astype(int))
    assert (ds.label_kind, ds.num_classes) == ("multilabel", 3)
    result = Trainer(ds, OPTIONS).fit()
    assert result.metric == "auc"
    assert min(result.test_metrics["auc"], result.test_metrics["f1_micro"], result.test_metrics["f1_macro"]) > 0.85


def test_numbers_and_labels_are_exported_as_they_are(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    for kind, labels in (("regression", lambda x: x[:, 0]), ("multilabel", lambda x: (x[:, :3] > 0).astype(int))):
        ds = make(tmp_path / kind, labels)
        gz.export_dataset(ds, tmp_path / f"{kind}-npy", format="npy")
        np.testing.assert_array_equal(np.load(tmp_path / f"{kind}-npy" / "labels.npy"), ds.labels)
        gz.export_dataset(ds, tmp_path / f"{kind}-parquet")
        table = pq.read_table(tmp_path / f"{kind}-parquet" / "nodes.parquet")
        np.testing.assert_array_equal(np.array(table["label"].to_pylist(), ds.labels.dtype), ds.labels)


def test_balanced_weights_make_rare_classes_count_as_much(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", lambda x: (x[:, 0] > 1).astype(int))
    asked = dataclasses.replace(OPTIONS, class_weights="balanced", metric="f1_macro")
    run = Trainer(ds, asked)
    counts = np.bincount(ds.labels[SPLITS["train"]])
    out, y = torch.randn(40, 2), torch.arange(40) % 2
    weight = torch.tensor(200 / (2 * counts), dtype=torch.float32)
    expected = torch.nn.functional.cross_entropy(out, y, weight=weight)
    torch.testing.assert_close(run.task.target.loss(out, y), expected)  # type: ignore[attr-defined]
    result = run.fit()
    assert result.val_score == max(e.metrics["f1_macro"] for e in result.epochs)
    assert 0.8 < result.test_metrics["auc"] <= 1.0
    with pytest.raises(ValueError, match="class_weights has 3 numbers, expected 2, one per class"):
        Trainer(ds, dataclasses.replace(OPTIONS, class_weights=[1, 2, 3]))
    with pytest.raises(ValueError, match="metric is 'rmse', expected one of 'accuracy', 'f1_macro'"):
        Trainer(ds, dataclasses.replace(OPTIONS, metric="rmse"))


def test_whole_numbers_may_be_a_regression(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", lambda x: np.round(10 * x[:, 0]).clip(0).astype(int))
    assert ds.label_kind == "classification"
    result = Trainer(ds, dataclasses.replace(OPTIONS, target="regression")).fit()
    assert result.test_metrics["r2"] > 0.5
    with pytest.raises(ValueError, match="target is 'multilabel', expected a row of labels per node"):
        Trainer(ds, dataclasses.replace(OPTIONS, target="multilabel"))


def test_a_type_of_several_has_numbers_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    ds = gz.Dataset.create(
        tmp_path / "d",
        graphs={("a", "to", "b"): rng.integers(0, 300, (2, 900))},
        features={"a": x, "b": x},
        labels={"b": x[:, 0] * 2.5},
        splits={"b": SPLITS},
    )
    assert Trainer(ds, OPTIONS).fit().test_metrics["r2"] > 0.8


def test_the_scores_are_in_the_terminal_json_and_report(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", lambda x: 100 * x[:, 0])
    command = ["train", ds.path, "--fanouts", "3", "--epochs", "1", "--memory", "64MB", "--device", "cpu"]
    shown = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "test mae" in shown.output
    assert "validation rmse" in shown.output
    pytest.importorskip("matplotlib")
    page = tmp_path / "report.html"
    found = CliRunner().invoke(app, [*command, "--json", "--report", str(page)], catch_exceptions=False)
    result = json.loads(found.stdout)
    assert set(result["test_metrics"]) == {"mae", "rmse", "r2"}
    assert result["test_accuracy"] is None
    assert f">{result['test_metrics']['rmse']:.4g}</td>" in page.read_text()
