"""Times in all forms become the numbers of a graph, and splits by time keep the future out of the past."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.args.times import as_times
from graphzero.dataset.splits_by_time import split_by_time

DAY = 86_400
UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=2))
FORMS = [
    [DAY, 2 * DAY],
    np.array([1, 2], dtype="datetime64[D]"),
    np.array([DAY * 10**9, 2 * DAY * 10**9], dtype="datetime64[ns]"),
    ["1970-01-02", "1970-01-03"],
    [datetime.date(1970, 1, 2), datetime.date(1970, 1, 3)],
    [datetime.datetime(1970, 1, 2, tzinfo=UTC), datetime.datetime(1970, 1, 3, 2, tzinfo=EAST)],
    [datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 3)],
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_forms_of_times(form: Any) -> None:
    assert as_times(form).tolist() == [DAY, 2 * DAY]


def test_times_of_pandas_and_arrow() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    zone = pd.Series(pd.to_datetime(["1970-01-02", "1970-01-03"])).dt.tz_localize("UTC").dt.tz_convert(EAST)
    forms = [pd.Series(pd.to_datetime(["1970-01-02", "1970-01-03"])), zone, pd.DatetimeIndex(zone)]
    forms += [[pd.Timestamp(DAY, unit="s"), pd.Timestamp("1970-01-03 02:00", tz=EAST)]]
    forms += [pa.array([DAY, 2 * DAY], pa.timestamp("s")), pa.chunked_array([[DAY], [2 * DAY]], pa.timestamp("s"))]
    forms += [pa.array([DAY, 2 * DAY], pa.timestamp("s", "Europe/Paris")), pa.array([1, 2], pa.date32())]
    for form in forms:
        assert as_times(form).tolist() == [DAY, 2 * DAY], form
    assert as_times(pa.scalar(DAY, pa.timestamp("s")), count=1).tolist() == [DAY]
    assert as_times(pd.Timestamp(DAY, unit="s"), unit="ns", count=2).tolist() == [DAY * 10**9] * 2


def test_units_and_single_times() -> None:
    assert as_times("1970-01-02", unit="ms", count=2).tolist() == [DAY * 1000] * 2
    assert as_times(datetime.date(1970, 1, 3), unit="D").tolist() == [2]
    assert as_times(7, unit="ms", count=3).tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.array(["1970-01-01", "NaT"], "datetime64[s]"), r"time\[1\] is missing \(NaT\)"),
        ([datetime.date(1970, 1, 1), None], r"time\[1\] is missing \(None\)"),
        (["yesterday"], "time: .*expected dates such as 2024-01-31"),
    ],
)
def test_times_that_are_none(times: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_times(times)
    with pytest.raises(TypeError, match="time must be integers, got dtype float64"):
        as_times([1.5])


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_loaders_take_dates_in_the_unit_of_the_dataset(tmp_path: Path, unit: str) -> None:
    scale = {"s": 1, "ms": 1000}[unit]
    ds = gz.Dataset.create(
        tmp_path / "d",
        np.array([[1, 2], [0, 0]]),
        num_nodes=3,
        times=np.array([DAY, 3 * DAY]) * scale,
        direction="in",
        time_unit=unit,
    )
    assert gz.Dataset(ds.path).time_unit == unit
    dates = np.array(["1970-01-03"], "datetime64[s]")
    for time in ("1970-01-03", datetime.datetime(1970, 1, 3), dates, 2 * DAY * scale):
        (batch,) = gz.NeighborLoader(ds, seeds=[0], fanouts=[-1], time=time, memory="64MB")
        assert batch.n_id.tolist() == [0, 1]
    (both,) = gz.NeighborLoader(ds, seeds=[0, 0], fanouts=[-1], time=["1970-01-03", "1970-01-05"], memory="64MB")
    assert both.n_id.tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(ValueError, match="time_unit is 'h', expected one of 's', 'ms'"):
        gz.Dataset.create(tmp_path / "e", np.array([[1], [0]]), time_unit="h")


def test_splits_by_time() -> None:
    times = np.array([5, 1, 9, 3, 7, 7, 7, 2, 8, 4])
    found = split_by_time(times, "50/30/20")
    assert sorted(times[found["train"]]) == [1, 2, 3, 4, 5]
    assert sorted(times[found["valid"]]) == [7, 7, 7]
    assert sorted(times[found["test"]]) == [8, 9]
    dated = split_by_time(np.array([0, DAY, 2 * DAY, 3 * DAY]), "1970-01-02/1970-01-04")
    assert [rows.tolist() for rows in dated.values()] == [[0], [1, 2], [3]]
    assert split_by_time(times, "80/20/0")["test"].size == 0


@pytest.mark.parametrize("spec", ["", "70/30", "a/b/c", "-1/2/3", "1970-01-05/1970-01-02", "2030-01-01/2031-01-01"])
def test_splits_that_cannot_be_made(spec: str) -> None:
    with pytest.raises(ValueError, match=r"split|expected"):
        split_by_time(np.arange(4) * DAY, spec)


def test_sampling_takes_dates_too(tmp_path: Path) -> None:
    gz.compile_graph(np.array([[1, 2], [0, 0]]), tmp_path / "g.gl", times=[DAY, 3 * DAY], direction="in")
    graph = gz.Graph(tmp_path / "g.gl")
    for time in ("1970-01-03", np.datetime64("1970-01-03"), [2 * DAY]):
        assert graph.sample([0], [-1], time=time).node.tolist() == [0, 1]
    assert as_times([]).size == 0
