"""Writers of one target at once, and calls that fail: one whole file is there, the old one or a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz
from graphzero import _core

EDGES = np.array([[0, 1, 2, 2], [1, 0, 1, 2]])
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)

WRITER = """
import sys, numpy as np, graphzero as gz
out, edges = sys.argv[1], int(sys.argv[2])
for line in sys.stdin:  # both processes start each round together
    gz.compile_graph((np.zeros(edges, int), np.arange(edges)), out, num_threads=1, memory="2MB")
    print("done", flush=True)
"""


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "g.gl"
    counts = (1000, 30_000)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(out), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in counts
    ]
    seen = []
    try:
        for _ in range(40):
            for writer in writers:
                assert writer.stdin is not None
                writer.stdin.write("go\n")
                writer.stdin.flush()
            assert [w.stdout.readline() for w in writers if w.stdout is not None] == ["done\n", "done\n"]
            _core.verify(str(out))
            seen.append(gz.Graph(out).num_edges)
            assert os.listdir(tmp_path) == ["g.gl"]
    finally:
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()
            writer.wait(PATIENCE)
    assert set(seen) <= set(counts)
    assert [w.returncode for w in writers] == [0, 0]


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    """Each removes temporaries that nobody has locked: never one that is about to be locked."""
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(60):
                gz.compile_graph(EDGES, tmp_path / "g.gl", num_threads=1, memory="2MB")
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    _core.verify(str(tmp_path / "g.gl"))
    assert os.listdir(tmp_path) == ["g.gl"]


BAD_GRAPH: dict[str, Any] = {
    "source": object(),
    "directed": "yes",
    "direction": "up",
    "weights": np.ones(3),
    "times": "when",
    "edge_ids": "all",
    "num_nodes": 2,
    "memory": "1KB",
    "num_threads": -1,
    "progress": 3,
    "on_error": "ignore",
    "id_base": -1,
    "spill_dir": "/no/such/folder",
}


@pytest.mark.parametrize("name", BAD_GRAPH)
def test_a_bad_argument_leaves_the_old_graph(tmp_path: Path, name: str) -> None:
    gz.compile_graph([(7, 7)], tmp_path / "g.gl")
    before = (tmp_path / "g.gl").read_bytes()
    arguments = {"source": EDGES, "out": tmp_path / "g.gl", name: BAD_GRAPH[name]}
    with pytest.raises((ValueError, TypeError, OSError, gz.InputError, gz.BudgetError)):
        gz.compile_graph(**arguments)
    assert (tmp_path / "g.gl").read_bytes() == before
    assert os.listdir(tmp_path) == ["g.gl"]


BAD_ROWS: dict[str, Any] = {
    "source": object(),
    "name": "no spaces allowed",
    "dtype": "float13",
    "num_nodes": 2,
    "memory": "much",
    "num_threads": -1,
    "progress": 3,
    "on_error": "ignore",
    "id_base": -1,
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_argument_leaves_the_old_features(tmp_path: Path, name: str) -> None:
    gz.compile_features(ROWS, tmp_path / "x.gd")
    before = (tmp_path / "x.gd").read_bytes()
    arguments = {"source": ROWS, "out": tmp_path / "x.gd", name: BAD_ROWS[name]}
    with pytest.raises((ValueError, TypeError, OSError, gz.InputError, gz.BudgetError)):
        gz.compile_features(**arguments)
    assert (tmp_path / "x.gd").read_bytes() == before
    assert os.listdir(tmp_path) == ["x.gd"]
