"""What belongs together in tables stays together: rows of databases, nodes without edges, ids, splits of kept edges."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import graphzero as gz

COLUMNS = "age real, boss text references users(id)"


@pytest.mark.parametrize(
    "schema",
    [
        f"create table users (id text primary key, {COLUMNS})",  # which has an index of its own
        f"create table users (id text primary key, {COLUMNS}); create index by_boss on users(boss)",
        f"create table users (id text primary key, {COLUMNS}) without rowid; create index by_age on users(age)",
        f"create table users (rowid text primary key, {COLUMNS.replace('(id)', '(rowid)')})",
    ],
)
def test_columns_of_sqlite_tables_have_their_rows_in_one_order(tmp_path: Path, schema: str) -> None:
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in rng.permutation(500)]
    ages, bosses = rng.permutation(500) + 0.5, rng.choice(names, 500)
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as file:
        file.executescript(schema)
        file.executemany("insert into users values (?, ?, ?)", zip(names, ages, bosses, strict=True))
        file.commit()
    data = gz.import_dataset(tmp_path / "x.sqlite", tmp_path / "data").dataset
    node = data.nodes["users"]
    ids = np.asarray(node.ids.to_original(np.arange(500)))
    (column,) = [column for name, column in node.columns.items() if name == "age"]
    found = data.nodes["users"].features[column.array].gather(np.arange(500))[:, column.column]
    assert dict(zip(ids.tolist(), found.tolist(), strict=True)) == dict(zip(names, ages.tolist(), strict=True))
    edges = data.edges["users", "boss", "users"].to_arrow().read_all().to_pydict()
    ends = {ids[a]: ids[b] for a, b in zip(edges["src"], edges["dst"], strict=True)}
    assert ends == dict(zip(names, bosses.tolist(), strict=True))


@pytest.mark.parametrize(
    "rows", ["id\n0\n1\n2\n3\n", "id,split\n0,train\n1,\n2,\n3,test\n", "id,label\n0,1\n1,0\n2,1\n3,\n"]
)
def test_rows_of_a_node_table_past_the_edges_are_nodes(tmp_path: Path, rows: str) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    (tmp_path / "n.csv").write_text(rows)
    data = gz.import_dataset(tmp_path / "e.csv", tmp_path / "data", nodes=tmp_path / "n.csv").dataset
    assert data.num_nodes == 4


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 3, 2], [0, 1, 2]])
def test_missing_nodes_are_filled_whatever_the_ids_are(tmp_path: Path, ids: list[int]) -> None:
    (tmp_path / "n.csv").write_text("id,x\n" + "".join(f"{i},.5\n" for i in ids))
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n2,9\n")
    description = {
        "nodes": {"u": {"table": str(tmp_path / "n.csv"), "missing": "fill", "ids": "map"}},
        "edges": [{"type": ["u", "r", "u"], "table": str(tmp_path / "e.csv")}],
    }
    data = gz.import_dataset(description, tmp_path / "data").dataset
    edges = data.edges["u", "r", "u"].to_arrow().read_all().to_pydict()
    original = np.asarray(data.nodes["u"].ids.to_original(np.arange(data.nodes["u"].num_nodes)))
    assert [(original[a], original[b]) for a, b in zip(edges["src"], edges["dst"], strict=True)] == [(1, 2), (2, 9)]
    assert original.tolist() == [*ids, 9]


@pytest.mark.parametrize(
    "options", [{"dedup": "first"}, {"self_loops": False}, {"dedup": "first", "self_loops": False}]
)
def test_splits_have_no_edges_that_are_left_out(tmp_path: Path, options: dict[str, Any]) -> None:
    table = {
        "src": [0, 0, 1, 2, 2, 2],
        "dst": [1, 1, 1, 0, 0, 2],
        "split": ["train", "valid", "valid", "train", "test", "test"],
    }
    edge = {"type": ["u", "r", "u"], "table": table, "split": "split", **options}
    data = gz.import_dataset({"nodes": {"u": {"count": 3}}, "edges": [edge]}, tmp_path / "data").dataset
    kept = {0, 3} | ({1, 4} if "dedup" not in options else set()) | ({2, 5} if "self_loops" not in options else set())
    expected = {"train": {0, 3}, "valid": {1, 2}, "test": {4, 5}}
    found = data.edges["u", "r", "u"].splits
    assert {name: set(ids.tolist()) for name, ids in found.items()} == {n: of & kept for n, of in expected.items()}


@pytest.mark.parametrize("line", ['a, "b"', ' "a",b', 'a,\t"b"', 'a, "b,c"', '"a", "b"'])
def test_a_blank_before_a_quote_is_not_a_part_of_an_id(tmp_path: Path, line: str) -> None:
    (tmp_path / "e.csv").write_text(f"src,dst\nx,y\n{line}\n")
    description = {
        "nodes": {"u": {"ids": "map"}},
        "edges": [{"type": ["u", "r", "u"], "table": str(tmp_path / "e.csv")}],
    }
    with pytest.raises(gz.InputError, match=r"e\.csv: line 3: found a blank before a quote"):
        gz.import_dataset(description, tmp_path / "data")


@pytest.mark.parametrize("lines", ["x,y\n", 'x,"y" \n', 'x,"y, ""z"""\n', 'x,"y\n, "" z"\n'])
def test_blanks_elsewhere_are_no_errors(tmp_path: Path, lines: str) -> None:
    (tmp_path / "e.csv").write_text(f"src,dst\n{lines}")
    description = {
        "nodes": {"u": {"ids": "map"}},
        "edges": [{"type": ["u", "r", "u"], "table": str(tmp_path / "e.csv")}],
    }
    data = gz.import_dataset(description, tmp_path / "data").dataset
    assert data.edges["u", "r", "u"].num_edges == 1


def test_an_empty_field_before_a_quoted_one_is_no_blank(tmp_path: Path) -> None:
    (tmp_path / "n.tsv").write_text('id\tx\ty\na\t\t"b"\nc\t \t"d"\n')
    (tmp_path / "e.csv").write_text("src,dst\na,c\n")
    data = gz.import_dataset(tmp_path / "e.csv", tmp_path / "data", nodes=tmp_path / "n.tsv").dataset
    assert data.num_nodes == 2
