"""Every Arrow type in every role of a table: a number, a code, or a refusal that names file and column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

DAY = dt.date(1970, 1, 3)
NOON = dt.datetime(1970, 1, 1, 0, 0, 5)
# name: (type, three values, what they are as a feature, and as a time in seconds; None: refused)
NUMBERS: dict[str, tuple[Any, list[Any], list[float], list[int] | None]] = {
    "bool": (pa.bool_(), [True, False, True], [1, 0, 1], None),
    "int8": (pa.int8(), [1, 2, 3], [1, 2, 3], [1, 2, 3]),
    "uint64": (pa.uint64(), [1, 2, 3], [1, 2, 3], [1, 2, 3]),
    "half": (pa.float16(), [np.float16(1), np.float16(2), np.float16(3)], [1, 2, 3], [1, 2, 3]),
    "float": (pa.float32(), [1.5, 2.5, 3.5], [1.5, 2.5, 3.5], None),
    "double": (pa.float64(), [1.0, 2.0, 3.0], [1, 2, 3], [1, 2, 3]),
    "decimal128": (pa.decimal128(9, 2), [Decimal("250.00"), Decimal("1.25"), Decimal("3")], [250, 1.25, 3], None),
    "decimal256": (pa.decimal256(40, 1), [Decimal("5.0"), Decimal("1"), Decimal("3")], [5, 1, 3], [5, 1, 3]),
    "duration": (pa.duration("ms"), [dt.timedelta(seconds=s) for s in (1.5, 2, 3)], [1.5, 2, 3], [1, 2, 3]),
    "time32": (pa.time32("s"), [dt.time(0, 0, 1), dt.time(0, 1), dt.time(1)], [1, 60, 3600], [1, 60, 3600]),
    "time64": (pa.time64("us"), [dt.time(0, 0, 1), dt.time(0, 1), dt.time(1)], [1, 60, 3600], [1, 60, 3600]),
    "dictionary of int": (pa.dictionary(pa.int8(), pa.int64()), [7, 8, 7], [7, 8, 7], [7, 8, 7]),
}
DATES = {
    "date32": (pa.date32(), [DAY] * 3, 172800),
    "date64": (pa.date64(), [DAY] * 3, 172800),
    "timestamp": (pa.timestamp("ns"), [NOON] * 3, 5),
    "timestamp with zone": (pa.timestamp("us", "Europe/Oslo"), [NOON.replace(tzinfo=dt.UTC)] * 3, 5),
}
TEXTS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
}
LISTS = {
    "list": pa.list_(pa.float32()),
    "large_list": pa.large_list(pa.int64()),
    "fixed_size_list": pa.list_(pa.float64(), 2),
    "list of decimal": pa.list_(pa.decimal128(5, 1)),
}
REFUSED = {
    "struct": (pa.struct([("a", pa.int64())]), [{"a": 1}] * 3),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)]] * 3),
    "list of string": (pa.list_(pa.string()), [["a"]] * 3),
}


def table(folder: Path, name: str, kind: Any, values: list[Any], **others: list[Any]) -> str:
    path = folder / f"{name}.parquet"
    parquet.write_table(pa.table({**others, "c": pa.array(values, kind)}), path)
    return str(path)


def imported(folder: Path, kind: Any, values: list[Any], role: str) -> Any:
    """Import the values as a feature, label, weight, time or edge feature; return what is in the dataset."""
    ids = {"id": [0, 1, 2]} if role in ("feature", "label") else {"src": [0, 1, 2], "dst": [1, 2, 0]}
    path = table(folder, "t", kind, values, **ids)
    edges = table(folder, "edges", pa.int64(), [0, 0, 0], src=[0, 1, 2], dst=[1, 2, 0])
    node = {"table": path, "features": ["c"] if role == "feature" else [], "label": "c" if role == "label" else None}
    edge = {"table": edges, "type": ("n", "to", "n")}
    if role in ("weight", "time", "edge feature"):
        edge |= {"table": path, **({"features": {"c": "c"}} if role == "edge feature" else {role: "c"})}
        node = {"count": 3}
    dataset = gz.import_dataset({"nodes": {"n": node}, "edges": [edge]}, folder / "ds").dataset
    if role == "feature":
        return np.asarray(next(iter(dataset.features.values())).get_tensor()).squeeze().tolist()
    if role == "label":
        return dataset.labels.tolist()
    if role == "edge feature":
        return np.asarray(dataset.edges["n", "to", "n"].features["c"].get_tensor()).squeeze().tolist()
    read = dataset.graph.get_weights if role == "weight" else dataset.graph.get_times
    return [read(node)[0].item() for node in (1, 2, 0)]


@pytest.mark.parametrize("role", ["feature", "label", "weight", "time", "edge feature"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(tmp_path: Path, name: str, role: str) -> None:
    kind, values, expected, times = NUMBERS[name]
    if role == "time":
        if times is None:
            with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c' holds .*, expected whole numbers, dates"):
                imported(tmp_path, kind, values, role)
        else:
            assert imported(tmp_path, kind, values, role) == times
    else:
        assert imported(tmp_path, kind, values, role) == expected


@pytest.mark.parametrize("role", ["feature", "label", "weight", "time", "edge feature"])
@pytest.mark.parametrize("name", DATES)
def test_dates(tmp_path: Path, name: str, role: str) -> None:
    kind, values, seconds = DATES[name]
    if role in ("label", "weight"):
        with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c' holds dates, expected"):
            imported(tmp_path, kind, values, role)
    else:
        assert imported(tmp_path, kind, values, role) == [seconds] * 3


@pytest.mark.parametrize("role", ["feature", "label", "weight", "time", "edge feature"])
@pytest.mark.parametrize("name", TEXTS)
def test_text_is_codes_and_what_is_missing_is_minus_one(tmp_path: Path, name: str, role: str) -> None:
    values = ["b", None, "a"] if role not in ("weight", "time") else ["b", "c", "a"]
    values = [v.encode() if v and name == "binary" else v for v in values]
    if role in ("weight", "time"):
        with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c'.* expected (numbers|a date)"):
            imported(tmp_path, TEXTS[name], values, role)
    else:
        assert imported(tmp_path, TEXTS[name], values, role) == [1, -1, 0]


@pytest.mark.parametrize("role", ["feature", "label", "weight", "time", "edge feature"])
@pytest.mark.parametrize("name", LISTS)
def test_lists(tmp_path: Path, name: str, role: str) -> None:
    values = [[1, 2], [3, 4], [5, 6]]
    if role in ("feature", "edge feature"):
        assert imported(tmp_path, LISTS[name], values, role) == values
    else:
        with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c' holds lists, expected"):
            imported(tmp_path, LISTS[name], values, role)


@pytest.mark.parametrize("role", ["feature", "label", "weight", "time", "edge feature"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(tmp_path: Path, name: str, role: str) -> None:
    with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c' holds .*, expected"):
        imported(tmp_path, *REFUSED[name], role)


@pytest.mark.parametrize("role", ["weight", "time"])
def test_missing_weights_and_times_are_refused(tmp_path: Path, role: str) -> None:
    for kind in (pa.null(), pa.float64(), pa.string()):
        with pytest.raises(gz.InputError, match=r"t\.parquet: column 'c' (has no value in row 0|holds)"):
            imported(tmp_path, kind, [None, None, None], role)


@pytest.mark.parametrize("weights", ["c", None])
def test_plain_edges(tmp_path: Path, weights: str | None) -> None:
    path = table(tmp_path, "e", pa.decimal128(9, 2), [Decimal("2.50"), Decimal("1.25")], src=[0, 1], dst=[1, 2])
    gz.compile_graph(path, tmp_path / "g.gl", weights=weights)
    assert gz.Graph(tmp_path / "g.gl").get_weights(0).tolist() == [2.5]
    struct = table(tmp_path, "e", *REFUSED["struct"], src=[0, 1, 2], dst=[1, 2, 0])
    with pytest.raises(gz.InputError, match=r"e\.parquet: column 'c' holds struct<a: int64>, expected numbers"):
        gz.compile_graph(struct, tmp_path / "g.gl", weights="c")


def test_the_report_counts_missing_values(tmp_path: Path) -> None:
    path = table(tmp_path, "n", pa.string(), ["a", None, ""], id=[0, 1, 2], label=["x", None, "y"])
    spec = {"nodes": {"n": path}, "edges": {"n to n": {"src": [0, 1], "dst": [1, 2]}}}
    report = gz.import_dataset(spec, tmp_path / "ds")
    assert "column of n 'c': category of 1 (a), 2 missing, constant: every value is 'a'" in report.found
    assert any("labels n: column 'label', 1 missing (-1)" in line for line in report.found)
