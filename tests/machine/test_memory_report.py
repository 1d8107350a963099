"""memory_report: figures that follow what is done, and are what the kernel says."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from container_spec import features, topology

import graphzero as gz
from graphzero import _core
from graphzero.machine.monitor import MemoryMonitor

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it all")


@linux
def test_anonymous_memory_is_what_is_allocated() -> None:
    before = gz.memory_report().anonymous_rss
    block = np.ones(64 << 20, np.uint8)
    after = gz.memory_report().anonymous_rss
    assert before is not None
    assert after is not None
    assert after - before > 50 << 20
    del block


@linux
def test_mounted_files_are_listed_while_they_are_open(tmp_path: Path) -> None:
    x, g = tmp_path / "x.gd", tmp_path / "g.gl"
    x.write_bytes(features(x=np.zeros((1000, 256), np.float32)))
    g.write_bytes(topology([[1], [0]]))
    fs, graph = gz.FeatureStore(x), gz.Graph(g)
    report = gz.memory_report()
    files = {f.path: f for f in report.files}
    assert files[str(x)].kind == "features"
    assert files[str(g)].kind == "topology"
    assert files[str(x)].bytes == os.path.getsize(x)
    assert files[str(x)].cached_bytes == os.path.getsize(x)  # just written
    assert report.cached_bytes >= os.path.getsize(x)
    fs.close()
    graph.close()
    gc.collect()
    assert not {str(x), str(g)} & {f.path for f in gz.memory_report().files}


def test_the_engine_counts_what_it_holds(tmp_path: Path) -> None:
    x, g = tmp_path / "x.gd", tmp_path / "g.gl"
    x.write_bytes(features(x=np.zeros((1000, 16), np.float32)))
    g.write_bytes(topology([[1], [0]]))
    before = gz.memory_report().engine["cache"]
    loader = gz.NeighborLoader(gz.Graph(g), gz.FeatureStore(x), fanouts=[1], batch_size=1, memory="20MB", cache="on")
    assert len(list(loader)) == 2
    held = gz.memory_report().engine["cache"] - before
    assert held >= 1000 * 16 * 4
    del loader
    gc.collect()
    assert gz.memory_report().engine["cache"] == before
    assert gz.memory_report().engine_peak >= before + held


def test_it_reads_as_a_table(tmp_path: Path) -> None:
    path = tmp_path / "x.gd"
    path.write_bytes(features(x=np.zeros((1000, 16), np.float32)))
    fs = gz.FeatureStore(path)
    text = str(gz.memory_report())
    assert "anonymous" in text
    assert "x.gd" in text
    assert repr(gz.memory_report()).splitlines()[0].startswith("process")
    fs.close()


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="making a cgroup needs root")
def test_a_nested_cgroup_limit_is_found() -> None:
    root = Path("/sys/fs/cgroup/memory")
    v1 = (root / "memory.limit_in_bytes").exists()
    if not v1:
        root = Path("/sys/fs/cgroup")
    outer = root / f"gz-test-{os.getpid()}"
    inner = outer / "inner"
    try:
        inner.mkdir(parents=True)
        limit = outer / ("memory.limit_in_bytes" if v1 else "memory.max")
        limit.write_text(str(3 << 30))
    except OSError:
        for folder in (inner, outer):
            if folder.exists():
                folder.rmdir()
        pytest.skip("no cgroup can be made here")
    try:
        child = os.fork()
        if child == 0:
            try:
                (inner / "cgroup.procs").write_text(str(os.getpid()))
                report = gz.memory_report()
                good = report.cgroup_limit == 3 << 30 and str(report.cgroup_path).endswith("/inner")
                good = good and _core.available_memory() <= 3 << 30
                os._exit(0 if good else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        inner.rmdir()
        outer.rmdir()


def test_samples_over_time_count_what_the_report_counts(tmp_path: Path) -> None:
    gz.compile_features(np.ones((20_000, 16), np.float32), tmp_path / "x.gd")
    held = gz.FeatureStore(tmp_path / "x.gd").gather(np.arange(20_000))
    engine = MemoryMonitor().look().engine
    assert engine == gz.memory_report().engine_total
    assert engine is not None
    assert engine >= held.nbytes
