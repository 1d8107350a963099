"""What compile_graph takes a source for: nothing is guessed in silence, recompiled files stay what they were."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core

PAIRS = np.array([[0, 1], [2, 0], [2, 1], [3, 3], [2, 1]])


def compile_text(folder: Path, text: str | bytes, name: str = "edges.txt", **options: Any) -> Any:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return gz.compile_graph(folder / name, folder / "g.gl", **options)


def edges_of(path: Path) -> list[tuple[Any, ...]]:
    """All stored edges of the out rows with whatever they carry."""
    _core.verify(str(path))
    file = _core.Topology.open(str(path))
    names = {a["name"] for a in file.info["arrays"]}
    indptr = file.array("out.indptr").astype(np.int64)
    columns = [np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), file.array("out.indices")]
    columns += [file.array(f"out.{name}") for name in ("weights", "times", "edge_ids") if f"out.{name}" in names]
    return list(zip(*(c.tolist() for c in columns), strict=True))


# -- compiled files as sources ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_a_recompiled_file_is_the_file(tmp_path: Path, directed: bool, direction: str) -> None:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 40, (2, 300))
    edges = (src, dst, rng.random(300).astype(np.float32), rng.integers(0, 9, 300))
    gz.compile_graph(edges, tmp_path / "a.gl", directed=directed, direction=direction, edge_ids=True)
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", direction=direction)
    assert (tmp_path / "b.gl").read_bytes() == (tmp_path / "a.gl").read_bytes()
    if not directed:
        report = gz.compile_graph(tmp_path / "a.gl", tmp_path / "c.gl", direction=direction, directed=False)
        assert (tmp_path / "c.gl").read_bytes() == (tmp_path / "a.gl").read_bytes()
        assert report.edges == gz.Graph(tmp_path / "a.gl").num_edges


def test_edge_ids_of_a_file_are_kept(tmp_path: Path) -> None:
    gz.compile_graph(PAIRS, tmp_path / "a.gl", edge_ids=True)
    ids = [e[2] for e in edges_of(tmp_path / "a.gl")]
    assert ids == [0, 1, 2, 4, 3]
    for options in ({}, {"edge_ids": True}, {"direction": "both"}):
        gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", **options)
        assert [e[2] for e in edges_of(tmp_path / "b.gl")] == ids
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", dedup=True, self_loops=False)
    assert edges_of(tmp_path / "b.gl") == [(0, 1, 0), (2, 0, 1), (2, 1, 2)]  # the gaps show what went
    gz.compile_graph(tmp_path / "b.gl", tmp_path / "c.gl")
    assert edges_of(tmp_path / "c.gl") == edges_of(tmp_path / "b.gl")
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", edge_ids=False)
    assert not gz.Graph(tmp_path / "b.gl").has_edge_ids
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", directed=False, direction="both")
    assert [e[2] for e in edges_of(tmp_path / "b.gl") if e[:2] in ((1, 2), (2, 1))] == [2, 4, 2, 4]


def test_an_undirected_file_says_how_it_may_be_read(tmp_path: Path) -> None:
    gz.compile_graph(PAIRS, tmp_path / "a.gl", directed=False)
    assert gz.Graph(tmp_path / "a.gl").num_edges == 9
    with pytest.raises(ValueError, match="their order is unknown"):
        gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", directed=False, edge_ids=True)
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl", directed=True, edge_ids=True)  # the stored ones, as they are
    assert [e[:2] for e in edges_of(tmp_path / "b.gl")] == edges_of(tmp_path / "a.gl")
    assert not gz.Graph(tmp_path / "b.gl").info["undirected"]


def test_old_files_are_not_doubled(tmp_path: Path) -> None:
    indptr, indices = np.array([0, 1, 2], "<u8"), np.array([1, 0], "<u8")  # 0 - 1, both ways
    header = struct.pack("<8Q", 8388354976772092519, indptr.nbytes, indices.nbytes, 64, 128, 2, 2, 0)
    (tmp_path / "old.gl").write_bytes((header + indptr.tobytes()).ljust(128, b"\0") + indices.tobytes())
    with pytest.raises(ValueError, match=r"GraphZero 0\.2 do not record"):
        gz.compile_graph(tmp_path / "old.gl", tmp_path / "new.gl", directed=False)
    gz.compile_graph(tmp_path / "old.gl", tmp_path / "new.gl", directed=False, dedup=True)
    assert edges_of(tmp_path / "new.gl") == [(0, 1), (1, 0)]


def test_wide_edge_ids_stay_wide(tmp_path: Path) -> None:
    class Source:
        def edge_blocks(self) -> Any:
            from graphzero.sources.edge_blocks import Block

            yield Block(np.array([0, 1]), np.array([1, 0]), edge_ids=np.array([2**40, 7]))

    gz.compile_graph(Source(), tmp_path / "a.gl")
    assert edges_of(tmp_path / "a.gl") == [(0, 1, 2**40), (1, 0, 7)]
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl")
    assert edges_of(tmp_path / "b.gl") == edges_of(tmp_path / "a.gl")


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("comments", [0, 65_530, 65_536, 200_000])
@pytest.mark.parametrize("header", ["", "src,dst,weight\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_weights_are_seen_past_long_comments(tmp_path: Path, comments: int, header: str, compressed: bool) -> None:
    text = "".join(f"# {'c' * 60}\n" for _ in range(comments // 63)) + "#" * (comments % 63) + "\n" + header
    text += "0,1,0.5\n1,2,2.5\n"
    data = gzip.compress(text.encode()) if compressed else text.encode()
    report = compile_text(tmp_path, data)
    assert edges_of(tmp_path / "g.gl") == [(0, 1, 0.5), (1, 2, 2.5)]
    assert report.columns[0].count("weight") == 1 + (header != "")


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_first_line_across_the_64th_kibibyte_keeps_its_weight(tmp_path: Path, cut: int) -> None:
    compile_text(tmp_path, "#" * (65536 - cut - 1) + "\n0,1,0.5\n")
    assert edges_of(tmp_path / "g.gl") == [(0, 1, 0.5)]


def test_the_weights_that_are_given_win(tmp_path: Path) -> None:
    src, dst, own, given = [0, 1], [1, 0], [1.0, 2.0], np.array([5.0, 6.0])
    gz.compile_graph((src, dst, own, [3, 4]), tmp_path / "g.gl", weights=given, times=np.array([8, 9]))
    assert edges_of(tmp_path / "g.gl") == [(0, 1, 5.0, 8), (1, 0, 6.0, 9)]
    with pytest.raises(gz.InputError, match="src has 2 elements, weights has 3"):
        gz.compile_graph((src, dst, own), tmp_path / "g.gl", weights=np.ones(3))
    for source in (tmp_path / "g.gl", iter([(src, dst, own)])):
        with pytest.raises(TypeError, match="an array of weights can be combined only with edges in arrays, not with"):
            gz.compile_graph(source, tmp_path / "h.gl", weights=given)


@pytest.mark.parametrize("nodes", [None, 0, 3])
def test_no_edges_still_have_weights_and_times(tmp_path: Path, nodes: int | None) -> None:
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))
    gz.compile_graph(empty, tmp_path / "a.gl", num_nodes=nodes, allow_empty=True)
    gz.compile_graph(tmp_path / "a.gl", tmp_path / "b.gl")
    for name in ("a.gl", "b.gl"):
        graph = gz.Graph(tmp_path / name)
        assert graph.has_weights
        assert "out.times" in {a["name"] for a in graph.info["arrays"]}
        assert (graph.num_nodes, graph.num_edges) == (nodes or 0, 0)


# -- what is no graph -------------------------------------------------------------------------------------------------


def test_no_edges_are_an_error_unless_they_are_meant(tmp_path: Path) -> None:
    for source in ([], np.empty((2, 0), np.int64), iter([])):
        with pytest.raises(gz.InputError, match="edges: found no edges; allow_empty=True"):
            gz.compile_graph(source, tmp_path / "g.gl")
        assert os.listdir(tmp_path) == []
    assert gz.compile_graph(np.empty((2, 0), np.int64), tmp_path / "g.gl", num_nodes=4).nodes == 4
    assert gz.compile_graph(iter([]), tmp_path / "g.gl", allow_empty=True).nodes == 0
    assert gz.compile_graph([(1, 1)], tmp_path / "g.gl", self_loops=False).edges == 0  # there was an edge


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "found no edges"),
        (b'{"edges": [[0, 1]]}', "looks like JSON"),
        (b'[{"src": 0}]', "looks like JSON"),
        (b"<!DOCTYPE html>\n<html>\n", "looks like HTML"),
        (b"\x28\xb5\x2f\xfd$1abc", "damaged or truncated|compressed with zstd"),
        (b"PK\x03\x04abcd", "zip archive"),
        (b"PAR1abcd", "Parquet"),
        (gzip.compress(b"", mtime=0), "found no edges"),
        (gzip.compress(b'{"a": 1}', mtime=0), "looks like JSON"),
        (b"% bip unweighted\n1 1\n", "bipartite KONECT.*num_nodes=\\(None, None\\)"),
    ],
)
def test_files_that_are_no_edge_lists_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    for options in ({}, {"on_error": "skip"}):
        with pytest.raises(gz.InputError, match=rf"edges\.txt: .*{message}"):
            compile_text(tmp_path, data, **options)
    assert os.listdir(tmp_path) == ["edges.txt"]


def test_lines_that_are_all_bad_are_no_graph(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match=r"all 2 lines were skipped, the first because of: .*line 1: found '1\.5'"):
        compile_text(tmp_path, "1.5,2\n-1,2\n", on_error="skip")


def test_text_without_rows_is_no_feature_file(tmp_path: Path) -> None:
    for data, message in (
        (b"", "found no rows"),
        (b"{}", "JSON"),
        (b"id,a\nx,1\n", "found no rows: the only line was skipped"),
    ):
        (tmp_path / "x.csv").write_bytes(data)
        with pytest.raises(gz.InputError, match=message):
            gz.compile_features(tmp_path / "x.csv", tmp_path / "x.gd", on_error="skip")
        assert os.listdir(tmp_path) == ["x.csv"]


# -- timestamps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [0, 1, 5000])
def test_timestamps_are_not_taken_for_weights(tmp_path: Path, line: int) -> None:
    lines = ["0 1 3"] * 6000
    lines[line] = "2 3 1217567877"
    text = "\n".join(lines)
    with pytest.raises(gz.InputError, match=rf"line {line + 1}: found '1217567877' in column 2.*times=2.*weights=2"):
        compile_text(tmp_path, text)
    compile_text(tmp_path, text, times=2)
    assert (2, 3, 1217567877) in edges_of(tmp_path / "g.gl")
    compile_text(tmp_path, text, weights=2)
    assert (2, 3, float(np.float32(1217567877))) in edges_of(tmp_path / "g.gl")
    compile_text(tmp_path, text, weights=False)
    assert (2, 3) in edges_of(tmp_path / "g.gl")


def test_weights_that_nobody_named_may_be_large_but_no_large_integers(tmp_path: Path) -> None:
    compile_text(tmp_path, "0,1,16777215\n0,2,1e20\n0,3,16777216.0\n")
    assert [e[2] for e in edges_of(tmp_path / "g.gl")] == [16777215.0, float(np.float32(1e20)), 16777216.0]
    compile_text(tmp_path, "src,dst,weight\n0,1,16777216\n")  # named
    for bad in ("16777216", "86400000"):
        with pytest.raises(gz.InputError, match="line 2: found"):
            compile_text(tmp_path, f"0,1,1\n0,1,{bad}\n")


# -- Matrix Market ----------------------------------------------------------------------------------------------------


def matrix(kind: str, entries: list[str], size: str = "") -> str:
    return f"%%MatrixMarket matrix {kind}\n% a comment\n\n{size or f'4 4 {len(entries)}'}\n" + "\n".join(entries) + "\n"


def test_matrix_market(tmp_path: Path) -> None:
    report = compile_text(tmp_path, matrix("coordinate pattern general", ["1 2", "4 1", "3 3"]), "m.mtx")
    assert edges_of(tmp_path / "g.gl") == [(0, 1), (2, 2), (3, 0)]
    assert report.columns == ["Matrix Market, columns: 0 source, 1 target"]
    compile_text(tmp_path, matrix("coordinate real general", ["1 2 0.5", "2 1 1e1"]))
    assert edges_of(tmp_path / "g.gl") == [(0, 1, 0.5), (1, 0, 10.0)]
    assert gz.Graph(tmp_path / "g.gl").num_nodes == 4
    data = gzip.compress(matrix("coordinate integer symmetric", ["2 1 5", "3 3 7"]).encode())
    compile_text(tmp_path, data, "m.mtx.gz")
    assert edges_of(tmp_path / "g.gl") == [(0, 1, 5.0), (1, 0, 5.0), (2, 2, 7.0)]
    assert gz.Graph(tmp_path / "g.gl").info["undirected"]
    compile_text(tmp_path, matrix("coordinate integer general", ["2 1 1217567877"]), times=2)
    assert edges_of(tmp_path / "g.gl") == [(1, 0, 1217567877)]
    compile_text(tmp_path, matrix("coordinate real skew-symmetric", ["2 1 -5"]), weights=False)
    assert edges_of(tmp_path / "g.gl") == [(0, 1), (1, 0)]
    assert compile_text(tmp_path, matrix("coordinate pattern general", [])).nodes == 4
    (tmp_path / "crlf").write_bytes(matrix("coordinate pattern general", ["1 2"]).replace("\n", "\r\n").encode())
    assert gz.compile_graph(tmp_path / "crlf", tmp_path / "g.gl").edges == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (matrix("array real general", ["1"]), {}, "line 1: found a dense matrix"),
        (matrix("coordinate complex general", ["1 1 0 0"]), {}, "line 1: found values of type 'complex'"),
        (matrix("coordinate real hermitian", ["1 1 0"]), {}, "line 1: found symmetry 'hermitian'"),
        ("%%MatrixMarket vector\n", {}, "line 1: found '%%MatrixMarket vector'"),
        (matrix("coordinate pattern general", ["1 2"], "4 5 1"), {}, "line 4: found a matrix of 4 rows and 5 columns"),
        (matrix("coordinate pattern general", ["1 2"], "4 5"), {}, "line 4: found '4 5', expected 'rows columns"),
        ("%%MatrixMarket matrix coordinate real general\n%\n", {}, "no size line"),
        (matrix("coordinate pattern general", ["1 2"], "4 4 2"), {}, "found 1 entries, line 4 says 2"),
        (matrix("coordinate pattern general", ["0 2"]), {}, "line 5: found id 0, expected at least id_base = 1"),
        (matrix("coordinate pattern general", ["1 5"]), {}, "line 5: found id 5, expected below num_nodes = 4"),
        (matrix("coordinate real general", ["1 2 -1"]), {}, "line 5: found '-1', expected a weight"),
        (matrix("coordinate real skew-symmetric", ["1 2 1"]), {}, "pass weights=False"),
        (matrix("coordinate pattern symmetric", ["2 1"]), {"directed": True}, "omit directed"),
        (matrix("coordinate pattern general", ["2 1"]), {"id_base": 0}, "omit "),
        (matrix("coordinate pattern general", ["2 1"]), {"num_nodes": 7}, "omit "),
    ],
)
def test_matrices_that_are_no_graph_are_told(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((gz.InputError, ValueError), match=message):
        compile_text(tmp_path, text, **options)
    assert os.listdir(tmp_path) == ["edges.txt"]


# -- the report -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("0,1\n", {}, "columns: 0 source, 1 target"),
        ("0 1 2\n", {}, "columns: 0 source, 1 target, 2 weight (the third of three columns)"),
        ("a,b,ts\n0,1,5\n", {}, "columns: 0 'a' source, 1 'b' target, 2 'ts' not read"),
        ("a,b,w,ts\n0,1,5,6\n", {"times": "ts"}, "columns: 0 'a' source, 1 'b' target, 2 'w' weight, 3 'ts' time"),
        ("0,9,1\n", {"columns": (2, 0), "weights": False}, "columns: 0 target, 1 not read, 2 source"),
    ],
)
def test_the_report_says_what_columns_were_taken_for(
    tmp_path: Path, text: str, options: dict[str, Any], told: str
) -> None:
    report = compile_text(tmp_path, text, **options)
    assert report.columns[0] == told
    assert told in str(report)
