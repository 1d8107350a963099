"""The loader short of memory: whatever it throws away and makes again, batches are those of a plain one."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz
from graphzero import _core

torch = pytest.importorskip("torch")
SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
NODES = 20_000
SEEDS = np.arange(0, NODES, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nodes in order of time: late ones have 40 times the neighbours of early ones. Rows of several widths."""
    path = tmp_path_factory.mktemp("budget")
    rng = np.random.default_rng(0)
    degree = np.maximum(1, 40 * (np.arange(NODES) / NODES) ** 4).astype(np.int64)
    src = np.repeat(np.arange(NODES), degree)
    gz.compile_graph(
        np.stack([src, rng.integers(0, NODES, src.size)]),
        path / "g.gl",
        num_nodes=NODES,
        direction="out",
        edge_ids=True,
    )
    gz.compile_features(rng.standard_normal((NODES, 250), dtype=np.float32), path / "x.gd")
    gz.compile_features(rng.standard_normal((NODES, 300), dtype=np.float32), path / "half.gd", dtype="bfloat16")
    gz.compile_features(rng.standard_normal((NODES, 1100), dtype=np.float32), path / "wide.gd", dtype="int8")
    gz.compile_features(rng.integers(0, 9, NODES), path / "label.gd")
    gz.compile_features(rng.standard_normal((src.size, 50), dtype=np.float32), path / "e.gd")
    return path


def make(folder: Path, names: tuple[str, ...] = ("x",), **options: Any) -> gz.NeighborLoader:
    stores = {name: gz.FeatureStore(folder / f"{name}.gd") for name in names if name != "e"}
    edges = {"e": gz.FeatureStore(folder / "e.gd")} if "e" in names else None
    options = {"fanouts": [5, 3], "seeds": SEEDS, "batch_size": 64, "seed": 1, "num_threads": 2} | options
    return gz.NeighborLoader(gz.Graph(folder / "g.gl"), stores, edge_features=edges, **options)


def tensors(batch: Any, names: tuple[str, ...]) -> list[Any]:
    found = [getattr(batch, name) for name in (*names, "n_id", "e_id", "edge_index", "input_id")]
    return [t.view(torch.int16) if t.dtype == torch.bfloat16 else t for t in found]


def check(batch: Any, expected: list[Any], names: tuple[str, ...]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(tensors(batch, names), expected, strict=True))


def plain(folder: Path, names: tuple[str, ...] = ("x",), **options: Any) -> list[list[Any]]:
    loader = make(folder, names, memory="1GB", io="mmap", cache="off", **options)
    return [tensors(batch, names) for batch in loader]


WINDOWS = [
    {},
    {"memory": {1: "100MB", 4: "165MB"}, "io": "pread", "prefetch": 1000, "num_threads": 8},
    {"memory": {1: "35MB", 4: "100MB"}, "io": "uring", "prefetch": 1, "num_threads": 1},
    {"shuffle": True, "drop_last": True, "rank": 1, "world_size": 2},
    {"batch_size": 1, "seeds": np.arange(NODES - 100, NODES)},
]


@pytest.mark.parametrize("options", WINDOWS)
@pytest.mark.parametrize("names", [("x",), ("half", "wide", "label", "e")])
def test_windows_deliver_what_a_plain_loader_does(
    folder: Path, options: dict[str, Any], names: tuple[str, ...]
) -> None:
    how = ("memory", "io", "prefetch", "num_threads")
    expected = plain(folder, names, **{name: value for name, value in options.items() if name not in how})
    memory = options.get("memory", {1: "42MB", 4: "110MB"})[len(names)]
    loader = make(folder, names, cache="on", **options | {"memory": memory})
    for _ in range(2):
        loader.set_epoch(0)
        count = 0
        for batch, wanted in zip(loader, expected, strict=True):
            check(batch, wanted, names)
            count += 1
        assert count == len(expected)
    ways = loader.stats().plan["ways"]
    small = {"label", "half", "e"}  # a copy of all their rows may take less than the buffers of a sweep
    assert {way for name, way in ways.items() if name not in small or way != "whole"} == {"window"}


@pytest.mark.parametrize("memory", ["1MB", "3MB", "5MB"])
def test_a_budget_error_asks_for_enough(folder: Path, memory: Any) -> None:
    expected = plain(folder)
    for _ in range(4):  # each one knows more of the epoch than the one before
        try:
            loader = make(folder, memory=memory)
            for batch, wanted in zip(loader, expected, strict=True):
                check(batch, wanted, ("x",))
            return
        except gz.BudgetError as error:
            memory = error.needed_bytes
    raise AssertionError(f"not even {memory} bytes were enough")


PATTERNS = ["01" * 200, "0011" * 100, "0" * 200 + "1" * 200, "01" * 5 + "1" * 200 + "0" * 200]


@pytest.mark.parametrize(("pattern", "cache"), list(product(PATTERNS, ["off", "on"])))
def test_two_iterators_share_a_small_budget(folder: Path, pattern: str, cache: str) -> None:
    expected = plain(folder)
    loader = make(folder, memory="42MB", cache=cache)
    iterators = []
    for _ in range(2):
        loader.set_epoch(0)
        iterators.append(iter(loader))
    at = [0, 0]
    for which in map(int, pattern):
        batch = next(iterators[which], None)
        if batch is not None:
            check(batch, expected[at[which]], ("x",))
            at[which] += 1
    assert at == [len(expected)] * 2


def test_all_batches_may_be_kept(folder: Path) -> None:
    expected = plain(folder)
    loader = make(folder, memory="10MB")
    kept = []
    for _ in range(3):
        loader.set_epoch(0)
        kept.append(list(loader))
    for batches in kept:
        for batch, wanted in zip(batches, expected, strict=True):
            check(batch, wanted, ("x",))


@pytest.mark.parametrize("cache", ["off", "on"])
def test_epochs_that_are_left_early_leave_nothing(folder: Path, cache: str) -> None:
    gc.collect()
    before = _core.bytes_held()
    loader = make(folder, memory="42MB", cache=cache)
    for i in range(100 if SOAK else 30):
        for n, batch in enumerate(loader):
            assert batch.x.shape[0] == batch.n_id.shape[0]
            if n == i % 4:
                break
        del batch
    del loader
    gc.collect()
    after = _core.bytes_held()
    assert all(after[purpose] <= before[purpose] for purpose in ("batches", "tables", "cache"))


@pytest.mark.parametrize("io", ["auto", "pread"])
def test_a_file_that_is_cut_under_a_window_raises_and_can_be_restored(folder: Path, tmp_path: Path, io: str) -> None:
    expected = plain(folder)
    for name in ("g.gl", "x.gd"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    loader = make(tmp_path, memory="42MB", cache="on", io=io)
    whole = (tmp_path / "x.gd").read_bytes()
    next(iter(loader))
    os.truncate(tmp_path / "x.gd", len(whole) // 8)
    loader.set_epoch(0)
    with pytest.raises((gz.StorageError, OSError)):
        list(loader)
    with (tmp_path / "x.gd").open("r+b") as file:
        file.write(whole)
    loader.set_epoch(0)
    try:
        batches = list(loader)
    except (gz.StorageError, OSError):  # pages of the mapping that failed stay marked: a new mount reads them
        batches = list(make(tmp_path, memory="42MB", cache="on", io=io))
    for batch, wanted in zip(batches, expected, strict=True):
        check(batch, wanted, ("x",))


SHORT = """
import resource, sys
from pathlib import Path
import test_loader_budget as budget
folder = Path(sys.argv[1])
expected = budget.plain(folder)
loader = budget.make(folder, memory="42MB", cache="on")
next(iter(loader))
resource.setrlimit(getattr(resource, sys.argv[2]), (int(sys.argv[3]),) * 2)
budget._core.drop_idle_readers()
for _ in range(2):
    loader.set_epoch(0)
    for batch, wanted in zip(loader, expected, strict=True):
        budget.check(batch, wanted, ("x",))
print("done")
"""


@pytest.mark.parametrize(("limit", "value"), [("RLIMIT_NOFILE", 3), ("RLIMIT_MEMLOCK", 0)])
def test_a_shortage_after_the_first_use_changes_nothing(folder: Path, limit: str, value: int) -> None:
    assert hasattr(resource, limit)
    root = Path(__file__).parents[2]
    folders = [root, root / "tests" / "load", root / "tests" / "oracles"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHORT), str(folder), limit, str(value)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
    )
    assert done.stdout == "done\n", done.stderr[-2000:]
