"""Loaders in a control group of 1.3 times their budget: batches that grow far beyond the first ones kill nobody."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from memory_group import memory_group, needs_memory_group

import graphzero as gz

pytest.importorskip("torch")
SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
pytestmark = needs_memory_group
MB = 1 << 20
NODES = 100_000

BASE = """
import torch, numpy as np, graphzero as gz
print(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
"""

# A budget that is too small is told, and what the error asks for is enough.
LOAD = """
import sys
import torch, numpy as np, graphzero as gz
folder, name, memory, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), eval(sys.argv[4])
graph, store = gz.Graph(f"{folder}/{name}.gl"), gz.FeatureStore(f"{folder}/x.gd")
loader = gz.NeighborLoader(graph, store, seed=0, memory=memory, **options)
try:
    sizes = [batch.n_id.numel() for _ in range(2) for batch in loader]
except gz.BudgetError as error:
    print("refused", error.needed_bytes)
else:
    assert len(sizes) == 2 * len(loader)
    print("loaded", min(sizes), max(sizes))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graphs: one whose nodes, in order of time, have more and more neighbours, and one with hubs."""
    path = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(0)
    degree = np.maximum(1, 40 * (np.arange(NODES) / NODES) ** 8).astype(np.int64)
    src = np.repeat(np.arange(NODES), degree)
    grow = np.stack([src, rng.integers(0, NODES, src.size)])
    gz.compile_graph(grow, path / "grow.gl", num_nodes=NODES, direction="out")
    hubs = np.repeat(rng.choice(NODES, 20, replace=False), 20_000)
    edges = np.concatenate([rng.integers(0, NODES, 500_000), hubs]), rng.integers(0, NODES, 500_000 + hubs.size)
    gz.compile_graph(np.stack(edges), path / "hubs.gl", num_nodes=NODES, direction="out")
    gz.compile_features(rng.standard_normal((NODES, 64), dtype=np.float32), path / "x.gd")
    return path


@pytest.fixture(scope="module")
def base() -> int:
    """What the interpreter and its libraries take."""
    with memory_group(2048 * MB) as group:
        return int(group.run(BASE).stdout) << 10


@pytest.fixture(scope="module")
def anonymous() -> int:
    """What of it cannot be given up."""
    with memory_group(2048 * MB) as group:
        return int(group.run(BASE.replace("VmRSS", "RssAnon")).stdout) << 10


GROW = {"fanouts": [10, 10], "batch_size": 1024}
HUBS = {"fanouts": [5, -1], "batch_size": 256, "shuffle": True}
CASES = [("grow", GROW), ("hubs", HUBS | {"cache": "on"})]
if SOAK:
    CASES += [(name, how | {"cache": "on", "io": io}) for name, how in CASES for io in ("auto", "uring", "pread")]


@pytest.mark.parametrize("memory", [60, 100, 200] if SOAK else [60])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_batches_that_grow_stay_within_the_budget(
    folder: Path, base: int, name: str, options: dict[str, object], memory: int
) -> None:
    budget = memory * 1_000_000
    for _ in range(3):
        with memory_group(int(1.3 * budget) + base) as group:
            ended = group.run(LOAD, folder, name, budget, options)
        assert (ended.returncode, ended.oom_kills) == (0, 0), ended.stderr[-2000:]
        word, *numbers = ended.stdout.split()
        if word == "loaded":
            assert int(numbers[1]) > 5 * int(numbers[0]), "batches that did not grow prove nothing"
            return
        assert int(numbers[0]) > budget
        budget = int(numbers[0])
    raise AssertionError(f"{budget} bytes were not enough, though an error had asked for less")


def test_memory_is_found_in_a_small_group(folder: Path, base: int) -> None:
    """Where little is left, "auto" takes part of it, instead of leaving all of it to the model."""
    with memory_group(base + 120 * MB) as group:
        code = LOAD.replace("memory=memory", 'memory="auto"')
        ended = group.run(code, folder, "hubs", 0, {"fanouts": [5, 5], "batch_size": 256})
    assert (ended.returncode, ended.oom_kills) == (0, 0), ended.stderr[-2000:]
    assert ended.stdout.startswith("loaded")


# Each step takes 1.2 times its batch for a moment, as training does.
STEPS = """
import sys
import torch, numpy as np, graphzero as gz
graph, store = gz.Graph(f"{sys.argv[1]}/hubs.gl"), gz.FeatureStore(f"{sys.argv[1]}/x.gd")
loader = gz.NeighborLoader(graph, store, seed=0, memory="auto", fanouts=[10, 10], batch_size=1024)
try:
    for batch in loader:
        torch.ones(int(1.2 * (batch.x.nbytes + 2 * batch.edge_index.nbytes)), dtype=torch.uint8)
except gz.BudgetError as error:
    print("refused", error)
else:
    print("loaded")
"""


def test_a_group_without_room_for_a_step_is_refused(folder: Path, anonymous: int) -> None:
    """Batches that fit by themselves are not enough: the kernel would end the process in its first step."""
    words = []
    for room in (60, 90, 120, 240):
        with memory_group(anonymous + room * MB) as group:
            ended = group.run(STEPS, folder)
        assert (ended.returncode, ended.oom_kills) == (0, 0), ended.stderr[-2000:]
        words.append(ended.stdout.split()[0])
        if words[-1] == "refused":
            assert "for a training step" in ended.stdout
            assert "Raise the memory limit by" in ended.stdout
    assert words[0] == "refused"
    assert words[-1] == "loaded"


def test_a_group_without_room_for_the_first_sample_is_refused(folder: Path, anonymous: int) -> None:
    with memory_group(anonymous + 20 * MB) as group:
        ended = group.run(STEPS.replace("1024", "100_000"), folder)
    assert (ended.returncode, ended.oom_kills) == (0, 0), ended.stderr[-2000:]
    assert ended.stdout.startswith("refused")
    assert "sampling one batch needs more than" in ended.stdout


def test_a_group_that_cannot_hold_torch_is_told_by_the_command(folder: Path) -> None:
    with memory_group(150 * MB) as group:
        ended = group.run(
            "import sys; from graphzero.cli import main; sys.argv[0] = 'graphzero'; main()", "train", folder
        )
    assert (ended.returncode, ended.oom_kills) == (1, 0), ended.stderr[-2000:]
    assert "of memory is available, but torch" in ended.stderr
    assert "raise the memory limit by at least" in ended.stderr
