"""Random tables with keys, compared with plain lists: counts, edges and values, with missing and dangling keys."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import graphzero as gz

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), min_size=1, max_size=4)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(microsecond=0))
ZONES = [None, "UTC", "Europe/Oslo", "America/New_York"]
COLUMNS = {
    "number": st.one_of(st.integers(-(2**62), 2**62), st.none()),
    "fraction": st.one_of(st.floats(width=32), st.none()),
    "flag": st.one_of(st.booleans(), st.none()),
    "word": st.one_of(st.sampled_from(["no", "fr", "日本", " ", "ß"]), st.none()),
    "time": st.one_of(TIMES, st.none()),
    "constant": st.just(7),
    "nothing": st.none(),
}
TYPES = {
    "number": "int64",
    "fraction": "double",
    "flag": "bool",
    "word": "string",
    "constant": "int8",
    "nothing": "null",
}


@st.composite
def databases(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(["text", "sparse", "counted", "dense"]))
    count = draw(st.integers(1, 12))
    keys: list[Any] = list(range(count)) if kind == "dense" else [i + 5 for i in range(count)]
    if kind in ("text", "sparse"):
        each = WORDS if kind == "text" else st.integers(-(2**63), 2**63 - 1)
        keys = draw(st.lists(each, min_size=1, max_size=12, unique=True))
    other = WORDS if kind == "text" else st.integers(-(2**63), 2**63 - 1)
    refer = st.one_of(st.sampled_from(keys), st.none(), other)
    rows = draw(st.integers(0, 15))
    columns = draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True))
    return {
        "keys": keys,
        "parent": [draw(refer) for _ in keys],
        "child": [draw(refer) for _ in range(rows)],
        "columns": {name: [draw(COLUMNS[name]) for _ in keys] for name in columns},
        "zone": draw(st.sampled_from(ZONES)),
        "text": kind == "text",
        "as": draw(st.sampled_from(["arrow", "parquet", "pandas"])),
    }


def tables_of(db: dict[str, Any], folder: Path) -> dict[str, Any]:
    key = pa.string() if db["text"] else pa.int64()
    found = {"id": pa.array(db["keys"], key), "parent": pa.array(db["parent"], key)}
    for name, values in db["columns"].items():
        found[name] = pa.array(values, pa.timestamp("us", db["zone"]) if name == "time" else TYPES[name])
    users: Any = pa.table(found)
    child: Any = pa.table({"user": pa.array(db["child"], key)})
    if db["as"] == "pandas":
        users, child = (t.to_pandas(types_mapper=pd.ArrowDtype) for t in (users, child))
    if db["as"] == "parquet":
        for name, table in (("users", users), ("child", child)):
            parquet.write_table(table, folder / f"{name}.parquet", row_group_size=4)
        users, child = folder / "users.parquet", folder / "child.parquet"
    return {
        "users": {"file": users, "primary_key": "id", "foreign_keys": {"parent": "users"}},
        "orders": {"file": child, "foreign_keys": {"user": "users"}},
    }


def edges_of(ds: Any, edge_type: tuple[str, str, str]) -> list[tuple[int, int]]:
    edge = ds.edges[edge_type]
    table = edge.to_arrow().read_all()
    return sorted(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


def expected(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "time":
        return value
    if name == "word":
        return value
    if name == "flag":
        return bool(value)
    with np.errstate(over="ignore"):
        found = float(np.float32(value))
    return None if np.isnan(found) else found


@settings(max_examples=15, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(db=databases())
def test_tables_with_keys(db: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = gz.import_dataset({"tables": tables_of(db, folder)}, folder / "ds", memory="16MB")
        ds, place = report.dataset, {key: i for i, key in enumerate(db["keys"])}
        assert ds.nodes["users"].num_nodes == len(db["keys"])
        assert ds.nodes["orders"].num_nodes == len(db["child"])
        for edge_type, given_keys in (("users", "parent", "users"), "parent"), (("orders", "user", "users"), "child"):
            pairs = sorted((row, place[key]) for row, key in enumerate(db[given_keys]) if key in place)
            source, relation, target = edge_type
            assert edges_of(ds, edge_type) == pairs
            assert edges_of(ds, (target, f"rev_{relation}", source)) == sorted((b, a) for a, b in pairs)
            nulls = sum(key is None for key in db[given_keys])
            dangling = len(db[given_keys]) - nulls - len(pairs)
            assert (
                f"edges {' '.join(edge_type)}: skipped {nulls} row{'s' * (nulls != 1)} without a value" in str(report)
            ) == (nulls > 0)
            assert (f"edges {' '.join(edge_type)}: {dangling} left out" in str(report)) == (dangling > 0)
        gz.export_dataset(ds, folder / "out")
        back = parquet.read_table(folder / "out" / "nodes" / "users.parquet")
        if "nothing" in db["columns"] or "nothing" in back.column_names:
            assert "left out: column of users 'nothing', holds no values" in str(report)
        assert back["id"].to_pylist() == db["keys"]
        for column in db["columns"]:
            values = db["columns"][column]
            if column not in ds.nodes["users"].columns:
                assert f"left out: column of users {column!r}" in str(report)
                assert all(value is None for value in values) or column == "word"
                continue
            assert back[column].to_pylist() == [expected(column, value) for value in values]


def users(**columns: Any) -> dict[str, Any]:
    return {"file": pa.table({"id": [1, 2, 3], **columns}), "primary_key": "id"}


def orders(values: Any, **entry: Any) -> dict[str, Any]:
    return {"file": pa.table({"user": values}), "foreign_keys": {"user": "users"}, **entry}


def keyed(values: Any, **entry: Any) -> dict[str, Any]:
    return {"file": pa.table({"id": values}), "primary_key": "id", **entry}


FAULTS = [
    ({"users": keyed([1], primary_key=["id", "b"])}, "users: found a key of several columns, id, b"),
    ({"users": {**users(), "primary_key": "uid"}}, "users.primary_key: no column 'uid' in the table; found 'id'"),
    ({"users": users(), "orders": orders([1], time="at")}, "orders.time: no column 'at' in the table; found 'user'"),
    ({"users": keyed(pa.array([1, None]))}, "users: column 'id' has no value in row 1"),
    ({"users": keyed([4, 1, 4])}, "users: column 'id': row 2: id 4 appears twice"),
    ({"users": users(), "orders": orders(["1"])}, "column 'user': found strings, but the ids of 'users' are integers"),
    ({"users": {**users(y=[-3, 1, 2]), "label": "y"}}, "users: column 'y': node 0 has label -3, expected classes 0, 1"),
    ({"users": users(), "us ers": users(), "us_ers": users()}, "would both be node type 'us_ers'; rename one of them"),
]


@pytest.mark.parametrize(("tables", "message"), FAULTS)
def test_faults_name_table_column_and_row(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    tables = {"orders": orders([1]), **tables}
    with pytest.raises(gz.InputError) as error:
        gz.import_dataset({"tables": tables}, tmp_path / "ds")
    assert message in str(error.value)
    assert not (tmp_path / "ds").exists()


def test_a_task_is_checked_before_anything_is_imported(tmp_path: Path) -> None:
    tables = {"users": users(), "orders": orders([1])}
    task = {"table": pa.table({"id": [1], "y": [1]}), "entity": "users"}
    for entry, message in (({"label": "z"}, "no column 'z'"), ({"label": "y"}, "found neither time: nor split:")):
        with pytest.raises(gz.InputError, match=f"tasks.t: .*{message}"):
            gz.import_dataset({"tables": tables, "tasks": {"t": {**task, **entry}}}, tmp_path / "ds")
    assert not (tmp_path / "ds").exists()


def test_odd_columns_and_keys_are_imported_or_have_a_line(tmp_path: Path) -> None:
    offsets = ["2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00Z", None]
    odd = users(blob=[b"\xff", b"a", None], at=offsets, big=pa.array([2**64 - 1, 0, None], pa.uint64()))
    same = keyed([3, 1], foreign_keys={"id": "users"})
    tables = {"users": {**odd, "columns": {"at": "time"}}, "profiles": same, "orders": orders(pa.nulls(2))}
    report = gz.import_dataset({"tables": tables}, tmp_path / "ds")
    assert "left out: column of users 'blob', holds bytes that are not UTF-8 text" in str(report)
    ds = report.dataset
    assert edges_of(ds, ("profiles", "id", "users")) == [(0, 2), (1, 0)]
    assert ds.nodes["orders"].num_nodes == 2
    times = ds.nodes["users"].features["columns_time"].get_tensor().ravel()
    assert times[:2].tolist() == [1577836800, 1577836800]
