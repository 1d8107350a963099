"""Reads that fail: a disk with bad blocks, a file that ends too early. An error, and all works after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest
from loop_disk import loop_disk, needs_loop_disk
from waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
ROWS, COLUMNS = 40_000, 128  # 20 MB


def write_features(path: Path) -> None:
    """Row i holds i: a row that came from somewhere else shows."""
    x = np.repeat(np.arange(ROWS, dtype=np.float32)[:, None], COLUMNS, axis=1)
    header = spec.lay_out(spec.Header(spec.FEATURES, ROWS, arrays=[spec.Entry("x", "float32", x.shape)]))
    path.write_bytes(spec.write_header(header) + x.tobytes())


PROGRAM = """
import os, sys, threading
import numpy as np
import graphzero as gz

bad, good, ready, go = sys.argv[1:5]
ids = np.random.default_rng(0).permutation(40_000)[:20_000]
sound = gz.FeatureStore(good)
failing = gz.FeatureStore(bad)
ways = ["auto", "pread", "mmap"]
try:
    sound.gather([1], io="uring")
    ways.insert(0, "uring")
except gz.StorageError:
    pass
print(ready, flush=True)
sys.stdin.readline()

for io in ways:
    try:
        failing.gather(ids, io=io)
        print(io, "answered")
    except gz.StorageError as error:
        assert bad in str(error), error
        print(io, "raised")
    x = sound.gather(ids, io=io)  # the ring, the pool and the mapping's guard are as good as new
    assert (x == ids[:, None]).all(), io
    outcomes = []
    def both():
        try:
            failing.gather(ids[:5000], io=io)
        except gz.StorageError:
            outcomes.append("raised")
    threads = [threading.Thread(target=both) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert outcomes == ["raised"] * 3, outcomes
    assert (sound.gather(ids, io=io) == ids[:, None]).all(), io
print("alive")
"""


class Reader:
    """The program, stopped between opening its files and reading them."""

    def __init__(self, bad: Path, good: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(bad), str(good), "opened", "go"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "opened\n", self.process.communicate()[1]

    def read(self) -> list[str]:
        """What came of each way of reading."""
        out, err = self.process.communicate("go\n", timeout=PATIENCE)
        assert self.process.returncode == 0, (self.process.returncode, out, err[-3000:])
        lines = out.splitlines()
        assert lines.pop() == "alive"
        return lines


@needs_loop_disk
def test_bad_blocks_are_an_error_and_the_readers_survive(tmp_path: Path) -> None:
    write_features(tmp_path / "good.gd")
    with loop_disk(tmp_path, 64) as disk:
        bad = disk.folder / "bad.gd"
        write_features(bad)
        disk.sync()
        disk.remount()  # nothing of it is in the page cache
        reader = Reader(bad, tmp_path / "good.gd")
        disk.lose_blocks_after(1)
        outcomes = reader.read()
        fd = os.open(bad, os.O_RDONLY)
        with pytest.raises(OSError):  # the control: the disk does fail
            os.pread(fd, 1 << 20, 10 << 20)
        os.close(fd)
    assert len(outcomes) >= 3
    assert all(line.endswith("raised") for line in outcomes), outcomes


def test_a_file_that_was_cut_is_an_error_and_the_readers_survive(tmp_path: Path) -> None:
    write_features(tmp_path / "good.gd")
    write_features(tmp_path / "bad.gd")
    reader = Reader(tmp_path / "bad.gd", tmp_path / "good.gd")
    os.truncate(tmp_path / "bad.gd", 1 << 20)
    outcomes = reader.read()
    assert all(line.endswith("raised") for line in outcomes), outcomes


def test_a_file_that_is_whole_would_not_raise(tmp_path: Path) -> None:
    # The control: the same program on a sound file answers everywhere, so an error above is the fault's.
    write_features(tmp_path / "good.gd")
    write_features(tmp_path / "bad.gd")
    reader = Reader(tmp_path / "bad.gd", tmp_path / "good.gd")
    assert reader.process.stdin is not None
    with pytest.raises(AssertionError, match="AssertionError"):  # its own threads expect errors
        reader.read()


LOADER = """
import os, sys
import numpy as np
import torch
import graphzero as gz

bad, good = sys.argv[1:3]
gz.compile_graph(np.random.default_rng(0).integers(0, 40_000, (2, 200_000)), good + ".gl", num_nodes=40_000)
g = gz.Graph(good + ".gl")
for io in ("auto", "mmap", "pread"):
    fs = gz.FeatureStore(bad)
    loader = gz.NeighborLoader(g, fs, fanouts=[4, 4], batch_size=512, seed=0, memory="48MB", num_threads=2, io=io)
    try:
        for i, batch in enumerate(loader):
            if i == 2:
                os.truncate(bad, 1 << 20)
            assert (batch.x == batch.n_id[:, None]).all(), "zeros were delivered as rows"
        print(io, "went on")
    except gz.StorageError:
        print(io, "raised")
    os.truncate(bad, 0)
    os.system(f"cp {good} {bad}")
    fs = gz.FeatureStore(bad)
    loader = gz.NeighborLoader(g, fs, fanouts=[4], seeds=range(2000), batch_size=512, memory="64MB", io=io)
    assert sum(int((b.x == b.n_id[:, None]).all()) for b in loader) == 4
print("alive")
"""


def test_a_loader_whose_file_is_cut_raises_and_the_next_one_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_features(tmp_path / "good.gd")
    write_features(tmp_path / "bad.gd")
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(tmp_path / "bad.gd"), str(tmp_path / "good.gd")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-3000:])
    assert done.stdout.split("\n")[:4] == ["auto raised", "mmap raised", "pread raised", "alive"]
