"""Layer-wise inference equals the model over the whole graph in RAM, for any budget."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.load.device import tier  # noqa: E402
from graphzero.train import make_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

NODES, DIM = 3000, 64


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with isolated nodes, repeated edges, and a hub whose edges do not fit the least budget together."""
    folder = tmp_path_factory.mktemp("inference")
    rng = np.random.default_rng(0)
    hub = np.stack([np.full(30_000, 3), rng.integers(0, NODES, 30_000)])
    rest = np.stack([rng.integers(10, NODES - 50, 20_000), rng.integers(0, NODES, 20_000)])
    gz.compile_graph(np.concatenate([hub, rest], 1), folder / "g.gl", num_nodes=NODES)
    x = rng.normal(size=(NODES, DIM))
    gz.compile_features(x.astype(np.float32), folder / "x.gd")
    gz.compile_features(x.astype(np.float16), folder / "half.gd")
    gz.compile_features(rng.integers(0, 9, (NODES, DIM)), folder / "whole.gd")
    return folder


def in_ram(model: Any, graph: gz.Graph, x: np.ndarray) -> np.ndarray:
    indptr, indices = graph.csr()
    receivers = np.repeat(np.arange(graph.num_nodes), np.diff(indptr.astype(np.int64)))
    edges = torch.from_numpy(np.stack([indices.astype(np.int64), receivers]))
    with torch.no_grad():
        out: np.ndarray = model.eval()(torch.from_numpy(x).float(), edges).numpy()
    return out


@pytest.mark.parametrize("name", ["sage", "gcn"])
@pytest.mark.parametrize("memory", ["2MB", "2GB"])
@pytest.mark.parametrize("store", ["x", "half", "whole"])
def test_it_equals_the_whole_graph_in_ram(files: Path, tmp_path: Path, name: str, memory: str, store: str) -> None:
    torch.manual_seed(0)
    graph, features = gz.Graph(files / "g.gl"), gz.FeatureStore(files / f"{store}.gd")
    model = make_model(name, DIM, 16, 5, num_layers=3)
    report = gz.inference(model, graph, features, tmp_path / "out.gd", memory=memory)
    got = gz.FeatureStore(tmp_path / "out.gd")
    assert report.shape == got.shape == (NODES, 5)
    np.testing.assert_allclose(got.get_tensor(), in_ram(model, graph, features.get_tensor()), rtol=1e-3, atol=1e-3)
    assert os.listdir(tmp_path) == ["out.gd"]


@pytest.mark.parametrize("name", ["sage", "gcn"])
@pytest.mark.parametrize("memory", ["2MB", "2GB"])
@pytest.mark.parametrize("store", ["x", "half", "whole"])
def test_rows_that_are_on_the_device_give_the_same(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, memory: str, store: str
) -> None:
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    torch.manual_seed(0)
    graph, features = gz.Graph(files / "g.gl"), gz.FeatureStore(files / f"{store}.gd")
    model = make_model(name, DIM, 16, 5, num_layers=2)
    report = gz.inference(model, graph, features, tmp_path / "out.gd", memory=memory, device="cpu")
    assert report.rows_read == 2 * NODES  # each layer's once
    expected = in_ram(model, graph, features.get_tensor())
    np.testing.assert_allclose(gz.FeatureStore(tmp_path / "out.gd").get_tensor(), expected, rtol=1e-3, atol=1e-3)


def test_fewer_layers_give_the_hidden_rows(files: Path, tmp_path: Path) -> None:
    graph, features = gz.Graph(files / "g.gl"), gz.FeatureStore(files / "x.gd")
    model = make_model("sage", DIM, 16, 5, num_layers=2).train()
    report = gz.inference(model, graph, features, tmp_path / "out.gd", num_layers=1)
    assert report.shape == (NODES, 16)
    assert gz.FeatureStore(tmp_path / "out.gd").get_tensor().min() == 0  # after the ReLU
    assert model.training  # as it was


def test_progress_reaches_the_end(files: Path, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    model = make_model("sage", DIM, 4, 2, num_layers=2)
    gz.inference(
        model,
        gz.Graph(files / "g.gl"),
        gz.FeatureStore(files / "x.gd"),
        tmp_path / "out.gd",
        progress=lambda *a: calls.append(a),
    )
    assert ("layer 1", NODES, NODES) in calls
    assert calls[-1] == ("layer 2", NODES, NODES)


def test_a_fault_in_the_second_layer_leaves_nothing(files: Path, tmp_path: Path) -> None:
    class Broken(type(make_model("sage", 1, 1, 1))):  # type: ignore[misc]
        def combine(self, layer: int, own: Any, heard: Any) -> Any:
            if layer == 1 and len(own):
                raise RuntimeError("out of luck")
            return super().combine(layer, own, heard)

    with pytest.raises(RuntimeError, match="out of luck"):
        gz.inference(Broken(DIM, 4, 2), gz.Graph(files / "g.gl"), gz.FeatureStore(files / "x.gd"), tmp_path / "out.gd")
    assert os.listdir(tmp_path) == []


def test_arguments_that_do_not_fit_are_refused(files: Path, tmp_path: Path) -> None:
    graph, features = gz.Graph(files / "g.gl"), gz.FeatureStore(files / "x.gd")
    model = make_model("sage", DIM, 4, 2)
    with pytest.raises(gz.BudgetError, match="need at least"):
        gz.inference(model, graph, features, tmp_path / "o.gd", memory="50KB")
    with pytest.raises(ValueError, match="num_layers is 3, expected 1 to 2"):
        gz.inference(model, graph, features, tmp_path / "o.gd", num_layers=3)
    gz.compile_features(np.zeros((5, DIM), np.float32), tmp_path / "few.gd")
    with pytest.raises(ValueError, match="has 5 rows, expected 3000"):
        gz.inference(model, graph, gz.FeatureStore(tmp_path / "few.gd"), tmp_path / "o.gd")
    model.aggregation = "max"  # type: ignore[misc]
    with pytest.raises(ValueError, match="aggregates by 'max'"):
        gz.inference(model, graph, features, tmp_path / "o.gd")


def test_a_graph_without_nodes_gives_a_file_without_rows(tmp_path: Path) -> None:
    gz.compile_graph(np.zeros((2, 0), np.int64), tmp_path / "g.gl", num_nodes=0)
    gz.compile_features(np.zeros((0, 4), np.float32), tmp_path / "x.gd")
    model = make_model("gcn", 4, 8, 3)
    report = gz.inference(model, gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(tmp_path / "x.gd"), tmp_path / "o.gd")
    assert report.shape == (0, 3)


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    from graphzero.train import MemoryMonitor

    nodes, dim = 80_000, 256
    rng = np.random.default_rng(0)
    gz.compile_graph(rng.integers(0, nodes, (2, 100_000)), tmp_path / "g.gl", num_nodes=nodes)
    gz.compile_features((np.ones((1000, dim), np.float32) * b for b in range(nodes // 1000)), tmp_path / "x.gd")
    graph, features = gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(tmp_path / "x.gd")  # 82 MB
    model = make_model("sage", dim, 32, 16, num_layers=2)
    gz.inference(model, graph, features, tmp_path / "o.gd", memory="60MB", num_layers=1)  # torch warms up
    with MemoryMonitor(interval=0.005) as monitor:
        gz.inference(model, graph, features, tmp_path / "o.gd", memory="60MB")
    assert monitor.peak_anonymous - monitor.samples[0].anonymous < 60_000_000


@pytest.mark.parametrize("how", ["same", "link", "hard"])
def test_the_input_is_not_replaced(files: Path, tmp_path: Path, how: str) -> None:
    graph, source = gz.Graph(files / "g.gl"), tmp_path / "x.gd"
    source.write_bytes((files / "x.gd").read_bytes())
    out = source if how == "same" else tmp_path / "out.gd"
    if how == "link":
        out.symlink_to(source)
    elif how == "hard":
        os.link(source, out)
    before = source.read_bytes()
    with pytest.raises(FileExistsError, match="is also an input"):
        gz.inference(make_model("sage", DIM, 4, 2), graph, gz.FeatureStore(source), out)
    assert source.read_bytes() == before


@pytest.mark.parametrize("name", ["sage", "gcn"])
@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_features_without_columns(tmp_path: Path, name: str) -> None:
    gz.compile_graph(np.array([[0, 1, 2], [1, 2, 0]]), tmp_path / "g.gl")
    gz.compile_features(np.zeros((3, 0), np.float32), tmp_path / "x.gd")
    model = make_model(name, 0, 4, 2)
    graph = gz.Graph(tmp_path / "g.gl")
    gz.inference(model, graph, gz.FeatureStore(tmp_path / "x.gd"), tmp_path / "out.gd")
    expected = in_ram(model, graph, np.zeros((3, 0), np.float32))
    np.testing.assert_allclose(gz.FeatureStore(tmp_path / "out.gd").get_tensor(), expected, atol=1e-6)
