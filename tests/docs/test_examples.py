"""The examples run as they stand and learn something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.parametrize(("name", "launcher"), [("sage_02_style.py", []), ("sage_loader.py", []), ("ddp.py", TORCHRUN)])
def test_it_runs_and_learns(name: str, launcher: list[str], tmp_path: Path) -> None:
    arguments = [str(EXAMPLES / name), str(tmp_path / "data"), "--nodes", "4000", "--epochs", "2"]
    command = [sys.executable, *launcher, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES.parent, timeout=1200)
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"test accuracy: ([\d.]+)%", done.stdout)
    assert accuracy is not None
    assert float(accuracy[1]) > 50  # eight classes


def test_each_is_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 90, path.name
