"""Empty fields and duplicates in columns of ids: never a node, and named by file, line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

CUSTOMERS, MERCHANTS = ["C1", "C2", "C3", None, "C4"], ["M1", None, "M1", "M2", None]


def described(table: Any, **edge: Any) -> dict[str, Any]:
    pays = {"type": ("customer", "pays", "merchant"), "table": str(table), "source": "customer", "target": "merchant"}
    return {"nodes": {"customer": {"ids": "map"}, "merchant": {"ids": "map"}}, "edges": [{**pays, **edge}]}


@pytest.fixture(params=["csv", "quoted.csv", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"t.{request.param}"
    if request.param == "csv":
        path.write_text('customer,merchant\nC1,M1\nC2,\n\nC3,M1\n,M2\nC4,""\n')
    elif request.param == "quoted.csv":  # with blanks within quotes, and a line break
        path.write_text('customer,merchant,note\nC1,M1," a\nb"\nC2,,\n\nC3,M1,\n,M2,\nC4,"",\n')
    else:
        parquet.write_table(pa.table({"customer": CUSTOMERS, "merchant": MERCHANTS}), path)
    return path


def test_a_description_drops_or_refuses_empty_ids(tmp_path: Path, table: Path) -> None:
    report = gz.import_dataset(described(table, nulls="drop"), tmp_path / "out")
    ids, nodes = report.dataset.ids, report.dataset.nodes
    assert [ids[name].to_original(range(nodes[name].num_nodes)) for name in nodes] == [["C1", "C3"], ["M1"]]
    assert report.edges == 2
    assert "edges customer pays merchant: skipped 3 rows without a value in 'customer' or 'merchant'" in report.found
    place = {"t.csv": "line 3", "t.quoted.csv": "line 4", "t.parquet": "row 1"}[table.name]
    message = rf"{table.name}: column 'merchant' has no value in {place}, expected an id in every row; nulls: drop"
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(described(table), tmp_path / "no")


def test_rows_of_other_relations_are_not_counted_as_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("src,dst,how\na,b,likes\na,,likes\nb,c,knows\nb,a,knows\n")
    edge = {"type": ("n", "r", "n"), "table": str(tmp_path / "t.csv"), "relation": "how", "nulls": "drop"}
    found = gz.import_dataset({"edges": [edge]}, tmp_path / "out").found
    assert [line for line in found if "skipped" in line] == [
        "edges n likes n: skipped 1 row without a value in 'src' or 'dst'"
    ]
    with pytest.raises(gz.InputError, match="column 'dst' has no value in line 3"):
        gz.import_dataset({"edges": [{**edge, "nulls": "error"}]}, tmp_path / "no")


def test_keys_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,v\nu1,1\nu2,2\n")
    (tmp_path / "buys.csv").write_text('user,n\nu1,1\n,2\nu2,3\n"",4\n')
    (tmp_path / "keys.json").write_text(
        '{"tables": {"users": {"primary_key": "id"}, "buys": {"foreign_keys": {"user": "users"}}}}'
    )
    report = gz.import_dataset(tmp_path, tmp_path / "out")
    assert report.dataset.ids["users"].to_original([0, 1]) == ["u1", "u2"]
    assert report.dataset.graphs["buys", "user", "users"].num_edges == 2
    assert "edges buys user users: skipped 2 rows without a value in 'user'" in report.found
    (tmp_path / "users.csv").write_text("id,v\nu1,1\n,3\nu2,2\n")
    with pytest.raises(gz.InputError, match=r"users\.csv: column 'id' has no value in line 3"):
        gz.import_dataset(tmp_path, tmp_path / "no")


@pytest.mark.parametrize("end", ["a,\n", ",a\n", 'a,""\n'])
@pytest.mark.parametrize("ids", ["auto", "map", "text"])
def test_edges_in_text_name_the_empty_column(tmp_path: Path, end: str, ids: str) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\n" + end)
    name = "source" if end[0] == "," else "target"
    with pytest.raises(gz.InputError, match=rf"e\.csv: line 3: column '{name}' is empty, expected a node id"):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", ids=ids)
    report = gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", ids=ids, on_error="skip")
    assert report.graph.skipped_examples == [
        f"{tmp_path / 'e.csv'}: line 3: column '{name}' is empty, expected a node id"
    ]


def test_integer_edges_name_the_empty_column(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n" + "1,2\n" * 300 + "3,\n")
    (tmp_path / "plain.csv").write_text("1,2\n" * 300 + "3,\n")
    for ids in (None, "auto", "map"):
        with pytest.raises(gz.InputError, match="line 302: column 'dst' is empty, expected a node id"):
            gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", ids=ids)
        with pytest.raises(gz.InputError, match=r"line 301: column 1 \(numbered from 0\) is empty"):
            gz.import_dataset(tmp_path / "plain.csv", tmp_path / "out", ids=ids)


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("nodes", "id,v\na,1\n,2\nb,3\n", "x.csv: column 'id' has no value in line 3"),
        ("nodes", "id,v\n0,1\n,2\n1,3\n", "x.csv: column 'id' has no value in line 3"),
        ("labels", "id,label\na,x\n,y\nb,y\n", "x.csv: column 'id' has no value in line 3"),
        ("labels", "id,label\n0,1\n,0\n1,0\n", "x.csv: no id in line 3"),
        ("node_ids", 'a\n\n""\nb\n', "x.csv: line 3: found no id"),
        ("nodes", "id,v\na,1\nb,3\n\na,2\n", "x.csv: column 'id': line 5: id 'a' is a duplicate"),
        ("node_ids", "a\n\nb\nb\n", "x.csv: line 4: id 'b' is a duplicate"),
    ],
)
def test_tables_of_nodes_and_labels(tmp_path: Path, option: str, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    numbered = any(f"\n{digit}," in text for digit in "01")
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n" if numbered else "src,dst\na,b\n")
    with pytest.raises(gz.InputError) as caught:
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", **{option: tmp_path / "x.csv"})
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_appended_nodes_without_an_id(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\na,b\n")
    ds = gz.import_dataset(tmp_path / "e.csv", tmp_path / "ds", nodes={"id": ["a", "b"], "v": [1.0, 2.0]}).dataset
    (tmp_path / "n.csv").write_text("id,v\nc,1\n,2\n")
    with pytest.raises(gz.InputError, match=r"n\.csv: column 'id' has no value in line 3"):
        ds.append(nodes=tmp_path / "n.csv")


def test_ids_that_no_row_has_come_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="missing: drop leaves such edges out") as caught:
        gz.import_dataset({"src": ["a", "b"], "dst": ["b", "c"]}, tmp_path / "out", nodes={"id": ["a", "b"]})
    assert "two types" not in str(caught.value)
    with pytest.raises(gz.InputError, match=r"such as 'x'; .*no id is both a source and a target: .* name two types"):
        gz.import_dataset({"src": ["a", "b"], "dst": ["x", "x"]}, tmp_path / "out", nodes={"id": ["a", "b"]})


def test_duplicate_numbers_are_plain(tmp_path: Path) -> None:
    nodes = {"id": np.array([5, 7, 5]), "v": [1, 2, 3]}
    with pytest.raises(gz.InputError, match="dict: column 'id': row 2: id 5 is a duplicate"):
        gz.import_dataset(np.array([[5], [7]]), tmp_path / "out", nodes=nodes, ids="map")


EMPTY = {"src": ["a", "a", "b"], "dst": ["b", "", "a"]}


@pytest.mark.parametrize("kind", ["dict", "strings", "arrow", "dictionary", "pandas", "parquet"])
def test_empty_strings_are_no_ids(tmp_path: Path, kind: str) -> None:
    table: Any = pa.table(EMPTY)
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(EMPTY)
    elif kind == "dictionary":
        table = pa.table({name: pa.array(values).dictionary_encode() for name, values in EMPTY.items()})
    elif kind == "parquet":
        parquet.write_table(table, tmp_path / "t.parquet")
        table = tmp_path / "t.parquet"
    elif kind != "arrow":
        table = {name: np.array(values, object if kind == "dict" else str) for name, values in EMPTY.items()}
    with pytest.raises(gz.InputError, match="column 'dst' has no value in row 1, expected an id in every row"):
        gz.import_dataset(table, tmp_path / "no", ids="map")
    edge = {"type": ("n", "r", "n"), "table": str(table) if kind == "parquet" else table}
    typed: Any = {"nodes": {"n": {"ids": "map"}}, "edges": [edge]}
    with pytest.raises(gz.InputError, match="column 'dst' has no value in row 1, expected an id in every row; nulls"):
        gz.import_dataset(typed, tmp_path / "no")
    edge["nulls"] = "drop"
    report = gz.import_dataset(typed, tmp_path / "out")
    assert "edges n r n: skipped 1 row without a value in 'src' or 'dst'" in report.found
    assert report.dataset.ids["n"].to_original([0, 1]) == ["a", "b"]
    assert report.dataset.num_nodes == 2


def test_empty_strings_are_no_ids_of_nodes(tmp_path: Path) -> None:
    for given in ({"nodes": {"id": ["a", "b", ""], "v": [1, 2, 3]}}, {"node_ids": ["a", "b", ""]}):
        with pytest.raises(gz.InputError, match="has no value in row 2, expected an id in every row"):
            gz.import_dataset({"src": ["a"], "dst": ["b"]}, tmp_path / "out", ids="map", **given)
