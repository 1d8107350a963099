"""Tables with primary and foreign keys: files, databases and RelBench's objects become nodes and edges both ways."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

KEYS = {
    "users": {"primary_key": "id", "time": "joined"},
    "products": {"primary_key": "sku"},
    "purchases": {"foreign_keys": {"user_id": "users", "sku": "products"}, "time": "bought"},
}
DAYS = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
USERS = {"id": [10, 20, 30], "age": [30.0, None, 50.0], "joined": DAYS}
PRODUCTS = {"sku": ["a", "b"], "price": [1.5, 2.5]}
PURCHASES = {
    "user_id": [10, None, 30, 99, 20],  # one without a key, one that no user has
    "sku": ["a", "b", "b", "a", None],
    "qty": [1, 2, 3, 4, 5],
    "bought": pd.to_datetime([f"2024-02-0{i}" for i in range(1, 6)]),
}
FRAMES = {"users": USERS, "products": PRODUCTS, "purchases": PURCHASES}


def csv_folder(folder: Path) -> Any:
    for name, columns in FRAMES.items():
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    (folder / "keys.json").write_text(json.dumps(KEYS))
    return folder


def relbench_object(folder: Path) -> Any:
    def table(name: str) -> Any:
        keys: dict[str, Any] = KEYS[name]
        return SimpleNamespace(
            df=pd.DataFrame(FRAMES[name]),
            pkey_col=keys.get("primary_key"),
            fkey_col_to_pkey_table=keys.get("foreign_keys", {}),
            time_col=keys.get("time"),
        )

    return SimpleNamespace(table_dict={name: table(name) for name in FRAMES})


def relbench_folder(folder: Path) -> Any:
    from pyarrow import parquet

    for name, one in relbench_object(folder).table_dict.items():
        notes = {
            "pkey_col": one.pkey_col,
            "fkey_col_to_pkey_table": one.fkey_col_to_pkey_table,
            "time_col": one.time_col,
        }
        table = pa.Table.from_pandas(one.df, preserve_index=False)
        parquet.write_table(
            table.replace_schema_metadata({key: json.dumps(value) for key, value in notes.items()}),
            folder / f"{name}.parquet",
        )
    return folder


def python_tables(folder: Path) -> Any:
    return {"tables": {name: {**KEYS[name], "file": pd.DataFrame(FRAMES[name])} for name in FRAMES}}


@pytest.mark.parametrize("make", [csv_folder, relbench_object, relbench_folder, python_tables])
def test_foreign_keys_become_edges_both_ways(tmp_path: Path, make: Any) -> None:
    (tmp_path / "in").mkdir()
    report = gz.import_dataset(make(tmp_path / "in"), tmp_path / "ds")
    ds = report.dataset
    check(ds)
    assert ds.ids["users"].to_dense([30, 10]).tolist() == [2, 0]
    days = PURCHASES["bought"].to_numpy().astype("M8[s]").astype(np.int64)
    assert ds.nodes["purchases"].features["time"].get_tensor().tolist() == days.tolist()
    by_user = ds.edges["purchases", "user_id", "users"].graph
    assert by_user.get_times(0).tolist() == [days[0]]
    assert "edges purchases user_id users: skipped 1 row without a value in 'user_id'" in report.found
    assert "edges purchases user_id users: 1 left out, whose ends have no row in a node table" in report.found
    assert ds.nodes["users"].columns["joined"].kind == "time"


def check(ds: gz.Dataset) -> None:
    counts = {name: node.num_nodes for name, node in ds.nodes.items()}
    assert counts == {"users": 3, "products": 2, "purchases": 5}
    assert set(ds.edges) == {
        *(("purchases", "user_id", "users"), ("purchases", "sku", "products")),
        *(("users", "rev_user_id", "purchases"), ("products", "rev_sku", "purchases")),
    }
    by_user = ds.edges["purchases", "user_id", "users"].graph
    assert [by_user.get_neighbours(i).tolist() for i in range(3)] == [[0], [4], [2]]
    assert ds.edges["products", "rev_sku", "purchases"].graph.get_neighbours(1).tolist() == [1]
    assert list(ds.nodes["purchases"].columns) in (["qty", "bought"], ["qty"])
    np.testing.assert_array_equal(ds.nodes["users"].features["columns_number"].get_tensor(), [[30], [np.nan], [50]])


SCHEMA = """
create table users (id integer primary key, age real, joined text);
create table products (sku text primary key, price real);
create table purchases (user_id integer references users(id), sku text references products(sku), qty integer);
"""


def test_a_sqlite_file_has_its_keys(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "shop.db")
    file.executescript(SCHEMA)
    for name, columns in FRAMES.items():
        frame = pd.DataFrame(columns).astype(object).drop(columns="bought", errors="ignore")
        frame = frame.where(frame.notna(), None)
        rows = [[str(v)[:10] if isinstance(v, pd.Timestamp) else v for v in row] for row in frame.to_numpy().tolist()]
        file.executemany(f"insert into {name} values ({','.join('?' * frame.shape[1])})", rows)
    file.commit()
    file.close()
    ds = gz.import_dataset(tmp_path / "shop.db", tmp_path / "ds").dataset
    check(ds)
    assert ds.nodes["users"].columns["joined"].kind == "time"


def test_a_duckdb_file_has_its_keys(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as file:
        file.execute(SCHEMA)
        for name, columns in FRAMES.items():
            frame = pd.DataFrame(columns).drop(columns="bought", errors="ignore")
            file.register("frame", frame[frame["user_id"] != 99] if name == "purchases" else frame)
            file.execute(f"insert into {name} select * from frame")
    ds = gz.import_dataset(tmp_path / "shop.duckdb", tmp_path / "ds").dataset
    assert ds.nodes["purchases"].num_nodes == 4
    assert ds.edges["purchases", "user_id", "users"].num_edges == 3


def test_faults_of_keys(tmp_path: Path) -> None:
    folder = csv_folder(tmp_path)
    (folder / "keys.json").write_text(json.dumps({"users": {"primary_key": "id"}}))
    with pytest.raises(gz.InputError, match=r"keys\.json: no foreign keys, so there are no edges"):
        gz.import_dataset(folder, tmp_path / "ds")
    (folder / "keys.json").write_text(json.dumps({"purchases": {"foreign_keys": {"user_id": "clients"}}}))
    with pytest.raises(gz.InputError, match=r"foreign key 'user_id' refers to table 'clients', expected one of"):
        gz.import_dataset(folder, tmp_path / "ds")
    (folder / "keys.json").write_text(json.dumps({"orders": {"primary_key": "id"}}))
    with pytest.raises(gz.InputError, match=r"orders: no file of this table in .*; found 'products', 'purchases',"):
        gz.import_dataset(folder, tmp_path / "ds")
    (folder / "keys.json").unlink()
    with pytest.raises(gz.InputError, match=r"found 3 tables and no keys\.yaml; `graphzero inspect .* --out"):
        gz.import_dataset(folder, tmp_path / "ds")


def test_tasks_of_a_description(tmp_path: Path) -> None:
    folder = csv_folder(tmp_path)
    days = ["2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04", "2024-03-05"]
    table = {"user": [10, 20, 30, 10, 77], "at": days, "churned": ["no", "yes", "no", "no", "no"]}
    pd.DataFrame(table).to_csv(folder / "churn.csv", index=False)
    task = {"table": "churn.csv", "entity": "users", "time": "at", "label": "churned", "splits": "50/25/25"}
    (folder / "keys.json").write_text(json.dumps({"tables": KEYS, "tasks": {"churn": task}}))
    report = gz.import_dataset(folder, tmp_path / "ds")
    found = report.dataset.tasks["churn"]
    assert (found.entity, found.kind, found.names) == ("users", "classification", ["no", "yes"])
    assert found.splits["train"].ids.tolist() == [0, 1]
    assert found.splits["train"].labels.tolist() == [0, 1]
    (line,) = [line for line in report.found if line.startswith("task churn")]
    assert "1 left out, whose 'user' is not in 'users'" in line
    with pytest.raises(gz.InputError, match=r"tasks\.churn\.entity: found 'people', expected a table"):
        gz.import_dataset(
            {
                "tables": python_tables(folder)["tables"],
                "tasks": {"churn": {**task, "entity": "people", "table": str(folder / "churn.csv")}},
            },
            tmp_path / "no",
        )
