"""Features with deltas against the same rows compiled together."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


def rows_of(rng: np.random.Generator, count: int, columns: int | None, dtype: str) -> Any:
    shape = (count,) if columns is None else (count, columns)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


class Growing:
    """A `.gd` file and its deltas, beside all rows."""

    def __init__(self, folder: Path, rng: np.random.Generator, count: int, shapes: dict[str, tuple[Any, str]]) -> None:
        self.folder, self.rng, self.shapes = folder, rng, shapes
        self.rows = {name: rows_of(rng, count, *shape) for name, shape in shapes.items()}
        self.deltas: list[str] = []
        self.compile("base.gd")

    def compile(self, name: str) -> Path:
        gz.compile_features(self.rows, self.folder / name)
        return self.folder / name

    def append(self, count: int) -> None:
        more = {name: rows_of(self.rng, count, *shape) for name, shape in self.shapes.items()}
        out = str(self.folder / f"{len(self.deltas)}.delta.gd")
        _core.write_feature_delta(str(self.folder / "base.gd"), self.deltas, out, list(more.items()))
        self.deltas.append(out)
        self.rows = {name: np.concatenate([self.rows[name], more[name]]) for name in self.rows}

    def store(self, name: str | None = None) -> gz.FeatureStore:
        return gz.FeatureStore(self.folder / "base.gd", name, deltas=self.deltas)


def growing(folder: Path, seed: int) -> Growing:
    rng = np.random.default_rng(seed)
    shapes = {
        f"a{i}": (None if rng.integers(3) == 0 else int(rng.choice((1, 3, 7, 64, 100, 333))), str(rng.choice(DTYPES)))
        for i in range(int(rng.integers(1, 4)))
    }
    g = Growing(folder, rng, int(rng.choice((1, 5, 511, 512, 1023, 1024, 1025, 3000))), shapes)
    for _ in range(int(rng.integers(1, 6))):
        g.append(int(rng.choice((0, 1, 2, 100, 1024, 2500))))
    return g


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_compiled_file(tmp_path: Path, seed: int) -> None:
    g = growing(tmp_path, seed)
    rng = np.random.default_rng(seed)
    for name, rows in g.rows.items():
        store = g.store(name)
        assert store.shape == rows.shape
        np.testing.assert_array_equal(store.get_tensor(), rows)
        np.testing.assert_array_equal(store.get_data(len(rows) - 1), rows[-1] if rows.ndim == 2 else rows[-1:])
        ids = rng.integers(0, len(rows), 400)
        for io in ("auto", "mmap", "pread", "uring"):
            np.testing.assert_array_equal(store.gather(ids, io=io), rows[ids], err_msg=io)
        with pytest.raises(IndexError):
            store.gather([len(rows)])
    assert gz.verify(tmp_path / "base.gd", deltas=g.deltas).arrays == len(g.rows) * (1 + len(g.deltas))
    _core.compact_features(str(tmp_path / "base.gd"), g.deltas, str(tmp_path / "merged.gd"))
    assert (tmp_path / "merged.gd").read_bytes() == g.compile("whole.gd").read_bytes()


def test_rows_are_read_past_the_page_cache_from_every_file(tmp_path: Path) -> None:
    g = Growing(tmp_path, np.random.default_rng(1), 5000, {"x": (33, "float32")})
    for count in (1, 700, 3000, 10):
        g.append(count)
    for path in (tmp_path / "base.gd", *map(Path, g.deltas)):
        drop_pages(path)
    ids = np.random.default_rng(2).permutation(len(g.rows["x"]))
    np.testing.assert_array_equal(g.store().gather(ids, io="uring"), g.rows["x"][ids])
    np.testing.assert_array_equal(g.store().gather(ids, io="pread"), g.rows["x"][ids])


def drop_pages(path: Path) -> None:
    """Drop the pages of a file from the page cache, where the system can."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def test_int8_rows_have_the_scales_of_the_base(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 5)).astype(np.float32)
    gz.compile_features({"x": rows}, tmp_path / "x.gd", dtype="int8")
    base = gz.FeatureStore(tmp_path / "x.gd")
    more = rng.integers(-100, 100, (2000, 5)).astype(np.int8)
    _core.write_feature_delta(base.path, [], str(tmp_path / "d.gd"), [("x", more)])
    store = gz.FeatureStore(base.path, deltas=[tmp_path / "d.gd"])
    assert store.shape == (2300, 5)
    np.testing.assert_array_equal(store.gather([0, 299], dtype="float32"), base.gather([0, 299], dtype="float32"))
    np.testing.assert_array_equal(store.gather([300, 2299], dtype="float32"), more[[0, -1]] * base.scale)


def test_stores_pickle_with_their_deltas(tmp_path: Path) -> None:
    g = Growing(tmp_path, np.random.default_rng(1), 10, {"x": (2, "float32")})
    g.append(4)
    again = pickle.loads(pickle.dumps(g.store()))
    assert again.deltas == tuple(g.deltas)
    assert again.num_nodes == 14


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    g = Growing(tmp_path, np.random.default_rng(1), 10, {"x": (2, "float32"), "y": (None, "int64")})
    base, out = str(tmp_path / "base.gd"), str(tmp_path / "d.gd")
    x, y = np.zeros((3, 2), np.float32), np.zeros(3, np.int64)
    for rows, said in (
        ([("x", x)], "no rows for 'y'"),
        ([("x", x), ("y", y[:2])], "'y' has 2 rows, but another array has 3"),
        ([("x", x.astype(np.float64)), ("y", y)], "rows of 'x' must be float32 with 2 columns"),
        ([("x", x[:, :1].copy()), ("y", y)], "rows of 'x' must be float32 with 2 columns"),
        ([("z", x)], "no feature 'z'"),
    ):
        with pytest.raises(ValueError, match=said):
            _core.write_feature_delta(base, [], out, rows)
    assert not Path(out).exists()
    assert g.store().num_nodes == 10


def test_deltas_of_other_files_and_in_other_orders_are_refused(tmp_path: Path) -> None:
    g = Growing(tmp_path, np.random.default_rng(1), 10, {"x": (2, "float32")})
    g.append(4)
    g.append(5)
    base = tmp_path / "base.gd"
    with pytest.raises(gz.FormatError, match="was not written for"):
        gz.FeatureStore(base, deltas=g.deltas[::-1])
    with pytest.raises(gz.FormatError, match="was not written for"):
        gz.FeatureStore(base, deltas=g.deltas[1:])
    with pytest.raises(gz.FormatError, match="is not a delta"):
        gz.FeatureStore(base, deltas=[base])
    with pytest.raises(gz.FormatError, match="cannot be opened by itself"):
        gz.FeatureStore(g.deltas[0])
    other = tmp_path / "other"
    other.mkdir()
    Growing(other, np.random.default_rng(2), 10, {"x": (2, "float32")})
    with pytest.raises(gz.FormatError, match="was not written for"):
        gz.FeatureStore(other / "base.gd", deltas=g.deltas[:1])


def test_a_truncated_delta_is_an_error(tmp_path: Path) -> None:
    g = Growing(tmp_path, np.random.default_rng(1), 3000, {"x": (20, "float32")})
    g.append(3000)
    store = g.store()
    with open(g.deltas[0], "r+b") as file:
        file.truncate(8192)
    for io in ("pread", "mmap"):
        with pytest.raises(gz.StorageError):
            store.gather(np.arange(6000), io=io)
