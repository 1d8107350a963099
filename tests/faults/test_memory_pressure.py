"""Memory: a control group of 1.2 times the declared budget is enough, or the call raises; nobody is killed."""

from __future__ import annotations

import os
from pathlib import Path

import container_spec as spec
import numpy as np
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


# -- loading ---------------------------------------------------------------------------------------------------------

LOAD = """
import sys
import numpy as np
import torch
import graphzero as gz

torch.set_num_threads(1)
g, fs = gz.Graph(sys.argv[1]), gz.FeatureStore(sys.argv[2])
seeds = np.random.default_rng(0).integers(0, g.num_nodes, 30_000)
loader = gz.NeighborLoader(g, fs, fanouts=[8, 8], seeds=seeds, batch_size=1000, memory=sys.argv[3], num_threads=2)
nodes = 0
for batch in loader:
    assert batch.x.shape == (len(batch.n_id), 512)
    nodes += len(batch.n_id)
print(nodes)
"""

# The control: what one would do without an engine, all rows in RAM.
LOAD_ALL = """
import sys
import numpy as np
import graphzero as gz
fs = gz.FeatureStore(sys.argv[2])
rows = np.empty(fs.shape, fs.dtype)
for i in range(0, len(rows), 10_000):
    rows[i : i + 10_000] = 1  # what reading them there comes to
print(rows.sum())
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A graph, and 3 GB of rows that take no room on the disk."""
    folder = tmp_path_factory.mktemp("large")
    nodes = 1_500_000
    blocks = (np.random.default_rng(i).integers(0, nodes, (2, 500_000)) for i in range(12))
    gz.compile_graph(blocks, folder / "g.gl", num_nodes=nodes)
    header = spec.lay_out(spec.Header(spec.FEATURES, nodes, arrays=[spec.Entry("x", "float32", (nodes, 512))]))
    with (folder / "x.gd").open("wb") as file:
        file.write(spec.write_header(header))
        file.truncate(header.file_bytes)
    return folder / "g.gl", folder / "x.gd"


def test_a_loader_stays_within_its_budget(large: tuple[Path, Path]) -> None:
    pytest.importorskip("torch")
    budget = 1024 * MB  # of which a fifth more is there for Python and torch themselves
    with memory_group(int(1.2 * budget)) as group:
        ended = group.run(LOAD, *large, budget)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.oom_kills == 0
    assert int(ended.stdout) * 2048 > 1.2 * budget, "more rows went through than the group could hold"


def test_a_loader_whose_batches_cannot_fit_says_so(large: tuple[Path, Path]) -> None:
    pytest.importorskip("torch")
    with memory_group(1024 * MB) as group:
        ended = group.run(LOAD, *large, 8 * MB)
    assert ended.returncode == 1
    assert "BudgetError" in ended.stderr
    assert ended.oom_kills == 0


def test_loading_all_rows_into_memory_is_killed(large: tuple[Path, Path]) -> None:
    with memory_group(int(1.2 * 1024 * MB)) as group:
        ended = group.run(LOAD_ALL, *large)
    assert ended.returncode == -9
    assert ended.oom_kills >= 1
