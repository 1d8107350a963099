"""The doctor's judgement: each figure that should alarm does, with what to do about it, and good ones do not."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from graphzero.machine import disk, facts
from graphzero.machine.doctor import advise, examine

GOOD: dict[str, Any] = {
    "processors": {"count": 8, "usable": 8, "quota": None, "model": "a CPU"},
    "memory": {"total": 32 << 30, "available": 16 << 30, "swap": 0, "cgroup_limit": None, "cgroup_used": None},
    "io_uring": {"works": True, "why": None},
    "limits": {"memlock": None, "open_files": 65536, "max_map_count": 65530},
    "disk": {
        "file_system": "ext4",
        "device": "nvme0n1",
        "in_ram": False,
        "remote": False,
        "readahead_bytes": 128 << 10,
        "o_direct": True,
        "random_1": 10_000.0,
        "random_256": 200_000.0,
    },
    "torch": {"version": "2", "threads": 8, "gpus": []},
}


def warnings(path: str, value: Any) -> list[tuple[str, str | None]]:
    report = copy.deepcopy(GOOD)
    part, _, name = path.partition(".")
    if name:
        report[part][name] = value
    else:
        report[part] = value
    return [(finding.text, finding.fix) for finding in advise(report) if finding.level == "warning"]


def test_a_good_machine_has_no_warnings() -> None:
    assert warnings("torch", GOOD["torch"]) == []
    words = " ".join(finding.text for finding in advise(GOOD))
    assert "200,000 per second" in words
    assert "256 reads in flight are 20 times as fast as one at a time" in words
    assert "io_uring works" in words


@pytest.mark.parametrize(
    ("path", "value", "text", "fix"),
    [
        ("disk.in_ram", True, "in RAM", None),
        ("disk.remote", True, "network or shared", "local SSD"),
        ("disk.random_256", 3000.0, "That is slow", "local SSD"),
        ("disk.random_256", 12_000.0, "Queue depth helps little", None),
        ("disk.readahead_bytes", 8 << 20, "Readahead is 8192 KiB", "/sys/block/nvme0n1/queue/read_ahead_kb"),
        ("disk.o_direct", False, "does not support O_DIRECT", "ext4"),
        ("io_uring", {"works": False, "why": "forbidden"}, "io_uring is not available (forbidden)", "seccomp"),
        ("limits.memlock", 64 << 10, "Locked memory is limited to 65.5 KB", "ulimit -l"),
        ("limits.open_files", 256, "Open files are limited to 256", "ulimit -n"),
        ("limits.max_map_count", 1000, "Maps are limited to 1,000", "vm.max_map_count"),
        ("memory.cgroup_limit", 4 << 30, "A cgroup limits this process to 4.29 GB", "memory='2.15 GB'"),
        ("processors.quota", 2.0, "A cgroup allows 2.0 of 8 processors", "num_threads=2"),
        ("torch", None, "torch is not installed", "graphzero[torch]"),
        ("torch.threads", 32, "torch runs 32 threads on 8 processors", "OMP_NUM_THREADS=8"),
    ],
)
def test_what_should_alarm_does(path: str, value: Any, text: str, fix: str | None) -> None:
    found = [(t, f) for t, f in warnings(path, value) if text in t]
    assert len(found) == 1
    assert fix is None or fix in (found[0][1] or "")


def test_a_low_lock_limit_does_not_matter_without_rings() -> None:
    report = copy.deepcopy(GOOD)
    report["limits"]["memlock"] = 1
    report["io_uring"] = {"works": False, "why": "old"}
    assert not any("Locked" in finding.text for finding in advise(report))


def test_the_scratch_file_is_bounded_and_gone(tmp_path: Path) -> None:
    with disk.scratch_file(str(tmp_path), 8 << 20, 10) as (path, size, rate):
        assert size == 8 << 20 == os.stat(path).st_size
        assert rate > 0
    with pytest.raises(ValueError), disk.scratch_file(str(tmp_path), 8 << 20, 10):
        raise ValueError
    assert os.listdir(tmp_path) == []


def test_too_little_room_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not enough free space"), disk.scratch_file(str(tmp_path), 1 << 20, 10):
        pass


@pytest.mark.parametrize("ring", [False, True])
def test_reads_are_measured_by_rings_and_by_threads(tmp_path: Path, ring: bool) -> None:
    if ring and not facts.io_uring()["works"]:
        pytest.skip("no io_uring here")
    with disk.scratch_file(str(tmp_path), 8 << 20, 10) as (path, _, _):
        found = disk.measure(path, ring, 0.02)
    assert {"sequential", "random_1", "random_256", "o_direct"} == set(found)
    assert min(found["sequential"], found["random_1"], found["random_256"]) > 0


def test_a_small_dataset_is_measured_by_a_scratch_file(tmp_path: Path) -> None:
    import graphzero as gz

    gz.synthesize(tmp_path / "toy", nodes=300, edges=2000, dim=4)
    report = examine(tmp_path / "toy", size="8MB", seconds=0.02)
    assert report["disk"]["measured"].startswith("a scratch file")
    assert report["dataset"]["batches"] == 1
    assert report["dataset"]["fits_in_ram"]
    assert 0 < report["dataset"]["rows_a_batch"] <= 300
