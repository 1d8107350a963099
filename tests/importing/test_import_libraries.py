"""Objects of Polars, DuckDB, igraph, NetworkX and pandas: every kind of column, and what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")

SRC, DST, W = ["a", "b", "c", "a"], ["b", "c", "a", "c"], [0.5, 1.5, 2.5, 3.5]
FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
INSTANTS = [FIRST + datetime.timedelta(seconds=i) for i in range(4)]
MICROS = [int(t.timestamp()) * 1_000_000 for t in INSTANTS]


def named(ds: gz.Dataset) -> list[tuple[Any, ...]]:
    """Each edge by the original ids of its ends, with its weight and time where there are any."""
    graph, found = ds.graph, []
    names = ds.ids.to_original(np.arange(graph.num_nodes))
    for v in range(graph.num_nodes):
        carried = [graph.get_weights(v)] if graph.has_weights else []
        carried += [graph.get_times(v)] if graph.has_times else []
        for u, *rest in zip(graph.get_neighbours(v), *carried, strict=True):
            found.append((names[u], names[v], *(value.item() for value in rest)))
    return sorted(found)


def check(source: Any, folder: Path, *columns: Any, **options: Any) -> None:
    folder.mkdir(exist_ok=True)
    ds = gz.import_dataset(source, folder / "out", **options).dataset
    assert named(ds) == sorted(zip(*columns, strict=True))


@pytest.mark.parametrize(
    "kind", ["plain", "categorical", "enum", "one of each", "chunked", "decimal", "binary", "lazy"]
)
def test_polars(tmp_path: Path, kind: str) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"src": SRC, "dst": DST, "weight": W})
    change: dict[str, Callable[[Any], Any]] = {
        "plain": lambda f: f,
        "categorical": lambda f: f.with_columns(pl.col("src", "dst").cast(pl.Categorical)),
        "enum": lambda f: f.with_columns(pl.col("src", "dst").cast(pl.Enum(["c", "b", "a"]))),
        "one of each": lambda f: f.with_columns(pl.col("dst").cast(pl.Categorical)),
        "chunked": lambda f: pl.concat([f[:1], f[1:1], f[1:3], f[3:]], rechunk=False),
        "decimal": lambda f: f.with_columns(pl.col("weight").cast(pl.Decimal(10, 2))),
        "binary": lambda f: f.with_columns(pl.col("src", "dst").cast(pl.Binary)),
        "lazy": lambda f: f.lazy().filter(pl.col("weight") > 0),
    }
    check(change[kind](frame), tmp_path, SRC, DST, W)


def test_polars_times(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"src": SRC, "dst": DST, "weight": W, "time": pl.Series(INSTANTS)})
    check(frame, tmp_path / "utc", SRC, DST, W, MICROS, times="time")
    there = frame.with_columns(pl.col("time").dt.convert_time_zone("Europe/Oslo"))
    check(there, tmp_path / "oslo", SRC, DST, W, MICROS, times="time")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"src": ["a", None], "dst": ["b", "c"]}, "column 'src' has no value in row 1, expected an id in every row"),
        ({"src": ["a", "b"], "dst": ["b", "c"], "weight": [1.0, None]}, "column 'weight' has no value in row 1"),
        ({"src": [1.0, 2.0], "dst": [2.0, 3.0]}, "column 'src': found double, expected strings or integers"),
        ({"src": [[1], [2]], "dst": [1, 2]}, "column 'src': found large_list"),
        ({"src": [], "dst": []}, "found null, expected strings or integers"),
    ],
)
def test_polars_columns_that_are_no_ids(tmp_path: Path, columns: dict[str, Any], text: str) -> None:
    pl = pytest.importorskip("polars")
    with pytest.raises(gz.InputError, match=text):
        gz.import_dataset(pl.DataFrame(columns), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_polars_types_that_arrow_does_not_have(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    wide = pl.DataFrame({"src": [0], "dst": [1]}, schema={"src": pl.Int128, "dst": pl.Int128})
    for source in (wide, pl.Series("src", [1, 2])):
        with pytest.raises(gz.InputError, match="expected a table of types that Arrow has"):
            gz.import_dataset(source, tmp_path / "out")


@pytest.mark.parametrize(
    "query",
    [
        "select * from e",
        "select src::en as src, dst::en as dst, weight from e",
        "select src, dst, weight::decimal(10, 2) as weight from e",
        "select dst, [1, 2] as more, weight, src from e",
    ],
)
def test_duckdb(tmp_path: Path, query: str) -> None:
    con = pytest.importorskip("duckdb").connect()
    rows = ", ".join(f"('{u}', '{v}', {w}::double)" for u, v, w in zip(SRC, DST, W, strict=True))
    con.execute(f"create table e as select * from (values {rows}) as t(src, dst, weight)")
    con.execute("create type en as enum ('a', 'b', 'c')")
    check(con.sql(query), tmp_path, SRC, DST, W)


def test_duckdb_times_and_refusals(tmp_path: Path) -> None:
    con = pytest.importorskip("duckdb").connect()
    timed = "select 'a' as src, 'b' as dst, timestamptz '2020-01-01 00:00:00+00' as time"
    check(con.sql(timed), tmp_path, ["a"], ["b"], [MICROS[0]], times="time")
    for query, text in (
        ("select 'a' as src, null::varchar as dst", "column 'dst' has no value in row 0"),
        ("select 1::hugeint as src, 2::hugeint as dst", "column 'src': found decimal128"),
        ("select 'a' as src, 'b' as dst where false", "found no edges; allow_empty=True"),
    ):
        with pytest.raises(gz.InputError, match=text):
            gz.import_dataset(con.sql(query), tmp_path / "refused")
    with pytest.raises(gz.InputError, match=r"expected a relation: con\.sql\(query\)"):
        gz.import_dataset(con.execute(timed), tmp_path / "refused")


def graph_of(library: str, **attributes: list[Any]) -> Any:
    """The edges a-b, b-c with attributes, and a node z without edges."""
    module = pytest.importorskip(library)
    if library == "igraph":
        graph = module.Graph(directed=True)
        graph.add_vertices(["z", "a", "b", "c"])
        graph.add_edges([("a", "b"), ("b", "c")])
        for key, values in attributes.items():
            graph.es[key] = values
        return graph
    graph = module.DiGraph()
    graph.add_nodes_from(["z", "a", "b", "c"])
    for i, edge in enumerate((("a", "b"), ("b", "c"))):
        kept = {key: values[i] for key, values in attributes.items() if values[i] is not None}
        graph.add_edge(*edge, **kept)
    return graph


@pytest.mark.parametrize("library", ["igraph", "networkx"])
def test_graphs_bring_names_weights_and_times(tmp_path: Path, library: str) -> None:
    graph = graph_of(library, weight=[0.5, 1.5], time=[7, 8], since=[70, 80])
    ab = (["a", "b"], ["b", "c"])
    check(graph, tmp_path / "1", *ab, [0.5, 1.5])
    check(graph, tmp_path / "2", *ab, [0.5, 1.5], [7, 8], times=True)
    check(graph, tmp_path / "3", *ab, [70, 80], weights=False, times="since")
    ds = gz.Dataset(tmp_path / "1" / "out")
    assert sorted(ds.ids.to_original(np.arange(4))) == ["a", "b", "c", "z"]


@pytest.mark.parametrize("library", ["igraph", "networkx"])
def test_attributes_that_some_edges_lack_are_told(tmp_path: Path, library: str) -> None:
    graph = graph_of(library, weight=[0.5, None])
    with pytest.raises(gz.InputError, match="1 of 2 edges have no 'weight'; weights=False omits them"):
        gz.import_dataset(graph, tmp_path / "out")
    with pytest.raises(gz.InputError, match="2 of 2 edges have no 'time'"):
        gz.import_dataset(graph, tmp_path / "out", weights=False, times=True)
    check(graph, tmp_path, ["a", "b"], ["b", "c"], weights=False)


def test_igraph_names_keep_the_order_of_the_nodes_and_may_repeat(tmp_path: Path) -> None:
    graph = graph_of("igraph")
    rows = np.arange(4, dtype=np.float32)
    ds = gz.import_dataset(graph, tmp_path / "out", features=rows.reshape(-1, 1)).dataset
    assert ds.ids.to_original(np.arange(4)) == ["z", "a", "b", "c"]
    assert ds.features["x"].get_tensor().ravel().tolist() == rows.tolist()
    graph.vs["name"] = ["x", "x", "y", "z"]
    numbered = gz.import_dataset(graph, tmp_path / "numbered").dataset
    assert numbered.graph.get_neighbours(2).tolist() == [1]
    with pytest.raises(gz.InputError, match="4 nodes have 3 distinct names"):
        gz.import_dataset(graph, tmp_path / "mapped", ids="map")


def test_a_matrix_has_no_times(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match="a matrix has no times"):
        gz.compile_graph(sparse.eye(3, format="csr"), tmp_path / "g.gl", times=True)


def test_pandas_times_with_a_zone(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    zoned = pandas.Series(INSTANTS).dt.tz_convert("Asia/Tokyo").dt.as_unit("us")
    check(pandas.DataFrame({"src": SRC, "dst": DST, "time": zoned}), tmp_path, SRC, DST, MICROS, times="time")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(SRC, pa.string_view()),
        pa.array([s.encode() for s in SRC], pa.large_binary()),
        pa.array([s.encode() for s in SRC], pa.binary(1)),
        pa.array([s.encode() for s in SRC], pa.binary_view()),
        pa.array(SRC).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], pa.array(SRC)),
        pa.chunked_array([[], SRC[:1], [], SRC[1:]], pa.string()),
    ],
    ids=lambda column: str(column.type)[:24],
)
def test_arrow_columns_of_strings_in_any_encoding(tmp_path: Path, column: Any) -> None:
    check(pa.table({"src": column, "dst": DST}), tmp_path, SRC, DST)


def test_a_null_in_a_dictionary_is_missing(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for options in ({"ids": "map"}, {"ids": "map", "columns": ("dst", "src")}):
        with pytest.raises(gz.InputError, match="column 'src' has no value in row 1"):
            gz.import_dataset(pa.table({"src": column, "dst": ["b", "c"]}), tmp_path / "out", **options)
    weights = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([1.0, None]))
    with pytest.raises(gz.InputError, match="column 'weight' has no value in row 1"):
        gz.import_dataset(pa.table({"src": [0, 1], "dst": [1, 0], "weight": weights}), tmp_path / "out")
