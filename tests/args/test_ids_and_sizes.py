"""Ids and sizes as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from graphzero.args.ids import as_id, as_ids
from graphzero.args.sizes import format_size, parse_size


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_any_integer_dtype_becomes_int64(dtype):
    ids = as_ids(np.array([3, 1, 2], dtype=dtype))
    assert ids.dtype == np.int64
    assert ids.tolist() == [3, 1, 2]


def test_lists_scalars_tensors_and_empty():
    torch = pytest.importorskip("torch")
    assert as_ids([]).tolist() == []
    assert as_ids(5).tolist() == [5]
    assert as_ids(torch.tensor([4, 2], dtype=torch.int32)).tolist() == [4, 2]
    assert as_ids(range(3)).tolist() == [0, 1, 2]


def test_int64_is_not_copied():
    ids = np.arange(4)
    assert np.shares_memory(as_ids(ids), ids)


@pytest.mark.parametrize("bad", [[1.5], np.array([1.0]), [True], ["a"], None, np.array([], dtype=np.float32)])
def test_what_is_no_integer_is_refused(bad):
    with pytest.raises(TypeError):
        as_ids(bad)


def test_bad_shapes_and_overflow_are_refused():
    with pytest.raises(ValueError, match="one dimension"):
        as_ids([[1, 2]])
    with pytest.raises(IndexError, match="past 2"):
        as_ids(np.array([2**63], dtype=np.uint64))
    with pytest.raises(TypeError):
        as_id(1.0)
    with pytest.raises(TypeError):
        as_id(True)


@pytest.mark.parametrize(
    ("given", "bytes_"), [("1GB", 10**9), ("1.5 GiB", 3 * 2**29), ("512m", 512 * 10**6), (7, 7), ("64KiB", 65536)]
)
def test_sizes(given, bytes_):
    assert parse_size(given) == bytes_


@pytest.mark.parametrize("bad", ["", "GB", "1XB", "-1GB", 0, -5, "nan", float("nan"), float("inf"), "1e9", "5ib"])
def test_bad_sizes(bad):
    with pytest.raises(ValueError, match="memory"):
        parse_size(bad)


def test_sizes_for_people():
    assert [format_size(n) for n in (0, 999, 1500, 2_000_000, 57e9)] == ["0 B", "999 B", "1.5 KB", "2 MB", "57 GB"]
