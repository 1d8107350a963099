"""Any module with forward(x, edge_index) trains and predicts: PyG's models, and one written by hand."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_model, make_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

NODES, DIM = 300, 6
OPTIONS = TrainOptions(fanouts=[4, 3], batch_size=64, epochs=4, lr=0.02, memory="64MB", device="cpu", seed=3)


class ByHand(torch.nn.Module):
    """The mean of the neighbours, twice, without any library and without layers to show."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(2 * DIM, 16), torch.nn.Linear(32, 3)

    def forward(self, x: Any, edge_index: Any) -> Any:
        for linear in (self.first, self.second):
            heard = torch.zeros_like(x).index_add_(0, edge_index[1], x[edge_index[0]])
            count = torch.zeros(len(x)).index_add_(0, edge_index[1], torch.ones(edge_index.shape[1]))
            x = torch.relu(linear(torch.cat([x, heard / count.clamp(min=1).unsqueeze(1)], 1)))
        return x


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    splits = {"train": 0.5, "valid": 0.2, "test": 0.3}
    folder = tmp_path_factory.mktemp("modules") / "data"
    return gz.synthesize(folder, nodes=NODES, edges=2400, dim=DIM, classes=3, seed=2, splits=splits, signal=2.0)


def pyg(name: str, **options: Any) -> Any:
    models = pytest.importorskip("torch_geometric.nn.models")
    torch.manual_seed(0)
    return getattr(models, name)(DIM, 16, num_layers=2, out_channels=3, **options)


def by_hand() -> ByHand:
    torch.manual_seed(0)
    return ByHand()


def in_ram(model: Any, data: gz.Dataset) -> np.ndarray:
    indptr, indices = data.graph.csr()
    receivers = np.repeat(np.arange(NODES), np.diff(indptr.astype(np.int64)))
    edges = torch.from_numpy(np.stack([indices.astype(np.int64), receivers]))
    with torch.no_grad():
        out: np.ndarray = model.eval()(torch.from_numpy(np.array(data.features["x"].get_tensor())), edges).numpy()
    return out


MODELS = {
    "sage": lambda: pyg("GraphSAGE"),
    "gat": lambda: pyg("GAT", heads=2),
    "gin": lambda: pyg("GIN", norm="BatchNorm"),
    "gcn": lambda: pyg("GCN"),  # normalises by the degrees of both ends
    "jk": lambda: pyg("GraphSAGE", jk="last"),
    "cat": lambda: pyg("GraphSAGE", jk="cat"),  # its last step needs all layers
    "by hand": by_hand,
}


@pytest.mark.parametrize("name", MODELS)
def test_inference_equals_the_whole_graph_in_ram(data: gz.Dataset, tmp_path: Path, name: str) -> None:
    model = MODELS[name]()
    layers = None if name != "by hand" else 2
    model.train()
    report = gz.inference(
        model, data.graph, data.features["x"], tmp_path / "out.gd", memory="64MB", num_layers=layers, device="cpu"
    )
    assert model.training
    assert report.shape == (NODES, 3)
    assert os.listdir(tmp_path) == ["out.gd"]
    np.testing.assert_allclose(gz.FeatureStore(tmp_path / "out.gd").get_tensor(), in_ram(model, data), atol=1e-4)


def test_layers_of_a_model_that_offers_them(data: gz.Dataset, tmp_path: Path) -> None:
    report = gz.inference(
        pyg("GAT"), data.graph, data.features["x"], tmp_path / "h.gd", num_layers=1, memory="64MB", device="cpu"
    )
    assert (report.layers, report.shape) == (1, (NODES, 16))


def test_what_cannot_be_run_is_told(data: gz.Dataset, tmp_path: Path) -> None:
    graph, x, out = data.graph, data.features["x"], tmp_path / "out.gd"
    with pytest.raises(ValueError, match="ByHand has no num_layers; pass num_layers="):
        gz.inference(by_hand(), graph, x, out)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module"):
        gz.inference(lambda x, edges: x, graph, x, out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not offer its layers"):
        gz.inference(pyg("GraphSAGE", jk="cat"), graph, x, out, num_layers=1)
    with pytest.raises(ValueError, match=r"Summed returned \(6,\), expected a row for each node"):
        gz.inference(Summed(), graph, x, out, num_layers=1, memory="64MB")
    assert os.listdir(tmp_path) == []


class Summed(torch.nn.Module):
    """Not a row a node."""

    def forward(self, x: Any, edge_index: Any) -> Any:
        return x.sum(0)


@pytest.mark.parametrize("name", ["gat", "gcn", "by hand"])
def test_it_trains_and_resumes(data: gz.Dataset, tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.npz"
    whole = Trainer(data, OPTIONS, model=MODELS[name]()).fit()
    assert whole.epochs[-1].loss < whole.epochs[0].loss
    Trainer(data, dataclasses.replace(OPTIONS, epochs=2), model=MODELS[name](), checkpoint=path).fit()
    resumed = Trainer(data, OPTIONS, model=MODELS[name](), checkpoint=path).fit(resume=True)
    assert [e.loss for e in resumed.epochs] == [e.loss for e in whole.epochs]
    again = load_model(path, MODELS[name]())
    for key, value in resumed.model.state_dict().items():
        assert torch.equal(again.state_dict()[key], value)
    with pytest.raises(ValueError, match=r"holds the weights of .*; create the model and pass it"):
        load_model(path)
    with pytest.raises(gz.FormatError, match="does not fit this model"):
        load_model(path, torch.nn.Linear(2, 2))


def test_a_model_with_too_few_outputs_is_told(data: gz.Dataset) -> None:
    model = pytest.importorskip("torch_geometric.nn.models").GAT(DIM, 16, num_layers=2, out_channels=2)
    with pytest.raises(ValueError, match="expected one row per node with at least 3 columns"):
        Trainer(data, OPTIONS, model=model).fit()


@pytest.mark.parametrize("kind", ["sage", "gcn"])
def test_from_a_run_to_predictions(data: gz.Dataset, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, list(map(str, arguments)))

    saved, out = tmp_path / "run.npz", tmp_path / "out.gd"
    small = ["--hidden", 8, "--fanouts", "4,3", "--batch-size", 64, "--memory", "64MB", "--device", "cpu"]
    assert run("train", data.path, *small, "--model", kind, "--epochs", 2, "--checkpoint", saved).exit_code == 0
    done = run("predict", data.path, "--checkpoint", saved, "--out", out, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["shape"] == [NODES, 3]
    model = load_model(saved)
    assert not model.training
    np.testing.assert_allclose(gz.FeatureStore(out).get_tensor(), in_ram(model, data), atol=1e-4)
    assert run("predict", data.path, "--checkpoint", tmp_path / "none.npz", "--out", out).exit_code != 0


def test_predict_refuses_a_dataset_that_does_not_fit(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    wide = gz.synthesize(tmp_path / "wide", nodes=60, edges=200, dim=4, classes=2)
    narrow = gz.synthesize(tmp_path / "narrow", nodes=60, edges=200, dim=2, classes=2)
    Trainer(wide, OPTIONS, model=make_model("sage", 4, 8, 2), checkpoint=tmp_path / "run.npz").fit()
    asked = ["predict", narrow.path, "--checkpoint", tmp_path / "run.npz", "--out", tmp_path / "out.gd"]
    done = CliRunner().invoke(app, list(map(str, asked)))
    assert done.exit_code != 0
    assert "trained on features with 4 columns" in " ".join(done.output.split())
