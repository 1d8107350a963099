"""The peak memory in the report of an import: that of the process, whichever library allocated it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz
from graphzero.dataset.columns import MISSING_TIME
from graphzero.importing.spilled import value_at

HELD = 300 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="anonymous memory is sampled on Linux")
def test_memory_that_arrow_allocates_is_in_the_report(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")

    class Greedy:
        """A stream whose batches come from a pool that holds 300 MB while they are made."""

        def __arrow_c_stream__(self, schema: object = None) -> object:
            def batches():  # type: ignore[no-untyped-def]
                held = pa.allocate_buffer(HELD, resizable=True)
                np.frombuffer(held, np.uint8)[:] = 1
                for at in range(64):
                    ids = np.arange(50_000) + at
                    yield pa.record_batch({"src": ids, "dst": ids + 1})

            first = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
            return pa.RecordBatchReader.from_batches(first, batches()).__arrow_c_stream__(schema)

    report = gz.import_dataset(Greedy(), tmp_path / "out", memory="32MB")
    assert report.peak_buffers <= 40 << 20
    assert report.peak_memory >= HELD + report.peak_buffers // 2
    assert f"the engine's buffers {report.peak_buffers / 1e6:.1f}"[:25] in str(report)


def test_the_buffers_are_a_part_of_the_peak(tmp_path: Path) -> None:
    report = gz.import_dataset((np.arange(1000), np.arange(1000)), tmp_path / "out")
    assert 0 < report.peak_buffers <= report.peak_memory


@pytest.mark.parametrize("share", [0.0, 0.1, 0.7, 1.0])
def test_the_value_at_a_share_is_that_of_sorting(share: float) -> None:
    rng = np.random.default_rng(3)
    for low, high in ((0, 5), (-(2**62), 2**62), (-7, -6), (10**9, 10**9 + 10**6)):
        values = rng.integers(low, high, 1001)
        values[::7] = MISSING_TIME
        known = np.sort(values[values != MISSING_TIME])
        assert value_at(values, share, MISSING_TIME) == known[max(0, int(share * len(known)) - 1)]
    assert value_at(np.full(3, MISSING_TIME), share, MISSING_TIME) is None


@pytest.mark.parametrize("kind", ["text", "mixed", "counted"])
def test_keys_may_take_more_than_the_budget(tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    rng, count = np.random.default_rng(1), 100_000
    keys = rng.permutation(count) * 7 if kind != "counted" else np.arange(count) + 1
    keys = keys.astype(str) if kind == "text" else keys
    refers = rng.integers(0, count, 5000)
    given = {
        "users": {"file": pa.table({"id": keys}), "primary_key": "id"},
        "orders": {"file": pa.table({"user": keys[refers]}), "foreign_keys": {"user": "users"}},
    }
    ds = gz.import_dataset({"tables": given}, tmp_path / "out", memory="2MB").dataset
    found = np.concatenate([ds.edges["orders", "user", "users"].graph.get_neighbours(u) for u in refers[:20]])
    assert ds.nodes["users"].num_nodes == count
    assert ds.edges["orders", "user", "users"].num_edges == 5000
    assert set(refers[found].tolist()) == set(refers[:20].tolist())
    assert np.array_equal(ds.ids["users"].to_dense(keys[:10].tolist()), np.arange(10))


def test_equal_keys_in_different_batches_are_found(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    count = 3000
    keys = np.arange(count) * 3
    keys[2500] = keys[17]
    users = pa.table({"id": keys, "age": np.arange(count) * 1.0}).to_reader(max_chunksize=1000)
    users = pa.Table.from_batches(list(users))
    orders = {"file": pa.table({"user": keys[[17, 2500, 2999]]}), "foreign_keys": {"user": "users"}}
    for duplicates, age in (("first", 17.0), ("last", 2500.0)):
        entry = {"file": users, "primary_key": "id", "duplicates": duplicates}
        ds = gz.import_dataset({"tables": {"users": entry, "orders": orders}}, tmp_path / duplicates).dataset
        node = int(ds.ids["users"].to_dense([51])[0])
        assert ds.nodes["users"].num_nodes == count - 1
        assert ds.nodes["users"].features["columns_number"].gather([node]).item() == age
        assert len(ds.edges["orders", "user", "users"].graph.get_neighbours(node)) == 2
    entry = {"file": users, "primary_key": "id"}
    with pytest.raises(gz.InputError, match="column 'id': row 2500: id 51 appears twice"):
        gz.import_dataset({"tables": {"users": entry, "orders": orders}}, tmp_path / "error")
