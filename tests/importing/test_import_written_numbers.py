"""Text of prices with `kind: number`: read if its separators mean one thing, else refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pytest.importorskip("pyarrow")


def imported(folder: Path, values: list[Any], rule: Any = "number") -> Any:
    table = {"id": [f"n{i}" for i in range(len(values))], "p": np.array(values, object)}
    rules = {"columns": {"p": rule}}
    return gz.import_dataset({"src": ["n0"], "dst": ["n1"]}, folder, nodes=table, node_columns=rules).dataset


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["$1,053.91", "$1,200", None, "$5"], [1053.91, 1200, np.nan, 5]),
        (["1.053,91 €", "1.200", "-0,5"], [1053.91, 1200, -0.5]),
        (["1,000,000", "£1,000"], [1e6, 1000]),
        (["12.50", "-3", "$-3.25", " "], [12.5, -3, -3.25, np.nan]),
        (["7", "12"], [7, 12]),
        (["1 053,91 €", "12 345 678", "-€ 0,5", " + 7 "], [1053.91, 12345678, -0.5, 7]),
        (["1\u202f234", "1\u00a0234.5", "$ -3", "$"], [1234, 1234.5, -3, np.nan]),
    ],
)
def test_prices(tmp_path: Path, values: list[Any], numbers: list[float]) -> None:
    ds = imported(tmp_path / "out", values)
    column = ds.nodes["node"].columns["p"]
    assert column.kind == "number"
    found = ds.features[column.array].get_tensor()[:, column.column]
    np.testing.assert_allclose(found, np.array(numbers, np.float32))
    assert imported(tmp_path / "text", values, "category").nodes["node"].columns["p"].kind == "category"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,053", "2"], "row 0: found '1,053', whose separators may be of thousands or decimals"),
        (["2", "1.053"], "row 1: found '1.053', whose separators may be of thousands or decimals"),
        (["1.50", "2,50"], "row 0: found '1.50', whose separators may be"),
        (["$1,053.91", "$12,34.5"], "found '\\$12,34.5', whose separators may be"),
        (["3", "12 34"], "row 1: found '12 34', expected numbers such as"),
        (["2024 05 31"], "row 0: found '2024 05 31', expected numbers such as"),
        (["1234 567"], "row 0: found '1234 567', expected numbers such as"),
        (["1 2345"], "row 0: found '1 2345', expected numbers such as"),
        (["1 234 56"], "row 0: found '1 234 56', expected numbers such as"),
        (["5$6"], r"row 0: found '5\$6', expected numbers such as"),
        (["3", "n/a"], "row 1: found 'n/a', expected numbers such as 1053.91"),
    ],
)
def test_text_that_may_mean_two_numbers(tmp_path: Path, values: list[Any], message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        imported(tmp_path / "out", values)
    assert not (tmp_path / "out").exists()
