"""Text edges: dialects, dirt and damage, against a plain parser written from the documentation."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core


def edges_of(path: Path) -> list[tuple[int, ...]]:
    """All edges of a compiled file, in source order, with weights and times where there are any."""
    _core.verify(str(path))
    file = _core.Topology.open(str(path))
    names = {a["name"] for a in file.info["arrays"]}
    indptr = file.array("out.indptr").astype(np.int64)
    columns = [np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), file.array("out.indices").astype(np.int64)]
    columns += [file.array(f"out.{name}") for name in ("weights", "times") if f"out.{name}" in names]
    order = np.argsort(file.array("out.edge_ids"), kind="stable")
    return list(zip(*(c[order].tolist() for c in columns), strict=True))


def compile_text(folder: Path, text: str | bytes, **options: Any) -> tuple[Any, list[tuple[int, ...]]]:
    source = folder / "edges.csv"
    source.write_bytes(text.encode() if isinstance(text, str) else text)
    report = gz.compile_graph(source, folder / "g.gl", edge_ids=True, **options)
    return report, edges_of(folder / "g.gl")


TWO = [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n2,3\n",
        "0,1\n2,3",  # no final newline
        "0,1\r\n2,3\r\n",
        "0,1\r\n2,3\r",
        "\ufeff0,1\n2,3\n",  # byte order mark
        "\ufeffsrc,dst\n0,1\n2,3\n",
        "src,dst\n0,1\n2,3\n",
        '"src","dst"\n"0","1"\n"2","3"\n',
        "# SNAP\n# FromNodeId\tToNodeId\n0\t1\n2\t3\n",
        "% sym unweighted\n0 1\n2 3\n",
        "0 1\n2 3\n",
        "0   1\n  2 \t 3  \n",
        "0, 1\n 2 ,3 \n",
        "0;1\n2;3\n",
        "0|1\n2|3\n",
        "\n\n0,1\n   \n\t\n2,3\n\n\n",
        "0,1\n# in between\n2,3\n  # indented\n% other\n",
        "00000000000000,0001\n2,000000000000000003\n",
        "source,target\r\n0,1\r\n\r\n2,3",
    ],
)
def test_dialects_that_are_understood(tmp_path: Path, text: str) -> None:
    _, edges = compile_text(tmp_path, text)
    assert edges == TWO


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("0,1\nabc,2\n", 2, "found 'abc', expected an integer node id"),
        ("0,1\n1,abc\n", 2, "found 'abc', expected an integer node id"),
        ("0,1\n1.0,2\n", 2, "found '1.0', expected an integer node id"),
        ("0,1\n1,2e3\n", 2, "found '2e3', expected an integer node id"),
        ("0,1\n-1,2\n", 2, "found '-1', expected an integer node id, 0 or more"),
        ("0,1\n+1,2\n", 2, "found '\\+1', expected an integer node id"),
        ("0,1\n1,9223372036854775808\n", 2, r"found '9223372036854775808', expected a node id below 2\^62"),
        ("0,1\n1,99999999999999999999999\n", 2, r"found '99999999999999999999999', expected a node id below 2\^62"),
        ("0,1\n1\n", 2, "found 1 column, expected 2 separated by ','"),
        ("0,1\n1,\n", 2, r"column 1 \(numbered from 0\) is empty, expected a node id"),
        ("0,1\n,1\n", 2, r"column 0 \(numbered from 0\) is empty, expected a node id"),
        ("0,1\n1 2\n", 2, "found 1 column, expected 2"),
        ("0,1\n1\t2\n", 2, "found 1 column, expected 2"),
        ("0 1\n1,2\n", 2, "found 1 column, expected 2 separated by blanks"),
        ("0,1\n1,0x10\n", 2, "found '0x10'"),
        ("0,1\n1,2 3\n", 2, "found '2 3'"),
        ("0,1\n1,٣\n", 2, "expected an integer node id"),
        ("0,1\r2,3\r", 1, "lines end in carriage returns alone"),
        ('0,1\n"1,2\n', 2, "a quoted field does not end on its line"),
        ('0,1\n"1"2,3\n', 2, "found text after a closing quote"),
        ("0,1\n1,2,3\n", 2, "found 3 columns, expected 2 separated by ','"),
        ("a,b,c\n0,1,2\n0,1\n", 3, "found 2 columns, expected 3 separated by ','"),
        ("0,1,2\n0,1,2,\n0,1,2,,\n", 3, "found 5 columns, expected 3"),
        ("src,dst\n0,1\nsrc,dst\n", 3, "found 'src'"),
        ("0,x\n", 1, "found 'x'"),
        ("# c\n\n0,1\n\n0,1\n0;1\n", 6, "found 1 column"),
        ("0\n1\n", 1, "found 1 column, expected 2"),
    ],
)
def test_bad_lines_are_told(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(gz.InputError, match=rf"edges\.csv: line {line}: .*{message}"):
        compile_text(tmp_path, text)
    assert os.listdir(tmp_path) == ["edges.csv"]  # nothing was left behind


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n% here", "src,dst\n", "\ufeff", "src,dst"])
def test_files_without_edges(tmp_path: Path, text: str) -> None:
    for options in ({}, {"num_nodes": 5}):
        with pytest.raises(gz.InputError, match=r"edges\.csv: found no edges; allow_empty=True"):
            compile_text(tmp_path, text, **options)
    assert os.listdir(tmp_path) == ["edges.csv"]
    report, edges = compile_text(tmp_path, text, allow_empty=True)
    assert edges == []
    assert (report.nodes, report.edges) == (0, 0)
    report, _ = compile_text(tmp_path, text, num_nodes=5, allow_empty=True)
    assert report.nodes == 5


def test_skipping_counts_and_shows(tmp_path: Path) -> None:
    text = "0,1\nx,y\n1\n2,3\n" + "bad\n" * 20
    report, edges = compile_text(tmp_path, text, on_error="skip")
    assert edges == TWO
    assert report.lines_skipped == 22
    assert len(report.skipped_examples) == 8
    assert "line 2: found 'x'" in report.skipped_examples[0]
    assert "22 lines skipped" in str(report)


def test_declared_nodes_are_checked_by_line(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="line 2: found id 7, expected below num_nodes = 7"):
        compile_text(tmp_path, "0,1\n7,0\n", num_nodes=7)
    report, _ = compile_text(tmp_path, "0,1\n6,0\n", num_nodes=7)
    assert report.nodes == 7
    with pytest.raises(gz.InputError, match="line 2: found id 0, expected at least id_base = 1"):
        compile_text(tmp_path, "1 2\n0 1\n", id_base=1)
    _, edges = compile_text(tmp_path, "1 2\n3 4\n", id_base=1)
    assert edges == TWO


def test_absurd_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="the largest id is 4000000000000000000"):
        compile_text(tmp_path, "0,1\n2,4000000000000000000\n")
    with pytest.raises(gz.StorageError, match="the file needs 8000000"):
        compile_text(tmp_path, "0,1\n2,1000000000000\n")
    assert os.listdir(tmp_path) == ["edges.csv"]


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="binary"):
        compile_text(tmp_path, b"0,1\n1,2\x00\n")
    with pytest.raises(gz.InputError, match="UTF-16"):
        compile_text(tmp_path, "0,1\n".encode("utf-16"))


def test_weights(tmp_path: Path) -> None:
    text = "0,1,0.5\n2,3,1e-3\n1,1,7\n"
    expected = [(0, 1, 0.5), (2, 3, float(np.float32(1e-3))), (1, 1, 7.0)]
    assert compile_text(tmp_path, text)[1] == expected
    assert compile_text(tmp_path, "s,d,weight\r\n" + text.replace("\n", "\r\n"))[1] == expected
    assert compile_text(tmp_path, text.replace(",", " \t "))[1] == expected
    assert compile_text(tmp_path, text, weights=False)[1] == [e[:2] for e in expected]
    assert compile_text(tmp_path, "w,a,b\n0.5,0,1\n", columns=("a", "b"), weights="w")[1] == [(0, 1, 0.5)]
    assert compile_text(tmp_path, "0,9,1,2.5\n", columns=(0, 2), weights=3)[1] == [(0, 1, 2.5)]
    assert compile_text(tmp_path, "a,b,timestamp\n0,1,5\n")[1] == [(0, 1)]  # a time is no weight
    for bad in ("-1", "nan", "inf", "x", "", "1e60"):
        with pytest.raises(gz.InputError, match=rf"line 2: found '{bad}', expected a weight"):
            compile_text(tmp_path, f"0,1,1\n0,1,{bad}\n")


def test_times(tmp_path: Path) -> None:
    text = "a,b,w,t\n0,1,0.5,-7\n2,3,2,100\n"
    assert compile_text(tmp_path, text, times="t", weights="w")[1] == [(0, 1, 0.5, -7), (2, 3, 2.0, 100)]
    assert compile_text(tmp_path, text, times=True)[1] == [(0, 1, 0.5, -7), (2, 3, 2.0, 100)]
    assert compile_text(tmp_path, text, times=True, weights=False)[1] == [(0, 1, -7), (2, 3, 100)]
    assert compile_text(tmp_path, "0 1 9\n2 3 8\n", times=2)[1] == [(0, 1, 9), (2, 3, 8)]
    with pytest.raises(gz.InputError, match=r"line 2: found '1\.5', expected a time"):
        compile_text(tmp_path, "0 1 9\n2 3 1.5\n", times=2)


def test_columns_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    text = 'id,from,to\n7,0,1\n8,2,3\n"x, y",4,5\n'
    assert compile_text(tmp_path, text, columns=("from", "to"), weights=False)[1] == [*TWO, (4, 5)]
    assert compile_text(tmp_path, text, columns=(2, 1), weights=False)[1] == [(1, 0), (3, 2), (5, 4)]
    for columns, message in ((("a", "to"), "no column 'a'"), ((0,), "expected two"), ((0, True), "by name or number")):
        with pytest.raises((ValueError, TypeError), match=message):
            compile_text(tmp_path, text, columns=columns)
    with pytest.raises(ValueError, match="has no header"):
        compile_text(tmp_path, "0,1\n", columns=("a", "b"))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text(tmp_path: Path, compress: Any) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 5000, (60_000, 2))
    text = "src,dst\n" + "".join(f"{a},{b}\n" for a, b in pairs.tolist())
    (tmp_path / "e.gz").write_bytes(compress(text.encode()))
    gz.compile_graph(tmp_path / "e.gz", tmp_path / "g.gl", edge_ids=True, memory="2MB", num_threads=2)
    assert edges_of(tmp_path / "g.gl") == [tuple(p) for p in pairs.tolist()]
    (tmp_path / "e.gz").write_bytes(compress(("0,1\n" * 70_000 + "x\n").encode()))
    with pytest.raises(gz.InputError, match=r"e\.gz: line 70001: found 1 column"):
        gz.compile_graph(tmp_path / "e.gz", tmp_path / "h.gl", num_threads=2)
    (tmp_path / "cut.gz").write_bytes(compress(text.encode())[:-2000])
    with pytest.raises(gz.InputError, match="damaged or truncated"):
        gz.compile_graph(tmp_path / "cut.gz", tmp_path / "h.gl")
    assert not (tmp_path / "h.gl").exists()


@pytest.mark.parametrize("num_threads", [1, 2])
def test_line_numbers_are_exact_in_large_files(tmp_path: Path, num_threads: int) -> None:
    lines = [f"{i % 977},{i % 1009}" for i in range(150_000)]
    for i in range(0, len(lines), 1000):
        lines[i] = "# " + "x" * (i % 7919)
    for at in (1, 33_333, 80_001, 149_999):
        broken = list(lines)
        broken[at] = "5,five"
        broken[min(at + 40_000, len(lines) - 1)] = "6,six"  # a later fault must not win
        text = "\n".join(broken)
        with pytest.raises(gz.InputError, match=rf"line {at + 1}: found '{'five' if at != 149_999 else 'six'}'"):
            compile_text(tmp_path, text, memory="4MB", num_threads=num_threads)


def test_lines_that_straddle_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, 10 ** rng.integers(1, 9, (40_000, 2)))
    pairs[:, :] %= 1 << 20
    text = "".join(f"{a}{' ' * (i % 3)},{b}\n" for i, (a, b) in enumerate(pairs.tolist()))
    _, edges = compile_text(tmp_path, text, memory="2MB", num_threads=2)
    assert edges == [tuple(p) for p in pairs.tolist()]


def test_several_files_are_one_stream(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst\n0,1\n")
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"2\t3\n"))
    report = gz.compile_graph([tmp_path / "a.csv", tmp_path / "b.tsv.gz"], tmp_path / "g.gl", edge_ids=True)
    assert report.source_edges == 2
    assert edges_of(tmp_path / "g.gl") == TWO


# -- against a plain parser -------------------------------------------------------------------------------------------

_field = st.one_of(
    st.integers(0, 50).map(str),
    st.integers(0, 50).map(lambda i: f'"{i}"'),
    st.sampled_from(["", "x", "-3", "1.5", "007", " 4", "5 ", "\t6", "+2", "9" * 30, '"', "#", "1e3", "12 13"]),
    st.sampled_from(['"3" ', '"1,2"', '"4""', '"a""b"', '"5"x']),
)
_line = st.one_of(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda e: f"{e[0]},{e[1]}"),
    st.lists(_field, max_size=4).map(",".join),
    st.sampled_from(["", "  ", "# c", "%", " # x", ",", ",,", "1,2,3,4"]),
)


_FIELD = re.compile(r'[ \t]*"((?:[^"]|"")*)"[ \t]*(,|$)|[ \t]*([^",][^,]*|)(,|$)')


def plain_fields(content: str) -> list[str] | None:
    """The fields of a line as RFC 4180 has them; None where a quote does not close, or text follows one."""
    fields, at, more = [], 0, True
    while more:
        match = _FIELD.match(content, at)
        if match is None:
            return None
        quoted, after, plain, end = match.groups()
        fields.append((plain if quoted is None else quoted.replace('""', '"')).strip(" \t"))
        at, more = match.end(), (end if quoted is None else after) == ","
    return fields


def plain_parse(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """What the documentation says, one line at a time: edges, and the numbers of bad lines."""
    edges, bad, width = [], [], 0
    for number, line in enumerate(text.split("\n"), 1):
        content = line.removesuffix("\r").strip(" \t")
        if not content or content[0] in "#%":
            continue
        fields = plain_fields(content)
        if fields is not None and not width:
            width = max(2, len(fields) - (len(fields) > 1 and not fields[-1]))
        right = fields is not None and (len(fields) == width or (len(fields) == width + 1 and not fields[-1]))
        ids = [f for f in (fields or [])[:2] if re.fullmatch("[0-9]+", f) and int(f) < 2**62]
        if right and len(ids) == 2:
            edges.append((int(ids[0]), int(ids[1])))
        else:
            bad.append(number)
    return edges, bad


@given(st.lists(_line, max_size=40), st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(max_examples=150)
def test_equals_a_plain_parser(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], newline: str, final: bool
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    text = newline.join(lines) + (newline if final else "")
    expected, bad = plain_parse(text)
    options: dict[str, Any] = {"delimiter": ",", "header": False, "weights": False, "num_threads": 1, "memory": "8MB"}
    options["allow_empty"] = True
    report, edges = compile_text(folder, text, on_error="skip", **options)
    assert edges == expected
    assert report.lines_skipped == len(bad)
    if bad:
        with pytest.raises(gz.InputError, match=f"line {bad[0]}:"):
            compile_text(folder, text, **options)
    else:
        assert compile_text(folder, text, **options)[1] == expected


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 2**20), st.floats(0, 2.0**100, width=32)), max_size=30))
@settings(max_examples=50)
def test_weights_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, float]]) -> None:
    text = "".join(f"{a},{b},{w!r}\n" for a, b, w in rows)
    folder = tmp_path_factory.mktemp("weights")
    _, edges = compile_text(folder, text, num_threads=1, memory="8MB", num_nodes=2**20 + 1, weights=2, allow_empty=True)
    assert edges == rows
