"""What the tasks of a Ray compile do, run here in turn: the file of one machine, byte for byte. Needs no cluster."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.ray import _cluster, _splits
from graphzero.ray import compile as ray_compile

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


class Here:
    """Runs tasks in this process, pickled as for a worker, every one twice: as if the first answer had been lost."""

    num_cpus, num_threads = 1, 1

    def __init__(self, slots: int) -> None:
        self._slots = slots

    def slots(self) -> int:
        return self._slots

    def run(self, work: Any, calls: list[tuple[Any, ...]], phase: str = "", *_: Any) -> list[Any]:
        return [work(*pickle.loads(pickle.dumps(call))) for call in calls for _ in range(2)][1::2]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_compile, "require_ray", lambda: None)
    monkeypatch.setattr(_cluster.Tasks, "of", classmethod(lambda cls, *_: Here(3)))


def edges(count: int, nodes: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "src": (rng.random(count) ** 2 * nodes).astype(np.int64),
        "dst": rng.integers(0, max(nodes, 1), count),
        "weight": rng.random(count).astype(np.float32),
        "time": rng.integers(-50, 50, count),
    }


def write_parquet(folder: Path, columns: dict[str, Any], files: int = 3, group: int = 1000) -> Path:
    folder.mkdir(exist_ok=True)
    table = pa.table(columns)
    step = max(1, -(-table.num_rows // files))
    for i in range(files):
        pq.write_table(table.slice(i * step, step), folder / f"part-{i}.parquet", row_group_size=group)
    return folder


def same(tmp_path: Path, source: Any, **options: Any) -> gz.GraphReport:
    """Compile both ways and compare the files; return the report of the tasks."""
    here, there = tmp_path / "here.gl", tmp_path / "there.gl"
    expected = gz.compile_graph(source, here, **{k: v for k, v in options.items() if k != "memory"})
    report = ray_compile.compile_graph(source, there, **options)
    assert there.read_bytes() == here.read_bytes()
    for field in ("nodes", "targets", "edges", "source_edges", "bytes", "duplicates_dropped", "self_loops_dropped"):
        assert getattr(report, field) == getattr(expected, field), field
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    return report


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("dedup", [False, True])
def test_every_direction(tmp_path: Path, direction: str, directed: bool, dedup: bool) -> None:
    source = write_parquet(tmp_path / "edges", edges(20000, 300))
    report = same(tmp_path, source, direction=direction, directed=directed, dedup=dedup, times="time", edge_ids=True)
    assert bool(report.duplicates_dropped) == dedup


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "options",
    [
        {"weights": False},
        {"self_loops": False},
        {"self_loops": False, "directed": False, "dedup": True},
        {"num_nodes": 5000},  # isolated nodes at the end, more than all ids
        {"num_nodes": (400, 7000), "direction": "both"},
        {"num_sources": None, "num_targets": 301, "direction": "in"},
        {"columns": ("dst", "src"), "weights": "weight"},
        {"memory": "1MB", "times": "time"},
    ],
)
def test_options(tmp_path: Path, options: dict[str, Any]) -> None:
    same(tmp_path, write_parquet(tmp_path / "edges", edges(30000, 300)), **options)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("options", [{}, {"dedup": True}, {"directed": False, "direction": "both"}])
def test_many_row_groups_stay_in_order(tmp_path: Path, options: dict[str, Any]) -> None:
    source = write_parquet(tmp_path / "edges", edges(30_000, 300), files=2, group=100)
    same(tmp_path, source, edge_ids=True, times="time", **options)
    same(tmp_path, source / "part-0.parquet", edge_ids=True, times="time", **options)


@pytest.mark.usefixtures("here")
def test_folders_are_read_as_on_one_machine(tmp_path: Path) -> None:
    columns = edges(3000, 60)
    folder = write_parquet(tmp_path / "edges", columns)  # files before folders, whatever their names
    write_parquet(folder / "a", {**columns, "src": columns["src"].astype(np.int32)}, files=1, group=70)
    (folder / "README.txt").write_text("what the files hold")
    same(tmp_path, folder, edge_ids=True, times="time")


@pytest.mark.usefixtures("here")
def test_hub_larger_than_the_budget(tmp_path: Path) -> None:
    columns = edges(60_000, 5000)
    columns["src"][:50_000] = 7
    columns["dst"][:40_000] = 9  # copies of one edge, more than fit at once
    source = write_parquet(tmp_path / "edges", columns, group=50_000)
    same(tmp_path, source, memory="1MB", times="time", edge_ids=True)
    same(tmp_path, source, memory="1MB", dedup=True)


@pytest.mark.usefixtures("here")
def test_ids_past_32_bits(tmp_path: Path) -> None:
    columns = {"src": np.array([5, 2**33, 5, 0]), "dst": np.array([2**34, 1, 3, 2**34 - 1])}
    source = write_parquet(tmp_path / "edges", columns, files=2)
    with pytest.raises(gz.StorageError, match="the file needs"):  # a row for each id: as on one machine
        ray_compile.compile_graph(source, tmp_path / "g.gl", num_nodes=2**44)
    narrow = write_parquet(tmp_path / "narrow", {"src": columns["src"] % 7, "dst": columns["dst"]}, files=2)
    same(tmp_path, narrow, num_nodes=(7, 2**35))


@pytest.mark.usefixtures("here")
def test_empty_sources(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "edges", edges(0, 1), files=1)
    with pytest.raises(gz.InputError, match="found no edges"):
        ray_compile.compile_graph(source, tmp_path / "g.gl")
    same(tmp_path, source, allow_empty=True)
    same(tmp_path, source, num_nodes=10, direction="both")


@pytest.mark.usefixtures("here")
def test_arrays(tmp_path: Path) -> None:
    columns = edges(10_000, 100)
    np.save(tmp_path / "wide.npy", np.stack([columns["src"], columns["dst"]]))
    np.save(tmp_path / "tall.npy", np.stack([columns["src"], columns["dst"]], axis=1).astype(np.int32))
    for name in ("wide.npy", "tall.npy"):
        same(tmp_path, str(tmp_path / name), direction="both", edge_ids=True)


@pytest.mark.usefixtures("here")
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60),
    st.sampled_from(["out", "in", "both"]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
)
def test_any_edges(pairs: Any, direction: str, directed: bool, dedup: bool, group: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        src, dst = np.array(pairs, np.int64).T
        columns = {"src": src, "dst": dst, "weight": np.arange(len(src), dtype=np.float32)}
        source = write_parquet(Path(name, "edges"), columns, files=2, group=group)
        same(Path(name), source, direction=direction, directed=directed, dedup=dedup, edge_ids=True)


@pytest.mark.usefixtures("here")
def test_errors_name_the_edge_of_the_whole_source(tmp_path: Path) -> None:
    columns = edges(9000, 100)
    columns["dst"][7123] = 100
    source = write_parquet(tmp_path / "edges", columns, group=500)
    with pytest.raises(gz.InputError, match="edge 7123: found dst 100"):
        ray_compile.compile_graph(source, tmp_path / "g.gl", num_nodes=100)
    table = pa.table(columns)
    missing = pa.array([None if i == 6200 else 1 for i in range(9000)])
    nulls = write_parquet(tmp_path / "nulls", dict(zip(table.column_names, [missing, *table.columns[1:]], strict=True)))
    with pytest.raises(gz.InputError, match="'src' has no value in row 6200"):
        ray_compile.compile_graph(nulls, tmp_path / "g.gl")
    assert sorted(os.listdir(tmp_path)) == ["edges", "nulls"]


@pytest.mark.usefixtures("here")
def test_text_in_a_third_column_is_no_weight(tmp_path: Path) -> None:
    columns = edges(3000, 50)
    for third in (np.array(["a", "b", "c"] * 1000), columns["weight"]):
        source = write_parquet(tmp_path / "edges", {"src": columns["src"], "dst": columns["dst"], "kind": third})
        same(tmp_path, source)


@pytest.mark.usefixtures("here")
def test_a_source_that_changes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_parquet(tmp_path / "edges", edges(3000, 50))
    blocks = _splits.FragmentSplit.edge_blocks
    monkeypatch.setattr(_splits.FragmentSplit, "edge_blocks", lambda split: [*blocks(split), *blocks(split)])
    with pytest.raises(gz.InputError, match="the source may have changed while it was read"):
        ray_compile.compile_graph(source, tmp_path / "g.gl")


def test_refusals(tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "edges", edges(10, 3))
    out = tmp_path / "g.gl"
    for options, error, message in (
        ({"ids": "map"}, ValueError, "ids is not supported on a cluster"),
        ({"on_error": "skip"}, ValueError, "on_error is not supported on a cluster"),
        ({"nonsense": 1}, TypeError, "unexpected keyword argument 'nonsense'"),
        ({"dedup": "sum"}, ValueError, "dedup is 'sum', expected True, False or 'first' on a cluster"),
        ({"direction": "up"}, ValueError, "direction is 'up'"),
        ({"max_retries": -1}, ValueError, "max_retries"),
        ({"num_cpus": -1}, ValueError, "num_cpus is -1"),
    ):
        with pytest.raises(error, match=message):
            ray_compile.compile_graph(source, out, **options)
    text = tmp_path / "edges.csv"
    text.write_text("0,1\n")
    for given_source, error, message in (
        (str(text), gz.InputError, "edges.csv: expected a Parquet file"),
        (np.zeros((2, 3), np.int64), TypeError, "cannot read edges from ndarray on a cluster"),
        (str(tmp_path / "none.parquet"), FileNotFoundError, "no such file"),
    ):
        with pytest.raises(error, match=message):
            _splits.split_source(given_source, None, None, None, 100, 1, _cluster.Tasks())
    assert not out.exists()


def test_a_folder_of_a_process_that_died_is_removed_by_the_next(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    dead = tmp_path / ".g.gl.gzray-dead"
    dead.mkdir()
    (dead / "run").write_text("x")
    target = str(tmp_path / "g.gl")
    with _cluster.WorkFolder(target) as first:
        assert not dead.exists()
        with _cluster.WorkFolder(target) as second:
            assert os.path.isdir(first)  # its owner lives
            assert first != second
    assert os.listdir(tmp_path) == []
