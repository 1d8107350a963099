"""The examples run as they stand and learn something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["sage_02_style.py", "sage_loader.py"])
def test_it_runs_and_learns(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / name), str(tmp_path / "data"), "--nodes", "4000", "--epochs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"test accuracy: ([\d.]+)%", done.stdout)
    assert accuracy is not None
    assert float(accuracy[1]) > 50  # eight classes


def test_each_is_short() -> None:
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 90, path.name
