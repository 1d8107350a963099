"""From a run to a table: ids, names of classes, probabilities, times, and the best links."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero.cli.app import app  # noqa: E402
from graphzero.load.seeds import positions_of  # noqa: E402
from graphzero.train import Trainer, TrainOptions, load_model, predict, typed_inference  # noqa: E402
from graphzero.train.held_out import edge_ends  # noqa: E402
from graphzero.train.link_tasks import LinkTask  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=8, fanouts=[3], dropout=0.0, batch_size=64, epochs=4, lr=0.05, memory="64MB", device="cpu", seed=1
)
SMALL = ["--fanouts", "3", "--hidden", "8", "--epochs", "2", "--memory", "64MB", "--device", "cpu"]
RUNNING: dict[str, Any] = {"memory": "64MB", "device": "cpu", "num_threads": 1}


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Nodes with names, in two classes with names."""
    folder = tmp_path_factory.mktemp("named")
    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    edges = folder / "edges.csv"
    edges.write_text("src,dst\n" + "".join(f"n{a},n{b}\n" for a, b in zip(range(60), rng.permutation(60), strict=True)))
    gz.compile_graph(edges, folder / "g.gl", ids="map", direction="in")
    place = np.array([int(name[1:]) for name in gz.IdMap(folder / "g.ids.gd").to_original(np.arange(60))])
    return gz.Dataset.create(
        folder / "data",
        folder / "g.gl",
        ids=folder / "g.ids.gd",
        features=(np.eye(2)[label[place]] + rng.normal(0, 0.1, (60, 2))).astype(np.float32),
        labels=label[place],
        splits={"train": np.arange(30), "valid": np.arange(30, 45), "test": np.arange(45, 60)},
        about={"classes": ["even", "odd"]},
    )


def test_train_saves_the_run_and_its_next_line_predicts(named: gz.Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("train", named.path, *SMALL, "--epochs", 15, "--lr", 0.1, "--dropout", 0)
    assert done.exit_code == 0, done.output
    found = re.search(r"^next: graphzero (predict .*)$", done.output, flags=re.M)
    assert found is not None
    assert run(*shlex.split(found[1].replace(".parquet", ".csv")), "--device", "cpu").exit_code == 0
    rows = read(tmp_path / "predictions.csv")
    assert list(rows[0]) == ["id", "prediction", "p_even", "p_odd"]
    assert sorted(row["id"] for row in rows) == sorted(f"n{i}" for i in range(60))
    right = [row["prediction"] == ("odd" if int(row["id"][1:]) % 2 else "even") for row in rows]
    assert np.mean(right) > 0.9
    assert all(abs(float(row["p_even"]) + float(row["p_odd"]) - 1) < 1e-4 for row in rows)
    assert run("predict", named.path, "--out", "again.csv", "--device", "cpu").exit_code == 0  # the newest run
    assert read(tmp_path / "again.csv") == rows
    first = Path(named.path, "runs", "1.npz")
    assert first.exists()
    assert run("train", named.path, *SMALL, "--no-save").exit_code == 0
    assert [path.name for path in first.parent.iterdir()] == ["1.npz"]
    assert run("train", named.path, *SMALL, "--json").exit_code == 0
    assert Path(named.path, "runs", "2.npz").exists()


def test_parquet_and_gd_say_the_same(named: gz.Dataset, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    Trainer(named, OPTIONS, checkpoint=tmp_path / "run.npz").fit()
    for name in ("p.csv", "p.parquet", "p.gd"):
        predict(named, tmp_path / "run.npz", tmp_path / name, **RUNNING)
    table, rows = pq.read_table(tmp_path / "p.parquet").to_pylist(), read(tmp_path / "p.csv")
    assert [row["id"] for row in table] == [row["id"] for row in rows]
    assert [row["prediction"] for row in table] == [row["prediction"] for row in rows]
    outputs = gz.FeatureStore(tmp_path / "p.gd").get_tensor()
    assert [("even", "odd")[i] for i in outputs.argmax(1)] == [row["prediction"] for row in rows]
    done = run("export", named.path, tmp_path / "raw.csv", "--rows", tmp_path / "p.gd")
    assert done.exit_code == 0, done.output
    raw = read(tmp_path / "raw.csv")
    assert [row["id"] for row in raw] == [row["id"] for row in rows]
    assert float(raw[7]["x1"]) == pytest.approx(float(outputs[7, 1]), rel=1e-4)
    refused = run("predict", named.path, "--checkpoint", tmp_path / "run.npz", "--out", tmp_path / "p.txt")
    assert "expected a name that ends in .csv" in refused.output


def test_parquet_without_pyarrow_says_what_to_do(named: gz.Dataset, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"a \.parquet file needs pyarrow; pip install 'graphzero\[import\]'"):
        predict(named, tmp_path / "none.npz", tmp_path / "p.parquet")


@pytest.mark.parametrize("kind", ["regression", "multilabel"])
def test_numbers_and_labels_are_in_their_own_units(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3)).astype(np.float32)
    ds = gz.Dataset.create(
        tmp_path / "d",
        rng.integers(0, 90, (2, 200)),
        num_nodes=90,
        direction="in",
        features=x,
        labels=500 + 100 * x[:, 0] if kind == "regression" else (x[:, :2] > 0).astype(int),
        splits={"train": np.arange(60), "valid": np.arange(60, 75), "test": np.arange(75, 90)},
    )
    longer = TrainOptions(**{**OPTIONS.to_dict(), "epochs": 20})
    Trainer(ds, longer, checkpoint=tmp_path / "run.npz").fit()
    assert predict(ds, tmp_path / "run.npz", tmp_path / "p.csv", **RUNNING).rows == 90
    rows = read(tmp_path / "p.csv")
    if kind == "regression":
        found = np.array([float(row["prediction"]) for row in rows])
        assert np.corrcoef(found, ds.labels)[0, 1] > 0.7
        assert abs(found.mean() - 500) < 40
    else:
        found = np.array([[float(row["p_0"]), float(row["p_1"])] for row in rows])
        assert ((found > 0.5) == ds.labels).mean() > 0.85


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    rng = np.random.default_rng(0)
    users = rng.integers(0, 30, 500)
    ds = gz.Dataset.create(
        tmp_path_factory.mktemp("shop") / "data",
        graphs={("user", "buys", "item"): np.stack([users, 2 * rng.integers(0, 40, 500) + users % 2])},
        times=np.arange(500),
        num_nodes={"user": 30, "item": 80},
        reverse=True,
    )
    ds.add_task(
        "churn",
        entity="user",
        ids=np.arange(60) % 30,
        time=(np.arange(60) * 8).astype("datetime64[s]"),
        labels=np.arange(60) % 2,
        names=["stays", "leaves"],
    )
    return ds


def test_rows_of_a_task_have_their_times(shop: gz.Dataset, tmp_path: Path) -> None:
    done = run("train", shop.path, "--task", "churn", *SMALL, "--checkpoint", tmp_path / "run.npz")
    assert done.exit_code == 0, done.output
    command = ["predict", shop.path, "--checkpoint", tmp_path / "run.npz", "--device", "cpu", "--memory", "64MB"]
    assert run(*command, "--out", tmp_path / "p.csv").exit_code == 0
    rows = read(tmp_path / "p.csv")
    assert len(rows) == 60
    assert list(rows[0]) == ["id", "time", "split", "prediction", "p_stays", "p_leaves"]
    assert (rows[5]["id"], rows[5]["time"]) == ("5", "1970-01-01T00:00:40")
    assert rows[5]["prediction"] in ("stays", "leaves")
    done = run(*command, "--out", tmp_path / "t.csv", "--split", "test", "--json")
    assert json.loads(done.stdout)["rows"] == len(shop.tasks["churn"].splits["test"]) == len(read(tmp_path / "t.csv"))
    assert run(*command, "--out", tmp_path / "p.gd").exit_code == 0
    assert set(gz.FeatureStore(tmp_path / "p.gd").names) == {"ids", "times", "x"}
    exported = run("export", shop.path, tmp_path / "g.csv", "--rows", tmp_path / "p.gd", "--node-type", "user")
    assert exported.exit_code == 0, exported.output
    assert [row["id"] for row in read(tmp_path / "g.csv")] == [row["id"] for row in rows]


def test_nodes_of_a_run_by_time_have_theirs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ds = gz.Dataset.create(
        tmp_path / "d",
        rng.integers(0, 40, (2, 100)),
        times=np.arange(100) + 1980,
        num_nodes=40,
        direction="in",
        features={"x": np.eye(40, dtype=np.float32), "year": np.arange(40) + 2000},
        labels=np.arange(40) % 2,
    )
    asked = TrainOptions(**{**OPTIONS.to_dict(), "time": "year", "split_by_time": "50/25/25", "epochs": 1})
    Trainer(ds, asked, checkpoint=tmp_path / "run.npz").fit()
    assert predict(ds, tmp_path / "run.npz", tmp_path / "p.csv", **RUNNING).rows == 40
    rows = read(tmp_path / "p.csv")
    assert list(rows[0]) == ["id", "time", "prediction", "p_0", "p_1"]
    assert [row["time"] for row in rows] == [str(year) for year in range(2000, 2040)]  # numbers stay what they are
    predict(ds, tmp_path / "run.npz", tmp_path / "t.csv", split="test", **RUNNING)
    assert [row["id"] for row in read(tmp_path / "t.csv")] == [str(node) for node in range(30, 40)]


@pytest.mark.parametrize("exclude", ["train", "all", "none"])
def test_the_best_links_are_exact(
    shop: gz.Dataset, tmp_path: Path, exclude: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphzero.train import top_links

    monkeypatch.setattr(top_links, "_SOURCES", 7)
    monkeypatch.setattr(top_links, "_TARGETS", 16)
    links = TrainOptions(**{**OPTIONS.to_dict(), "task": "links", "edge_type": ("user", "buys", "item"), "epochs": 1})
    Trainer(shop, links, checkpoint=tmp_path / "run.npz").fit()
    predict(shop, tmp_path / "run.npz", tmp_path / "top.csv", top=5, exclude=exclude, **RUNNING)
    model = load_model(tmp_path / "run.npz")
    ends = {}
    for name in ("user", "item"):
        typed_inference(model, shop, tmp_path / f"{name}.gd", node_type=name, memory="64MB", num_threads=1)
        ends[name] = np.array(gz.FeatureStore(tmp_path / f"{name}.gd").get_tensor())
    scores = ends["user"] @ ends["item"].T
    task = LinkTask(shop, links, torch.device("cpu"))
    assert task.held_out is not None
    held = {tuple(pair) for pairs in (task.held_out.valid, task.held_out.test) for pair in pairs.T.tolist()}
    for target in range(80):
        for user in shop.edges["user", "buys", "item"].graph.get_neighbours(target, direction="in").tolist():
            if exclude == "all" or (exclude == "train" and (user, target) not in held):
                scores[user, target] = -np.inf
    predict(shop, tmp_path / "run.npz", tmp_path / "items.gd", node_type="item", **RUNNING)  # embeddings
    assert gz.FeatureStore(tmp_path / "items.gd").shape == (80, 8)
    rows = read(tmp_path / "top.csv")
    assert len(rows) == 30 * 5
    for user in range(30):
        own = [row for row in rows if row["source"] == str(user)]
        assert [int(row["rank"]) for row in own] == [1, 2, 3, 4, 5]
        best = np.sort(scores[user])[::-1][:5]
        np.testing.assert_allclose([scores[user, int(row["target"])] for row in own], best, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("timed", [False, True])
def test_links_of_a_split_are_scored_without_its_edges(shop: gz.Dataset, tmp_path: Path, timed: bool) -> None:
    buys = ("user", "buys", "item")
    more = {"task": "links", "edge_type": buys, "epochs": 1, "time": "edges" if timed else None}
    links = TrainOptions(**{**OPTIONS.to_dict(), **more})
    Trainer(shop, links, checkpoint=tmp_path / "run.npz").fit()
    command = ["predict", shop.path, "--checkpoint", tmp_path / "run.npz", "--out", tmp_path / "t.csv", "--top", 4]
    done = run(*command, "--split", "valid", "--json", "--device", "cpu")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["metrics"]
    task = LinkTask(shop, links, torch.device("cpu"))
    every = edge_ends(task.graph, np.arange(500), "in")
    hidden, wanted = set(), set()
    for split in ("valid", "test"):
        given = np.asarray(task.splits[split])
        pairs = given if given.ndim == 2 else edge_ends(task.graph, positions_of(given, task.graph, "in"), "in")
        hidden |= set(map(tuple, pairs.T.tolist()))
        wanted |= hidden if split == "valid" else set()
    known = np.array([pair not in hidden for pair in map(tuple, every.T.tolist())])
    assert 0 < known.sum() < 500
    before = gz.Dataset.create(
        tmp_path / "before", graphs={buys: every[:, known]}, num_nodes={"user": 30, "item": 80}, reverse=True
    )
    model, ends = load_model(tmp_path / "run.npz"), []
    for name in ("user", "item"):
        typed_inference(model, before, tmp_path / f"{name}.gd", node_type=name, memory="64MB", num_threads=1)
        ends.append(np.array(gz.FeatureStore(tmp_path / f"{name}.gd").get_tensor()))
    scores = ends[0] @ ends[1].T
    scores[tuple(every[:, known])] = -np.inf
    recalls = []
    for user in sorted({user for user, _ in wanted}):
        right = {item for own, item in wanted if own == user}
        recalls.append(len(right & set(np.argsort(-scores[user])[:4].tolist())) / len(right))
    assert found["recall@4"] == pytest.approx(np.mean(recalls))
    assert {row["source"] for row in read(tmp_path / "t.csv")} == {str(user) for user, _ in wanted}
    with pytest.raises(ValueError, match="split is 'train', expected 'valid' or 'test'"):
        predict(shop, tmp_path / "run.npz", tmp_path / "t.csv", split="train", **RUNNING)


def test_what_does_not_go_together_is_refused(named: gz.Dataset, tmp_path: Path) -> None:
    Trainer(named, OPTIONS, checkpoint=tmp_path / "run.npz").fit()
    with pytest.raises(ValueError, match="top is 3, but it is for runs with task='links'"):
        predict(named, tmp_path / "run.npz", tmp_path / "p.csv", top=3, **RUNNING)
    with pytest.raises(ValueError, match="split is 'test', but it is for runs by time, task tables"):
        predict(named, tmp_path / "run.npz", tmp_path / "p.csv", split="test", **RUNNING)
    assert not (tmp_path / "p.csv").exists()
    (tmp_path / "edges.csv").write_text("id,age\nn0,41\n")
    with pytest.raises(FileExistsError, match="does not look like predictions and would be overwritten"):
        predict(named, tmp_path / "run.npz", tmp_path / "edges.csv", **RUNNING)
    for _ in range(2):  # predictions may be made again
        predict(named, tmp_path / "run.npz", tmp_path / "p.csv", **RUNNING)
