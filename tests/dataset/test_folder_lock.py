"""A folder is abandoned when the process that locked it is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphzero.dataset.folder_lock import FolderLock, is_abandoned

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

HOLD = """
import sys
from graphzero.dataset.folder_lock import FolderLock
held = FolderLock(sys.argv[1]); print(flush=True); sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["", "lock"])
def test_a_lock_goes_with_its_process(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert not is_abandoned(path)
        with pytest.raises(BlockingIOError):
            FolderLock(path)
        other.kill()
    assert is_abandoned(path)
    with FolderLock(path) as lock:
        assert lock.held
    assert not lock.held
    assert not is_abandoned(str(tmp_path / "nowhere" / "lock"))
