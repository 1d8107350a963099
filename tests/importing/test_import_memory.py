"""The peak memory in the report of an import: that of the process, whoever allocated it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

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
