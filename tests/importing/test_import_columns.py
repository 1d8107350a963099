"""Columns of tables become inputs of models: each by its kind, with missing values, and nothing dropped silently."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")

RING = {"n to n": {"src": np.array([0, 1, 2, 3]), "dst": np.array([1, 2, 3, 0])}}
NAN = float("nan")


def imported(folder: Path, table: Any, **entry: Any) -> Any:
    spec = {"nodes": {"n": {"table": table, **entry}}, "edges": RING}
    return gz.import_dataset(spec, folder / "ds", overwrite=True)


def stored(report: Any, array: str) -> list[Any]:
    return np.asarray(report.dataset.nodes["n"].features[array].get_tensor()).tolist()


def test_every_kind_of_column(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [0, 1, 2, 3],
            "age": [30, None, 50, 40],
            "paid": [True, False, None, True],
            "country": ["no", "fr", None, "no"],
            "joined": [dt.date(2020, 1, 2), None, dt.date(2020, 1, 1), dt.date(2020, 1, 1)],
            "seen": ["2020-01-02", "2020-01-02 10:00:00", "", "2020-01-01T00:00:00Z"],
            "emb": pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.float32(), 2)),
            "tags": [["a", "b"], ["b"], [], None],
            "nothing": pa.nulls(4),
            "shape": [{"w": 1}] * 4,
        }
    )
    report = imported(tmp_path, table)
    node = report.dataset.nodes["n"]
    kinds = {name: column.kind for name, column in node.columns.items()}
    assert kinds == {
        **{"age": "number", "paid": "bool", "country": "category", "joined": "time", "seen": "time"},
        **{"emb": "embedding", "tags": "multicategory"},
    }
    np.testing.assert_array_equal(stored(report, "columns_number"), [[30, 1], [NAN, 0], [50, NAN], [40, 1]])
    assert stored(report, "columns_category") == [[0], [1], [-1], [0]]
    least = int(np.iinfo(np.int64).min)
    day = int(np.datetime64("2020-01-01", "s").astype(int))
    assert stored(report, "columns_time") == [
        *([day + 86400, day + 86400], [least, day + 122400], [day, least], [day, day])
    ]
    np.testing.assert_array_equal(stored(report, "emb"), [[1, 2], [3, 4], [NAN, NAN], [5, 6]])
    assert stored(report, "tags") == [[1, 0], [0, -1], [-1, -1], [-1, -1]]
    assert node.columns["tags"].names == ["b", "a"]
    assert node.columns["age"].stats["mean"] == 40
    assert "left out: column of n 'nothing', holds no values" in report.found
    assert (
        "left out: column of n 'shape', holds struct<w: int64>, which is not supported as a model input" in report.found
    )
    assert "column of n 'country': category of 2 (no, fr), 1 missing" in report.found
    report.dataset.verify()


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict"])
def test_tables_of_other_libraries(tmp_path: Path, kind: str) -> None:
    columns: dict[str, Any] = {"id": [0, 1, 2, 3], "age": [30, None, 50, 40], "country": ["no", None, "fr", "no"]}
    table = columns if kind == "dict" else pytest.importorskip(kind).DataFrame(columns)
    report = imported(tmp_path, table)
    np.testing.assert_array_equal(stored(report, "columns_number"), [[30], [NAN], [50], [40]])
    assert stored(report, "columns_category") == [[0], [-1], [1], [0]]


def test_missing_values_may_be_filled_or_refused(tmp_path: Path) -> None:
    table = {"id": [0, 1, 2, 3], "age": [30.0, None, 50.0, 40.0], "country": ["no", None, "fr", "no"]}
    report = imported(tmp_path, table, columns={"age": {"missing": "mean"}, "country": {"missing": "unknown"}})
    assert stored(report, "columns_number") == [[30], [40], [50], [40]]
    assert report.dataset.nodes["n"].columns["country"].names == ["no", "fr", "unknown"]
    assert stored(report, "columns_category") == [[0], [2], [1], [0]]
    report = imported(tmp_path, table, columns={"age": {"missing": -1}})
    assert stored(report, "columns_number")[1] == [-1]
    with pytest.raises(gz.InputError, match=r"column 'age' has no value in row 1; missing: keep imports it"):
        imported(tmp_path, table, missing_values="error")
    with pytest.raises(gz.InputError, match=r"column 'country': missing is 'mean', but text has no mean"):
        imported(tmp_path, table, missing_values="mean")
    with pytest.raises(gz.InputError, match=r"nodes\.n\.columns\.age\.kind: found 'nummer', expected one of number,"):
        imported(tmp_path, table, columns={"age": "nummer"})


def test_rare_categories_are_joined(tmp_path: Path) -> None:
    table = {"id": np.arange(6), "c": ["a", "a", "b", "b", "c", "d"], "code": [7, 7, 7, 8, 8, 9]}
    report = imported(
        tmp_path, table, columns={"c": {"min_count": 2}, "code": {"kind": "category", "max_categories": 2}}
    )
    columns = report.dataset.nodes["n"].columns
    assert (columns["c"].names, columns["code"].names) == (["a", "b", "(other)"], ["7", "(other)"])
    assert stored(report, "columns_category") == [[0, 0], [0, 0], [1, 0], [1, 1], [2, 1], [2, 1]]
    assert "column of n 'c': category of 3 (a, b, (other)), 2 rare values joined as (other)" in report.found


def test_free_text_is_left_out_with_advice_or_embedded(tmp_path: Path) -> None:
    table = {"id": np.arange(4), "note": [f"a long note about order number {i}" for i in range(4)]}
    report = imported(tmp_path, table)
    assert not report.dataset.nodes["n"].columns
    (line,) = [line for line in report.found if line.startswith("left out")]
    assert "column of n 'note', is free text (4 different values); to use it, pass a function" in line
    report = imported(
        tmp_path, table, columns={"note": {"embed": lambda texts: np.array([[len(t), 1] for t in texts])}}
    )
    assert stored(report, "note") == [[32, 1]] * 4


def test_odd_columns_are_reported(tmp_path: Path) -> None:
    table = {"id": np.arange(4), "inf": [1.0, np.inf, 2.0, 3.0], "one": [5, 5, 5, 5], "skip": [1, 2, 3, 4]}
    report = imported(tmp_path, table, columns={"skip": "skip"})
    assert "column of n 'inf': number, 1 infinite values, which models treat as missing" in report.found
    assert "column of n 'one': number, constant: every value is 5" in report.found
    assert "left out: column of n 'skip', skipped" in report.found
    assert report.dataset.nodes["n"].columns["inf"].stats["mean"] == 2


def test_statistics_are_those_of_the_training_rows(tmp_path: Path) -> None:
    table: dict[str, Any] = {"id": np.arange(4), "v": [1.0, 3.0, 100.0, 200.0], "c": ["a", "b", "z", "z"]}
    report = imported(tmp_path, table | {"split": ["train", "train", "test", "test"]})
    columns = report.dataset.nodes["n"].columns
    assert (columns["v"].stats["mean"], columns["v"].stats["of"]) == (2.0, "train")
    assert columns["c"].names == ["a", "b", "(other)"]
    report = imported(tmp_path, table | {"day": np.array(["2020-01-01"] * 2 + ["2021-01-01"] * 2, "M8[D]")}, time="day")
    assert report.dataset.nodes["n"].columns["v"].stats["mean"] == 2.0
    assert "columns n: statistics of the oldest 70% by time" in report.found
    report = imported(tmp_path, table)
    assert report.dataset.nodes["n"].columns["v"].stats["mean"] == 76.0


def test_columns_of_edges(tmp_path: Path) -> None:
    edges = {"src": [0, 1, 2], "dst": [1, 2, 0], "qty": [1, None, 3], "channel": ["web", "shop", None]}
    report = gz.import_dataset({"edges": [{"table": edges, "type": ("n", "to", "n")}]}, tmp_path / "ds")
    edge = report.dataset.edges["n", "to", "n"]
    np.testing.assert_array_equal(edge.features["columns_number"].get_tensor(), [[1], [NAN], [3]])
    assert edge.features["columns_category"].get_tensor().tolist() == [[1], [0], [-1]]
    assert "edge column of n to n 'qty': number, 1 missing" in report.found


def test_columns_are_read_in_blocks(tmp_path: Path) -> None:
    rows = 300_000
    table = pa.table({"id": np.arange(rows), "v": np.arange(rows) * 1.0, "c": [f"c{i % 7}" for i in range(rows)]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "n.parquet", row_group_size=50_000)
    spec = {"nodes": {"n": str(tmp_path / "n.parquet")}, "edges": RING}
    node = gz.import_dataset(spec, tmp_path / "ds", memory="16MB").dataset.nodes["n"]
    assert node.columns["v"].stats["mean"] == pytest.approx((rows - 1) / 2)
    assert node.columns["v"].stats["std"] == pytest.approx(np.arange(rows).std())
    assert node.features["columns_number"].gather([rows - 1]).tolist() == [[rows - 1]]


def test_fractional_labels_are_targets_of_a_regression(tmp_path: Path) -> None:
    value = [0.5, None, 2.25, 3.0, 1.0]
    users = {"id": list("abcde"), "y": pa.array(value), "age": [1.0, 2.0, 3.0, 4.0, 5.0]}
    edges = pa.table({"src": list("abcde"), "dst": list("bcdea")})
    spec = {"nodes": {"user": {"table": pa.table(users)}}, "edges": {"user__to__user": edges}}
    ds = gz.import_dataset(spec, tmp_path / "typed", splits="50/25/25").dataset
    node = ds.nodes["user"]
    assert node.label_kind == "regression"
    np.testing.assert_array_equal(node.labels, np.array(value, np.float32))
    assert sorted(np.concatenate(list(node.splits.values())).tolist()) == [0, 2, 3, 4]
    plain = gz.import_dataset(edges, tmp_path / "plain", nodes=pa.table(users), splits="50/25/25")
    assert plain.dataset.label_kind == "regression"
    np.testing.assert_array_equal(plain.dataset.labels, np.array(value, np.float32))


def test_a_reverse_relation_has_the_columns_of_its_edges(tmp_path: Path) -> None:
    bought = {"user": ["a", "b", "a"], "item": ["x", "x", "y"], "price": [1.0, 2.0, 3.0], "how": ["web", "app", None]}
    spec = {"edges": [{"type": "user buys item", "source": "user", "target": "item", "table": pa.table(bought)}]}
    ds = gz.import_dataset(spec, tmp_path / "out", reverse=True).dataset
    back, there = ds.edges["item", "rev_buys", "user"], ds.edges["user", "buys", "item"]
    assert list(there.columns) == ["price", "how"]
    assert back.columns == there.columns
    assert back.columns["how"].names == there.columns["how"].names == ["app", "web"]
    np.testing.assert_array_equal(back.features["columns_number"].get_tensor(), [[1.0], [2.0], [3.0]])
