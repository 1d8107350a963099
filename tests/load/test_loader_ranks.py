"""Loaders over several ranks: together they deliver exactly the epoch of one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz

torch = pytest.importorskip("torch")

NODES = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(3)
    gz.compile_graph(rng.integers(0, NODES, (2, 8000)), where / "g.gl", num_nodes=NODES)
    gz.compile_features(rng.standard_normal((NODES, 4), dtype=np.float32), where / "x.gd")
    return where


def make(folder, **options):
    settings = {"fanouts": [4, 3], "batch_size": 64, "shuffle": True, "seed": 9, "memory": "100MB", "num_threads": 2}
    g, x = gz.Graph(folder / "g.gl"), gz.FeatureStore(folder / "x.gd")
    return gz.NeighborLoader(g, x, **(settings | options))


def contents(loader):
    """Each batch as something that compares: every array's bytes."""
    return [tuple((k, v.numpy().tobytes() if torch.is_tensor(v) else str(v)) for k, v in b) for b in loader]


def dealt(folder, world, **options):
    """The batches of all ranks, taken in turns, and how many each rank has."""
    ranks = [make(folder, rank=rank, world_size=world, **options) for rank in range(world)]
    found = [contents(loader) for loader in ranks]
    assert [len(batches) for batches in found] == [len(loader) for loader in ranks]
    longest = max(map(len, found))
    return [found[r][i] for i in range(longest) for r in range(world) if i < len(found[r])], [*map(len, found)]


@pytest.mark.parametrize("world", [1, 2, 3, 5, 16, 19])
def test_ranks_together_are_the_single_process_epoch(folder, world):
    whole = contents(make(folder))  # 16 batches, the last one short
    kept, counts = dealt(folder, world, uneven="keep")
    assert kept == whole
    assert max(counts) - min(counts) <= 1
    padded, counts = dealt(folder, world)
    assert padded == whole + whole[: len(padded) - len(whole)]
    assert len(set(counts)) == 1
    cut, counts = dealt(folder, world, uneven="drop")
    assert cut == whole[: 16 // world * world]
    assert len(set(counts)) == 1


def test_a_run_goes_on_with_another_number_of_ranks(folder):
    loader = make(folder)
    loader.set_epoch(4)
    whole = contents(loader)
    three = [make(folder, rank=rank, world_size=3) for rank in range(3)]
    for rank in three:
        rank.set_epoch(4)
    begun = [contents(rank)[:2] for rank in three]
    done = [begun[r][i] for i in range(2) for r in range(3)]
    alone = make(folder)
    alone.set_epoch(4, first_batch=len(done))
    assert len(alone) == 10
    assert done + contents(alone) == whole
    assert alone.epoch == 5
    assert len(alone) == 16  # of the next epoch


def test_bad_ranks_are_told(folder):
    for options, message in [
        ({"rank": 1}, "without world_size"),
        ({"world_size": 2}, "without rank"),
        ({"rank": 2, "world_size": 2}, "less than world_size = 2"),
        ({"rank": -1, "world_size": 2}, "rank is -1"),
        ({"rank": 0, "world_size": 0}, "world_size is 0"),
        ({"uneven": "never"}, "'pad', 'drop' or 'keep'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(folder, **options)


def test_a_launcher_without_a_process_group_is_warned_about(folder, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(UserWarning, match="not initialised"):
        assert len(contents(make(folder))) == 16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(contents(make(folder, rank=1, world_size=2))) == 8


RANK = """
import sys
import numpy as np, torch, torch.distributed as dist
import graphzero as gz
folder = sys.argv[1]
g, x = gz.Graph(folder + "/g.gl"), gz.FeatureStore(folder + "/x.gd")
options = dict(fanouts=[4, 3], batch_size=64, shuffle=True, seed=9, memory="100MB", num_threads=1)
loader = gz.NeighborLoader(g, x, **options)
assert len(loader) == 16, len(loader)  # the process group is looked at late
dist.init_process_group("gloo")
assert len(loader) == 8, len(loader)
alone = gz.NeighborLoader(g, x, **options, rank=0, world_size=1)
whole = [b.n_id.tolist() for b in alone]
mine = [b.n_id.tolist() for b in loader]
everyone = [None] * 2
dist.all_gather_object(everyone, mine)
assert mine == whole[dist.get_rank() :: 2]
assert [batch for pair in zip(*everyone) for batch in pair] == whole
dist.barrier()
dist.destroy_process_group()
print("fine")
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_two_processes_as_torchrun_starts_them(folder, tmp_path, spawn):
    script = tmp_path / "rank.py"
    script.write_text(textwrap.dedent(RANK))
    root = str(Path(gz.__file__).parent.parent)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    children = []
    for rank in range(2):
        env = os.environ | {"PYTHONPATH": root, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
        command = [sys.executable, str(script), str(folder)]
        children.append(spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env))
    for child in children:
        out, error = child.communicate(timeout=PATIENCE)
        assert out == "fine\n", error


def test_all_nodes_as_seeds_take_no_memory(tmp_path):
    """An order or a list of seeds would take 8 bytes a node or more."""
    nodes = 2_000_000
    gz.compile_graph([(0, 1), (1, nodes - 1)], tmp_path / "g.gl", num_nodes=nodes)
    g = gz.Graph(tmp_path / "g.gl")
    tracemalloc.start()
    loader = gz.NeighborLoader(g, fanouts=[2], batch_size=4, shuffle=True, seed=1, memory="100MB", num_threads=1)
    before = gz._core.bytes_held()["total"]
    batches = iter(loader)
    first = next(batches).n_id.tolist()
    assert tracemalloc.get_traced_memory()[1] < nodes
    tracemalloc.stop()
    assert gz._core.bytes_held()["total"] - before < nodes
    assert max(first) > 10_000  # shuffled over all nodes


def test_seeds_are_read_where_they_are(folder):
    g = gz.Graph(folder / "g.gl")
    for dtype in (np.int64, np.int32):
        seeds = np.arange(200, dtype=dtype)[::-1].copy()
        loader = gz.NeighborLoader(g, fanouts=[2], seeds=seeds, batch_size=50, memory="100MB")
        assert sys.getrefcount(seeds) > 2  # kept, not copied
        assert torch.cat([b.n_id[: b.batch_size] for b in loader]).tolist() == seeds.tolist()
        with pytest.raises(IndexError, match=r"seeds\[1\] = 1000 is out of range"):
            gz.NeighborLoader(g, fanouts=[2], seeds=np.array([3, 1000], dtype=dtype))
