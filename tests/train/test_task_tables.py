"""Task tables and times: rows of (node, time, label) are learned, and what comes after a seed's time is never seen."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

from graphzero.dataset.columns import pack_columns  # noqa: E402
from graphzero.train import Trainer, TrainOptions  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=16, fanouts=[4], dropout=0.0, batch_size=100, epochs=6, lr=0.05, memory="64MB", device="cpu", seed=1
)
USERS = 400
NOW = 1_000_000


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """A user's class is that of the items bought after NOW; those bought before say nothing."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, USERS)
    users = np.repeat(np.arange(USERS), 4)
    late = np.tile([0, 1, 1, 1], USERS)
    item = np.where(late == 1, 2 * rng.integers(0, 10, 4 * USERS) + label[users], rng.integers(0, 20, 4 * USERS))
    edges = {("item", "bought_by", "user"): np.stack([item, users])}
    splits = np.split(rng.permutation(USERS), [200, 300])
    arrays, columns = pack_columns({"asked": np.full(USERS, NOW, dtype="datetime64[s]")})
    ds = gz.Dataset.create(
        tmp_path_factory.mktemp("leak") / "data",
        graphs=edges,
        times={("item", "bought_by", "user"): NOW + np.where(late == 1, 10, -10)},
        features={"item": _parity(), "user": arrays},
        table_columns={"user": columns},
        labels={"user": label},
        splits={"user": dict(zip(("train", "valid", "test"), splits, strict=True))},
    )
    times = np.full(USERS, NOW)
    parts = dict(zip(("train", "valid", "test"), splits, strict=True))
    ds.add_task("churn", entity="user", ids=np.arange(USERS), time=times, labels=label, splits=parts)
    ds.add_task("later", entity="user", ids=np.arange(USERS), time=times + 100, labels=label, splits=parts)
    return ds


def _parity() -> Any:
    return np.stack([np.arange(20) % 2, 1 - np.arange(20) % 2], axis=1).astype(np.float32)


def accuracy(ds: gz.Dataset, **changes: Any) -> float:
    found = Trainer(ds, dataclasses.replace(OPTIONS, **changes)).fit().test_accuracy
    assert found is not None
    return found


def test_a_leak_is_learned_without_times_and_not_with_them(leaky: gz.Dataset) -> None:
    assert accuracy(leaky) > 0.97
    assert accuracy(leaky, time="asked") < 0.65


def test_a_task_sees_what_was_there_at_its_time(leaky: gz.Dataset) -> None:
    assert accuracy(leaky, task="churn") < 0.65
    assert accuracy(leaky, task="later") > 0.9


def test_a_node_may_be_in_rows_of_several_times(leaky: gz.Dataset) -> None:
    """Whether the last items were bought by then: only the time of a row can tell."""
    rng = np.random.default_rng(1)
    ids, late = rng.integers(0, USERS, 600), rng.integers(0, 2, 600)
    table = leaky.add_task(
        "late",
        entity="user",
        ids=ids,
        time=np.where(late == 1, NOW + 50, NOW - 5),
        labels=late,
        splits={"train": np.arange(400), "valid": np.arange(400, 500), "test": np.arange(500, 600)},
        overwrite=True,
    )
    assert (table.kind, table.num_classes, len(table.splits["train"])) == ("classification", 2, 400)
    assert accuracy(leaky, task="late") > 0.9


def test_tasks_are_kept_checked_and_replaced(leaky: gz.Dataset, tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 0]]), ids=None)
    dates = np.array(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"], "datetime64[D]")
    ds.add_task("price", ids=[0, 1, 0, 1], time=dates, labels=[1.5, 2.5, 3.5, 4.5], splits="50/25/25")
    again = gz.Dataset(ds.path)
    rows = again.tasks["price"].splits["train"]
    assert (rows.ids.tolist(), rows.labels.tolist()) == ([0, 1], [1.5, 2.5])
    assert rows.times is not None
    assert rows.times[0] == dates[0].astype("datetime64[s]").astype(int)
    assert again.tasks["price"].kind == "regression"
    assert again.verify()["files"] == 4
    with pytest.raises(FileExistsError, match="task 'price' already exists"):
        ds.add_task("price", ids=[0], labels=[1], splits={"train": [0]})
    ds.add_task("price", ids=[0, 1], labels=[1, 0], splits={"train": [0], "valid": [1]}, overwrite=True)
    assert gz.Dataset(ds.path).tasks["price"].splits["valid"].ids.tolist() == [1]
    assert len(list(Path(ds.path, "tasks").rglob("*.gd"))) == 2
    with pytest.raises(KeyError, match="no task 'x'; the dataset has 'price'"):
        ds.tasks["x"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"ids": [0, 2]}, IndexError, r"ids\[1\] = 2 is out of range for 2 nodes"),
        ({"labels": [1]}, ValueError, "labels has 1 rows, ids has 2"),
        ({"splits": None}, ValueError, "splits is required without time="),
        ({"splits": {"train": [5]}}, IndexError, r"splits\['train'\]\[0\] = 5 is out of range for 2 rows"),
        ({"entity": "shop"}, ValueError, "entity is 'shop', expected one of 'node'"),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, changes: Any, error: type[Exception], message: str) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 0]]))
    with pytest.raises(error, match=message):
        ds.add_task("t", **{"ids": [0, 1], "labels": [0, 1], "splits": {"train": [0], "valid": [1]}, **changes})
    assert not gz.Dataset(ds.path).tasks


def test_a_damaged_task_is_named(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", np.array([[0, 1], [1, 0]]))
    ds.add_task("t", ids=[0, 1], labels=[0, 1], splits={"train": [0], "valid": [1]})
    path = Path(ds.path, "dataset.json")
    good = json.loads(path.read_text())
    for change, message in (
        ({"entity": "shop"}, "tasks.t.entity: found 'shop', expected one of 'node'"),
        ({"kind": "x"}, "tasks.t.kind: found 'x', expected one of classification"),
        ({"splits": {"train": "gone.gd"}}, "tasks.t.splits.train: found no file 'gone.gd'"),
    ):
        bad = json.loads(json.dumps(good))
        bad["tasks"]["t"] |= change
        path.write_text(json.dumps(bad))
        with pytest.raises(gz.FormatError, match=message):
            gz.Dataset(ds.path)


def test_unknown_tasks_and_times_are_named(leaky: gz.Dataset) -> None:
    with pytest.raises(ValueError, match="task is 'x', expected one of 'nodes', 'links', 'churn', 'later'"):
        Trainer(leaky, dataclasses.replace(OPTIONS, task="x"))
    with pytest.raises(ValueError, match="time is 'nothing', but no node type has a column of times or a feature"):
        Trainer(leaky, dataclasses.replace(OPTIONS, time="nothing"))
    with pytest.raises(ValueError, match="split_by_time also needs time="):
        Trainer(leaky, dataclasses.replace(OPTIONS, split_by_time="70/15/15"))


def test_one_type_splits_by_time_and_sees_the_past_only(tmp_path: Path) -> None:
    """Each node's class is that of a neighbour that comes after it."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 300)
    when = rng.permutation(300) + 1000
    ends = np.arange(300)
    ds = gz.Dataset.create(
        tmp_path / "d",
        np.stack([300 + label, ends]),
        times=when + 5,
        num_nodes=302,
        direction="in",
        features={"x": np.eye(302, 302, k=0, dtype=np.float32)[:, 300:], "when": np.append(when, [0, 0])},
        labels=np.append(label, [-1, -1]),
    )
    timed = Trainer(ds, dataclasses.replace(OPTIONS, time="when", split_by_time="60/20/20"))
    assert [timed.task.size(split) for split in ("train", "valid", "test")] == [180, 60, 60]
    result = timed.fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy < 0.65
    plain = {"train": np.arange(180), "valid": np.arange(180, 240), "test": np.arange(240, 300)}
    seen = gz.Dataset.create(tmp_path / "e", ds.graph, features=ds.features["x"], labels=ds.labels, splits=plain)
    assert accuracy(seen) > 0.9


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_the_number_of_later_edges_is_not_seen(tmp_path: Path, model: str) -> None:
    """The class is in how many edges come later: neither degrees as inputs nor those of GCN's norm may give it away."""
    rng = np.random.default_rng(0)
    count = 200
    label = rng.integers(0, 2, count)
    ends = np.concatenate([np.arange(count), np.repeat(np.arange(count), np.where(label == 1, 9, 1))])
    times = np.where(np.arange(len(ends)) < count, 10, 30)
    edges = np.stack([rng.integers(0, count, len(ends)), ends])
    parts = dict(zip(("train", "valid", "test"), np.split(rng.permutation(count), [100, 150]), strict=True))
    given = {"x": np.ones((count, 2), np.float32)} if model == "gcn" else {}

    def found(name: str, **time: Any) -> float:
        made: Any = {**given, **({"when": np.full(count, 20)} if time else {})}
        ds = gz.Dataset.create(
            tmp_path / name, edges, times=times, direction="in", features=made, labels=label, splits=parts
        )
        return accuracy(ds, model=model, fanouts=[-1], id_embedding_memory=1, epochs=60, **time)

    with warnings.catch_warnings(action="ignore"):  # of the inputs
        assert found("all") > 0.9
        assert found("past", time="when") < 0.7


def test_links_are_split_by_the_times_of_edges(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    users = rng.integers(0, 60, 1200)
    items = 2 * rng.integers(0, 20, 1200) + users % 2
    ds = gz.Dataset.create(
        tmp_path / "d",
        graphs={("user", "buys", "item"): np.stack([users, items])},
        times=rng.permutation(1200),
        num_nodes={"user": 60, "item": 40},
        reverse=True,
    )
    links = dataclasses.replace(OPTIONS, task="links", edge_type=("user", "buys", "item"), time="edges")
    run = Trainer(ds, dataclasses.replace(links, epochs=3))
    assert [run.task.size(split) for split in ("train", "valid", "test")] == [840, 180, 180]
    assert run.fit().test_metrics["auc"] > 0.6
    with pytest.raises(ValueError, match="time is 'year', expected 'edges' for links"):
        Trainer(ds, dataclasses.replace(links, time="year"))


def test_info_lists_columns_and_tasks(leaky: gz.Dataset) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    shown = " ".join(CliRunner().invoke(app, ["info", leaky.path]).output.split())
    assert "column asked time" in shown
    assert "task churn classification of user: train, valid, test" in shown
    assert leaky.info["nodes"]["user"]["columns"] == {"asked": "time"}
    assert leaky.info["tasks"][:2] == ["churn", "later"]
