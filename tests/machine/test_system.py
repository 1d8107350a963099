"""What the machine and its control groups allow, read from made-up /proc and /sys trees."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from graphzero import _core

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and /sys are Linux's")

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
V1_GROUPS = "9:cpu,cpuacct:/a/b\n5:memory:/a/b\n1:name=systemd:/a\n0::/a\n"
MEMORY, CPU = "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct"


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def v2(groups: str, folders: dict[str, dict[str, str]], mountinfo: str = V2) -> dict[str, str]:
    files = {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mountinfo}
    return files | {f"/sys/fs/cgroup{f}/{name}": text for f, of in folders.items() for name, text in of.items()}


def v1(folders: dict[str, str], groups: str = V1_GROUPS, mountinfo: str = V1) -> dict[str, str]:
    return {"/proc/self/cgroup": groups, "/proc/self/mountinfo": mountinfo} | folders


def used(limit: str, current: int = 100, file: int = 0) -> dict[str, str]:
    return {"memory.max": limit, "memory.current": f"{current}\n", "memory.stat": f"anon 1\nfile {file}\n"}


SHOWN = V2.replace("0:26 / /sys", "0:26 /docker/1 /sys")  # a bind mount of one group, without a namespace

CASES = {
    "none": (v2("0::/a/b\n", {"/a/b": used("max")}), None),
    "above": (v2("0::/a/b\n", {"/a/b": used("max"), "/a": used("5000")}), 5000),
    "tightest": (v2("0::/a/b\n", {"/a/b": used("7000"), "/a": used("9000")}), 7000),
    "own namespace": (v2("0::/\n", {"": used("6000")}), 6000),
    "outside the namespace": (v2("0::/../other\n", {"": used("6000")}), 6000),
    "one group shown": (v2("0::/docker/1\n", {"": used("6000")}, SHOWN), 6000),
    "another group shown": (v2("0::/docker/12\n", {"": used("6000")}, SHOWN), 6000),
    "the machine's root": (v2("0::/\n", {}), None),
    "version 1": (v1({f"{MEMORY}/a/{n}": "4000" for n in ("memory.limit_in_bytes", "memory.usage_in_bytes")}), 4000),
    "version 1 in a container": (
        v1({f"{MEMORY}/memory.limit_in_bytes": "6000", f"{MEMORY}/memory.usage_in_bytes": "1"}),
        6000,
    ),
    "version 1 unlimited": (
        v1({f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712", f"{MEMORY}/memory.usage_in_bytes": "1"}),
        None,
    ),
    "no cgroups": ({}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_limits(name: str, tmp_path: Path) -> None:
    files, limit = CASES[name]
    assert _core.system_memory(tree(tmp_path, files))["cgroup_limit"] == limit


def test_what_a_group_above_holds_counts(tmp_path: Path) -> None:
    groups = {"/a/b": used("8000", 1000, 900), "/a": used("9000", 8500, 1500)}
    root = tree(tmp_path, v2("0::/a/b\n", groups) | {"/proc/meminfo": "MemTotal: 90 kB\nMemAvailable: 80 kB\n"})
    found = _core.system_memory(root)
    assert (found["cgroup_path"], found["cgroup_used"], found["cgroup_cached"]) == ("/a/b", 1000, 900)
    assert (found["cgroup_limit"], found["total_bytes"]) == (8000, 90 * 1024)
    assert _core.available_memory(root) == 9000 - (8500 - 1500)  # not 8000 - (1000 - 900)


def test_the_root_group_of_version_1_is_the_machine(tmp_path: Path) -> None:
    files = {f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712", f"{MEMORY}/memory.usage_in_bytes": "12345"}
    assert _core.system_memory(tree(tmp_path, v1(files)))["cgroup_version"] == 0


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        (v2("0::/\n", {"": {"cpu.max": "150000 100000\n"}}), 1.5),
        (v2("0::/a/b\n", {"/a/b": {"cpu.max": "max 100000\n"}, "/a": {"cpu.max": "200000 100000\n"}}), 2.0),
        (v2("0::/a/b\n", {"/a/b": {"cpu.max": "max 100000\n"}}), None),
        (v1({f"{CPU}/a/b/cpu.cfs_quota_us": "50000", f"{CPU}/a/b/cpu.cfs_period_us": "100000"}), 0.5),
        (v1({f"{CPU}/a/cpu.cfs_quota_us": "-1\n", f"{CPU}/a/cpu.cfs_period_us": "100000\n"}), None),
        ({}, None),
    ],
    ids=["namespace", "nested", "unlimited", "version 1", "version 1 unlimited", "no cgroups"],
)
def test_cpu_quota(files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert _core.cpu_quota(tree(tmp_path, files)) == quota


def test_groups_are_named_from_the_process_up(tmp_path: Path) -> None:
    root = tree(tmp_path, v1({}))
    assert _core.control_group("memory", root) == (1, f"{root}{MEMORY}", ["/a/b", "/a", ""])
    assert _core.control_group("io", root) == (2, f"{root}/sys/fs/cgroup/unified", ["/a", ""])
    assert _core.control_group("memory", str(tmp_path / "nothing")) is None


def test_a_partition_is_on_its_disk(tmp_path: Path) -> None:
    disk = "/sys/devices/nvme0n1"
    root = tree(
        tmp_path,
        {
            "/proc/self/mountinfo": "25 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n",
            f"{disk}/queue/rotational": "0\n",
            f"{disk}/nvme0n1p2/partition": "2\n",
            "/sys/class/bdi/259:2/read_ahead_kb": "128\n",
        },
    )
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    os.symlink("../../devices/nvme0n1/nvme0n1p2", tmp_path / "sys/dev/block/259:2")
    found = {"file_system": "ext4", "device": "nvme0n1", "rotational": False, "readahead_bytes": 128 << 10}
    assert _core.disk_info(259, 2, root) == found
    nothing = {"file_system": None, "device": None, "rotational": None, "readahead_bytes": None}
    assert _core.disk_info(8, 0, root) == nothing
