"""Sources as people have them, not as we would write them: each was read wrongly, or refused without need, once."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

EDGES = [(0, 1), (1, 2)]


def edges_of(ds: gz.Dataset) -> list[tuple[int, int]]:
    """Every edge as (source, target), sorted."""
    indptr, near = ds.graph.csr(direction="in")
    far = np.repeat(np.arange(ds.num_nodes), np.diff(indptr))
    return sorted(zip(near.tolist(), far.tolist(), strict=True))


def imported(tmp_path: Path, source: Any, **options: Any) -> gz.Dataset:
    return gz.import_dataset(source, tmp_path / "out", memory="50MB", **options).dataset


def written(tmp_path: Path, name: str, data: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_columns_of_integer_text_are_found_by_name(tmp_path: Path) -> None:
    ds = imported(tmp_path, written(tmp_path, "e.csv", "edge,source,target\n7,0,1\n9,1,2\n"))
    assert edges_of(ds) == EDGES


@pytest.mark.parametrize("ids", ["0,1,friend\n1,2,enemy\n", "a,b,friend\nb,c,enemy\n"])
def test_a_third_column_of_words_is_no_weight(tmp_path: Path, ids: str) -> None:
    ds = imported(tmp_path, written(tmp_path, "e.csv", "src,dst,kind\n" + ids))
    assert edges_of(ds) == EDGES
    assert not ds.graph.has_weights


def test_a_third_column_of_a_table_is_a_weight_if_it_holds_numbers(tmp_path: Path) -> None:
    table = {"a": np.array([0, 1]), "b": np.array([1, 2])}
    assert not imported(tmp_path, {**table, "kind": np.array(["x", "y"])}).graph.has_weights
    weighed = gz.import_dataset({**table, "rating": np.array([0.5, 2])}, tmp_path / "two").dataset
    assert weighed.graph.has_weights


@pytest.mark.parametrize("ids", ["0,1,\n1,2,\n", "a,b,\nb,c,\n"])
def test_lines_that_end_in_a_delimiter(tmp_path: Path, ids: str) -> None:
    assert edges_of(imported(tmp_path, written(tmp_path, "e.csv", "src,dst,\n" + ids))) == EDGES


def test_a_file_of_comments_has_no_edges(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="found no edges"):
        imported(tmp_path, written(tmp_path, "e.txt", "# one\n# two\n"))


def test_labels_that_are_too_few(tmp_path: Path) -> None:
    source = written(tmp_path, "e.csv", "0,1\n1,2\n")
    x = np.ones((3, 2), np.float32)
    with pytest.raises(gz.InputError, match="labels: 2 rows, expected 3, one per node"):
        imported(tmp_path, source, features=x, labels=np.array([0, 1]))
    by_id = written(tmp_path, "y.csv", "id,label\n1,2\n")  # which may leave nodes out
    assert imported(tmp_path, source, features=x, labels=by_id).labels.tolist() == [-1, 2, -1]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("ids", ["0,1\n1,2\n", "src,dst\na,b\nb,c\n"])
def test_text_compressed_by_what_pyarrow_reads(tmp_path: Path, codec: str, ids: str) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "e.csv"
    with pa.CompressedOutputStream(str(path), codec) as out:
        out.write(ids.encode())
    assert edges_of(imported(tmp_path, path)) == EDGES
    cut = written(tmp_path, "cut.csv", path.read_bytes()[:-6])
    with pytest.raises(gz.InputError, match=r"cut.csv: the compressed data is damaged or truncated"):
        gz.import_dataset(cut, tmp_path / "two")


def test_damaged_gzip_of_string_ids(tmp_path: Path) -> None:
    text = "src,dst\n" + "".join(f"n{i * 7919 % 100003},m{i}\n" for i in range(20_000))
    with pytest.raises(gz.InputError, match=r"e.csv.gz: the compressed data is damaged or truncated"):
        imported(tmp_path, written(tmp_path, "e.csv.gz", gzip.compress(text.encode())[:-100]))


# -- objects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [False, True])
def test_a_stream_of_batches_is_read_whole(tmp_path: Path, names: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    ids = [f"n{i}" for i in range(8)] if names else list(range(8))
    table = pa.table({"src": ids[:-1], "dst": ids[1:]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    assert edges_of(imported(tmp_path, reader)) == [(i, i + 1) for i in range(7)]


def test_a_generator_is_mapped_whole(tmp_path: Path) -> None:
    def blocks() -> Iterator[Any]:
        for i in range(4):
            yield np.array([10 * i]), np.array([10 * i + 10])

    report = gz.compile_graph(blocks(), tmp_path / "g.gl", ids="map")
    assert (report.nodes, report.edges) == (5, 4)
    assert gz.IdMap(tmp_path / "g.ids.gd").to_original([0, 4]).tolist() == [0, 40]


def test_nodes_without_edges_of_a_named_graph(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph([("b", "a"), ("a", "c")])
    graph.add_node("alone")
    ds = imported(tmp_path, graph)
    assert ds.ids.to_original([0, 1, 2, 3]) == ["b", "a", "c", "alone"]
    assert edges_of(ds) == [(0, 1), (1, 2)]


def test_floats_are_no_ids_and_the_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match=r"column 'src': found float64, expected strings or integers; pandas makes"):
        imported(tmp_path, {"src": np.array([0, np.nan]), "dst": np.array([1, 2])})


# -- files ------------------------------------------------------------------------------------------------------------


def test_arrow_streams_in_files_and_folders_of_arrow_files(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"src": [0, 1], "dst": [1, 2]})
    with pa.ipc.new_stream(str(tmp_path / "e.arrows"), table.schema) as out:
        out.write_table(table)
    assert edges_of(imported(tmp_path, tmp_path / "e.arrows")) == EDGES
    (tmp_path / "many").mkdir()
    for i in range(2):
        with pa.ipc.new_file(str(tmp_path / "many" / f"{i}.arrow"), table.schema) as out:
            out.write_table(table.slice(i, 1))
    assert edges_of(gz.import_dataset(tmp_path / "many", tmp_path / "two").dataset) == EDGES


def test_parquet_files_whose_types_differ(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "many").mkdir()
    parquet.write_table(pa.table({"src": [0], "dst": [1]}), tmp_path / "many" / "0.parquet")
    narrow = pa.table({"dst": pa.array([2], pa.int16()), "src": pa.array([1], pa.int32())})
    parquet.write_table(narrow, tmp_path / "many" / "1.parquet")
    assert edges_of(imported(tmp_path, tmp_path / "many")) == EDGES
    parquet.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "many" / "2.parquet")
    with pytest.raises(gz.InputError, match=r"2\.parquet: no column 'src', .* found 'a', 'b'"):
        gz.import_dataset(tmp_path / "many", tmp_path / "two")


def test_parquet_is_read_by_parts_of_a_row_group(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 1000, (2, 300_000))  # one row group, several batches
    table = pa.table({"src": ids[0].astype(str), "dst": ids[1].astype(str)})
    parquet.write_table(table, tmp_path / "e.parquet", row_group_size=1 << 20)
    gz.compile_graph(tmp_path / "e.parquet", tmp_path / "a.gl", ids="map")
    gz.compile_graph(table, tmp_path / "b.gl", ids="map")
    for name in ("{}.gl", "{}.ids.gd", "{}.ids.text.gd"):
        assert (tmp_path / name.format("a")).read_bytes() == (tmp_path / name.format("b")).read_bytes()


def test_undirected_konect(tmp_path: Path) -> None:
    both = [(0, 1), (1, 0), (1, 2), (2, 1)]
    sym = written(tmp_path, "out.sym", "% sym unweighted\n% 2 3 3\n1 2\n2 3\n")
    assert edges_of(imported(tmp_path, sym)) == both
    assert edges_of(gz.import_dataset(sym, tmp_path / "one", directed=True).dataset) == EDGES
    assert edges_of(gz.import_dataset(sym, tmp_path / "tagged", tag_reverse=True).dataset) == both
    asym = written(tmp_path, "out.asym", "% asym unweighted\n1 2\n2 3\n")
    assert edges_of(gz.import_dataset(asym, tmp_path / "two").dataset) == EDGES


def test_a_pt_file_by_its_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    edges = torch.tensor([[0, 1, 1], [1, 2, 0]])
    torch.save(edges, tmp_path / "edges.pt")
    assert edges_of(imported(tmp_path, tmp_path / "edges.pt")) == [(0, 1), (1, 0), (1, 2)]
    torch.save({"edge_index": edges, "x": torch.ones(3, 2), "y": torch.tensor([0, 1, 0])}, tmp_path / "data.pt")
    ds = gz.import_dataset(tmp_path / "data.pt", tmp_path / "two").dataset
    assert edges_of(ds) == [(0, 1), (1, 0), (1, 2)]
    assert ds.labels.tolist() == [0, 1, 0]
    assert ds.features["x"].shape == (3, 2)


def test_the_command_merges_the_weights_of_equal_edges(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("scipy")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    source = written(tmp_path, "e.csv", "src,dst,weight\n0,1,2\n0,1,3\n1,2,1\n")
    result = CliRunner().invoke(app, ["import", str(source), str(tmp_path / "out"), "--merge", "sum"])
    assert result.exit_code == 0, result.output
    ds = gz.Dataset(tmp_path / "out")
    assert edges_of(ds) == EDGES
    assert ds.graph.to_scipy(direction="in").toarray().tolist() == [[0, 5, 0], [0, 0, 1], [0, 0, 0]]
