"""A small ext4 of its own in a file: a disk that can be full, fail, or lose power."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2  # what the kernel still held in memory, the journal included, is gone: a cut of the power


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")


class LoopDisk:
    """A mounted image. Metadata and data may reach the disk in any order, and only when asked: the worst case."""

    def __init__(self, image: Path, folder: Path, megabytes: int) -> None:
        """Make the file system and mount it."""
        self.image, self.folder = image, folder
        folder.mkdir()
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-m", "0", image)
        self.mount()

    def mount(self) -> None:
        """Mount it."""
        _run("mount", "-o", "loop,data=writeback,noauto_da_alloc,commit=300", self.image, self.folder)

    def unmount(self) -> None:
        """Unmount it; its pages leave the cache."""
        _run("umount", self.folder)

    def remount(self) -> None:
        """Come back after a reboot: the journal is replayed."""
        self.unmount()
        self.mount()

    def sync(self) -> None:
        """Everything so far is on the disk."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.sync()

    def cut_power(self) -> None:
        """From now on nothing reaches the disk. Call remount() to see what was there."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def lose_blocks_after(self, megabytes: int) -> None:
        """The disk fails: blocks past here give I/O errors."""
        os.truncate(self.image, megabytes << 20)


@contextmanager
def loop_disk(folder: Path, megabytes: int) -> Iterator[LoopDisk]:
    """Make a disk in `folder`, and take it apart afterwards."""
    disk = LoopDisk(folder / "disk.img", folder / "disk", megabytes)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk.folder)], capture_output=True, check=False)
        disk.image.unlink()


@functools.cache
def refusal() -> str:
    """Why there can be no loop disk here; '' when there can."""
    if os.geteuid() != 0:
        return "mounting a loop device needs root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    try:
        with tempfile.TemporaryDirectory() as folder, loop_disk(Path(folder), 16) as disk:
            disk.cut_power()
    except OSError as error:
        return f"no loop device with ext4 here: {error}"
    return ""


needs_loop_disk = pytest.mark.skipif(bool(refusal()), reason=refusal() or "loop disks work")
