"""A disk of a chosen speed, made of RAM: runs a program on a disk that this machine does not have.

    python benchmarks/virtual_disk.py FOLDER [--bytes 3.5GB] [--reads 200000] -- COMMAND ... {} ...
    python benchmarks/virtual_disk.py ooc -- python benchmarks/outofcore.py {} --only training,reads,before

A file in tmpfs becomes a disk (a loop device with ext4), FOLDER is copied to it, and COMMAND runs with its path in
place of {}, in a control group with a limit on bytes and reads per second. Needs root, and RAM for the copy in addition
to that of COMMAND. This machine's processors do the work of a real disk (a copy of every byte), so a program that needs
them looks slower than it would be.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import measure

from graphzero.args.sizes import parse_size
from graphzero.machine.memory_limit import in_group

GROUPS = Path("/sys/fs/cgroup")
SPARE = 1.03  # of the files: what ext4 keeps for itself


def output(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"virtual_disk: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def mounted(size: int) -> Iterator[tuple[Path, str]]:
    """A folder on a new disk in RAM, and the disk's device."""
    with contextlib.ExitStack() as after:
        image = Path(tempfile.mkstemp(prefix="graphzero-disk-", dir="/dev/shm")[1])
        after.callback(image.unlink)
        os.truncate(image, size)
        device = output("losetup", "--find", "--show", str(image))
        after.callback(output, "losetup", "--detach", device)
        output("mkfs.ext4", "-q", "-m", "0", device)
        folder = Path(after.enter_context(tempfile.TemporaryDirectory(prefix="graphzero-disk-")))
        output("mount", device, str(folder))
        after.callback(output, "umount", str(folder))
        yield folder, device


@contextlib.contextmanager
def throttled(device: str, bytes_per_second: int, reads_per_second: int) -> Iterator[Path]:
    """A control group whose processes read no faster from the device; its folder."""
    number = os.stat(device).st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    version1 = (GROUPS / "blkio").is_dir()
    if not version1:
        with contextlib.suppress(OSError):
            (GROUPS / "cgroup.subtree_control").write_text("+io")
    group = (GROUPS / "blkio" if version1 else GROUPS) / f"graphzero-disk-{os.getpid()}"
    group.mkdir()
    try:
        if version1:
            (group / "blkio.throttle.read_bps_device").write_text(f"{name} {bytes_per_second}")
            (group / "blkio.throttle.read_iops_device").write_text(f"{name} {reads_per_second}")
        else:
            (group / "io.max").write_text(f"{name} rbps={bytes_per_second} riops={reads_per_second}")
        yield group
    finally:
        group.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", default="3.5GB", help="bytes per second")
    parser.add_argument("--reads", type=int, default=200_000, help="reads per second")
    parser.add_argument("command", nargs="+", help="{} is replaced by the copy of FOLDER")
    args = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("virtual_disk: run as root: it makes a disk and a control group")
    files = [path for path in args.folder.rglob("*") if path.is_file()]
    if not files:
        raise SystemExit(f"virtual_disk: {args.folder}: found no files to copy")
    size = int(sum(path.stat().st_size for path in files) * SPARE) + (64 << 20)
    with mounted(size) as (folder, device), throttled(device, parse_size(args.bytes), args.reads) as group:
        copy = folder / args.folder.name
        output("cp", "-r", str(args.folder), str(copy))
        os.sync()
        measure.drop_caches()
        command = [word.replace("{}", str(copy)) for word in args.command]
        code = subprocess.run(in_group(group, command), check=False).returncode
    raise SystemExit(code)


if __name__ == "__main__":
    main()
