"""Training on links: it learns communities, resumes exactly, keeps held-out edges out, and its scores are right."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stop_at import StopAt  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions, TrainResult  # noqa: E402
from graphzero.train.held_out import HeldOut  # noqa: E402
from graphzero.train.link_tasks import LinkTask  # noqa: E402
from graphzero.train.metrics import LinkScores  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    task="links", hidden=16, fanouts=[4, 3], dropout=0.0, batch_size=512, epochs=2, lr=0.01, memory="128MB",
    device="cpu", seed=5, eval_negatives=10,
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Eight communities: most edges stay within one, and features tell which."""
    folder = tmp_path_factory.mktemp("links") / "data"
    return gz.synthesize(folder, nodes=600, edges=6000, dim=12, classes=8, homophily=0.95, signal=2.0, seed=1)


@pytest.fixture(scope="module")
def reference(data: gz.Dataset) -> TrainResult:
    return Trainer(data, OPTIONS).fit()


def test_it_learns_communities(data: gz.Dataset) -> None:
    result = Trainer(data, dataclasses.replace(OPTIONS, epochs=4)).fit()
    assert result.metric == "auc"
    assert result.test_metrics["auc"] > 0.8
    assert result.test_metrics["mrr"] > 0.45  # 0.27 by chance among 11
    assert result.test_metrics["hits@1"] <= result.test_metrics["hits@3"] <= result.test_metrics["hits@10"]
    assert result.val_score == max(e.metrics["auc"] for e in result.epochs)


def test_stopped_and_resumed_is_as_if_never_stopped(data: gz.Dataset, reference: TrainResult, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    assert Trainer(data, OPTIONS, checkpoint=path, observer=StopAt(1, 3)).fit().stopped == "interrupted"
    again = Trainer(data, OPTIONS, checkpoint=path).fit(resume=True)
    assert [(e.loss, e.metrics) for e in again.epochs] == [(e.loss, e.metrics) for e in reference.epochs]
    assert again.test_metrics == reference.test_metrics
    for name, value in reference.model.state_dict().items():
        np.testing.assert_array_equal(again.model.state_dict()[name].numpy(), value.numpy())
    with pytest.raises(ValueError, match=r"checkpoint has task='links', this run has 'nodes'"):
        Trainer(data, dataclasses.replace(OPTIONS, task="nodes"), checkpoint=path).fit(resume=True)


def test_held_out_edges_are_edges_and_are_not_trained_on(data: gz.Dataset) -> None:
    task = LinkTask(data, OPTIONS, torch.device("cpu"))
    held = task.held_out
    assert held is not None
    indptr, sources = data.graph.csr(direction="in")
    edges = set(zip(sources.tolist(), np.repeat(np.arange(600), np.diff(indptr)).tolist(), strict=True))
    valid, test = set(zip(*held.valid.tolist(), strict=True)), set(zip(*held.test.tolist(), strict=True))
    assert valid | test <= edges
    assert not valid & (test | {(v, u) for u, v in test})
    assert 250 < len(valid) <= 300
    both = valid | test | {(v, u) for u, v in valid | test}
    seen = []
    model = task.make_model()
    for batch in task.loader("train", 1, 64_000_000):
        rows, columns = batch.edge_label_index[:, batch.edge_label > 0]
        pairs = list(zip(batch.n_id[rows].tolist(), batch.n_id[columns].tolist(), strict=True))
        out = sum(pair in both for pair in pairs)
        assert held.has(batch.n_id[rows], batch.n_id[columns]).tolist() == [pair in both for pair in pairs]
        assert task.step(model, batch).seeds == len(batch.edge_label) - out
        seen += pairs
    assert len(seen) == data.graph.num_edges


@pytest.mark.parametrize("directed", [True, False])
def test_the_edges_that_are_trained_on_are_counted(directed: bool, tmp_path: Path) -> None:
    """Held-out edges are not among them, nor their copies; between nodes of one type, nor their reverses."""
    edges = np.random.default_rng(0).integers(0, 50, (2, 1500))
    rows = np.eye(50, dtype=np.float32)
    ds = gz.Dataset.create(tmp_path / "ds", edges, directed=directed, features=rows, direction="in")
    task = LinkTask(ds, OPTIONS, torch.device("cpu"))
    model = task.make_model()
    seen = 0
    for batch in task.loader("train", 1, 64_000_000):
        seen += int(task.step(model, batch).seeds) - int((batch.edge_label == 0).sum())
    assert task.trained() == seen < ds.graph.num_edges - 100
    assert f"seeds: train {seen:,}, valid" in task.summary()
    assert task.describe()["train_seeds"] == seen


def test_what_is_held_out_does_not_depend_on_the_run(data: gz.Dataset) -> None:
    np.testing.assert_array_equal(HeldOut(data.graph, True).valid, HeldOut(data.graph, True).valid)
    one = LinkTask(data, OPTIONS, torch.device("cpu")).held_out
    other = LinkTask(data, dataclasses.replace(OPTIONS, seed=77), torch.device("cpu")).held_out
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.test, other.test)


def test_edge_splits_of_the_dataset_are_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 40, (2, 300))
    ds = gz.Dataset.create(
        tmp_path / "ds",
        edges,
        features=rng.random((40, 4), dtype=np.float32),
        edge_splits={"train": np.arange(200), "valid": edges[:, 200:250].T, "test": np.arange(250, 300)},
        direction="in",
    )
    task = LinkTask(ds, OPTIONS, torch.device("cpu"))
    assert task.held_out is None
    assert [task.size(split) for split in ("train", "valid", "test")] == [200, 50, 50]
    result = Trainer(ds, dataclasses.replace(OPTIONS, epochs=1, batch_size=64)).fit()
    assert result.epochs[0].seeds == 400  # one negative an edge
    assert 0 <= result.test_metrics["auc"] <= 1


@pytest.mark.parametrize("direction", ["in", "out", "both"])
def test_a_node_with_edges_to_all_others_is_ranked_among_any(tmp_path: Path, direction: str) -> None:
    nodes = np.arange(12)
    pairs = np.stack([np.repeat(nodes, 12), np.tile(nodes, 12)])
    full = pairs[:, pairs[0] != pairs[1]]
    rows = np.random.default_rng(0).random((12, 4), dtype=np.float32)
    ds = gz.Dataset.create(tmp_path / "ds", full, features=rows, direction=direction)
    chosen = dataclasses.replace(OPTIONS, epochs=1, direction="out" if direction == "out" else "in")
    assert Trainer(ds, chosen).fit().epochs
    sparse = gz.Dataset.create(tmp_path / "sparse", full[:, ::2], features=rows, direction=direction)
    assert LinkTask(sparse, chosen, torch.device("cpu")).has_others
    assert not LinkTask(ds, chosen, torch.device("cpu")).has_others


def test_scores_equal_those_by_hand() -> None:
    rng = np.random.default_rng(1)
    edges, others = rng.integers(-3, 4, 50).astype(np.float32), rng.integers(-3, 4, (50, 5)).astype(np.float32)
    meter = LinkScores()
    meter.add(edges[:20], others[:20])
    meter.add(edges[20:], others[20:])
    found = meter.scores()
    ranks = [1 + sum(o > e for o in row) + sum(o == e for o in row) / 2 for e, row in zip(edges, others, strict=True)]
    assert found["mrr"] == pytest.approx(np.mean([1 / r for r in ranks]))
    for k in (1, 3, 10):
        assert found[f"hits@{k}"] == np.mean([r <= k for r in ranks])
    wins = [(e > o) + (e == o) / 2 for e in edges for o in others[:, 0]]
    assert found["auc"] == pytest.approx(np.mean(wins))
    assert found["accuracy"] == np.mean([*(edges > 0), *(others[:, 0] <= 0)])


def test_edges_of_one_type_of_several(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "mag", preset="mag", scale=0.0005, dim=8, classes=4, homophily=0.95, signal=2.0)
    with pytest.raises(ValueError, match="several edge types could be learned; choose one with edge_type=: "):
        Trainer(ds, OPTIONS)
    with pytest.raises(ValueError, match=r"no edge type \('a', 'b', 'c'\), the dataset has"):
        Trainer(ds, dataclasses.replace(OPTIONS, edge_type=("a", "b", "c")))
    writes = dataclasses.replace(OPTIONS, edge_type=("author", "writes", "paper"), epochs=8, hidden=32)
    result = Trainer(ds, writes).fit()
    assert result.test_metrics["auc"] > 0.62
    assert result.data["edge_type"] == "author__writes__paper"


def test_what_cannot_be_learned_is_refused(data: gz.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"task is 'edges', expected one of 'nodes', 'links'"):
        Trainer(data, dataclasses.replace(OPTIONS, task="edges"))
    with pytest.raises(ValueError, match=r"edge_type is 'writes', expected \(source type, relation, target type\)"):
        dataclasses.replace(OPTIONS, edge_type="writes")
    with pytest.raises(ValueError, match="the dataset has a single edge type"):
        Trainer(data, dataclasses.replace(OPTIONS, edge_type=("a", "b", "c")))
    few = gz.Dataset.create(
        tmp_path / "few", np.array([[0, 1], [1, 0]]), features=np.eye(2, dtype=np.float32), direction="in"
    )
    with pytest.raises(ValueError, match="has 2 edges, too few to hold some out"):
        Trainer(few, OPTIONS)


def test_the_command_trains_reports_resumes_and_embeds(data: gz.Dataset, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, list(map(str, arguments)))

    saved, report, out = tmp_path / "run.npz", tmp_path / "r.html", tmp_path / "out.gd"
    small = ["--task", "links", "--hidden", 8, "--fanouts", "3,2", "--batch-size", 512, "--memory", "128MB"]
    small += ["--device", "cpu", "--checkpoint", saved]
    done = run("train", data.path, *small, "--epochs", 1, "--report", report)
    assert done.exit_code == 0, done.output
    assert "validation AUC 0." in done.output
    assert "test mrr" in done.output
    assert "test AUC" in report.read_text()
    done = run("train", data.path, *small, "--epochs", 2, "--resume", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["test_metrics"]["auc"] > 0.5
    done = run("predict", data.path, "--checkpoint", saved, "--out", out, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    assert gz.FeatureStore(out).shape == (600, 8)
