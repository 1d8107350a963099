"""Training on graphs of several types: it learns, resumes exactly, and the command works from data to predictions."""

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
from graphzero.train import HeteroSAGE, Trainer, TrainOptions, TrainResult, load_model, typed_inference  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=32, fanouts=[4, 3], dropout=0.2, batch_size=128, epochs=3, lr=0.01, memory="128MB", device="cpu", seed=5
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("typed") / "mag"
    return gz.synthesize(folder, preset="mag", scale=0.002, dim=8, classes=4, signal=1.0, seed=3)


@pytest.fixture(scope="module")
def reference(data: gz.Dataset) -> TrainResult:
    return Trainer(data, OPTIONS).fit()


def assert_same(a: TrainResult, b: TrainResult) -> None:
    assert [(e.loss, e.train_accuracy, e.val_accuracy) for e in a.epochs] == [
        (e.loss, e.train_accuracy, e.val_accuracy) for e in b.epochs
    ]
    assert (a.best_epoch, a.test_accuracy) == (b.best_epoch, b.test_accuracy)
    others = b.model.state_dict()
    for name, value in a.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), others[name].numpy())


def test_it_learns_far_better_than_the_largest_class(data: gz.Dataset) -> None:
    result = Trainer(data, dataclasses.replace(OPTIONS, epochs=4)).fit()
    labels = data.nodes["paper"].labels[data.nodes["paper"].splits["test"]]
    largest = np.bincount(labels).max() / len(labels)
    assert result.test_accuracy is not None
    assert result.test_accuracy > largest + 0.3
    assert isinstance(result.model, HeteroSAGE)
    assert result.data["node_types"]["author"] == data.nodes["author"].num_nodes


@pytest.mark.parametrize(("epoch", "batch"), [(0, 1), (1, 3)])
def test_stopped_and_resumed_is_as_if_never_stopped(
    data: gz.Dataset, reference: TrainResult, tmp_path: Path, epoch: int, batch: int
) -> None:
    path = tmp_path / "run.npz"
    assert Trainer(data, OPTIONS, checkpoint=path, observer=StopAt(epoch, batch)).fit().stopped == "interrupted"
    assert_same(Trainer(data, OPTIONS, checkpoint=path).fit(resume=True), reference)


def test_it_repeats_for_any_threads_and_budget(data: gz.Dataset, reference: TrainResult) -> None:
    assert_same(Trainer(data, dataclasses.replace(OPTIONS, num_threads=1, memory="200MB")).fit(), reference)


def test_a_budget_that_is_too_small_fails_before_training(data: gz.Dataset) -> None:
    with pytest.raises(gz.BudgetError, match=r"memory is 50 KB, but (train|valid) batches need"):
        Trainer(data, dataclasses.replace(OPTIONS, memory="50KB")).fit()


def plain_rows(model: HeteroSAGE, ds: gz.Dataset) -> Any:
    """What the model says of all nodes, one node and one neighbour at a time."""
    weights = {k: v.double().numpy() for k, v in model.state_dict().items()}
    rows: dict[str, Any] = {}
    for number, name in enumerate(model.node_types):
        count = ds.nodes[name].num_nodes
        x = ds.nodes[name].features["x"].get_tensor() if name in model.in_dims else np.ones((count, 1))
        rows[name] = x @ weights[f"enter.{number}.weight"].T + weights[f"enter.{number}.bias"]
    for layer in range(model.num_layers):
        after = {}
        for place, name in enumerate(model.node_types):
            if name not in model.kept(layer):
                continue
            own = f"own.{layer}.{place}"
            after[name] = rows[name] @ weights[f"{own}.weight"].T + weights[f"{own}.bias"]
            for number, key in enumerate(model.edge_types):
                if key[2] != name:
                    continue
                indptr, sources = ds.edges[key].graph.csr(direction="in")
                for node in np.flatnonzero(np.diff(indptr)):
                    mean = rows[key[0]][sources[indptr[node] : indptr[node + 1]]].mean(0)
                    after[name][node] += mean @ weights[f"neighbours.{layer}.{number}.weight"].T
        last = layer + 1 == model.num_layers
        rows = after if last else {name: np.maximum(row, 0) for name, row in after.items()}
    return rows


def test_a_batch_of_all_neighbours_equals_the_sums_by_hand(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "ds", preset="mag", scale=0.0002, dim=4, classes=3, seed=1)
    torch.manual_seed(0)
    model = HeteroSAGE({"paper": 4}, ds.metadata(), 6, 3, ["paper"]).eval()
    by_hand = plain_rows(model, ds)["paper"]
    loader = gz.NeighborLoader(ds, split="train", fanouts=[-1, -1], batch_size=40, seed=0, memory="64MB")
    for batch in loader:
        papers = batch["paper"]
        counts = {name: batch[name].num_nodes for name in batch.node_types}
        sampled = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
        out = model({"paper": papers.x}, batch.edge_index_dict, counts, *sampled)["paper"]
        assert len(out) == papers.batch_size
        np.testing.assert_allclose(out.detach().numpy(), by_hand[papers.n_id[: len(out)]], atol=1e-5)
        whole = model({"paper": papers.x}, batch.edge_index_dict, counts)["paper"]
        np.testing.assert_allclose(whole[: len(out)].detach().numpy(), out.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_inference_layer_by_layer_equals_the_sums_by_hand(tmp_path: Path, layers: int) -> None:
    ds = gz.synthesize(tmp_path / "ds", preset="mag", scale=0.0002, dim=4, classes=3, seed=1)
    torch.manual_seed(0)
    model = HeteroSAGE({"paper": 4}, ds.metadata(), 6, 3, ["paper", "author"], num_layers=layers)
    by_hand = plain_rows(model, ds)
    for name in ("paper", "author"):
        report = typed_inference(model, ds, tmp_path / "out.gd", node_type=name, memory="64MB")
        assert report.layers == layers
        np.testing.assert_allclose(gz.FeatureStore(tmp_path / "out.gd").get_tensor(), by_hand[name], atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "out.gd"]
    assert model.training
    typed_inference(model, ds, tmp_path / "all.gd", node_type="paper", fanouts=[-1] * layers, memory="64MB")
    np.testing.assert_allclose(gz.FeatureStore(tmp_path / "all.gd").get_tensor(), by_hand["paper"], atol=1e-5)


def test_inference_does_not_replace_what_it_reads(data: gz.Dataset) -> None:
    path = data.nodes["paper"].features["x"].path
    before = Path(path).read_bytes()
    with pytest.raises(FileExistsError, match="is also an input"):
        typed_inference(torch.nn.Identity(), data, path, node_type="paper")
    assert Path(path).read_bytes() == before


def test_a_module_of_ones_own_gets_dicts(data: gz.Dataset) -> None:
    class Own(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: Any, edge_index: Any) -> Any:
            assert ("paper", "cites", "paper") in edge_index
            return {"paper": self.linear(x["paper"])}

    result = Trainer(data, OPTIONS, model=Own()).fit()
    with pytest.raises(ValueError, match=r"Own cannot run layer by layer; pass fanouts="):
        typed_inference(result.model, data, "unused.gd", node_type="paper")
    assert result.epochs[-1].loss < result.epochs[0].loss


def test_what_cannot_be_trained_is_refused(data: gz.Dataset) -> None:
    with pytest.raises(ValueError, match=r"node_type is 'author'; node types with labels and splits: 'paper'"):
        Trainer(data, dataclasses.replace(OPTIONS, node_type="author"))
    with pytest.raises(KeyError, match=r"no feature 'z' in the dataset: its node types have \{'paper': \['x', 'year'"):
        Trainer(data, dataclasses.replace(OPTIONS, feature="z"))
    with pytest.raises(ValueError, match=r"model is 'gcn', expected 'sage' because .* has several types"):
        Trainer(data, dataclasses.replace(OPTIONS, model="gcn")).fit()


def test_from_data_to_predictions_by_command(data: gz.Dataset, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, list(map(str, arguments)))

    saved, report, out = tmp_path / "run.npz", tmp_path / "r.html", tmp_path / "out.gd"
    small = [
        "--hidden",
        32,
        "--fanouts",
        "4,3",
        "--batch-size",
        128,
        "--lr",
        0.01,
        "--memory",
        "128MB",
        "--device",
        "cpu",
    ]
    done = run("train", data.path, *small, "--epochs", 2, "--checkpoint", saved, "--report", report, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert figures["data"]["node_type"] == "paper"
    assert "<svg" in report.read_text()
    done = run("train", data.path, *small, "--epochs", 3, "--checkpoint", saved, "--resume")
    assert done.exit_code == 0, done.output
    assert isinstance(load_model(saved), HeteroSAGE)
    done = run("predict", data.path, "--checkpoint", saved, "--out", out, "--device", "cpu", "--memory", "128MB")
    assert done.exit_code == 0, done.output
    rows = gz.FeatureStore(out).get_tensor()
    test = data.nodes["paper"].splits["test"]
    assert rows.shape == (data.nodes["paper"].num_nodes, 4)
    assert (rows[test].argmax(1) == data.nodes["paper"].labels[test]).mean() > 0.6


def test_a_type_may_have_no_nodes_in_a_batch() -> None:
    model = HeteroSAGE({"a": 3, "b": 2}, (["a", "b"], [("b", "to", "a")]), 4, 2, ["a"])
    edges = {("b", "to", "a"): torch.empty(2, 0, dtype=torch.int64)}
    assert model({"a": torch.ones(5, 3), "b": torch.empty(0, 2)}, edges, {"a": 5, "b": 0})["a"].shape == (5, 2)
