"""Memory: a control group of 1.2 times the declared budget is enough, or the call raises; nobody is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from memory_group import memory_group, needs_memory_group

import graphzero as gz

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
pytestmark = needs_memory_group
MB = 1 << 20

# Edges in blocks, made as they are asked for: the source itself takes next to nothing.
BLOCKS = """
import sys
import numpy as np
import graphzero as gz

def blocks(count, nodes=2_000_000):
    for i in range(count):
        yield np.random.default_rng(i).integers(0, nodes, (2, 500_000))
"""

COMPILE = (
    BLOCKS
    + """
report = gz.compile_graph(blocks(50), sys.argv[1], memory=sys.argv[2], direction=sys.argv[3])
print(report.edges, report.spilled_bytes, report.peak_memory)
"""
)

# The control: the same edges, sorted in RAM as one would without an engine.
SORT = (
    BLOCKS
    + """
edges = np.concatenate(list(blocks(50)), axis=1)
print(np.lexsort(edges)[:3])
"""
)


@pytest.mark.parametrize("direction", ["out", "in", "both"] if SOAK else ["both"])
def test_a_compile_stays_within_its_budget(tmp_path: Path, direction: str) -> None:
    budget = 256 * MB
    with memory_group(int(1.2 * budget)) as group:
        ended = group.run(COMPILE, tmp_path / "g.gl", budget, direction)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.oom_kills == 0
    edges, spilled, peak = map(int, ended.stdout.split())
    assert (edges, peak <= budget) == (25_000_000, True)
    assert spilled > 0, "the graph was large enough to matter"
    gz.verify(tmp_path / "g.gl")


def test_sorting_the_same_edges_in_memory_is_killed() -> None:
    # The control: the group does kill what takes too much.
    with memory_group(int(1.2 * 256 * MB)) as group:
        ended = group.run(SORT)
    assert ended.returncode == -9
    assert ended.oom_kills >= 1


def test_a_budget_that_cannot_do_says_so(tmp_path: Path) -> None:
    with memory_group(256 * MB) as group:
        ended = group.run(COMPILE, tmp_path / "g.gl", 1000, "out")
    assert ended.returncode == 1
    assert "BudgetError" in ended.stderr
    assert ended.oom_kills == 0
    assert list(tmp_path.iterdir()) == []
