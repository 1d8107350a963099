"""kill -9, a full disk, other writers while a dataset is appended to or compacted: the old dataset or the new one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import numpy as np
import pytest
from forks import Forks
from test_dataset_killed import CALLS, files, folder_in_ram, named
from test_killed import points
from tracing import WRITING, needs_strace, traced

import graphzero as gz

__all__ = ["folder_in_ram"]
SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


def strikes(forks: Forks, folder: Path, log: Path, job: str, calls: tuple[str, ...], most: int) -> list[str]:
    """Calls of a job, as strace wants them; every one of them in a soak."""
    counts = traced(forks, log, job, folder, calls=",".join(calls)).counts()
    assert counts["rename"] >= 2, "files and the manifest"
    return [f"{call}:signal=KILL:when={when}" for call in calls for when in points(counts[call], most)]


@needs_strace
def test_a_kill_during_an_append_leaves_the_old_dataset_or_the_new(forks: Forks, folder_in_ram: Path) -> None:
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_growing", folder).fine
    found = strikes(forks, folder, log, "append_one", (*CALLS, "pwrite64", "openat"), 4)
    assert len(found) >= 20
    seen = set()
    for inject in found:
        before = jobs.appended(str(folder))
        call = inject.partition(":")[0]
        assert traced(forks, log, "append_one", folder, calls=call, inject=inject).outcome.killed, inject
        after = jobs.appended(str(folder))
        seen.add(after - before)
        assert after - before in (0, 1), inject
        assert forks.run("append_one", folder).fine, "a rerun succeeds"
        assert jobs.appended(str(folder)) == after + 1
        assert files(folder) == named(folder), f"and cleans up after the dead: {inject}"
        if after > 12:
            assert forks.run("create_growing", folder).fine
    assert seen == {0, 1}, "strikes before and after the moment of publication"


@needs_strace
def test_a_kill_during_compact_leaves_the_same_data(forks: Forks, folder_in_ram: Path) -> None:
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"

    def grow() -> None:
        assert forks.run("create_growing", folder).fine
        assert forks.run("append_one", folder).fine
        assert forks.run("append_one", folder).fine

    grow()
    found = strikes(forks, folder, log, "compact", CALLS, 3)
    seen = set()
    for inject in found:
        grow()
        call = inject.partition(":")[0]
        assert traced(forks, log, "compact", folder, calls=call, inject=inject).outcome.killed, inject
        assert jobs.appended(str(folder)) == 2, inject
        seen.add(bool(gz.Dataset(folder).info["deltas"]))
        assert forks.run("append_one", folder).fine
        assert jobs.appended(str(folder)) == 3
        assert files(folder) == named(folder), inject
    assert seen == {False, True}


@needs_strace
def test_a_writer_that_publishes_before_its_files_is_caught(forks: Forks, folder_in_ram: Path) -> None:
    # The control: the same strike on such a writer leaves a dataset that cannot be opened.
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_growing", folder).fine
    inject = "rename:signal=KILL:when=2"
    assert traced(forks, log, "append_in_place", folder, calls="rename", inject=inject).outcome.killed
    with pytest.raises(gz.FormatError, match=r"deltas.graph.gl: found no file 'late.gl'"):
        jobs.appended(str(folder))


@needs_strace
@pytest.mark.parametrize("errno", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("job", ["append_one", "compact"])
def test_a_full_disk_changes_nothing(forks: Forks, folder_in_ram: Path, job: str, errno: str) -> None:
    folder, log = folder_in_ram / "ds", folder_in_ram / "log"
    assert forks.run("create_growing", folder).fine
    assert forks.run("append_one", folder).fine
    counts = traced(forks, log, "append_one", folder, calls=",".join((*WRITING, "mkdir", "openat"))).counts()
    for call in ("pwrite64", "fallocate", "ftruncate", "fsync", "rename", "mkdir"):
        for when in points(counts[call], 2):
            inject, before = f"{call}:error={errno}:when={when}", jobs.appended(str(folder))
            outcome = traced(forks, log, job, folder, calls=call, inject=inject).outcome
            if outcome.fine:  # such as a call that compact makes less often
                continue
            assert outcome.error in ("StorageError", "OSError"), (inject, outcome)
            assert outcome.fds[0] == outcome.fds[1], inject
            assert jobs.appended(str(folder)) - before in (0, int(job == "append_one")), inject
    assert forks.run(job, folder).fine
    assert files(folder) == named(folder)


def test_a_second_writer_is_told_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    ds = gz.Dataset.create(folder, np.array([[0, 1], [1, 2]]))
    told: list[str] = []

    def blocks() -> Iterator[Any]:
        for change in (lambda: gz.Dataset(folder).append(edges=[(2, 0)]), gz.Dataset(folder).compact):
            with pytest.raises(gz.StorageError) as error:
                change()
            told.append(str(error.value))
        yield np.array([[0], [2]])

    now = ds.append(edges=blocks()).dataset
    assert now.graph.get_neighbours(0).tolist() == [1, 2]
    assert len(told) == 2
    for message in told:
        assert f"process {os.getpid()} on " in message
        assert "changes this dataset (append, since " in message
        assert message.endswith("try again when it is done")
    assert not (folder / ".writer").exists()
    assert gz.Dataset(folder).append(edges=[(2, 0)]).edges == 1


def test_two_writers_at_once_lose_nothing(forks: Forks, folder_in_ram: Path) -> None:
    folder, done, refused = folder_in_ram / "ds", 0, 0
    assert forks.run("create_growing", folder).fine
    for _ in range(100 if SOAK else 12):
        pids = [forks.start("append_one", folder) for _ in range(2)]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        for outcome in [forks.finish(pid) for pid in pids]:
            assert outcome.fine or outcome.error == "StorageError", outcome
            done, refused = done + outcome.fine, refused + (not outcome.fine)
        assert jobs.appended(str(folder)) == done
    assert done >= 12
    assert files(folder) == named(folder)


def test_a_dataset_replaced_during_an_append_wins(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    ds = gz.Dataset.create(folder, np.array([[0, 1], [1, 2]]))

    def blocks() -> Iterator[Any]:
        gz.Dataset.create(folder, np.array([[0], [4]]), overwrite=True)
        yield np.array([[0], [2]])

    with pytest.raises(gz.StorageError, match="changed after it was opened; open it again"):
        ds.append(edges=blocks())
    assert gz.Dataset(folder).graph.num_edges == 1
    assert files(folder) == named(folder)


def test_a_task_added_during_an_append_stays(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    ds = gz.Dataset.create(folder, np.array([[0, 1], [1, 2]]))

    def blocks() -> Iterator[Any]:
        splits = {"train": [0], "valid": [1]}
        gz.Dataset(folder).add_task("churn", ids=[0, 1], labels=[0, 1], splits=splits)
        yield np.array([[0], [2]])

    now = ds.append(edges=blocks()).dataset
    assert list(now.tasks) == ["churn"]
    assert now.graph.num_edges == 3


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_folder_that_may_not_be_written_to(forks: Forks, folder_in_ram: Path) -> None:
    folder = folder_in_ram / "ds"
    os.chmod(folder_in_ram, 0o755)
    assert forks.run("create_growing", folder).fine
    for path in folder.rglob("*"):
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
    os.chmod(folder, 0o755)
    outcome = forks.run("append_as_nobody", folder)
    assert outcome.error == "StorageError", outcome
    assert "cannot append: Permission denied; the folder must be writable" in outcome.message
    assert jobs.appended(str(folder)) == 0
