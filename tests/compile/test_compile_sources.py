"""Every kind of source, old files, progress, interruption: what compile_graph takes and how it behaves."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz
from graphzero import _core

PAIRS = np.array([[0, 1], [2, 0], [2, 1], [3, 3]])


def rows_of(path: Path) -> list[list[int]]:
    _core.verify(str(path))
    g = gz.Graph(path)
    return [g.get_neighbours(i).tolist() for i in range(g.num_nodes)]


ROWS = [[1], [], [0, 1], [3]]


def torch_tensor(dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(PAIRS.T.copy()).to(getattr(torch, dtype))


class Plugin:
    num_edges = 4
    num_nodes = 4
    name = "plugin"

    def edge_blocks(self) -> Iterator[Any]:
        yield PAIRS[:2].T
        yield PAIRS[2:, 0], PAIRS[2:, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: PAIRS,
        lambda: PAIRS.T,
        lambda: np.asfortranarray(PAIRS),
        lambda: PAIRS.astype(np.int32),
        lambda: PAIRS.astype(np.uint32),
        lambda: PAIRS.astype(np.uint64),
        lambda: PAIRS.astype(np.int8),
        lambda: PAIRS.astype(">i8"),
        lambda: PAIRS[::-1][::-1],
        lambda: (PAIRS[:, 0], PAIRS[:, 1]),
        lambda: (PAIRS[:, 0].tolist(), PAIRS[:, 1].tolist()),
        lambda: PAIRS.tolist(),
        lambda: [tuple(p) for p in PAIRS.tolist()],
        lambda: torch_tensor("int64"),
        lambda: torch_tensor("int32"),
        lambda: iter([PAIRS[:1], PAIRS[1:]]),
        lambda: (block for block in (PAIRS[:3].T, (PAIRS[3:, 0], PAIRS[3:, 1]))),
        Plugin,
    ],
)
def test_sources_give_the_same_graph(tmp_path: Path, make: Any) -> None:
    report = gz.compile_graph(make(), tmp_path / "g.gl")
    assert rows_of(tmp_path / "g.gl") == ROWS
    assert (report.nodes, report.edges, report.source_edges) == (4, 4, 4)


@pytest.mark.parametrize("shape", ["(2, E)", "(E, 2)"])
def test_npy_files(tmp_path: Path, shape: str) -> None:
    np.save(tmp_path / "e.npy", PAIRS.T if shape == "(2, E)" else PAIRS)
    gz.compile_graph(tmp_path / "e.npy", tmp_path / "g.gl", weights=np.array([1, 2, 3, 4.5]))
    assert rows_of(tmp_path / "g.gl") == ROWS
    assert gz.Graph(tmp_path / "g.gl").get_weights(2).tolist() == [2, 3]
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(gz.InputError, match=r"o\.npy: not a \.npy file of numbers"):
        gz.compile_graph(tmp_path / "o.npy", tmp_path / "h.gl")


def test_weights_and_times_come_with_blocks(tmp_path: Path) -> None:
    blocks = [([0, 0], [2, 1], [0.5, 1.5], [7, -3]), ([0], [1], [2.0], [9])]
    gz.compile_graph(iter(blocks), tmp_path / "g.gl", edge_ids=True)
    file = _core.Topology.open(str(tmp_path / "g.gl"))
    assert file.array("out.indices").tolist() == [1, 1, 2]
    assert file.array("out.weights").tolist() == [1.5, 2.0, 0.5]
    assert file.array("out.times").tolist() == [-3, 9, 7]
    assert file.array("out.by_time").tolist() == [0, 2, 1]
    assert file.array("out.edge_ids").tolist() == [1, 2, 0]
    gz.compile_graph(iter(blocks), tmp_path / "g.gl", weights=False, times=False)
    assert not gz.Graph(tmp_path / "g.gl").has_weights
    with pytest.raises(gz.InputError, match="has no weights"):
        gz.compile_graph(iter([blocks[0], ([0], [1])]), tmp_path / "g.gl")
    with pytest.raises(ValueError, match="the source has none"):
        gz.compile_graph(PAIRS, tmp_path / "g.gl", weights=True)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (np.ones((2, 3)), TypeError, "integers"),
        (np.ones((3, 3), int), ValueError, r"shape \(2, E\) or \(E, 2\)"),
        ((np.array([0, 1]), np.array([0])), gz.InputError, "src has 2 elements, dst has 1"),
        (([0.5], [1]), TypeError, "src must be integers"),
        (([0, -1], [1, 1]), gz.InputError, "edge 1: found src -1, expected a node id of at least 0"),
        (([0], [2**63]), gz.InputError, r"dst\[0\] is 9223372036854775808"),
        (([0], [1], [np.nan]), gz.InputError, "edge 0: found weight nan"),
        (17, TypeError, "cannot read edges from int"),
        ("missing.csv", FileNotFoundError, r"missing\.csv: no such file"),
    ],
)
def test_bad_sources_are_told(tmp_path: Path, source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gz.compile_graph(source, tmp_path / "g.gl")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"direction": "up"}, ValueError, "direction is 'up'"),
        ({"memory": "1KB"}, gz.BudgetError, "needs at least"),
        ({"memory": "lots"}, ValueError, "expected a size"),
        ({"on_error": "ignore"}, ValueError, "on_error is 'ignore'"),
        ({"num_nodes": -1}, ValueError, "num_nodes is -1"),
        ({"num_nodes": 3}, gz.InputError, r"found src 3, expected a node id from 0 to 2 \(num_nodes = 3\)"),
        ({"num_threads": -2}, ValueError, "num_threads is -2"),
        ({"spill_dir": "/nowhere"}, FileNotFoundError, "/nowhere: no such folder"),
        ({"progress": 3}, TypeError, "progress must be"),
        ({"weights": "w"}, TypeError, "this source has no columns"),
    ],
)
def test_bad_options_are_told(tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gz.compile_graph(PAIRS, tmp_path / "g.gl", **options)
    assert os.listdir(tmp_path) == []


def test_a_source_that_breaks_leaves_the_old_file(tmp_path: Path) -> None:
    gz.compile_graph(PAIRS, tmp_path / "g.gl")

    def blocks() -> Iterator[Any]:
        yield PAIRS
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        gz.compile_graph(blocks(), tmp_path / "g.gl")
    assert rows_of(tmp_path / "g.gl") == ROWS
    assert os.listdir(tmp_path) == ["g.gl"]


# -- files from before ------------------------------------------------------------------------------------------------


def write_legacy_graph(path: Path, weights: list[float] | None) -> None:
    indptr, indices = np.array([0, 2, 2, 3], "<u8"), np.array([2, 1, 0], "<u8")
    at = 64
    second = (at + indptr.nbytes + 63) // 64 * 64
    header = struct.pack(
        "<8Q", 8388354976772092519, indptr.nbytes, indices.nbytes, at, second, 3, 3, weights is not None
    )
    data = bytearray(header + indptr.tobytes())
    data += bytes(second - len(data)) + indices.tobytes()
    if weights is not None:
        data += bytes(-len(data) % 64) + np.array(weights, "<f4").tobytes()
    path.write_bytes(data)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
def test_old_graphs_are_converted(tmp_path: Path, weights: list[float] | None) -> None:
    write_legacy_graph(tmp_path / "old.gl", weights)
    report = gz.compile_graph(tmp_path / "old.gl", tmp_path / "new.gl")
    assert rows_of(tmp_path / "new.gl") == [[1, 2], [], [0]]
    assert report.nodes == 3
    new = gz.Graph(tmp_path / "new.gl")
    assert new.has_weights == (weights is not None)
    if weights is not None:
        assert new.get_weights(0).tolist() == [2.0, 1.0]


def test_new_graphs_are_turned_round(tmp_path: Path) -> None:
    gz.compile_graph(PAIRS, tmp_path / "out.gl", num_nodes=6)
    gz.compile_graph(tmp_path / "out.gl", tmp_path / "in.gl", direction="in")
    gz.compile_graph(tmp_path / "in.gl", tmp_path / "again.gl")
    assert rows_of(tmp_path / "in.gl") == [[2], [0, 2], [], [3], [], []]
    assert (tmp_path / "again.gl").read_bytes() == (tmp_path / "out.gl").read_bytes()


def test_old_features_are_converted(tmp_path: Path) -> None:
    rows = np.arange(6, dtype="<f4").reshape(3, 2)
    (tmp_path / "old.gd").write_bytes(b"GZDATA26" + struct.pack("<IiQQ", 0, 2, 3, 2) + rows.tobytes())
    gz.compile_features(tmp_path / "old.gd", tmp_path / "new.gd")
    _core.verify(str(tmp_path / "new.gd"))
    np.testing.assert_array_equal(gz.FeatureStore(tmp_path / "new.gd").get_tensor(), rows)


def test_the_names_of_version_0_2(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n2,2\n")
    assert gz.convert_csv_to_gl(str(tmp_path / "e.csv"), str(tmp_path / "g.gl")) is None
    assert rows_of(tmp_path / "g.gl") == [[1], [0], [2]]  # undirected, a self-loop once
    gz.convert_csv_to_gl(tmp_path / "e.csv", tmp_path / "g.gl", directed=True)
    assert rows_of(tmp_path / "g.gl") == [[1], [], [2]]


# -- progress and interruption ----------------------------------------------------------------------------------------


def test_progress_tells_phases_and_may_stop_the_work(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 9000, (2, 400_000))
    seen: list[tuple[str, int, int]] = []
    gz.compile_graph(edges, tmp_path / "g.gl", progress=lambda *report: seen.append(report))
    assert {phase for phase, _, _ in seen} == {"reading", "sorting", "publishing"}
    assert all(0 <= done <= total for _, done, total in seen)

    def stop(phase: str, done: int, total: int) -> None:
        if phase == "sorting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gz.compile_graph(edges, tmp_path / "h.gl", progress=stop)
    assert os.listdir(tmp_path) == ["g.gl"]


def test_interruption_is_prompt_and_leaves_nothing(spawn, tmp_path: Path) -> None:
    code = (
        "import numpy as np, graphzero as gz, sys\n"
        "def blocks():\n"
        "    r = np.random.default_rng(0)\n"
        "    for i in range(10**9):\n"
        "        yield r.integers(0, 10**6, (2, 100_000))\n"
        "        if i == 20: print('ready', flush=True)\n"  # past the budget: runs were written
        "gz.compile_graph(blocks(), sys.argv[1] + '/g.gl', memory='20MB')\n"
    )
    run = spawn([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in errors
    assert os.listdir(tmp_path) == []


def test_what_a_source_takes_is_in_the_seconds_of_reading(tmp_path: Path) -> None:
    def slow() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        time.sleep(0.2)
        yield np.array([0, 1]), np.array([1, 2])

    report = gz.compile_graph(slow(), tmp_path / "g.gl")
    assert report.seconds["reading"] >= 0.2
    assert report.seconds["total"] >= report.seconds["reading"]
