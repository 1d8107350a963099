"""A newcomer's shop: from three tables to a file of predictions by the commands that each step says to run next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")
pytest.importorskip("yaml")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner  # noqa: E402

from graphzero.cli.app import app  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

USERS = 600


def run(command: str) -> str:
    program, *words = shlex.split(command)
    assert program == "graphzero"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return str(done.output)


def next_step(output: str) -> str:
    (line,) = [line for line in output.splitlines() if line.startswith("next: ")]
    return line.removeprefix("next: ")


def users(rng: Any) -> Any:
    """Users whose country and age decide their label, with gaps in both."""
    country = rng.choice(["no", "fr", "jp"], USERS).astype(object)
    age = rng.integers(18, 80, USERS).astype(float)
    label = np.where((country == "no") | (age > 60), "stays", "leaves")
    country[rng.random(USERS) < 0.05] = None
    age[rng.random(USERS) < 0.05] = np.nan
    signup = np.datetime64("2023-01-01") + rng.integers(0, 365, USERS).astype("m8[D]")
    names = [f"user-{i}" for i in range(USERS)]
    return pd.DataFrame({"id": names, "age": age, "country": country, "signup": signup, "label": label})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    people = users(rng)
    Path("shop").mkdir()
    people.to_csv("shop/users.csv", index=False)
    products = pd.DataFrame({"sku": [f"p{i}" for i in range(40)], "price": rng.random(40).round(2)})
    products.to_parquet("shop/products.parquet")
    bought = {
        "user_id": rng.choice(people["id"], 1500),
        "sku": rng.choice(products["sku"], 1500),
        "when": np.datetime64("2024-01-01T00:00") + rng.integers(0, 10**6, 1500).astype("m8[s]"),
    }
    pd.DataFrame(bought).to_csv("shop/purchases.csv", index=False)
    return people


def test_from_three_tables_to_predictions(shop: Any) -> None:
    proposed = run("graphzero inspect shop")
    assert "users: 600 rows, primary key 'id', time 'signup', label 'label'" in proposed
    assert "user_id -> users.id: 100% of its values match" in proposed
    written = run(next_step(proposed))
    imported = run(next_step(written))
    assert "column of users 'age': number," in imported
    trained = run(next_step(imported))
    assert "420 training seeds, batches of 64, at most 200 epochs, patience 40, lr 0.003" in trained
    run(next_step(trained))
    table = pd.read_csv("predictions.csv")
    assert list(table.columns[:2]) == ["id", "prediction"]
    assert set(table["id"]) == set(shop["id"])
    probabilities = table[[column for column in table.columns if column not in ("id", "prediction")]].to_numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    truth = shop.set_index("id")["label"]
    right = (table.set_index("id")["prediction"] == truth[table["id"]]).mean()
    majority = truth.value_counts(normalize=True).max()
    assert right > majority + 0.2


def test_the_future_is_not_seen_with_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Purchases after the signup give the label away: only a run without --time can use them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 300)
    day = np.datetime64("2023-01-01") + rng.integers(0, 300, 300).astype("m8[D]")
    Path("shop").mkdir()
    pd.DataFrame({"id": np.arange(300), "signup": day, "label": label}).to_csv("shop/users.csv", index=False)
    who = np.repeat(np.arange(300), 3)
    later = day[who] + rng.integers(1, 50, 900).astype("m8[D]")
    leak = np.where(label[who] == 1, "bad", "good")
    pd.DataFrame({"user_id": who, "at": later, "kind": leak}).to_csv("shop/orders.csv", index=False)
    run("graphzero inspect shop --out shop/keys.yaml")
    run("graphzero import shop data --splits 60/20/20")
    train = "graphzero train data --epochs 8 --lr 0.02 --batch-size 64 --json"
    assert json.loads(run(train))["test_accuracy"] > 0.9
    assert json.loads(run(f"{train} --time time"))["test_accuracy"] < 0.7


def test_a_database_says_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("shop.db") as file:
        file.executescript(
            "create table users (id integer primary key, label text, split text);"
            "create table orders (user_id integer references users(id), price real);"
        )
        rows = [(i, "ab"[i % 2], ("train", "valid", "test")[i % 3]) for i in range(30)]
        file.executemany("insert into users values (?, ?, ?)", rows)
        file.executemany("insert into orders values (?, ?)", [(i % 30, i % 2) for i in range(60)])
    file.close()
    found = run("graphzero inspect shop.db")
    assert "orders: 60 rows, no primary key: rows are numbered" in found
    assert "user_id -> users, as declared" in found
    assert run(f"{next_step(run(next_step(found)))} --epochs 1")


def test_tables_that_share_nothing_have_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t").mkdir()
    Path("t/a.csv").write_text("id,v\n1,2\n2,3\n")
    Path("t/b.csv").write_text("name,w\nx,2\ny,3\n")
    assert "no foreign keys found, so there are no edges" in run("graphzero inspect t")
    assert json.loads(run("graphzero inspect t --json"))["tables"]["a"] == {"file": "a.csv", "primary_key": "id"}


def test_a_task_of_the_keys_file_is_trained_next(shop: Any) -> None:
    run("graphzero inspect shop --out keys.json")
    keys = json.loads(Path("keys.json").read_text())
    days = np.datetime64("2024-01-05") + np.arange(USERS) % 5
    examples = {"user": shop["id"], "day": days, "churn": np.arange(USERS) % 2}
    pd.DataFrame(examples).to_csv("churn.csv", index=False)
    task = {"table": "churn.csv", "entity": "users", "time": "day", "label": "churn", "splits": "60/20/20"}
    Path("keys.json").write_text(json.dumps(keys | {"tasks": {"churn": task}}))
    imported = run("graphzero import keys.json data")
    assert next_step(imported) == "graphzero train data --task churn"
    predict = next_step(run(f"{next_step(imported)} --epochs 1"))
    run(predict)
    assert len(pd.read_csv("predictions.csv")) > 0
