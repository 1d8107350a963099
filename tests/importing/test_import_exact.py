"""Tables whose values must not change on the way: quotes in CSV files, large integers, decimals, Python objects."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")

EDGES = {"src": [0, 1], "dst": [1, 0]}
TYPE = ("n", "to", "n")
LARGE = 2**53 + 1  # float64 has no such number


def import_edges(folder: Path, table: Any, **fields: Any) -> gz.Dataset:
    given = {"nodes": {"n": {"count": 2}}, "edges": [{"table": table, "type": TYPE, **fields}]}
    return gz.import_dataset(given, folder / "ds", overwrite=True).dataset


def import_nodes(folder: Path, table: Any, **fields: Any) -> gz.Dataset:
    given = {"nodes": {"n": {"table": table, **fields}}, "edges": [{"table": EDGES, "type": TYPE}]}
    return gz.import_dataset(given, folder / "ds", overwrite=True).dataset


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('0,1,a\n1,2,"bad\n2,3,b\n', r"line 3: a quoted field does not end before the end of the file"),
        ('0,1,"a\nb"\n1,2,"a\nb","bad\n', r"line 5: a quoted field does not end"),
        ('0,1,"a"x\n', r"line 2: found text after a closing quote, expected a delimiter"),
        ('0,1,"bad\n1,2,b\n2,3,"c"\n', r"line 4: found text after a closing quote of a field that starts in line 2"),
    ],
)
def test_quotes_that_do_not_match_are_refused_with_their_line(tmp_path: Path, rows: str, message: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(f"src,dst,note\n{rows}")
    with pytest.raises(gz.InputError, match=rf"e\.csv: {message}"):
        gz.import_dataset({"edges": [{"table": str(path)}]}, tmp_path / "ds")


def test_quotes_that_match_are_read(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b'src,dst,note\r\n"a","b, c","say ""hi"""\r\nb\'s,"line\r\n""break""","" \r\na,5" disk,\r\n')
    dataset = gz.import_dataset({"edges": [{"table": str(path)}]}, tmp_path / "ds").dataset
    names = ["a", "b, c", "b's", 'line\r\n"break"', '5" disk']
    assert sorted(dataset.ids["node"].to_original(np.arange(5))) == sorted(names)


def test_uint64_beyond_int64_is_refused_or_kept_as_a_float(tmp_path: Path) -> None:
    values = pa.array([1, 2**63], pa.uint64())
    edges, nodes = pa.table({**EDGES, "c": values}), pa.table({"id": [0, 1], "c": values})
    with pytest.raises(gz.InputError, match=r"column 'c': row 1: found 9223372036854775808, expected integers below"):
        import_edges(tmp_path, edges, features=["c"])
    with pytest.raises(gz.InputError, match=r"column 'c': row 1: found 9223372036854775808, expected integers below"):
        import_nodes(tmp_path, nodes, features={"c": "c"})
    with pytest.raises(gz.InputError, match=r"column 'c' holds 9\.22337e\+18, expected whole numbers below 2\^63"):
        import_nodes(tmp_path, nodes, label="c")
    for table in (edges, {**EDGES, "c": [1.0, np.inf]}):
        with pytest.raises(gz.InputError, match=r"column 'c' holds .*, expected times below 2\^63"):
            import_edges(tmp_path, table, time="c")
    kept = import_edges(tmp_path, edges).edges[TYPE].features["columns_number"]
    assert kept.get_tensor().ravel().tolist() == [1, 2.0**63]


@pytest.mark.parametrize("values", [[1.5, None], [1, None], [dt.date(1970, 1, 3), None]])
@pytest.mark.parametrize("frame", [False, True])
def test_a_missing_python_object_is_no_category(tmp_path: Path, values: list[Any], frame: bool) -> None:
    table: Any = {"id": [0, 1], "c": values}
    if frame:
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({**table, "c": pandas.Series(values, dtype=object)})
    with pytest.raises(gz.InputError, match="column 'c' has no value in row 1, expected one in every row"):
        import_nodes(tmp_path, table, features=["c"])
    (kept,) = import_nodes(tmp_path, table).nodes["n"].features.values()
    stored = kept.get_tensor().ravel()
    if kept.dtype == np.int64:
        assert stored.tolist() == [172800, np.iinfo(np.int64).min]
    else:
        assert stored[0] == values[0]
        assert np.isnan(stored[1])


def test_python_dates_are_times(tmp_path: Path) -> None:
    zone = dt.timezone(dt.timedelta(hours=1))
    for dates in ([dt.date(1970, 1, 3)] * 2, [dt.datetime(1970, 1, 3, 1, tzinfo=zone)] * 2):
        dataset = import_nodes(tmp_path, {"id": [0, 1], "c": dates}, features=["c"])
        assert dataset.nodes["n"].features["c"].get_tensor().tolist() == [172800, 172800]
    with pytest.raises(gz.InputError, match="column 'c' has no value in row 1"):
        import_edges(tmp_path, {**EDGES, "c": ["1970-01-03", None]}, time="c")


def test_whole_decimals_and_python_integers_are_exact(tmp_path: Path) -> None:
    tables = [
        pa.table({**EDGES, "c": pa.array([Decimal(LARGE), Decimal(1)], pa.decimal128(18, 0))}),
        {**EDGES, "c": np.array([LARGE, 1], object)},
    ]
    for table in tables:
        dataset = import_edges(tmp_path, table, features=["c"])
        assert dataset.edges[TYPE].features["c"].get_tensor().tolist() == [LARGE, 1]
        dataset = import_edges(tmp_path, table, time="c")
        assert [dataset.graph.get_times(node)[0] for node in (1, 0)] == [LARGE, 1]
