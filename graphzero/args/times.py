"""Converts times (datetime64, pandas, Arrow, Python's datetime, text, numbers) to int64."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from .ids import IdArray, as_ids

__all__ = ["TIME_UNITS", "as_dates", "as_times", "in_time_unit", "per_second"]

TIME_UNITS = ("s", "ms", "us", "ns", "D")


def as_dates(times: IdArray, unit: str) -> Any:
    """Return times since 1970 as dates, or with the time of day where some are not at midnight.

    >>> as_dates(np.array([86400]), "s")
    array(['1970-01-02'], dtype='datetime64[D]')
    """
    exact = times.astype(f"datetime64[{unit}]")
    coarse = (exact.astype(f"datetime64[{other}]") for other in ("D", "s", "ms", "us"))
    return next((found for found in coarse if (found == exact).all()), exact)


def per_second(unit: str) -> float:
    """Return how many of a unit are in a second.

    >>> per_second("ms")
    1000.0
    """
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "D": 1 / 86_400}[unit]


def as_times(times: Any, name: str = "time", *, unit: str = "s", count: int | None = None) -> IdArray:
    """Return times as int64: dates and datetimes in `unit` since 1970 (UTC), whole numbers as they are.

    A single time is repeated `count` times. Times without a time zone are taken as UTC. A missing time is an error.

    >>> as_times(["1970-01-02", "1970-01-01T00:00:10"]).tolist(), as_times(7, count=2).tolist()
    ([86400, 10], [7, 7])
    """
    array = _as_array(times, name)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.dtype.kind == "M":
        missing = np.flatnonzero(np.isnat(array).reshape(-1))
        if missing.size:
            raise ValueError(f"{name}[{missing[0]}] is missing (NaT), expected a time")
        array = array.astype(f"datetime64[{unit}]").astype(np.int64)
    if array.ndim == 0:
        array = array.reshape(1) if count is None else np.full(count, array)
    return as_ids(array, name)


def is_number(times: Any) -> bool:
    """Return whether times are numbers, which are not converted, rather than dates."""
    return bool(_as_array(times, "time").dtype.kind in "iu")


def in_time_unit(graph: Any, times: Any) -> Any:
    """Return times in the unit of a dataset; unchanged for other graphs, or if the unit is seconds."""
    unit = getattr(graph, "time_unit", "s")
    own = isinstance(times, str) and times == "edges"  # the times of the edges
    if unit == "s" or times is None or own or hasattr(times, "gather"):
        return times
    if isinstance(times, Mapping):
        return {key: in_time_unit(graph, value) for key, value in times.items()}
    made = as_times(times, unit=unit)
    return made if np.ndim(times) else int(made[0])


def _as_array(times: Any, name: str) -> Any:
    if hasattr(times, "detach"):
        return times.detach().cpu().numpy()
    if type(times).__module__.partition(".")[0] == "pyarrow":
        if hasattr(times, "as_py"):
            return _as_array(times.as_py(), name)
        return times.to_numpy() if hasattr(times, "num_chunks") else times.to_numpy(zero_copy_only=False)
    dates = getattr(times, "dt", None)
    if getattr(dates, "tz", None) is not None:  # a pandas Series with a time zone
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    elif getattr(times, "tz", None) is not None and hasattr(times, "tz_convert"):  # an index, or a Timestamp
        times = times.tz_convert("UTC").tz_localize(None)
    if isinstance(times, (datetime.datetime, datetime.date)):
        return _of_datetime(times)
    array = times.to_numpy() if hasattr(times, "to_numpy") else np.asarray(times)
    if array.dtype == object:
        array = _of_objects(array, name)
    if array.dtype.kind == "U":
        try:
            array = array.astype("datetime64[ns]")
        except ValueError as error:
            raise ValueError(f"{name}: {error}; expected dates such as 2024-01-31") from None
    return array


def _of_objects(array: Any, name: str) -> Any:
    made = []
    for at, value in enumerate(array.reshape(-1)):
        if value is None:
            raise ValueError(f"{name}[{at}] is missing (None), expected a time")
        dated = isinstance(value, (datetime.datetime, datetime.date))
        made.append(_of_datetime(value) if dated else value)
    found = np.array(made)
    return found.reshape(array.shape) if found.dtype != object else array


def _of_datetime(value: datetime.datetime | datetime.date) -> Any:
    if hasattr(value, "to_datetime64"):  # a pandas Timestamp, which has nanoseconds
        zone = getattr(value, "tz", None)
        plain = value.tz_convert("UTC").tz_localize(None) if zone is not None else value  # type: ignore[attr-defined]
        return plain.to_datetime64()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return np.datetime64(value, "us") if isinstance(value, datetime.datetime) else np.datetime64(value, "D")
