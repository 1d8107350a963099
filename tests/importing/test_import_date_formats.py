"""Text of dates in other formats than ISO: read by a rule, and recognised in reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app
from graphzero.dataset.columns import MISSING_TIME
from graphzero.sources.date_formats import date_hint

pa = pytest.importorskip("pyarrow")

DAYS = ["31/05/2024", "01/02/1969", "", "29/02/2024"]
SECONDS = [int(np.datetime64(day, "s").astype(int)) for day in ("2024-05-31", "1969-02-01")]
SECONDS += [MISSING_TIME, int(np.datetime64("2024-02-29", "s").astype(int))]
EDGES = {"src": ["a", "b", "c"], "dst": ["b", "c", "d"]}
RULE = {"columns": {"joined": {"kind": "time", "format": "%d/%m/%Y"}}}


@pytest.fixture(params=["csv", "arrow"])
def users(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "arrow":
        return pa.table({"id": list("abcd"), "joined": [day or None for day in DAYS]})
    rows = "".join(f"{name},{day}\n" for name, day in zip("abcd", DAYS, strict=True))
    (tmp_path / "users.csv").write_text("id,joined\n" + rows)
    return str(tmp_path / "users.csv")


def times(ds: gz.Dataset, node: str = "node") -> list[int]:
    column = ds.nodes[node].columns["joined"]
    assert column.kind == "time"
    found: list[int] = ds.nodes[node].features[column.array].get_tensor()[:, column.column].tolist()
    return found


def test_a_column_of_a_node_table(tmp_path: Path, users: Any) -> None:
    ds = gz.import_dataset(EDGES, tmp_path / "out", nodes=users, node_columns=RULE).dataset
    assert times(ds) == SECONDS
    ds = gz.import_dataset(EDGES, tmp_path / "time", nodes=users, node_columns={**RULE, "time": "joined"}).dataset
    assert ds.features["time"].get_tensor().tolist() == SECONDS
    ds = gz.import_dataset(EDGES, tmp_path / "text", nodes=users).dataset
    assert ds.nodes["node"].columns["joined"].kind == "category"
    assert """looks like dates; set kind: time with format: "%d/%m/%Y\"""" in " ".join(ds.info["about"]["found"])


def test_times_of_keyed_tables_and_their_edges(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,age\nu,1\nv,2\n")
    (tmp_path / "buys.csv").write_text("user,joined\nu,31/05/2024\nv,2024-02-29\nu,\n")
    (tmp_path / "keys.yaml").write_text(
        "users: {primary_key: id}\n"
        "buys:\n  foreign_keys: {user: users}\n  time: joined\n"
        "  columns: {joined: {format: ['%Y-%m-%d', '%d/%m/%Y']}}\n"
    )
    ds = gz.import_dataset(tmp_path, tmp_path / "out").dataset
    expected = [SECONDS[0], SECONDS[3], MISSING_TIME]
    assert times(ds, "buys") == expected
    assert ds.nodes["buys"].features["time"].get_tensor().tolist() == expected
    assert sorted(ds.graphs["buys", "user", "users"].get_times(0, direction="in").tolist()) == expected[::-2]


def test_a_column_of_edges(tmp_path: Path) -> None:
    table = {**EDGES, "joined": pa.array(["31/05/2024 10:30", None, "01/06/2024 00:00"]), "v": [1, 2, 3]}
    edge = {"type": ("n", "to", "n"), "table": pa.table(table), "columns": {"joined": {"format": "%d/%m/%Y %H:%M"}}}
    ds = gz.import_dataset({"edges": [edge]}, tmp_path / "out").dataset
    column = ds.edges["n", "to", "n"].columns["joined"]
    found = ds.edges["n", "to", "n"].features[column.array].get_tensor()[:, column.column]
    assert found[[0, 2]].astype("datetime64[s]").astype(str).tolist() == ["2024-05-31T10:30:00", "2024-06-01T00:00:00"]
    assert found[1] == MISSING_TIME


def test_time_zones_and_numbers(tmp_path: Path) -> None:
    table = {
        "id": list("ab"),
        "joined": ["31/05/2024 01:00 +0200", "31/05/2024 01:00 +0000"],
        "day": [20240531, 20240601],
    }
    rules = {"joined": {"format": "%d/%m/%Y %H:%M %z"}, "day": {"format": "%Y%m%d"}}
    ds = gz.import_dataset({"src": ["a"], "dst": ["b"]}, tmp_path / "o", nodes=table, node_columns={"columns": rules})
    assert np.diff(times(ds.dataset)).tolist() == [7200]
    column = ds.dataset.nodes["node"].columns["day"]
    days = ds.dataset.features[column.array].get_tensor()[:, column.column]
    assert days.astype("datetime64[s]").astype("datetime64[D]").astype(str).tolist() == ["2024-05-31", "2024-06-01"]


def test_days_as_numbers_of_which_some_are_missing(tmp_path: Path) -> None:
    rules = {"columns": {"day": {"format": "%Y%m%d"}}}
    for name, days in (("o", [20240531.0, np.nan]), ("p", np.array([20240531, None], object))):
        table = {"id": list("ab"), "day": np.array(days)}
        ds = gz.import_dataset({"src": ["a"], "dst": ["b"]}, tmp_path / name, nodes=table, node_columns=rules).dataset
        column = ds.nodes["node"].columns["day"]
        found = ds.features[column.array].get_tensor()[:, column.column]
        assert found.tolist() == [np.datetime64("2024-05-31", "s").astype(int), MISSING_TIME]
    table["day"] = np.array([20240531.5, np.nan])
    with pytest.raises(gz.InputError, match=r"row 0: found '20240531\.5', expected a date"):
        gz.import_dataset({"src": ["a"], "dst": ["b"]}, tmp_path / "no", nodes=table, node_columns=rules)


@pytest.mark.parametrize("day", ["31/12/9999 23:00 -0500", "01/01/0001 01:00 +0500"])
def test_times_beyond_the_years_of_utc(tmp_path: Path, day: str) -> None:
    table = {"id": ["a", "b"], "day": ["31/05/2024 01:00 +0200", day]}
    rules = {"columns": {"day": {"format": "%d/%m/%Y %H:%M %z"}}}
    with pytest.raises(gz.InputError, match=r"row 1: found '.*', expected a date in the format"):
        gz.import_dataset({"src": ["a"], "dst": ["b"]}, tmp_path / "o", nodes=table, node_columns=rules)


def test_only_imports_are_told_of_formats(tmp_path: Path) -> None:
    hint = "expected a date such as 2024-05-31; a description of tables may set the format"
    table = {"id": ["a", "b"], "day": ["2024-05-31", "2024-06-01"]}
    made = gz.import_dataset(
        {"src": ["a"], "dst": ["b"]}, tmp_path / "o", nodes=table, node_columns={"columns": {"day": "time"}}
    )
    with pytest.raises(gz.InputError, match=r"row 0: found '31/05/2024'.*2024-05-31$"):
        made.dataset.append(nodes={"id": ["c"], "day": ["31/05/2024"]})
    edges = {"src": [0], "dst": [1], "time": ["31/05/2024"]}
    with pytest.raises(gz.InputError, match=r"row 0: found '31/05/2024'.*2024-05-31$"):
        gz.compile_graph(pa.table(edges), tmp_path / "o.gl", times="time")
    typed = {"edges": [{"type": ("n", "r", "n"), "table": pa.table(edges), "time": "time"}]}
    with pytest.raises(gz.InputError, match=hint):
        gz.import_dataset(typed, tmp_path / "p")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"format": "%m/%d/%Y"},
            "column 'joined': row 0: found '31/05/2024', expected a date in the format '%m/%d/%Y'",
        ),
        ({"format": "%Q"}, r"columns\.joined\.format: found '%Q', expected codes of strptime"),
        ({"format": "%d/%m/%Y %Z"}, "found '%d/%m/%Y %Z', whose %Z reads the name .* with %z"),
        ({"format": "dd/mm/yyyy"}, "found 'dd/mm/yyyy', expected codes of strptime"),
        ({"format": 3}, "found 3, expected a format such as"),
        ({"format": []}, r"found \[\], expected a format such as"),
        ({"format": "%Y", "kind": "category"}, "the kind is 'category', expected time, which has a format"),
    ],
)
def test_formats_that_do_not_fit(tmp_path: Path, users: Any, rule: Any, message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(EDGES, tmp_path / "o", nodes=users, node_columns={"columns": {"joined": rule}})
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        (["31/05/2024", "01/02/2024"], 'format: "%d/%m/%Y"'),
        (["05/31/2024", "01/02/2024"], 'format: "%m/%d/%Y"'),
        (["05/06/2024", "01/02/2024"], 'format: "%d/%m/%Y" (or "%m/%d/%Y")'),
        (["31/05/2024"] * 2 + ["2024-06-01"], 'format: ["%d/%m/%Y", "%Y-%m-%d"]'),
        (["31.05.2024 10:00", "01.02.2024 11:30"], 'format: "%d.%m.%Y %H:%M"'),
        (["May 31, 2024"], 'format: "%b %d, %Y" (or "%B %d, %Y")'),
        (["31/05/2024", "05/31/2024"], "day and month in different orders"),
        (["31/05/2024", "shop", "web"], ""),
        (["12-34-5678", "99-99-9999"], ""),
        (["192.168.10.10", "10.0.10.1111"], ""),
        ([], ""),
    ],
)
def test_hints(texts: list[str], hint: str) -> None:
    found = date_hint(texts)
    assert found.endswith(hint) if hint else not found


def test_inspect_says_what_looks_like_dates(tmp_path: Path) -> None:
    days = [f"{1 + i % 28:02}/{1 + i % 12:02}/{1990 + i % 30}" for i in range(3000)]  # too many for a category
    (tmp_path / "users.csv").write_text("id,joined\n" + "".join(f"u{i},{day}\n" for i, day in enumerate(days)))
    (tmp_path / "buys.csv").write_text("user\n" + "".join(f"u{i}\n" for i in range(100)))
    said = " ".join(CliRunner().invoke(app, ["inspect", str(tmp_path)]).output.split())
    assert 'joined: looks like dates; set kind: time with format: "%d/%m/%Y"' in said
