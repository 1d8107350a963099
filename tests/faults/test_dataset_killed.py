"""kill -9 while a dataset is made or replaced, and several writers at once: the folder has the old one or a new one."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jobs
import numpy as np
import pytest
from forks import Forks
from test_killed import points
from tracing import needs_strace, traced

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
# Whatever changes names or makes them durable. Writes go to files that have no name in a manifest yet.
CALLS = ("rename", "unlink", "rmdir", "mkdir", "link", "fsync", "flock")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


@pytest.fixture
def folder_in_ram(tmp_path: Path) -> Iterator[Path]:
    """Syncs cost nothing there, so that writers meet more often."""
    if not os.path.isdir("/dev/shm"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def named(folder: Path) -> set[str]:
    """What is there when nothing lingers."""
    ds = gz.Dataset(folder)
    return {"dataset.json", *(os.path.relpath(path, folder) for path in ds.files)}


def strikes(forks: Forks, folder: Path, log: Path) -> list[str]:
    """Calls of a replacement, as strace wants them; every one of them in a soak."""
    counts = traced(forks, log, "create_dataset", folder, 2, calls=",".join(CALLS)).counts()
    assert counts["rename"] >= 6, "five files and the manifest"
    assert counts["unlink"] >= 5, "the old files"
    return [f"{call}:signal=KILL:when={when}" for call in CALLS for when in points(counts[call], 4)]


@needs_strace
def test_a_kill_while_a_dataset_is_replaced_leaves_the_old_one_or_the_new(forks: Forks, folder_in_ram: Path) -> None:
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_dataset", folder, 1).fine
    seen = set()
    for inject in strikes(forks, folder, log):
        assert forks.run("create_dataset", folder, 1).fine
        call = inject.partition(":")[0]
        assert traced(forks, log, "create_dataset", folder, 2, calls=call, inject=inject).outcome.killed, inject
        version = jobs.dataset_version(str(folder))
        seen.add(version)
        assert version in (1, 2), inject
        assert forks.run("create_dataset", folder, 3).fine, "a rerun succeeds"
        assert jobs.dataset_version(str(folder)) == 3
        assert files(folder) == named(folder), f"and cleans up after the dead: {inject}"
    assert seen == {1, 2}, "strikes before and after the moment of publication"


@needs_strace
def test_a_kill_while_the_first_dataset_is_made_leaves_none_or_the_new_one(forks: Forks, folder_in_ram: Path) -> None:
    log = folder_in_ram / "log"
    counts = traced(forks, log, "create_dataset", folder_in_ram / "probe", 2, calls=",".join(CALLS)).counts()
    seen = set()
    for call in ("rename", "unlink", "mkdir", "link"):
        for when in points(counts[call], 4):
            folder, inject = folder_in_ram / f"{call}{when}", f"{call}:signal=KILL:when={when}"
            assert traced(forks, log, "create_dataset", folder, 2, calls=call, inject=inject).outcome.killed
            there = (folder / "dataset.json").exists()
            seen.add(there)
            if there:
                assert jobs.dataset_version(str(folder)) == 2
            assert forks.run("create_dataset", folder, 1).fine
            assert jobs.dataset_version(str(folder)) == 1
            assert files(folder) == named(folder), inject
    assert seen == {True, False}


@needs_strace
def test_a_kill_while_a_dataset_of_several_types_is_replaced(forks: Forks, folder_in_ram: Path) -> None:
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_typed", folder, 1).fine
    counts = traced(forks, log, "create_typed", folder, 2, calls="rename,unlink,link").counts()
    assert counts["rename"] >= 8, "seven files and the manifest"
    seen = set()
    for call in ("rename", "unlink"):
        for when in points(counts[call], 3):
            assert forks.run("create_typed", folder, 1).fine
            inject = f"{call}:signal=KILL:when={when}"
            assert traced(forks, log, "create_typed", folder, 2, calls=call, inject=inject).outcome.killed, inject
            seen.add(jobs.typed_version(str(folder)))
            assert forks.run("create_typed", folder, 3).fine
            assert jobs.typed_version(str(folder)) == 3
            assert files(folder) == named(folder), inject
    assert seen == {1, 2}


@needs_strace
def test_an_import_that_is_killed_goes_on_from_its_finished_files(forks: Forks, folder_in_ram: Path) -> None:
    root, log = folder_in_ram / "mag" / "processed", folder_in_ram / "log"
    edges = {("author", "writes", "paper"): [[0, 1], [1, 2]], ("paper", "cites", "paper"): [[0, 2], [1, 0]]}
    for edge_type, pairs in edges.items():
        (root / "___".join(edge_type)).mkdir(parents=True)
        np.save(root / "___".join(edge_type) / "edge_index.npy", np.array(pairs))
    (root / "paper").mkdir()
    np.save(root / "paper" / "node_feat.npy", np.eye(3, dtype=np.float16))
    counts = traced(forks, log, "import_arrays", root.parent, folder_in_ram / "probe", calls="rename").counts()
    resumed = set()
    for when in points(counts["rename"], 6):
        out, inject = folder_in_ram / f"out{when}", f"rename:signal=KILL:when={when}"
        assert traced(forks, log, "import_arrays", root.parent, out, calls="rename", inject=inject).outcome.killed
        there = (out / "dataset.json").exists()
        if not there:
            report = gz.import_dataset(root.parent, out, num_threads=1)
            resumed.add(len(report.resumed))
            assert not out.with_name(f"{out.name}.importing").exists()
        ds = gz.Dataset(out)
        ds.verify()
        for edge_type, pairs in edges.items():
            graph = ds.graphs[edge_type]
            found = [(int(u), v) for v in range(3) for u in graph.get_neighbours(v)]
            assert sorted(found) == sorted(zip(*pairs, strict=True))
        assert ds.nodes["paper"].features["x"].get_tensor().tolist() == np.eye(3).tolist()
    assert max(resumed) >= 2, "some strikes come after files were finished"
    assert min(resumed) == 0, "and some before"


@needs_strace
def test_a_writer_that_removes_the_manifest_first_is_caught(forks: Forks, folder_in_ram: Path) -> None:
    # The control: the same strike on such a writer leaves no dataset.
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_dataset", folder, 1).fine
    inject = "rename:signal=KILL:when=1"
    assert traced(forks, log, "replace_without_a_manifest", folder, 2, calls="rename", inject=inject).outcome.killed
    with pytest.raises(FileNotFoundError):
        jobs.dataset_version(str(folder))


def test_two_writers_at_once_leave_the_dataset_of_one(forks: Forks, folder_in_ram: Path) -> None:
    folder = folder_in_ram / "ds"
    for i in range(200 if SOAK else 40):
        if i % 4 == 0:  # at times there is none yet
            folder = folder_in_ram / f"ds{i}"
        versions = (2 + i % 3, 6 + i % 3)
        pids = [forks.start("create_dataset", folder, version) for version in versions]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        outcomes = [forks.finish(pid) for pid in pids]
        assert all(outcome.fine for outcome in outcomes), outcomes
        assert jobs.dataset_version(str(folder)) in versions
        assert files(folder) == named(folder)


def test_a_writer_that_is_killed_beside_another_harms_nobody(forks: Forks, folder_in_ram: Path) -> None:
    folder = folder_in_ram / "ds"
    assert forks.run("create_dataset", folder, 1).fine
    for i in range(12):
        pids = [forks.start("create_dataset", folder, version) for version in (2, 3)]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        if i % 3:
            jobs.dataset_version(str(folder))  # time passes, and readers find a whole dataset
        os.kill(pids[0], signal.SIGKILL)
        forks.finish(pids[0])
        assert forks.finish(pids[1]).fine
        assert jobs.dataset_version(str(folder)) in (2, 3)
