"""Quotes, delimiters and widths mean the same in every reader of text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.sources.csv_tables import csv_table

# Both ids and numbers: every reader can take it, and each line has what used to be read differently.
TEXT = 'src,dst,weight,"a, note"\n"0",1,0.5,"x, y"\n1,"2",1.5,"say ""hi"""\n2, 0 ,2.5,\n'
EDGES = [(0, 1, 0.5), (1, 2, 1.5), (2, 0, 2.5)]


def _edges(graph: gz.Graph) -> list[tuple[int, int, float]]:
    found = []
    for node in range(graph.num_nodes):
        for target, weight in zip(graph.get_neighbours(node), graph.get_weights(node), strict=True):
            found.append((node, int(target), float(weight)))
    return sorted(found)


def by_compile(path: Path, out: Path) -> list[tuple[int, int, float]]:
    gz.compile_graph(path, out / "g.gl")
    return _edges(gz.Graph(out / "g.gl"))


def by_plain_import(path: Path, out: Path) -> list[tuple[int, int, float]]:
    return _edges(gz.import_dataset(path, out / "ds", direction="out").dataset.graph)


def by_mapped_import(path: Path, out: Path) -> list[tuple[int, int, float]]:
    dataset = gz.import_dataset(path, out / "ds", direction="out", ids="map").dataset
    name = [int(key) for key in dataset.ids.to_original(np.arange(dataset.num_nodes))]
    return sorted((name[a], name[b], w) for a, b, w in _edges(dataset.graph))


def by_text_ids(path: Path, out: Path) -> list[tuple[int, int, float]]:
    dataset = gz.import_dataset(path, out / "ds", direction="out", ids="text").dataset
    name = [int(key) for key in dataset.ids.to_original(np.arange(dataset.num_nodes))]
    return sorted((name[a], name[b], w) for a, b, w in _edges(dataset.graph))


def by_typed_import(path: Path, out: Path) -> list[tuple[int, int, float]]:
    pytest.importorskip("pyarrow")
    spec = {"edges": [{"table": str(path), "type": ("n", "to", "n")}]}
    graph = gz.import_dataset(spec, out / "ds").dataset.graph  # rows by target
    return sorted((source, target, weight) for target, source, weight in _edges(graph))


def by_features(path: Path, out: Path) -> list[tuple[int, int, float]]:
    path.write_text('id,"to, where",weight\n"0",1,"0.5"\n1,"2",1.5,\n2, 0 ," 2.5 "\n')
    gz.compile_features(path, out / "x.gd")
    x = np.asarray(gz.FeatureStore(out / "x.gd").get_tensor())
    return [(i, int(row[0]), float(row[1])) for i, row in enumerate(x)]


READERS = [by_compile, by_plain_import, by_mapped_import, by_text_ids, by_typed_import, by_features]


@pytest.mark.parametrize("read", READERS)
def test_one_file_through_every_reader(tmp_path: Path, read: Callable[..., Any]) -> None:
    (tmp_path / "e.csv").write_text(TEXT)
    assert read(tmp_path / "e.csv", tmp_path) == EDGES


@pytest.mark.parametrize("read", READERS[:5])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst\n0,1\n1,2,3\n", "line 3: found 3 columns, expected 2"),
        ("src,dst,weight\n0,1,1\n1,2\n", "line 3: found 2 columns, expected 3"),
    ],
)
def test_every_line_has_as_many_fields_as_the_header(
    tmp_path: Path, read: Callable[..., Any], text: str, message: str
) -> None:
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(gz.InputError, match=rf"e\.csv: {message}"):
        read(tmp_path / "e.csv", tmp_path)


@pytest.mark.parametrize("read", [by_compile, by_plain_import, by_mapped_import, by_text_ids])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('src,dst\n0,1\n"1\n2",3\n', "line 3: a quoted field does not end on its line"),
        ('src,dst\n0,1\n"1"2,3\n', "line 3: found text after a closing quote"),
    ],
)
def test_quotes_that_do_not_close(tmp_path: Path, read: Callable[..., Any], text: str, message: str) -> None:
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(gz.InputError, match=rf"e\.csv: {message}"):
        read(tmp_path / "e.csv", tmp_path)


@pytest.mark.parametrize("text", ["src,dst,\n0,1,\n1,2,\n", "src,dst\n0,1,\n1,2\n", "0,1,\n1,2,\n", "0\t1\t\n1\t2\t\n"])
def test_a_delimiter_at_the_end_of_lines_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.csv").write_text(text)
    report = gz.compile_graph(tmp_path / "e.csv", tmp_path / "g.gl")
    assert (report.edges, report.nodes) == (2, 3)
    assert not gz.Graph(tmp_path / "g.gl").has_weights


def test_other_delimiters_of_typed_tables(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "n.csv").write_text('# papers\nid;title;year\na;"one; two";1990\nb;"three\nfour";1991\n')
    (tmp_path / "e.tsv").write_text("src\tdst\na\tb\n")
    spec = {"nodes": {"p": str(tmp_path / "n.csv")}, "edges": {"p cites p": str(tmp_path / "e.tsv")}}
    dataset = gz.import_dataset(spec, tmp_path / "ds").dataset
    assert dataset.nodes["p"].columns["title"].names == ["one; two", "three\nfour"]
    assert np.asarray(dataset.nodes["p"].features["columns_number"].get_tensor()).ravel().tolist() == [1990, 1991]


def test_labels_and_splits_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    (tmp_path / "y.csv").write_text('"id","label"\n"0","1"\n2,0\n')
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "train.csv").write_text('"0"\n"2"\n')
    dataset = gz.import_dataset(
        tmp_path / "e.csv", tmp_path / "ds", labels=tmp_path / "y.csv", splits=tmp_path / "split"
    ).dataset
    assert dataset.labels.tolist() == [1, -1, 0]
    assert dataset.splits["train"].tolist() == [0, 2]
    (tmp_path / "y.csv").write_text("0,1\n1,x\n")
    with pytest.raises(gz.InputError, match=r"y\.csv: line 2: found 'x', expected a number"):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "other", labels=tmp_path / "y.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst\nalice,bob\nNULL,bob\n", "line 3: found 'NULL' in column 'src', expected a node id; ids='text'"),
        ("src,dst\n1.0,2.0\n2.0,3.0\n", "found id '1.0', expected integers or strings; .* ids='text'"),
    ],
)
def test_ids_that_are_most_likely_a_mistake_are_asked_about(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "ds")
    assert gz.import_dataset(tmp_path / "e.csv", tmp_path / "ds", ids="text").nodes == 3


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_report_names_columns_that_are_not_imported(tmp_path: Path, suffix: str) -> None:
    names, rows = ["user", "item", "stars", "text"], [["a", "x", 1, "good"], ["b", "a", 2, "bad"]]
    path = tmp_path / f"e.{suffix}"
    if suffix == "csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)}), path)
    report = str(gz.import_dataset(path, tmp_path / "ds", header=True if suffix == "csv" else None))
    assert "not imported: columns 'stars', 'text'" in report
    assert "source and target columns 'user', 'item' share one id space; use a typed description" in report


def test_blanks_around_ids_of_a_node_table_are_not_part_of_them(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "edges.csv").write_text("src,dst\nzsh, bash\n apt ,bash\n")
    (tmp_path / "nodes.csv").write_text('id,kind\n bash , shell\nzsh,"shell"\napt\t,tool\n')
    report = gz.import_dataset(tmp_path / "edges.csv", tmp_path / "ds", nodes=tmp_path / "nodes.csv")
    assert report.dataset.ids.to_original([0, 1, 2]) == ["bash", "zsh", "apt"]
    assert _kinds(report.dataset) == ["shell", "tool"]


def test_blanks_within_quotes_stay(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "edges.csv").write_text('src,dst\n" a",b\n')
    (tmp_path / "nodes.csv").write_text('id,v\n" a",1\n"b",2\n')
    report = gz.import_dataset(tmp_path / "edges.csv", tmp_path / "ds", nodes=tmp_path / "nodes.csv")
    assert report.dataset.ids.to_original([0, 1]) == [" a", "b"]


def _kinds(dataset: gz.Dataset) -> list[str]:
    (column,) = [c for node in dataset.nodes.values() for c in node.columns.values()]
    return list(column.names)


def test_a_node_table_may_be_separated_by_tabs_and_quoted(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "edges.csv").write_text("src,dst\nzsh,bash\n")
    (tmp_path / "nodes.csv").write_text('id\tkind\n"bash"\t"a ""shell"""\n"zsh"  \tshell\n')
    report = gz.import_dataset(tmp_path / "edges.csv", tmp_path / "ds", nodes=tmp_path / "nodes.csv")
    assert report.dataset.ids.to_original([0, 1]) == ["bash", "zsh"]
    assert _kinds(report.dataset) == ['a "shell"', "shell"]


@pytest.mark.parametrize(
    ("text", "rows", "line"),
    [
        ('id,size\na,5" disk\nb,3\n,4\n', 2, 4),
        ('id,size\na,"5"" disk"\nb,"3\n\n3"\n,4', 2, 6),
        ('id,size\n"a\n5"" x",3" y\n\nb,"\n"\n,4', 2, 7),
        ('id,size\na,"\n,""\n"\nb,x "3\n,4', 2, 6),
    ],
)
def test_quotes_count_where_a_field_starts_with_one(tmp_path: Path, text: str, rows: int, line: int) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.csv").write_text(text)
    table: Any = csv_table(str(tmp_path / "t.csv"), ["id", "size"])
    assert sum(len(batch) for (batch,) in table.batches(["id"])) == rows + 1
    assert table.line_of(rows) == line
