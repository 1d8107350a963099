"""A process that forks in the middle of an epoch: the child has none of the loader's threads to wait for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import PATIENCE

import graphzero as gz

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# The child's end is what is tested, and so is that of an interpreter which ends by itself: it needs one of its own.
PROGRAM = """
    import os, sys
    import graphzero as gz

    data = gz.Dataset(sys.argv[1])
    loader = gz.NeighborLoader(data.graph, data.features["x"], fanouts=[3, 3], batch_size=8, seed=1, memory="64MB")
    epoch = iter(loader)
    first = next(epoch)
    pid = os.fork()
    if pid == 0:
        {child}
        sys.exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert sum(1 for _ in epoch) + 1 == len(loader)  # the parent's epoch goes on
    sys.exit(status)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fork") / "data"
    gz.synthesize(path, nodes=2000, edges=10_000, dim=8, seed=0)
    return path


@pytest.mark.parametrize(
    "child",
    [
        "pass",
        "del epoch",
        "epoch.close()",
        "assert loader.stats().batches == 0",
        "loader.set_epoch(0); assert next(iter(loader)).n_id.tolist() == first.n_id.tolist()",
        "assert len(list(loader)) == len(loader)",
    ],
)
def test_a_forked_child_ends(folder, child):
    ran = _run(folder, child)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_parents_epoch_is_refused_in_the_child(folder):
    ran = _run(folder, "next(epoch)")
    assert ran.returncode == 1
    assert "ValueError: this iterator belongs to the parent process" in ran.stderr


def _run(folder: Path, child: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(PROGRAM).format(child=child)
    path = os.pathsep.join([str(Path(gz.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": path},
    )
