"""Columns of edges in the model: they enter the messages of their relation and of its reverse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.dataset.columns import pack_columns  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_model, predict, typed_inference  # noqa: E402
from graphzero.train.neighbourhood import Neighbourhood  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

USERS, ITEMS = 120, 10
RATES = ("user", "rates", "item")
OPTIONS = TrainOptions(hidden=16, fanouts=[-1], epochs=25, batch_size=32, lr=0.02, memory="64MB", device="cpu")


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Users who rate items; the class of a user is in the stars and the channel of the ratings alone."""
    rng = np.random.default_rng(2)
    label = np.arange(USERS) % 2
    who = np.repeat(np.arange(USERS), 3)
    stars = np.where(label[who] == 1, 1.0, 4.0) + rng.random(3 * USERS)
    stars[::17] = np.nan
    table = {"stars": stars, "channel": rng.choice(["web", "app"], 3 * USERS)}
    arrays, columns = pack_columns(table)
    order = rng.permutation(USERS)
    return gz.Dataset.create(
        tmp_path_factory.mktemp("ratings") / "data",
        graphs={RATES: np.stack([who, rng.integers(0, ITEMS, 3 * USERS)])},
        num_nodes={"user": USERS, "item": ITEMS},
        features={"user": {"x": np.ones((USERS, 1), np.float32)}, "item": {"x": np.ones((ITEMS, 1), np.float32)}},
        edge_features={RATES: arrays},
        table_columns={RATES: columns},
        labels={"user": label},
        splits={"user": {"train": order[:60], "valid": order[60:90], "test": order[90:]}},
        reverse=True,
    )


def test_the_class_is_found_in_the_columns_of_edges(ratings: gz.Dataset, tmp_path: Path) -> None:
    result = Trainer(ratings, OPTIONS, checkpoint=tmp_path / "run.npz").fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.9
    assert result.data["inputs"]["item rev_rates user"] == "2 columns"
    predict(ratings, tmp_path / "run.npz", tmp_path / "p.gd", memory="64MB", device="cpu", num_threads=1)
    found = np.array(gz.FeatureStore(tmp_path / "p.gd").get_tensor())
    assert (found.argmax(1) == ratings.nodes["user"].labels).mean() > 0.9
    typed_inference(
        load_model(tmp_path / "run.npz"), ratings, tmp_path / "s.gd", node_type="user", fanouts=[-1], memory="64MB"
    )  # batch by batch
    np.testing.assert_allclose(np.array(gz.FeatureStore(tmp_path / "s.gd").get_tensor()), found, atol=1e-4)


def test_links_are_learned_with_the_columns_of_edges(ratings: gz.Dataset) -> None:
    links = TrainOptions(**{**OPTIONS.to_dict(), "task": "links", "edge_type": RATES, "epochs": 1})
    assert Trainer(ratings, links).fit().epochs


def test_rows_of_edges_follow_edges_that_are_sorted() -> None:
    edges = torch.tensor([[0, 1, 2, 0], [1, 0, 1, 0]])
    values: Any = torch.tensor([[1.0], [10.0], [3.0], [20.0]])
    assert Neighbourhood.from_edges(edges, 3).mean_of_edges(values).tolist() == [[15.0], [2.0], [0.0]]


def test_columns_of_later_edges_are_not_seen(tmp_path: Path) -> None:
    """The class is in the ratings after the time of each user; the reversed relation must hide them too."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, USERS)
    who = np.repeat(np.arange(USERS), 4)
    late = np.tile([0, 0, 1, 1], USERS)
    stars = np.where(late == 1, label[who], rng.integers(0, 2, 4 * USERS)).astype(float)
    when = np.datetime64("2024-01-01") + late.astype("m8[D]") * 20
    arrays, columns = pack_columns({"stars": stars, "when": when.astype("datetime64[s]")})
    asked = np.full(USERS, np.datetime64("2024-01-10T00:00:00").astype(np.int64))
    parts = dict(zip(("train", "valid", "test"), np.split(rng.permutation(USERS), [60, 80]), strict=True))
    ends = np.stack([who, rng.integers(0, ITEMS, 4 * USERS)])

    def found(name: str, **time: Any) -> float:
        ds = gz.Dataset.create(
            tmp_path / name,
            graphs={RATES: ends},
            times={RATES: when.astype("datetime64[s]").astype(np.int64)},
            num_nodes={"user": USERS, "item": ITEMS},
            features={"user": {"x": np.ones((USERS, 1), np.float32), "asked": asked}},
            edge_features={RATES: arrays},
            table_columns={RATES: columns},
            labels={"user": label},
            splits={"user": parts},
            reverse=True,
        )
        return Trainer(ds, TrainOptions(**{**OPTIONS.to_dict(), **time})).fit().test_accuracy or 0.0

    assert found("all") > 0.9
    assert found("past", time="asked") < 0.75
