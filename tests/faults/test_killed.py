"""kill -9 during a compile: at every write, sync and rename in turn; what is left is the old file or the new one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks
from tracing import WRITING, needs_strace, traced

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
SMALL = "16MB"  # the least that a compile takes, so that it spills


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


def points(count: int, most: int, soak: int = 1000) -> list[int]:
    """Which of `count` calls to strike at: `most`, or `soak` in a soak, that always include the first and the last."""
    most = soak if SOAK else most
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(i * (count - 1) / (most - 1)) for i in range(most)})


def struck(forks: Forks, log: Path, call: str, when: int, restore: tuple[object, ...], *job: object) -> str:
    """Kill a job at its call number `when`, or at an earlier one; returns what strace was told.

    strace counts the calls of each thread, and which thread of the pool writes is not the same in every run: a thread
    may end before it has made so many. The job has then done its work, which `restore` undoes.
    """
    while when > 0:
        inject = f"{call}:signal=KILL:when={when}"
        if traced(forks, log, *job, calls=call, inject=inject).outcome.killed:
            return inject
        assert forks.run(*restore).fine
        when //= 2
    raise AssertionError(f"no thread made a single {call}")


def whole(path: Path) -> bytes:
    """The bytes of a file that is sound in all its depth."""
    gz.verify(path)
    return path.read_bytes()


def temporaries(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".")]


JOBS = [("compile_graph", ("1GB",), "g.gl"), ("compile_features", (), "x.gd")]


@needs_strace
@pytest.mark.parametrize(("job", "extra", "name"), JOBS)
def test_a_kill_at_any_call_leaves_the_old_file_or_the_new(
    forks: Forks, tmp_path: Path, job: str, extra: tuple[str, ...], name: str
) -> None:
    target, log = tmp_path / name, tmp_path / "log"
    assert forks.run(job, target, 2, *extra).fine
    new = whole(target)
    assert forks.run(job, target, 1, *extra).fine
    old = whole(target)
    assert old != new
    counts = traced(forks, log, job, tmp_path / f"probe-{name}", 2, *extra, calls=",".join(WRITING)).counts()
    assert counts["fsync"] == 2, "the file and its folder"
    assert counts["rename"] == 1
    strikes = 0
    for call in WRITING:
        for when in points(counts[call], 3):
            inject = struck(forks, log, call, when, (job, target, 1, *extra), job, target, 2, *extra)
            strikes += 1
            assert whole(target) in (old, new), inject
            assert forks.run(job, target, 1, *extra).fine, "a rerun succeeds"
            assert whole(target) == old
            assert not temporaries(tmp_path), "and cleans up after the dead"
    assert strikes >= 6


@needs_strace
def test_a_kill_where_there_was_no_file_leaves_none_or_the_new_one(forks: Forks, tmp_path: Path) -> None:
    target, log = tmp_path / "g.gl", tmp_path / "log"
    for call, when in (("pwrite64", 1), ("fsync", 1), ("rename", 1), ("fsync", 2)):
        traced(forks, log, "compile_graph", target, 2, calls=call, inject=f"{call}:signal=KILL:when={when}")
        if target.exists():
            whole(target)
            target.unlink()
        assert forks.run("compile_graph", target, 2).fine
        target.unlink()
        assert not temporaries(tmp_path)


@needs_strace
def test_a_kill_while_spilling_or_writing_a_large_file_leaves_the_old_one(forks: Forks, tmp_path: Path) -> None:
    target, log, spill = tmp_path / "g.gl", tmp_path / "log", tmp_path / "spill"
    spill.mkdir()
    assert forks.run("compile_graph", target, 1).fine
    old = whole(target)
    large = ("compile_large", target, SMALL, spill)
    probe = traced(forks, log, "compile_large", tmp_path / "probe.gl", SMALL, spill, calls="pwrite64")
    assert any("(deleted)" in line for line in probe.lines), "it did spill, to a file without a name"
    for when in points(probe.counts()["pwrite64"], 4, soak=60):
        struck(forks, log, "pwrite64", when, ("compile_graph", target, 1), *large)
        assert os.listdir(spill) == []
        assert whole(target) == old
    assert forks.run(*large).fine
    assert whole(target) == (tmp_path / "probe.gl").read_bytes()
    assert not temporaries(tmp_path)


@needs_strace
def test_a_writer_that_overwrites_in_place_is_caught(forks: Forks, tmp_path: Path) -> None:
    # The control: the same strikes on a writer without a temporary must leave something that is neither.
    target, source, log = tmp_path / "g.gl", tmp_path / "new.gl", tmp_path / "log"
    assert forks.run("compile_graph", source, 2).fine
    new = source.read_bytes()
    neither = 0
    for when in (1, 2, 5, 8):
        assert forks.run("compile_graph", target, 1).fine
        old = target.read_bytes()
        inject = f"pwrite64:signal=KILL:when={when}"
        assert traced(forks, log, "write_in_place", target, source, calls="pwrite64", inject=inject).outcome.killed
        try:
            neither += whole(target) not in (old, new)
        except gz.FormatError:
            neither += 1
    assert neither >= 3


def test_kills_at_random_moments(forks: Forks, tmp_path: Path) -> None:
    # Without a tracer: the timing of the strike is the machine's own.
    target = tmp_path / "g.gl"
    assert forks.run("compile_graph", target, 1).fine
    sound = {whole(target)}
    start = time.monotonic()
    assert forks.run("compile_graph", target, 2).fine
    length = time.monotonic() - start
    sound.add(whole(target))
    rounds = 200 if SOAK else 12
    for i in range(rounds):
        pid = forks.start("compile_graph", target, 1 + i % 2)
        os.kill(pid, signal.SIGCONT)
        time.sleep(length * i / rounds)
        os.kill(pid, signal.SIGKILL)
        forks.finish(pid)
        assert whole(target) in sound
    assert forks.run("compile_graph", target, 1).fine
    assert not temporaries(tmp_path)
