"""Power cuts: after one, the target is the old file or the complete new one; and what was promised is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks
from loop_disk import LoopDisk, loop_disk, needs_loop_disk
from tracing import needs_strace, traced

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
WRITING = "pwrite64,fallocate,ftruncate,fsync,rename"


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with loop_disk(tmp_path, 64) as made:
        yield made


def whole(path: Path) -> bytes | None:
    """The bytes of a sound file, None for one that is damaged."""
    try:
        gz.verify(path)
    except gz.FormatError:
        return None
    return path.read_bytes()


@needs_loop_disk
@pytest.mark.parametrize(("job", "name"), [("compile_graph", "g.gl"), ("compile_features", "x.gd")])
def test_what_was_published_survives_a_power_cut(forks: Forks, disk: LoopDisk, job: str, name: str) -> None:
    target = disk.folder / name
    assert forks.run(job, target, 1).fine
    disk.sync()
    assert forks.run(job, target, 2).fine
    new = target.read_bytes()
    disk.cut_power()
    disk.remount()
    assert whole(target) == new


@needs_loop_disk
def test_a_large_file_that_was_published_survives_a_power_cut(forks: Forks, tmp_path: Path) -> None:
    with loop_disk(tmp_path, 160) as disk:  # written past the page cache, which is not yet on the disk
        target = disk.folder / "g.gl"
        assert forks.run("compile_graph", target, 1).fine
        disk.sync()
        assert forks.run("compile_large", target, "1GB").fine
        new = target.read_bytes()
        disk.cut_power()
        disk.remount()
        assert whole(target) == new


@needs_loop_disk
@needs_strace
def test_a_power_cut_at_any_step_leaves_the_old_file_or_the_new(forks: Forks, disk: LoopDisk, tmp_path: Path) -> None:
    target, log = disk.folder / "g.gl", tmp_path / "log"
    assert forks.run("compile_graph", target, 2).fine
    new = whole(target)
    assert forks.run("compile_graph", target, 1).fine
    old = whole(target)
    assert None not in (old, new)
    steps = [("pwrite64", 1), ("pwrite64", 4), ("fsync", 1), ("rename", 1), ("fsync", 2)]
    for call, when in steps * (10 if SOAK else 1):
        disk.sync()
        inject = f"{call}:signal=KILL:when={when}"
        assert traced(forks, log, "compile_graph", target, 2, calls=call, inject=inject).outcome.killed
        disk.cut_power()
        disk.remount()
        assert whole(target) in (old, new), inject
        assert forks.run("compile_graph", target, 1).fine, "a rerun succeeds"
        assert not [entry for entry in os.listdir(disk.folder) if entry.startswith(".")]


@needs_loop_disk
def test_a_writer_that_does_not_sync_is_caught(forks: Forks, disk: LoopDisk, tmp_path: Path) -> None:
    # The control: temporary and rename alone lose the file.
    target, source = disk.folder / "g.gl", tmp_path / "new.gl"
    assert forks.run("compile_graph", source, 2).fine
    assert forks.run("compile_graph", target, 1).fine
    disk.sync()
    assert forks.run("publish_without_sync", target, source).fine
    assert whole(target) == source.read_bytes()
    disk.cut_power()
    disk.remount()
    assert whole(target) is None


# -- the same promise by the order of calls, for machines without loop devices ----------------------------------------


def in_order(lines: tuple[str, ...], target: Path) -> bool:
    """Every write to the temporary, then its fsync, then the rename to the target, then the folder's fsync."""
    calls = [m.groups() for line in lines if (m := re.search(r"(\w+)\((?:\d+<([^>]*)>)?(.*)", line))]
    renames = [i for i, call in enumerate(calls) if call[0] == "rename" and f'"{target}"' in call[2]]
    if len(renames) != 1:
        return False
    at = renames[0]
    temporary = calls[at][2].split('"')[1]
    about = [(i, call[0]) for i, call in enumerate(calls) if call[1] == temporary]
    writes = [i for i, call in about if call in ("pwrite64", "ftruncate", "fallocate")]
    syncs = [i for i, call in about if call == "fsync"]
    folder = [i for i, call in enumerate(calls) if call[0] == "fsync" and call[1] == str(target.parent)]
    return bool(writes and syncs and folder) and max(writes) < max(syncs) < at < max(folder)


@needs_strace
@pytest.mark.parametrize(("job", "name"), [("compile_graph", "g.gl"), ("compile_features", "x.gd")])
def test_bytes_are_synced_before_the_rename_and_the_folder_after(
    forks: Forks, tmp_path: Path, job: str, name: str
) -> None:
    trace = traced(forks, tmp_path / "log", job, tmp_path / name, 1, calls=WRITING)
    assert trace.outcome.fine
    assert in_order(trace.lines, tmp_path / name)


@needs_strace
def test_a_rename_without_a_sync_is_seen_in_the_order_of_calls(forks: Forks, tmp_path: Path) -> None:
    target, source = tmp_path / "g.gl", tmp_path / "new.gl"
    source.write_bytes(bytes(8192))
    trace = traced(forks, tmp_path / "log", "publish_without_sync", target, source, calls=WRITING)
    assert trace.outcome.fine
    assert not in_order(trace.lines, target)
