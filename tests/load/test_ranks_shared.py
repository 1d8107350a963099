"""Ranks of one host: they divide the memory, share what they read, and deliver what a single process would."""

from __future__ import annotations

import sys

import pytest
from loader_kinds import loader_kinds
from local_ranks import Rank, digest, loader_of, make

import graphzero as gz

torch = pytest.importorskip("torch")
linux = pytest.mark.skipif(sys.platform != "linux", reason="ranks meet on Linux only")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def expected(folder):
    """The batches of a single process that reads row by row."""
    return [digest(batch) for batch in loader_of(folder, cache="off", memory="auto", num_threads=2)]


@linux
def test_two_ranks_read_together_and_deliver_the_epoch_of_one(folder, expected, spawn):
    for _ in range(20):  # on a busy machine one rank may be done before the other begins
        ranks = [Rank(spawn, folder, rank) for rank in range(2)]
        for rank in ranks:
            rank.wait_until_ready()
        for rank in ranks:
            rank.go()
        ended = [rank.rest() for rank in ranks]
        assert [batch for pair in zip(*(batches for batches, _ in ended), strict=True) for batch in pair] == expected
        plans = [last["stats"]["plan"] for _, last in ended]
        assert [plan["ways"]["x"] for plan in plans] == ["window"] * 2, plans[0]["why"]
        assert [plan["memory"] for plan in plans] == [48_000_000] * 2
        shared = sum(plan["windows"]["x"]["rows_from_ranks"] for plan in plans)
        if shared > 0 and [last["met"] for _, last in ended] == [1, 1]:
            return
    pytest.fail("the ranks never shared what they read")


@linux
def test_a_rank_that_starts_late_or_not_at_all_is_not_waited_for(folder, expected, spawn):
    alone = Rank(spawn, folder, 1)
    alone.wait_until_ready()
    alone.go()
    first = list(alone.lines(3))
    late = Rank(spawn, folder, 0)
    late.wait_until_ready()
    batches, _ = alone.rest()  # while the other has made its plan and does nothing
    assert first + batches == expected[1::2]
    late.go()
    assert late.rest()[0] == expected[::2]


@pytest.mark.parametrize("how", ["argument", "launcher"])
def test_memory_is_divided_between_the_ranks_of_the_host(tmp_path, monkeypatch, how):
    if how == "launcher":
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
        monkeypatch.setenv("LOCAL_RANK", "3")
    options = {"local_world_size": 4} if how == "argument" else {}
    for kind, loader_like in loader_kinds(tmp_path).items():
        loader = loader_like(memory="400MB", rank=3, world_size=4, **options)
        alone = loader_like(memory="400MB", rank=3, world_size=4, local_world_size=1)
        assert [nodes_of(b) for b in loader] == [nodes_of(b) for b in alone], kind
        plan = loader.stats().plan
        assert plan["memory"] == 100_000_000, kind
        assert (plan["host_memory"], plan["local_world_size"]) == (400_000_000, 4)
        assert "memory was set to 400MB for the 4 ranks of this host (100MB each)" in plan["why"]
        assert alone.stats().plan["memory"] == 400_000_000
        chosen = loader_like(rank=0, world_size=4, **options)
        for _ in chosen:
            break
        assert " for the 4 ranks of this host (" in chosen.stats().plan["why"]


def nodes_of(batch):
    return batch.n_id.tolist() if isinstance(batch, gz.Batch) else {t: n.tolist() for t, n in batch.n_id_dict.items()}


def test_a_budget_that_is_too_small_names_what_the_host_needs(tmp_path):
    loader_like = loader_kinds(tmp_path)["node"]
    with pytest.raises(gz.BudgetError, match=r"memory is 1KB \(of 2KB for 2 ranks of this host\)") as told:
        next(iter(loader_like(memory=2000, local_world_size=2)))
    with pytest.raises(gz.BudgetError) as alone:
        next(iter(loader_like(memory=1000, local_world_size=1)))
    assert told.value.needed_bytes == 2 * alone.value.needed_bytes


def test_a_file_that_fits_the_hosts_memory_is_in_ram_once(folder):
    """One process copies it; two would hold two copies, and keep it in the page cache instead."""
    alone = loader_of(folder, memory="400MB")
    next(iter(alone))
    assert alone.stats().plan["ways"]["x"] == "whole"
    shared = loader_of(folder, memory="400MB", local_world_size=2)
    next(iter(shared))
    plan = shared.stats().plan
    assert plan["ways"]["x"] == "mapped"
    assert plan["page_cache_bytes"] >= 100_000 * 512 // 2
    assert "in the page cache, once for all ranks" in plan["why"]


def test_bad_numbers_of_local_ranks_are_told(folder, monkeypatch):
    with pytest.raises(ValueError, match="local_world_size is 0"):
        loader_of(folder, local_world_size=0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "many")
    loader = loader_of(folder)
    assert loader._ready_plan()[0].info["local_world_size"] == 1
