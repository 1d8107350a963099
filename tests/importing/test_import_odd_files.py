"""Files as newcomers bring them: each gives the edges that a person reads in it, or an error that says what to do."""

from __future__ import annotations

import decimal
import gzip
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

NUMBERS, NAMES = [(0, 1), (1, 2), (2, 0)], [("a", "b"), ("b", "c"), ("c", "a")]


def edges(ds: gz.Dataset) -> list[tuple[Any, ...]]:
    """Each edge by the original ids of its ends, and its weight where it has one."""
    graph, found = ds.graph, []
    names = list(ds.ids.to_original(np.arange(graph.num_nodes)))
    for v in range(graph.num_nodes):
        carried = [graph.get_weights(v).tolist()] if graph.has_weights else []
        found += [(names[u], names[v], *rest) for u, *rest in zip(graph.get_neighbours(v), *carried, strict=True)]
    return sorted(found)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("mark.csv", b"\xef\xbb\xbf0,1\n1,2\n2,0\n", NUMBERS),
        ("mark-header.csv", b"\xef\xbb\xbfdst,src\nb,a\nc,b\na,c\n", NAMES),
        ("crlf.csv", b"src,dst\r\n0,1\r\n1,2\r\n2,0\r\n", NUMBERS),
        ("crlf-names.csv", b"src,dst\r\na,b\r\nb,c\r\nc,a\r\n", NAMES),
        ("quoted.csv", b'"src","dst"\n"0","1"\n"1","2"\n"2","0"\n', NUMBERS),
        ("comma-inside.csv", b'src,dst\n"a,x",b\n', [("a,x", "b")]),
        ("quotes-inside.csv", b'src,dst\n"say ""hi""",b\n', [('say "hi"', "b")]),
        ("semicolons.csv", b"src;dst\na;b\nb;c\nc;a\n", NAMES),
        ("bars.csv", b"src|dst\na|b\nb|c\nc|a\n", NAMES),
        ("tabs.tsv", b"src\tdst\nNew York\tLa Paz\n", [("New York", "La Paz")]),
        ("comments.txt", b"# Nodes: 3\n# From\tTo\n0\t1\n1\t2\n2\t0\n", NUMBERS),
        ("comment-between.txt", b"0 1\n# then\n1 2\n% and\n2 0\n", NUMBERS),
        ("hashtags.csv", b"src,dst\n#a,#b\n#b,#a\n", [("#a", "#b"), ("#b", "#a")]),
        ("last-line.csv", b"0,1\n1,2\n2,0", NUMBERS),
        ("zeros.csv", b"src,dst\n007,1\n1,007\n", [("007", "1"), ("1", "007")]),
        ("long.csv", b"src,dst\n" + b"x" * 200_000 + b",b\n", [("x" * 200_000, "b")]),
        ("\u043a\u0440\u0430 \u0439.csv", "src,dst\n\u00e5,\u65e5\u672c\n".encode(), [("\u00e5", "\u65e5\u672c")]),
        ("forms.csv", "src,dst\n\u00e9,e\u0301\n".encode(), [("\u00e9", "e\u0301")]),
        ("index.csv", b",src,dst\n0,0,1\n1,1,2\n2,2,0\n", NUMBERS),
        ("index-weight.csv", b",src,dst,weight\n0,0,1,0.5\n1,1,2,2\n", [(0, 1, 0.5), (1, 2, 2.0)]),
        ("index-names.csv", b",src,dst\n0,a,b\n1,b,c\n2,c,a\n", NAMES),
        ("named-weight.csv", b"src,dst,note,weight\n0,1,9,0.5\n1,2,9,2\n", [(0, 1, 0.5), (1, 2, 2.0)]),
        ("ends-in-comma.csv", b"src,dst,\n0,1,\n1,2,\n2,0,\n", NUMBERS),
        ("two.csv.gz", gzip.compress(b"0,1\n1,2\n") + gzip.compress(b"2,0\n"), NUMBERS),
        ("no-gzip.csv.gz", b"0,1\n1,2\n2,0\n", NUMBERS),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "",
)
def test_text_that_is_read(tmp_path: Path, name: str, content: bytes, expected: list[Any]) -> None:
    (tmp_path / name).write_bytes(content)
    assert edges(gz.import_dataset(tmp_path / name, tmp_path / "out").dataset) == sorted(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"src,dst\r0,1\r1,2\r", r"line 1: lines end in carriage returns alone, expected newlines; convert"),
        ("src,dst\na,b\nM\u00fcnchen,b\n".encode("latin-1"), r"line 3: found byte 0xfc, expected UTF-8 text; convert"),
        (b"src,dst\na,b\xc3", r"line 2: found byte 0xc3, expected UTF-8"),
        ("src,dst\na,b\n".encode("utf-16"), r"line 1: .*UTF-16"),
        (b"src,dst,src\n0,1,5\n", r"2 columns are called 'src', expected different names"),
        (b"src,dst,src\na,b,c\n", r"2 columns are called 'src', expected different names"),
        (b'src,dst,weight\n0,1,"1,000"\n', r"line 2: .*weight"),
        (b"src;dst;weight\n0;1;0,5\n", r"line 2: found '0,5'"),
        (b'src,dst\n"a\nx",b\n', r"line 2: a quoted field does not end on its line"),
        (b"src,dst\n-1,1\n", r"line 2: found '-1'"),
        (b"src,dst\na,b\n,c\n", r"line 3: column 'src' is empty"),
        (b"src,dst\n", r"found no edges; allow_empty=True"),
        (b"source,target\nalpha\n", r"line 2: found 1 column, expected 2"),
        (b"", r"found no edges"),
        (b"alpha,beta\na,b\n", r"line 1 .* pass header=True or header=False"),
        (b"<!DOCTYPE html><html>404</html>", r"line 1: this looks like HTML"),
        (b"src,dst\n" + b"".join(b"%d,1\n" % i for i in range(500)) + b"abc,1\n", r"line 502: found 'abc'"),
    ],
)
def test_text_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "e.csv").write_bytes(content)
    with pytest.raises(gz.InputError, match=rf"e\.csv: {message}"):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_latin_bytes_are_found_wherever_a_block_ends(tmp_path: Path) -> None:
    from graphzero.sources import text as _textfile

    line = "\u00e5\u00e4\u00f6,b\n".encode()
    for more in range(4):  # the end of the first block falls between and within characters
        start = b"src,dst\n" + b"x" * more + line * (_textfile._BLOCK // len(line) + 10)
        (tmp_path / "e.csv").write_bytes(start)
        assert sum(len(block) for block, _ in _textfile.utf8_blocks(str(tmp_path / "e.csv"))) == len(start)
        (tmp_path / "e.csv").write_bytes(start + b"c,\xe9\n")
        with pytest.raises(gz.InputError, match=rf"line {start.count(10) + 1}: found byte 0xe9"):
            list(_textfile.utf8_blocks(str(tmp_path / "e.csv")))


def test_files_that_are_no_text(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "harmed"),)

    (tmp_path / "e.pt").write_bytes(pickle.dumps(Harm()))
    np.savez(tmp_path / "e.npz", edge_index=np.array([[0, 1], [1, Harm()]], object))
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, Harm()]], object))
    np.save(tmp_path / "short.npy", np.zeros((2, 1000), np.int64))
    os.truncate(tmp_path / "short.npy", 5000)
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(os.urandom(9999).hex().encode())[:2000])
    with zipfile.ZipFile(tmp_path / "e.csv.zip", "w") as archive:
        archive.writestr("e.csv", "0,1\n")
    for name in ("e.pt", "e.npz", "e.npy", "short.npy", "cut.csv.gz", "e.csv.zip"):
        with pytest.raises(gz.InputError, match=name):
            gz.import_dataset(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "harmed").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path(os.devnull)):
        with pytest.raises(gz.InputError, match="is a pipe or a device, expected a regular file"):
            gz.import_dataset(path, tmp_path / "out")
        with pytest.raises(gz.InputError, match="is a pipe or a device, expected a regular file"):
            gz.compile_graph(path, tmp_path / "g.gl")


def test_links_lead_to_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    (tmp_path / "link.csv").symlink_to("e.csv")
    (tmp_path / "lost.csv").symlink_to("nothing.csv")
    assert edges(gz.import_dataset(tmp_path / "link.csv", tmp_path / "out").dataset) == NUMBERS
    with pytest.raises(FileNotFoundError, match=r"lost\.csv: no such file"):
        gz.import_dataset(tmp_path / "lost.csv", tmp_path / "other")


def test_a_folder_of_text_says_how_to_give_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    paths = [tmp_path / "in" / name for name in ("a.csv", "b.csv")]
    for path, text in zip(paths, ("0,1\n1,2\n", "2,0\n"), strict=True):
        path.write_text(text)
    with pytest.raises(gz.InputError, match="several text files of edges are given as a list"):
        gz.import_dataset(tmp_path / "in", tmp_path / "out")
    assert edges(gz.import_dataset(paths, tmp_path / "out").dataset) == NUMBERS


# -- Parquet ----------------------------------------------------------------------------------------------------------


def parts(folder: Path, *tables: dict[str, Any]) -> Path:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "in").mkdir()
    for i, table in enumerate(tables):
        parquet.write_table(pa.table(table), folder / "in" / f"part-{i}.parquet")
    return folder / "in"


TWO = {"src": [0, 1], "dst": [1, 2]}


def small(values: list[int]) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([{"src": small([]), "dst": small([])}, TWO, {"src": small([]), "dst": small([])}], NUMBERS[:2]),
        ([TWO, {"src": small([2]), "dst": small([0])}], NUMBERS),
        ([{"src": small([2]), "dst": small([0])}, TWO], NUMBERS),
        ([TWO, {"dst": [0], "src": [2]}], NUMBERS),
        ([TWO, {"src": [2], "dst": [0], "more": [1.5]}], NUMBERS),
        ([{**TWO, "__index_level_0__": [5, 7]}], NUMBERS[:2]),
    ],
)
def test_parts_that_differ_are_one_table(tmp_path: Path, tables: list[dict[str, Any]], expected: list[Any]) -> None:
    folder = parts(tmp_path, *tables)
    for name in ("_SUCCESS", ".part-0.parquet.crc", ".DS_Store", "README.txt", "part-0.parquet.crc", "_part.parquet"):
        (folder / name).write_bytes(b"junk")
    assert edges(gz.import_dataset(folder, tmp_path / "out").dataset) == expected


def test_a_later_part_may_need_a_wider_type(tmp_path: Path) -> None:
    folder = parts(tmp_path, {"src": small([2]), "dst": small([0])}, {"src": [5_000_000_000], "dst": [2]})
    found = edges(gz.import_dataset(folder, tmp_path / "out", ids="map").dataset)
    assert found == [(2, 0), (5_000_000_000, 2)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"src": ["x"], "dst": ["y"]}, r"part-1\.parquet: its columns differ from .*src.*int64 vs string"),
        ({"src": [1], "other": [2]}, r"part-1\.parquet: no column 'dst', which other files .* found 'src', 'other'"),
    ],
)
def test_parts_that_do_not_go_together_are_named(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(parts(tmp_path, TWO, table), tmp_path / "out")


def test_parts_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder = parts(tmp_path, TWO)
    for content in (b"", b"junk"):
        (folder / "part-9.parquet").write_bytes(content)
        with pytest.raises(gz.InputError, match=r"part-9\.parquet"):
            gz.import_dataset(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0, None], r"column 'src' has no value in row 1"),
        ([0.0, 1.0], r"column 'src': found double, expected strings or integers"),
        ([decimal.Decimal(1), decimal.Decimal(2)], r"column 'src': found decimal128"),
        ([[0], [1]], r"column 'src': found list"),
    ],
)
def test_columns_of_parquet_that_are_no_ids(tmp_path: Path, column: list[Any], message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(parts(tmp_path, {"src": column, "dst": [1, 2]}), tmp_path / "out")


def test_the_dataset_may_be_inside_its_source_but_not_the_source(tmp_path: Path) -> None:
    folder = parts(tmp_path, TWO)
    with pytest.raises(ValueError, match="is the source itself"):
        gz.import_dataset(folder, folder)
    gz.import_dataset(folder, folder / "out")
    again = gz.import_dataset(folder, folder / "out", overwrite=True)
    assert edges(again.dataset) == NUMBERS[:2]
