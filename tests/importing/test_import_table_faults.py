"""Tables with missing, doubled or faulty rows, and descriptions with mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shop_tables import BOUGHT, ORDERS, orders_of, spec

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def test_ends_without_a_row_are_told_dropped_or_filled(tmp_path: Path) -> None:
    orders = {**ORDERS, "user": ["eve", "zed", "ann", "bob", "yan"]}
    given = {"table": pa.table(orders), "features": ["qty"], "weight": "amount"}
    with pytest.raises(
        gz.InputError,
        match=r"column 'user': row 1: 'zed' has no row in the node table of 'user' \(2 such rows among 5\)",
    ):
        gz.import_dataset(spec(orders=given), tmp_path / "no")
    assert not (tmp_path / "no").exists()
    report = gz.import_dataset(spec(orders=given, users={"missing": "drop"}), tmp_path / "drop")
    ds = report.dataset
    assert [order[:3] for order in orders_of(ds)] == [("eve", 55, 1.0), ("ann", 3, 3.0), ("bob", 17, 4.0)]
    assert ds.edges[BOUGHT].features["qty"].get_tensor().tolist() == [1, 3, 4]
    assert "edges user bought item: 2 left out, whose ends have no row" in str(report)
    assert ds.nodes["user"].num_nodes == 3
    report = gz.import_dataset(spec(orders=given, users={"missing": "fill"}), tmp_path / "fill")
    ds = report.dataset
    assert [order[0] for order in orders_of(ds)] == orders["user"]
    user = ds.nodes["user"]
    assert user.features["columns_number"].get_tensor()[:, 0].tolist()[:3] == [30.0, 40.0, 50.0]
    assert np.isnan(user.features["columns_number"].get_tensor()[3:]).all()
    assert user.features["columns_category"].get_tensor()[3:, 0].tolist() == [-1, -1]
    assert user.labels.tolist() == [0, 1, 0, -1, -1]
    assert "nodes user: 2 of edges without a row, filled" in str(report)


@pytest.mark.parametrize(("which", "ages"), [("first", [30.0, 40.0, 50.0]), ("last", [40.0, 50.0, 60.0])])
def test_doubled_rows_are_told_or_one_is_taken(tmp_path: Path, which: str, ages: list[float]) -> None:
    doubled = {
        "user_id": ["ann", "bob", "eve", "ann"],
        "age": [30.0, 40.0, 50.0, 60.0],
        "churn": [0, 1, 0, 1],
        "split": ["train", "train", "test", "test"],
    }
    table = {"table": pa.table(doubled)}
    with pytest.raises(gz.InputError, match="row 3: id 'ann' appears twice, expected each id once"):
        gz.import_dataset(spec(users=table), tmp_path / "no")
    report = gz.import_dataset(spec(users={**table, "duplicates": which}, orders={"features": ["qty"]}), tmp_path / "o")
    ds = report.dataset
    assert ds.nodes["user"].features["columns_number"].get_tensor().ravel().tolist() == ages
    ann = int(ds.ids["user"].to_dense(["ann"])[0])
    assert ds.nodes["user"].labels[ann] == (0 if which == "first" else 1)
    assert (ann in ds.nodes["user"].splits["train"]) == (which == "first")
    assert [order[:2] for order in orders_of(ds)] == list(zip(ORDERS["user"], ORDERS["item"], strict=True))
    assert "nodes user: 1 rows left out" in str(report)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": {"tabel": 1}}, "nodes.user: unknown field 'tabel', expected some of table, id"),
        ({"users": {"missing": "skip"}}, "nodes.user.missing: found 'skip', expected one of error, drop, fill"),
        ({"orders": {"type": "bought"}}, r"edges\[0\].type: found 'bought', expected three names"),
        ({"orders": {"dedup": "mean"}}, r"edges\[0\].dedup: found 'mean'"),
        ({"orders": {"source": "usr"}}, "no column 'usr', expected one of 'user', 'item'"),
        ({"orders": {"symmetrise": True}}, "expected one within a node type"),
        ({"orders": {"table": None}}, r"edges\[0\].table: found nothing"),
        ({"orders": {"time": "channel"}}, "column 'channel': row 0: found 'web', expected a date such as"),
        ({"users": {"split": "churn"}}, "column 'churn' holds numbers, expected names such as 'train'"),
        ({"orders": {"source": "qty"}}, "column 'qty': found integers, but the ids of 'user' are strings elsewhere"),
        ({"orders": {"target": "channel"}}, "column 'channel': found strings, but the ids of 'item' are integers"),
        (
            {"items": {"table": {"id": np.arange(4)}}, "orders": {"target": "channel"}},
            "found strings, but the ids of 'item'",
        ),
        ({"orders": {"dedup": "sum", "weight": False}}, "dedup='sum' needs edges with weights"),
    ],
)
def test_faults_name_their_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises((gz.InputError, ValueError), match=message):
        gz.import_dataset(spec(**change), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_yaml_file_that_describes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(gz.InputError, match="found no 'edges', expected a description of tables"):
        gz.import_dataset(tmp_path / "x.json", tmp_path / "out")


def test_a_column_that_changes_its_kind_is_told_with_its_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i + 1}\n" for i in range(200_000))
    (tmp_path / "e.csv").write_text(f"src,dst\n{rows}abc,1\n")
    with pytest.raises(gz.InputError, match=r"e\.csv: cannot be read: .*abc"):
        gz.import_dataset({"edges": [{"table": str(tmp_path / "e.csv")}]}, tmp_path / "out")
    given = {"nodes": {"node": {"ids": "text"}}, "edges": [{"table": str(tmp_path / "e.csv")}]}
    ds = gz.import_dataset(given, tmp_path / "out").dataset
    one, abc = ds.ids["node"].to_dense(["1", "abc"])
    assert abc in ds.graph.get_neighbours(one)
