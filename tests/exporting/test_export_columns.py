"""Columns of tables are exported with the values that they had in the source, and imported again the same."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

USERS = {
    "id": ["ann", "bob", "eve", "joe"],
    "age": [30.0, None, 50.0, 0.5],
    "paid": [True, False, None, True],
    "country": ["no", "fr", None, "no"],
    "joined": [dt.datetime(2020, 1, 2), None, dt.datetime(1960, 1, 1), dt.datetime(2020, 1, 1, 5)],
    "emb": [[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]],
    "tags": [["a", "b"], ["b"], [], ["c"]],
    "label": [0.5, 1.5, None, 2.0],
}
ORDERS = {
    "user": ["ann", "ann", "eve"],
    "item": [7, 9, 7],
    "price": [1.5, None, 2.5],
    "how": ["web", None, "app"],
    "on": [dt.datetime(2021, 1, 1), dt.datetime(2021, 1, 2), None],
}
TASK = {"user": ["bob", "ann", "eve", "joe"], "day": [dt.date(2020, 1, d) for d in (1, 2, 3, 4)], "y": list("nyyn")}


def shop(folder: Path) -> Any:
    about = {"time": "day", "label": "y", "splits": "50/25/25"}
    spec = {
        "nodes": {"user": {"table": pa.table(USERS), "id": "id"}},
        "edges": [{"type": "user buys item", "table": pa.table(ORDERS), "source": "user", "target": "item"}],
        "tasks": {"stays": {**about, "table": pa.table(TASK), "entity": "user"}},
    }
    return gz.import_dataset(spec, folder / "ds", reverse=True).dataset


def test_parquet_has_the_values_of_the_source(tmp_path: Path) -> None:
    gz.export_dataset(shop(tmp_path), tmp_path / "out")
    users = parquet.read_table(tmp_path / "out" / "nodes" / "user.parquet")
    assert {name: users[name].to_pylist() for name in USERS} == USERS
    orders = parquet.read_table(tmp_path / "out" / "edges" / "user__buys__item.parquet").to_pylist()
    found = sorted((o["src"], o["price"] or 0, o["how"] or "", o["on"]) for o in orders)
    assert found == [("ann", 0, "", ORDERS["on"][1]), ("ann", 1.5, "web", ORDERS["on"][0]), ("eve", 2.5, "app", None)]
    task = parquet.read_table(tmp_path / "out" / "tasks" / "stays.parquet")
    assert dict(zip(task["id"].to_pylist(), task["label"].to_pylist(), strict=True)) == dict(
        zip(TASK["user"], TASK["y"], strict=True)
    )


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_exported_tables_are_imported_again(tmp_path: Path, format: str) -> None:
    first = shop(tmp_path)
    gz.export_dataset(first, tmp_path / "out", format=format)
    again = gz.import_dataset(tmp_path / "out" / "tables.json", tmp_path / "again").dataset
    arrays = ["columns_number", "columns_category", "columns_time"]
    for name in arrays if format == "csv" else [*arrays, "emb", "tags"]:
        old, new = (ds.nodes["user"].features[name] for ds in (first, again))
        np.testing.assert_array_equal(old.get_tensor(), new.get_tensor()[:, : old.feature_dim])
    for name, column in first.nodes["user"].columns.items():
        if format == "parquet":
            assert again.nodes["user"].columns[name].stats == column.stats
    np.testing.assert_array_equal(again.nodes["user"].labels, first.nodes["user"].labels)
    edge = ("user", "buys", "item")
    assert list(again.edges[edge].columns) == list(first.edges[edge].columns) == ["price", "how", "on"]
    for split in ("train", "valid", "test"):
        old_rows, new_rows = (ds.tasks["stays"].splits[split] for ds in (first, again))
        np.testing.assert_array_equal(old_rows.ids, new_rows.ids)
        np.testing.assert_array_equal(old_rows.times, new_rows.times)
    assert again.tasks["stays"].names == ["n", "y"]
