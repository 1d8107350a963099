"""Python objects and table files as sources of edges: each is compared with the arrays it was made from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

SRC = np.array([0, 1, 2, 3, 1, 4])
DST = np.array([1, 2, 0, 1, 3, 4])
W = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], np.float32)
T = np.array([10, 20, 30, 40, 50, 60])


def edges(path: Path) -> list[tuple[int, int, float | None]]:
    """All edges of a file with their weights, sorted."""
    g = gz.Graph(path)
    found = []
    for u in range(g.num_nodes):
        weights = g.get_weights(u).tolist() if g.has_weights else [None] * g.get_degree(u)
        found += [(u, int(v), w) for v, w in zip(g.get_neighbours(u), weights, strict=True)]
    return sorted(found, key=str)


def expected(weighted: bool) -> list[tuple[int, int, float | None]]:
    return sorted(
        ((int(u), int(v), float(w) if weighted else None) for u, v, w in zip(SRC, DST, W, strict=True)), key=str
    )


def frame(kind: str) -> Any:
    columns = {"note": np.arange(6), "dst": DST, "src": SRC, "weight": W, "time": T}
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    if kind == "lazy":
        return pytest.importorskip("polars").DataFrame(columns).lazy()
    if kind == "structured":
        out = np.empty(6, [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            out[name] = values
        return out
    if kind == "dict":
        return columns
    if kind == "duckdb":
        table = pytest.importorskip("pyarrow").table(columns)
        return pytest.importorskip("duckdb").connect().from_arrow(table)
    table = pytest.importorskip("pyarrow").table(columns)
    return table.to_reader(2) if kind == "reader" else table


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow", "reader", "structured", "dict", "duckdb"])
def test_columns_of_a_table_are_found_by_their_names(tmp_path, kind):
    out = tmp_path / "g.gl"
    report = gz.compile_graph(frame(kind), out, times="time")
    assert report.source_edges == 6
    assert edges(out) == expected(weighted=True)
    assert sorted(int(t) for u in range(5) for t in gz.Graph(out).get_times(u)) == T.tolist()


@pytest.mark.parametrize("kind", ["pandas", "arrow", "structured"])
def test_columns_of_a_table_may_be_named_or_counted(tmp_path, kind):
    gz.compile_graph(frame(kind), tmp_path / "g.gl", columns=("dst", 2), weights=False)
    assert edges(tmp_path / "g.gl") == sorted(((v, u, w) for u, v, w in expected(False)), key=str)


def test_parquet_and_arrow_files_and_folders_are_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({"src": SRC.astype(np.int32), "dst": DST.astype(np.uint64), "weight": W.astype(np.float64)})
    pyarrow.parquet.write_table(table, tmp_path / "edges.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "edges.arrow")
    (tmp_path / "parts").mkdir()
    pyarrow.parquet.write_table(table.slice(0, 4), tmp_path / "parts" / "part-0.parquet")
    pyarrow.parquet.write_table(table.slice(4), tmp_path / "parts" / "part-1.parquet")
    (tmp_path / "parts" / "_SUCCESS").touch()
    for name in ("edges.parquet", "edges.arrow", "parts"):
        gz.compile_graph(tmp_path / name, tmp_path / "g.gl")
        assert edges(tmp_path / "g.gl") == expected(weighted=True)
        ds = gz.import_dataset(tmp_path / name, tmp_path / f"{name}.out").dataset
        assert ds.graph.num_edges == 6
        assert ds.graph.direction == "in"


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_sparse_matrices_are_adjacency(tmp_path, form):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_matrix((W, (SRC, DST)), shape=(7, 7)).asformat(form)
    gz.compile_graph(matrix, tmp_path / "g.gl")
    assert edges(tmp_path / "g.gl") == expected(weighted=True)
    assert gz.Graph(tmp_path / "g.gl").num_nodes == 7
    ones = sparse.coo_matrix((np.ones(6), (SRC, DST)), shape=(7, 7)).asformat(form)
    gz.compile_graph(ones, tmp_path / "g.gl")
    assert edges(tmp_path / "g.gl") == expected(weighted=False)


def test_a_rectangular_matrix_is_refused(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(gz.InputError, match=r"shape \(2, 3\), expected a square matrix"):
        gz.compile_graph(sparse.csr_matrix((2, 3)), tmp_path / "g.gl")


@pytest.mark.parametrize("library", ["networkx", "igraph"])
def test_graphs_of_other_libraries_keep_direction_and_weights(tmp_path, library):
    module = pytest.importorskip(library)
    for directed in (True, False):
        if library == "networkx":
            graph = module.DiGraph() if directed else module.Graph()
            graph.add_nodes_from(range(5))
            graph.add_edge(0, 1, weight=0.5)
            graph.add_edge(3, 2, weight=2.0)
        else:
            graph = module.Graph(n=5, edges=[(0, 1), (3, 2)], directed=directed)
            graph.es["weight"] = [0.5, 2.0]
        gz.compile_graph(graph, tmp_path / "g.gl")
        want = [(0, 1, 0.5), (3, 2, 2.0)] + ([] if directed else [(1, 0, 0.5), (2, 3, 2.0)])
        assert edges(tmp_path / "g.gl") == sorted(want, key=str)
        assert gz.Graph(tmp_path / "g.gl").num_nodes == 5


def test_names_of_nodes_are_not_silently_lost(tmp_path):
    graph = pytest.importorskip("networkx").Graph([("a", "b")])
    with pytest.raises(gz.InputError, match="found 'a'; ids='map'"):
        gz.compile_graph(graph, tmp_path / "g.gl")


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_missing_and_textual_ids_are_told_by_row_and_column(tmp_path, kind):
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    holes = {"src": pandas.array([0, None, 2], dtype="Int64"), "dst": [1, 2, 0]}
    table: Any = pandas.DataFrame(holes)
    names: Any = pandas.DataFrame({"src": ["a", "b"], "dst": ["b", "a"]})
    if kind == "arrow":
        table, names = pa.Table.from_pandas(table), pa.Table.from_pandas(names)
    with pytest.raises(gz.InputError, match="column 'src' has no value in row 1"):
        gz.compile_graph(table, tmp_path / "g.gl")
    with pytest.raises(gz.InputError, match=r"column 'src' holds .*ids='map'"):
        gz.compile_graph(names, tmp_path / "g.gl")
    assert not (tmp_path / "g.gl").exists()


def test_without_pyarrow_a_parquet_file_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "edges.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'graphzero\[import\]'"):
        gz.compile_graph(tmp_path / "edges.parquet", tmp_path / "g.gl")


def test_a_parquet_file_that_is_none_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "edges.parquet").write_bytes(b"0,1\n")
    with pytest.raises(gz.InputError, match=r"edges\.parquet: not a readable parquet file"):
        gz.compile_graph(tmp_path / "edges.parquet", tmp_path / "g.gl")
