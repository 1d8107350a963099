"""compile_features: every source and type, checked conversions, text rows, and nothing left behind on errors."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core
from graphzero.args.dtypes import from_bfloat16, to_bfloat16

torch = pytest.importorskip("torch")


def load(path: Path, name: str | None = None) -> Any:
    _core.verify(str(path))
    return gz.FeatureStore(path, name).get_tensor()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (1000, 7), (777,)])
def test_arrays_and_npy_keep_their_bytes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    for source in (array, tmp_path / "x.npy", np.asfortranarray(array), torch.from_numpy(array)):
        report = gz.compile_features(source, tmp_path / "x.gd")
        assert report.nodes == shape[0]
        assert report.arrays == {"x": (shape, dtype)}
        got = load(tmp_path / "x.gd")
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)
    assert sorted(os.listdir(tmp_path)) == ["x.gd", "x.npy"]


def test_a_large_npy_is_copied_in_many_blocks(tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal((50_000, 64), dtype=np.float32)
    np.save(tmp_path / "x.npy", array)
    gz.compile_features(tmp_path / "x.npy", tmp_path / "x.gd")
    np.testing.assert_array_equal(load(tmp_path / "x.gd"), array)
    gz.compile_features(array, tmp_path / "y.gd", memory="2MB")
    assert (tmp_path / "x.gd").read_bytes() == (tmp_path / "y.gd").read_bytes()


def test_big_endian_npy(tmp_path: Path) -> None:
    array = np.arange(12, dtype=">f4").reshape(4, 3)
    np.save(tmp_path / "x.npy", array)
    gz.compile_features(tmp_path / "x.npy", tmp_path / "x.gd")
    np.testing.assert_array_equal(load(tmp_path / "x.gd"), array)


def test_bfloat16_tensors_and_rounding(tmp_path: Path) -> None:
    values = torch.randn(500, 8)
    gz.compile_features(values.to(torch.bfloat16), tmp_path / "a.gd")
    gz.compile_features(values, tmp_path / "b.gd", dtype="bfloat16")
    expected = values.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(load(tmp_path / "a.gd"), expected)
    np.testing.assert_array_equal(load(tmp_path / "b.gd"), expected)
    assert gz.FeatureStore(tmp_path / "a.gd").dtype_name == "bfloat16"
    gz.compile_features(tmp_path / "a.gd", tmp_path / "c.gd", dtype=torch.float32)
    np.testing.assert_array_equal(load(tmp_path / "c.gd"), values.to(torch.bfloat16).float().numpy())


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=50))
def test_bfloat16_equals_torch(values: list[float]) -> None:
    array = np.array(values, dtype=np.float32)
    expected = torch.from_numpy(array).to(torch.bfloat16)
    got = torch.from_numpy(from_bfloat16(to_bfloat16(array)))
    assert torch.equal(torch.isnan(got), torch.isnan(expected))
    assert torch.equal(got[~torch.isnan(got)], expected.float()[~torch.isnan(got)])


def test_iterators_of_unknown_length(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    parts = [rng.random((n, 5), dtype=np.float32) for n in (3, 1000, 0, 20_000, 1)]
    report = gz.compile_features(iter(parts), tmp_path / "x.gd")
    assert report.nodes == 21_004
    np.testing.assert_array_equal(load(tmp_path / "x.gd"), np.concatenate(parts))
    with pytest.raises(gz.InputError, match="21004 rows, expected 22000"):
        gz.compile_features(iter(parts), tmp_path / "y.gd", num_nodes=22_000)
    with pytest.raises(gz.InputError, match="more than 10 rows"):
        gz.compile_features(iter(parts), tmp_path / "y.gd", num_nodes=10)
    with pytest.raises(gz.InputError, match="block at row 3 has 4 columns"):
        gz.compile_features(iter([parts[0], parts[1][:, :4]]), tmp_path / "y.gd")
    assert os.listdir(tmp_path) == ["x.gd"]


def test_several_arrays_in_one_file(tmp_path: Path) -> None:
    x, y = np.ones((10, 4), np.float32), np.arange(10)
    blocks = iter([np.zeros((6, 2), np.float16), np.ones((4, 2), np.float16)])
    report = gz.compile_features({"z": blocks, "x": x, "y": y}, tmp_path / "all.gd", dtype={"x": "float16"})
    assert report.arrays["x"] == ((10, 4), "float16")
    np.testing.assert_array_equal(load(tmp_path / "all.gd", "y"), y)
    assert load(tmp_path / "all.gd", "z").shape == (10, 2)
    with pytest.raises(gz.InputError, match="y: found 9 rows, expected 10"):
        gz.compile_features({"x": x, "y": y[:9]}, tmp_path / "bad.gd")
    assert os.listdir(tmp_path) == ["all.gd"]


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([[1.0, 1e6]], "float16", r"row 0, column 1: found 1000000.0, expected a number that float16 can hold"),
        ([[0.5]], "int32", r"row 0, column 0: found 0.5, expected a whole number"),
        ([[np.nan]], "int64", "expected a whole number"),
        ([[300]], "uint8", "found 300, expected a whole number from 0 to 255"),
        ([[2]], "bool", "expected a whole number from 0 to 1"),
        ([[np.inf]], "int8", "expected a finite number"),
        ([[1e39]], "float32", "expected a number that float32 can hold"),
    ],
)
def test_values_that_do_not_fit_are_told(tmp_path: Path, values: Any, dtype: str, message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.compile_features(np.array(values), tmp_path / "x.gd", dtype=dtype)
    assert os.listdir(tmp_path) == []


def test_a_failing_iterator_leaves_the_old_file(tmp_path: Path) -> None:
    gz.compile_features(np.ones((2, 2)), tmp_path / "x.gd")
    before = (tmp_path / "x.gd").read_bytes()

    def blocks() -> Iterator[Any]:
        yield np.ones((2, 2))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        gz.compile_features(blocks(), tmp_path / "x.gd")
    assert os.listdir(tmp_path) == ["x.gd"]
    assert (tmp_path / "x.gd").read_bytes() == before


def write(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("suffix", ["x.csv", "x.csv.gz"])
def test_text_rows(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / suffix, "id,f1,f2\r\n3, 1.5 ,-2e3\n\n# note\n0,0.25,7\n")
    report = gz.compile_features(path, tmp_path / "x.gd")
    assert (report.nodes, report.rows_missing) == (4, 2)
    np.testing.assert_array_equal(load(tmp_path / "x.gd"), np.array([[0.25, 7], [0, 0], [0, 0], [1.5, -2000]], "f4"))
    gz.convert_csv_to_gd(write(tmp_path / "i.csv", "1,5\n0,-6\n"), tmp_path / "i.gd", gz.DataType.INT32)
    assert load(tmp_path / "i.gd").tolist() == [[-6], [5]]
    for dtype in ("float16", "bfloat16", "int8"):
        gz.compile_features(path, tmp_path / "h.gd", dtype=dtype)
        assert gz.FeatureStore(tmp_path / "h.gd").dtype_name == dtype
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1,2\n1,2\n", "line 2: found 2 columns, expected 3 separated by ','"),
        ("0,1\n1,2,3\n", "line 2: found 3 columns, expected 2 separated by ','"),
        ("0,1\nx,2\n", "line 2: found 'x', expected an integer node id"),
        ("0,1\n1,abc\n", "line 2: found 'abc', expected a value of type float32"),
        ("0,1\n-1,3\n", "line 2: found '-1', expected an integer node id"),
        ("5,1\n\n4,1\n5,2\n", "line 4: a row for id 5, which line 1 has already"),
        ("0\n1\n", "found 1 column"),
        ("0,1\n1,1e99\n", "line 2: found '1e99', expected a value of type float32"),
    ],
)
def test_bad_text_rows_are_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.compile_features(write(tmp_path / "x.csv", text), tmp_path / "x.gd")
    assert os.listdir(tmp_path) == ["x.csv"]


def test_bad_text_rows_are_skipped_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "0,1\nbad,2\n2,x\n1,4\n")
    report = gz.compile_features(path, tmp_path / "x.gd", on_error="skip")
    assert report.lines_skipped == 2
    assert "line 2" in report.skipped_examples[0]
    assert load(tmp_path / "x.gd").tolist() == [[1], [4], [0]]


@given(st.data())
@settings(max_examples=30)
def test_text_rows_equal_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("rows")
    n, f = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
    ids = data.draw(st.permutations(range(n)))
    ids = ids[: data.draw(st.integers(1, n))]
    values = np.array(data.draw(st.lists(st.floats(-1e6, 1e6), min_size=len(ids) * f, max_size=len(ids) * f)))
    rows = values.reshape(len(ids), f)
    text = "\n".join(",".join([str(i), *(repr(v) for v in row.tolist())]) for i, row in zip(ids, rows, strict=True))
    gz.compile_features(write(folder / "x.csv", text), folder / "x.gd", dtype="float64", num_threads=2, memory="1MB")
    expected = np.zeros((max(ids) + 1, f))
    expected[ids] = rows
    np.testing.assert_array_equal(load(folder / "x.gd"), expected)
