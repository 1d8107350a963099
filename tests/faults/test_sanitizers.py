"""The C++ tests under the address and the thread sanitizer, and that each would tell: what `make sanitize` runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"
pytestmark = pytest.mark.skipif(
    not os.environ.get("GRAPHZERO_SANITIZERS"), reason="takes minutes of building and running: make sanitize"
)
# Forking with threads is what some of the tests are about.
ENVIRONMENT = {**os.environ, "TSAN_OPTIONS": "die_after_fork=0 halt_on_error=0 exitcode=66"}

RACE = """
#include <thread>
int shared = 0;
int main() {
  std::thread other([] { for (int i = 0; i < 100000; ++i) ++shared; });
  for (int i = 0; i < 100000; ++i) ++shared;
  other.join();
  return shared == 0;
}
"""
OVERFLOW = """
#include <vector>
int main(int argc, char**) {
  std::vector<int> v(4);
  return v.data()[argc + 3];
}
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, env=ENVIRONMENT)


@pytest.mark.parametrize("folder", ["sanitize", "tsan"])
def test_the_core_is_clean(folder: str) -> None:
    done = run(BUILD / folder / "core_tests")
    assert "WARNING: ThreadSanitizer" not in done.stderr, done.stderr[:8000]
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[:8000])


@pytest.mark.parametrize(("flag", "source", "told"), [("thread", RACE, "data race"), ("address", OVERFLOW, "overflow")])
def test_the_sanitizers_do_tell(tmp_path: Path, flag: str, source: str, told: str) -> None:
    compiler = shutil.which("c++")
    assert compiler is not None
    (tmp_path / "a.cpp").write_text(source)
    built = run(compiler, "-O1", "-g", f"-fsanitize={flag}", tmp_path / "a.cpp", "-o", tmp_path / "a", "-pthread")
    assert built.returncode == 0, built.stderr
    done = run(tmp_path / "a")
    assert done.returncode != 0
    assert told in done.stderr
