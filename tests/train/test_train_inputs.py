"""Training where nodes have no features: embeddings of ids within a limit, degrees beyond it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stop_at import StopAt  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_model, predict, typed_inference  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=16, fanouts=[5], dropout=0.0, batch_size=64, epochs=8, lr=0.05, memory="64MB", device="cpu", seed=1
)
LINKS = dataclasses.replace(OPTIONS, task="links", edge_type=("user", "buys", "item"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Users buy items of their own half; there are ids and nothing else."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, 60, 1200)
    edges = {("user", "buys", "item"): np.stack([users, 2 * rng.integers(0, 20, 1200) + users % 2])}
    folder = tmp_path_factory.mktemp("ids") / "shop"
    return gz.Dataset.create(folder, graphs=edges, num_nodes={"user": 60, "item": 40}, reverse=True)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Two communities of nodes without features."""
    rng = np.random.default_rng(0)
    left = rng.integers(0, 200, 4000)
    right = 2 * rng.integers(0, 100, 4000) + left % 2
    mixed = rng.permutation(200)
    splits = {"train": mixed[:120], "valid": mixed[120:160], "test": mixed[160:]}
    folder = tmp_path_factory.mktemp("ids") / "halves"
    return gz.Dataset.create(
        folder, np.stack([left, right]), num_nodes=200, directed=False, labels=np.arange(200) % 2, splits=splits
    )


def test_links_between_users_and_items_are_learned_from_ids(shop: gz.Dataset, tmp_path: Path) -> None:
    result = Trainer(shop, LINKS, checkpoint=tmp_path / "run.npz").fit()
    assert result.test_metrics["auc"] > 0.7  # half of the pairs are within a half
    assert result.data["inputs"] == {"user": "embeddings of 60 ids", "item": "embeddings of 40 ids"}
    typed_inference(load_model(tmp_path / "run.npz"), shop, tmp_path / "out.gd", node_type="item", memory="64MB")
    assert gz.FeatureStore(tmp_path / "out.gd").shape == (40, 16)


def test_a_graph_of_one_type_without_features_trains(halves: gz.Dataset) -> None:
    result = Trainer(halves, OPTIONS).fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.9
    assert result.data["features"] == [200, 0]


def test_degrees_take_the_place_of_vectors_that_are_too_large(halves: gz.Dataset, tmp_path: Path) -> None:
    limited = dataclasses.replace(OPTIONS, id_embedding_memory="10KB", epochs=1)
    with pytest.warns(UserWarning, match=r"the graph has no features; embeddings of 200 ids would take 64.* KB"):
        run = Trainer(halves, limited)
    assert run.fit().data["inputs"] == {"node": "degrees"}


def test_a_stopped_run_with_vectors_of_ids_resumes_exactly(halves: gz.Dataset, tmp_path: Path) -> None:
    short = dataclasses.replace(OPTIONS, epochs=3)
    whole = Trainer(halves, short).fit()
    path = tmp_path / "run.npz"
    assert Trainer(halves, short, checkpoint=path, observer=StopAt(1, 1)).fit().stopped == "interrupted"
    again = Trainer(halves, short, checkpoint=path).fit(resume=True)
    assert [e.loss for e in again.epochs] == [e.loss for e in whole.epochs]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_features_of_another_name_are_not_passed_over(tmp_path: Path) -> None:
    given: dict[str, Any] = {"labels": [0, 1], "splits": {"train": [0], "valid": [1]}}
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0], [1]]), features={"feat": np.eye(2)}, **given)
    with pytest.raises(KeyError, match="no feature 'x' in the dataset: it has 'feat'"):
        Trainer(ds, OPTIONS)


def test_a_given_model_gets_what_it_did_before(tmp_path: Path) -> None:
    """A module for types with features alone: vectors of ids are not among its inputs."""
    data = gz.synthesize(tmp_path / "mag", preset="mag", scale=0.0005, dim=4, classes=2, seed=1)
    seen: list[list[str]] = []

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x: Any, edges: Any) -> Any:
            seen.append(list(x))
            return {"paper": self.linear(x["paper"])}

    result = Trainer(data, dataclasses.replace(OPTIONS, epochs=1), model=Own()).fit()
    assert set(map(tuple, seen)) == {("paper",)}
    assert list(result.model.state_dict()) == ["linear.weight", "linear.bias"]


def test_vectors_of_ids_are_refused_for_other_nodes(halves: gz.Dataset, tmp_path: Path) -> None:
    Trainer(halves, dataclasses.replace(OPTIONS, epochs=1), checkpoint=tmp_path / "run.npz").fit()
    other = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 0]]))
    with pytest.raises(ValueError, match="the model has embeddings of 200 ids of the nodes, but the dataset has 2"):
        predict(other, tmp_path / "run.npz", tmp_path / "p.csv", memory="64MB", device="cpu")
    assert predict(halves, tmp_path / "run.npz", tmp_path / "p.csv", memory="64MB", device="cpu").rows == 200


def test_a_few_steps_are_enough_to_learn_from_ids(tmp_path: Path) -> None:
    """Dot products of small embeddings have gradients close to zero, so that training begins with many idle epochs."""
    rng = np.random.default_rng(2)
    users = rng.integers(0, 500, 5000)
    items = users % 5 + 5 * rng.integers(0, 16, 5000)
    edges = {("user", "buys", "item"): np.stack([users, items])}
    ds = gz.Dataset.create(tmp_path / "ds", graphs=edges, num_nodes={"user": 500, "item": 80}, reverse=True)
    options = dataclasses.replace(LINKS, hidden=32, fanouts=[10, 5], dropout=0.5, batch_size=1024, lr=0.02, epochs=5)
    assert Trainer(ds, options).fit().test_metrics["auc"] > 0.75


@pytest.fixture(scope="module")
def payments(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Customers pay merchants of their own group; the features of both are noise."""
    rng = np.random.default_rng(0)
    customer = np.repeat(np.arange(400), 8)
    merchant = 2 * rng.integers(0, 30, 3200) + customer % 2
    noise = {"customer": rng.random((400, 3), np.float32), "merchant": rng.random((60, 2), np.float32)}
    mixed = rng.permutation(400)
    return gz.Dataset.create(
        tmp_path_factory.mktemp("ids") / "payments",
        graphs={("customer", "paid", "merchant"): np.stack([customer, merchant])},
        features=noise,
        labels={"customer": np.arange(400) % 2},
        splits={"customer": {"train": mixed[:240], "valid": mixed[240:320], "test": mixed[320:]}},
        reverse=True,
    )


def test_nodes_with_features_may_have_embeddings_of_ids_too(payments: gz.Dataset, tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS, epochs=12, fanouts=[8], patience=12)
    without = Trainer(payments, options).fit()
    assert without.test_accuracy is not None
    assert without.test_accuracy < 0.65
    path = tmp_path / "run.npz"
    chosen = dataclasses.replace(options, id_embeddings=["merchant"])
    found = Trainer(payments, chosen, checkpoint=path).fit()
    assert found.test_accuracy is not None
    assert found.test_accuracy > 0.9
    assert found.data["inputs"] == {"merchant": "1 column and embeddings of 60 ids"}
    predict(payments, path, tmp_path / "p.csv", memory="64MB", device="cpu")
    rows = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)
    assert np.mean(rows["prediction"] == np.arange(400) % 2) > 0.9


def test_a_run_with_embeddings_next_to_features_resumes_exactly(payments: gz.Dataset, tmp_path: Path) -> None:
    chosen = dataclasses.replace(OPTIONS, epochs=3, id_embeddings=("merchant", "customer"))
    whole = Trainer(payments, chosen).fit()
    path = tmp_path / "run.npz"
    assert Trainer(payments, chosen, checkpoint=path, observer=StopAt(1, 1)).fit().stopped == "interrupted"
    again = Trainer(payments, chosen, checkpoint=path).fit(resume=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    with pytest.raises(ValueError, match=r"the checkpoint has id_embeddings=\['merchant', 'customer'\]"):
        Trainer(payments, dataclasses.replace(chosen, id_embeddings=["merchant"]), checkpoint=path).fit(resume=True)


def test_embeddings_next_to_the_columns_of_a_graph_of_one_type(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    left = rng.integers(0, 200, 4000)
    right = 2 * rng.integers(0, 100, 4000) + left % 2
    mixed = rng.permutation(200)
    splits = {"train": mixed[:120], "valid": mixed[120:160], "test": mixed[160:]}
    parts: dict[str, Any] = {"features": rng.random((200, 2), np.float32), "labels": np.arange(200) % 2}
    edges = np.stack([left, right])
    ds = gz.Dataset.create(tmp_path / "ds", edges, directed=False, splits=splits, **parts)
    (name,) = ds.nodes
    path = tmp_path / "run.npz"
    chosen = dataclasses.replace(OPTIONS, epochs=20, id_embeddings=[name])
    result = Trainer(ds, chosen, checkpoint=path).fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.85
    predict(ds, path, tmp_path / "p.csv", memory="64MB", device="cpu")
    rows = np.genfromtxt(tmp_path / "p.csv", delimiter=",", names=True)
    assert np.mean(rows["prediction"] == np.arange(200) % 2) > 0.85
    smaller = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 0]]), features=np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="the model has embeddings of 200 ids of the nodes, but the dataset has 2"):
        predict(smaller, path, tmp_path / "q.csv", memory="64MB", device="cpu")


def test_embeddings_that_cannot_be_added_are_refused(payments: gz.Dataset) -> None:
    for given, message in (
        ({"id_embeddings": ["merchants"]}, "id_embeddings has 'merchants', .*; did you mean 'merchant'?"),
        ({"id_embeddings": "merchant"}, "id_embeddings is 'merchant', expected a list of node types"),
        (
            {"id_embeddings": ["merchant"], "id_embedding_memory": "1KB"},
            "id_embeddings of 60 nodes of type 'merchant' would take 19.2 KB, more than id_embedding_memory = 1 KB",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Trainer(payments, dataclasses.replace(OPTIONS, **given))
