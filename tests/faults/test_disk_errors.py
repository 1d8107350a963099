"""A disk that is full, fails, or answers late or in part: a typed error, nothing published, nothing leaked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks, Outcome
from loop_disk import loop_disk, needs_loop_disk
from tracing import WRITING, needs_strace, traced

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
HINTS = {"sync_file_range"}  # whose failure costs nothing but time


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as server:
        yield server


def hidden(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".")]


def leaked(outcome: Outcome) -> int:
    return outcome.fds[1] - outcome.fds[0]


@needs_strace
@pytest.mark.parametrize("errno", ["ENOSPC", "EIO"])
@pytest.mark.parametrize(("job", "name"), [("compile_graph", "g.gl"), ("compile_features", "x.gd")])
def test_a_refused_call_is_a_storage_error_and_publishes_nothing(
    forks: Forks, tmp_path: Path, job: str, name: str, errno: str
) -> None:
    target, log = tmp_path / name, tmp_path / "log"
    assert forks.run(job, target, 1).fine
    old = target.read_bytes()
    counts = traced(forks, log, job, tmp_path / f"probe-{name}", 2, calls=",".join(WRITING)).counts()
    for call in WRITING:
        places = range(1, counts[call] + 1) if SOAK else {1, counts[call]} - {0}
        for when in places:
            inject = f"{call}:error={errno}:when={when}"
            outcome = traced(forks, log, job, target, 2, calls=call, inject=inject).outcome
            assert leaked(outcome) == 0, inject
            if call in HINTS:
                assert outcome.fine, (inject, outcome)
                assert forks.run(job, target, 1).fine
            else:
                assert outcome.error == "StorageError", (inject, outcome)
                assert name in outcome.message or str(tmp_path) in outcome.message
                if (call, when) != (
                    "fsync",
                    2,
                ):  # the folder's: the new file is in place, and that is all that is known
                    assert target.read_bytes() == old, inject
                else:
                    assert forks.run(job, target, 1).fine
            assert not hidden(tmp_path), inject


@needs_strace
@pytest.mark.parametrize("call", ["pwrite64", "fsync", "ftruncate", "fallocate", "pread64"])
def test_an_interrupted_call_is_made_again(forks: Forks, tmp_path: Path, call: str) -> None:
    first, second = tmp_path / "a.gl", tmp_path / "b.gl"
    assert forks.run("compile_graph", first, 1).fine
    inject = f"{call}:error=EINTR:when=1..3"
    assert traced(forks, tmp_path / "log", "compile_graph", second, 1, calls=call, inject=inject).outcome.fine
    assert first.read_bytes() == second.read_bytes()


@needs_strace
def test_a_file_system_without_reservation_will_do(forks: Forks, tmp_path: Path) -> None:
    inject = "fallocate:error=EOPNOTSUPP"
    outcome = traced(forks, tmp_path / "log", "compile_graph", tmp_path / "g.gl", 1, calls="fallocate", inject=inject)
    assert outcome.outcome.fine
    gz.verify(tmp_path / "g.gl")


@needs_strace
def test_a_write_that_takes_nothing_is_an_error_not_a_loop(forks: Forks, tmp_path: Path) -> None:
    inject = "pwrite64:retval=0"
    outcome = traced(forks, tmp_path / "log", "compile_graph", tmp_path / "g.gl", 1, calls="pwrite64", inject=inject)
    assert outcome.outcome.error == "StorageError"
    assert hidden(tmp_path) == []


@needs_strace
def test_a_leak_and_a_torn_file_would_be_noticed(forks: Forks, tmp_path: Path) -> None:
    # The controls: a job that leaks is counted, and a writer in place that meets an error tears the file.
    target, source, log = tmp_path / "g.gl", tmp_path / "new.gl", tmp_path / "log"
    assert forks.run("compile_graph", source, 2).fine
    assert leaked(forks.run("publish_and_leak", target, source)) == 1
    assert forks.run("compile_graph", target, 1).fine
    old = target.read_bytes()
    inject = "pwrite64:error=ENOSPC:when=3"
    torn = traced(forks, log, "write_in_place", target, source, calls="pwrite64", inject=inject).outcome
    assert torn.error == "OSError"
    assert target.read_bytes() not in (old, source.read_bytes())


# -- transfers in part -----------------------------------------------------------------------------------------------

SHORT_TRANSFERS = r"""
// Every read and write is cut to at most 1000 bytes, and every third is interrupted.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
static _Atomic unsigned calls;
typedef ssize_t (*transfer)(int, const void*, size_t, off_t);
static ssize_t cut(const char* name, int fd, const void* data, size_t size, off_t at) {
  transfer real = (transfer)dlsym(RTLD_NEXT, name);
  if (++calls % 3 == 0) { errno = EINTR; return -1; }
  return real(fd, data, size > 1000 ? 1000 : size, at);
}
ssize_t pread(int fd, void* data, size_t size, off_t at) { return cut("pread", fd, data, size, at); }
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) { return cut("pwrite", fd, data, size, at); }
ssize_t pread64(int fd, void* data, size_t size, off_t at) { return cut("pread64", fd, data, size, at); }
ssize_t pwrite64(int fd, const void* data, size_t size, off_t at) { return cut("pwrite64", fd, data, size, at); }
"""


@pytest.fixture(scope="module")
def short_transfers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make the library that cuts transfers short")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "short.c").write_text(SHORT_TRANSFERS)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "short.so", folder / "short.c", "-ldl"], check=True)
    return folder / "short.so"


def test_transfers_in_part_are_finished(forks: Forks, short_transfers: Path, tmp_path: Path) -> None:
    for job, name in (("compile_graph", "g.gl"), ("compile_features", "x.gd")):
        assert forks.run(job, tmp_path / name, 1).fine
    with Forks({"LD_PRELOAD": str(short_transfers)}) as cut:
        for job, name in (("compile_graph", "g.gl"), ("compile_features", "x.gd")):
            assert cut.run(job, tmp_path / f"short-{name}", 1).fine
            assert (tmp_path / f"short-{name}").read_bytes() == (tmp_path / name).read_bytes()
        assert cut.run("read_everything", tmp_path / "g.gl", tmp_path / "x.gd").fine
        # The control: code that takes the first answer for the whole is wrong under this library.
        assert cut.run("read_once", tmp_path / "x.gd").error == "AssertionError"


# -- a disk that is really full --------------------------------------------------------------------------------------


@needs_loop_disk
def test_a_full_disk_is_told_before_or_during_the_work(forks: Forks, tmp_path: Path) -> None:
    with loop_disk(tmp_path, 16) as disk:
        target = disk.folder / "g.gl"
        assert forks.run("compile_graph", target, 1).fine
        old = target.read_bytes()
        free = shutil.disk_usage(disk.folder).free
        (disk.folder / "filler").write_bytes(bytes(free - 65536))
        outcome = forks.run("compile_graph", target, 2)
        assert outcome.error == "StorageError"
        assert "bytes" in outcome.message
        assert leaked(outcome) == 0
        assert target.read_bytes() == old
        assert hidden(disk.folder) == []


@needs_loop_disk
def test_a_spill_folder_that_fills_up_is_told(forks: Forks, tmp_path: Path) -> None:
    with loop_disk(tmp_path, 12) as disk:
        target = tmp_path / "g.gl"
        outcome = forks.run("compile_large", target, "16MB", disk.folder)
        assert outcome.error == "StorageError", outcome
        assert leaked(outcome) == 0
        assert not target.exists()
        assert hidden(tmp_path) == []
        assert set(os.listdir(disk.folder)) == {"lost+found"}
