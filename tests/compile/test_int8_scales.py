"""Floats stored as int8: a factor per column, chosen by squared error, from every kind of source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz


def compiled(source: Any, path: Path, **options: Any) -> gz.FeatureStore:
    gz.compile_features(source, path, dtype="int8", **options)
    return gz.FeatureStore(path)


def floats(store: gz.FeatureStore) -> np.ndarray:
    rows: np.ndarray = store.gather(np.arange(store.num_nodes), dtype="float32")
    return rows


def rounded(x: np.ndarray, largest: np.ndarray | float) -> np.ndarray:
    """Return what int8 keeps of `x` if `largest` maps to 127."""
    scale = np.where(np.asarray(largest) > 0, largest, 127.0) / 127
    return np.clip(np.rint(x / scale), -127, 127) * scale


def errors(x: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return ((x - kept) ** 2).sum(axis=0)


def test_values_without_outliers_map_their_largest_to_127(tmp_path: Path) -> None:
    x = np.random.default_rng(2).uniform(-1, 1, (5000, 6)) * [1, 10, 0.01, 100, 0, 1]
    store = compiled(x.astype(np.float32), tmp_path / "x.gd", memory="2MB")
    assert store.scale is not None
    np.testing.assert_allclose(store.scale[[0, 1, 2, 3, 5]], np.abs(x).max(axis=0)[[0, 1, 2, 3, 5]] / 127, rtol=0.01)
    assert store.scale[4] == 1
    assert np.all(np.abs(store.get_tensor() * store.scale - x) <= store.scale * 1.01)


def test_outliers_are_clipped_where_that_lowers_the_squared_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200_000, 4), dtype=np.float32)
    x[7, 1] = 10.0  # worth clipping: all others gain more than this one loses
    x[9, 2] = 1e4  # so large that clipping it would cost more
    x[:, 3] = rng.integers(0, 2, len(x)) * (rng.random(len(x)) < 0.001)  # rare ones are exact, and stay so
    store = compiled(x, tmp_path / "x.gd")
    assert store.scale is not None
    found, plain = errors(x, floats(store)), errors(x, rounded(x, np.abs(x).max(axis=0)))
    assert np.all(found <= plain * 1.0001)
    assert store.scale[1] < 7 / 127
    assert found[1] < plain[1] * 0.7
    assert store.scale[2] == np.float32(1e4 / 127)
    assert np.array_equal(floats(store)[:, 3], x[:, 3])
    best = np.min([errors(x[:, :2], rounded(x[:, :2], limit)) for limit in np.linspace(3, 10, 50)], axis=0)
    assert np.all(found[:2] <= best * 1.1)


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_the_scale_depends_on_the_values_alone(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(4).laplace(size=(50_000, 3)).astype(np.float32)
    gz.compile_features(x, tmp_path / "rows.gd", dtype=dtype)
    first = compiled(tmp_path / "rows.gd", tmp_path / "a.gd")
    compiled(tmp_path / "rows.gd", tmp_path / "b.gd", memory="8MB")
    assert (tmp_path / "a.gd").read_bytes() == (tmp_path / "b.gd").read_bytes()
    assert np.all(errors(x, floats(first)) < 0.95 * errors(x, rounded(x, np.abs(x).max(axis=0))))


def test_iterators_go_through_a_temporary_file(tmp_path: Path) -> None:
    x = np.random.default_rng(5).standard_normal((3000, 5)).astype(np.float32)
    compiled(x, tmp_path / "a.gd")
    compiled(iter(np.array_split(x, 7)), tmp_path / "b.gd")
    assert (tmp_path / "a.gd").read_bytes() == (tmp_path / "b.gd").read_bytes()
    both = {"x": iter(np.array_split(x, 7)), "y": np.arange(3000)}
    gz.compile_features(both, tmp_path / "c.gd", dtype={"x": "int8"})
    assert gz.FeatureStore(tmp_path / "c.gd", "y").dtype == np.int64
    np.testing.assert_array_equal(gz.FeatureStore(tmp_path / "c.gd", "x").get_tensor(), load_int8(tmp_path / "a.gd"))
    assert sorted(os.listdir(tmp_path)) == ["a.gd", "b.gd", "c.gd"]


def load_int8(path: Path) -> np.ndarray:
    rows: np.ndarray = gz.FeatureStore(path).get_tensor()
    assert rows.dtype == np.int8
    return rows


def test_a_file_of_scaled_int8_is_copied_or_widened(tmp_path: Path) -> None:
    x = np.random.default_rng(6).standard_normal((500, 3)).astype(np.float32)
    store = compiled(x, tmp_path / "a.gd")
    gz.compile_features(tmp_path / "a.gd", tmp_path / "b.gd")
    assert (tmp_path / "a.gd").read_bytes() == (tmp_path / "b.gd").read_bytes()
    for dtype in ("float32", "float64"):
        gz.compile_features(tmp_path / "a.gd", tmp_path / "c.gd", dtype=dtype)
        np.testing.assert_array_equal(gz.FeatureStore(tmp_path / "c.gd").get_tensor(), floats(store).astype(dtype))
    compiled(x[:, 0], tmp_path / "v.gd")
    gz.compile_features(tmp_path / "v.gd", tmp_path / "c.gd", dtype="float32")
    vector = floats(gz.FeatureStore(tmp_path / "v.gd"))
    np.testing.assert_array_equal(gz.FeatureStore(tmp_path / "c.gd").get_tensor(), vector)


@pytest.mark.parametrize(
    ("text", "scaled"),
    [
        ("0,1,2\n1,3,-128\n", False),
        ("0,1,2\n1,0.5,3\n", True),
        ("0,1,2\n1,5e-1,3\n", True),
        ("id,a,b.c\n# 1 note.\n0,1,2\n1,3,4\n", False),
        ("".join(f"{i},1,2\n" for i in range(20_000)) + "20000,0.5,2\n", True),  # past the first block of text
    ],
)
def test_text_with_fractions_is_scaled(tmp_path: Path, text: str, scaled: bool) -> None:
    (tmp_path / "x.csv").write_text(text)
    store = compiled(tmp_path / "x.csv", tmp_path / "x.gd")
    assert (store.scale is not None) == scaled
    assert store.dtype == np.int8


def test_values_that_no_factor_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(gz.InputError, match="x: column 1: found 1e\\+300, expected a number that float32 can hold"):
        compiled(np.array([[1.0, 1e300]]), tmp_path / "x.gd")
    with pytest.raises(gz.InputError, match="row 1, column 0: found nan, expected a finite number"):
        compiled(np.array([[1.0], [np.nan]]), tmp_path / "x.gd")
    tiny = np.array([[1e-320], [0.0]])
    assert floats(compiled(tiny, tmp_path / "x.gd")).tolist() == [[0.0], [0.0]]
    assert compiled(np.zeros((0, 2)), tmp_path / "x.gd").shape == (0, 2)
