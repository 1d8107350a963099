"""Tables of results: numbers in text have as many digits as they have in the arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphzero.exporting.table_out import write_table

NUMBERS = np.array([1e6 + 0.3, 999_999.87, 1 / 3, -1e-300, 0.1, 123_456_789_012.5, 1e300])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_in_csv_are_those_of_the_arrays(tmp_path: Path, dtype: type) -> None:
    with np.errstate(over="ignore", under="ignore"):
        values = NUMBERS.astype(dtype)
    values[4] = np.nan
    write_table(tmp_path / "out.csv", iter([{"id": np.arange(len(values)), "value": values}]))
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    found = np.array([float(line.split(",")[1] or "nan") for line in lines], dtype)
    np.testing.assert_array_equal(found, values)
    assert lines[4] == "4,"  # a number that is missing


def test_predictions_are_short_where_few_digits_are_known(tmp_path: Path) -> None:
    write_table(tmp_path / "out.csv", iter([{"value": np.array([0.1, 0.25], np.float32)}]))
    assert (tmp_path / "out.csv").read_text() == "value\n0.1\n0.25\n"
