"""Arbitrary bytes: the mutating fuzzer, under the sanitizers, for a bounded time; and that it sees what it is for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FUZZER = Path(__file__).resolve().parents[2] / "build" / "sanitize" / "fuzz_mutate"
SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
pytestmark = pytest.mark.skipif(not FUZZER.exists(), reason="the fuzzer is not built: make fuzz-build")


def fuzz(*arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    command = [FUZZER, "--seconds", str(seconds), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10 * seconds + 120)


def test_arbitrary_bytes_give_a_result_or_a_typed_error() -> None:
    run = fuzz("--seed", "2", seconds=600 if SOAK else 8)
    assert run.returncode == 0, run.stderr[-4000:]
    assert "files=" in run.stdout


def test_a_kernel_that_trusts_the_file_is_caught() -> None:
    run = fuzz("--control", seconds=20)
    assert run.returncode != 0
    assert "AddressSanitizer" in run.stderr
    assert "read_unchecked" in run.stderr
