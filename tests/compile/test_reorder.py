"""Reordered datasets: the same graph, rows, labels and splits under other ids, whatever the order and the budget."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reorder_source import assert_same, edges_of, make

import graphzero as gz
from graphzero import _core
from graphzero.compile.permute_rows import permuted_rows
from graphzero.compile.reorder import ORDERS
from graphzero.compile.reordered_files import renamed_split

SMALL = "64MB"


KINDS = [
    {},
    {"weights": True, "edge_ids": True, "direction": "both"},
    {"times": True, "direction": "in", "edge_ids": True},
    {"directed": False, "weights": True, "times": True, "edge_ids": True, "direction": "both"},
    {"directed": False, "dedup": True, "self_loops": False},
]


@pytest.mark.parametrize("by", ORDERS)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_same_graph_under_other_ids(tmp_path: Path, by: str, kind: int) -> None:
    old = make(tmp_path, 60, 300, **KINDS[kind])
    assert_same(old, gz.reorder(old, tmp_path / "out", by=by, batch_size=8, fanouts=[3, 2], memory=SMALL))


@settings(max_examples=12)
@given(data=st.data())
def test_any_small_graph(data: st.DataObject) -> None:
    nodes, edges = data.draw(st.integers(1, 40)), data.draw(st.integers(0, 120))
    flags = {name: data.draw(st.booleans()) for name in ("weights", "times", "edge_ids", "directed")}
    direction = data.draw(st.sampled_from(["out", "in", "both"]))
    by = data.draw(st.sampled_from(["degree", "bfs", "community"]))
    with tempfile.TemporaryDirectory() as folder:
        old = make(Path(folder), nodes, edges, data.draw(st.integers(0, 99)), direction=direction, **flags)
        assert_same(old, gz.reorder(old, Path(folder) / "out", by=by, memory="3MB", num_threads=2))


def test_a_loader_sees_the_same_neighbourhoods(tmp_path: Path) -> None:
    old = make(tmp_path, 80, 500, edge_ids=True)
    new = gz.reorder(old, tmp_path / "out", by="degree")
    seeds = np.array([3, 50, 7, 79])

    def batch(ds: gz.Dataset, ids: np.ndarray) -> tuple[set[Any], dict[int, Any]]:
        (b,) = gz.NeighborLoader(ds.graph, ds.features["x"], fanouts=[-1, -1], seeds=ids, labels=ds.labels)
        n_id = ds.ids.to_original(np.asarray(b.n_id))
        ends = n_id[np.asarray(b.edge_index)]
        assert n_id[: b.batch_size].tolist() == seeds.tolist()
        rows = {int(i): row for i, row in zip(n_id, np.asarray(b.x).tolist(), strict=True)}
        return {*zip(*ends.tolist(), np.asarray(b.e_id).tolist(), strict=True)}, {**rows, -1: np.asarray(b.y).tolist()}

    assert batch(old, seeds) == batch(new, new.ids.to_new(seeds))


def test_hot_nodes_come_first(tmp_path: Path) -> None:
    # Node i has in-degree i: levels of the degree descend, however nodes are ordered within one.
    edges = np.array([(j, i) for i in range(40) for j in range(i)]).T
    old = gz.Dataset.create(tmp_path / "source", edges, num_nodes=40)
    new = gz.reorder(old, tmp_path / "out", by="degree")
    original = new.ids.to_original(np.arange(40))
    assert [int(i).bit_length() for i in original] == sorted((i.bit_length() for i in range(40)), reverse=True)


def test_presampling_counts_what_batches_meet(tmp_path: Path) -> None:
    # Seeds 0 to 3 have one neighbour each, 10 for three of them; nothing else is ever met.
    edges = (np.array([0, 1, 2, 3, 4, 5, 6]), np.array([10, 10, 10, 11, 12, 12, 12]))
    options: dict[str, Any] = {"num_nodes": 20, "splits": {"train": [0, 1, 2, 3]}}
    old = gz.Dataset.create(tmp_path / "source", edges, **options)
    new = gz.reorder(old, tmp_path / "out", by="presample", batch_size=1, fanouts=[5], epochs=2)
    original = new.ids.to_original(np.arange(20)).tolist()
    assert original[0] == 10  # 6 times
    assert set(original[1:6]) == {0, 1, 2, 3, 11}  # 2 times
    assert new.info["about"]["reordered"]["epochs"] == 2


def test_communities_lie_together(tmp_path: Path) -> None:
    # Four cliques of ten, their members scattered; one edge from each to the next.
    cliques = [list(range(c, 40, 4)) for c in range(4)]
    edges = [pair for clique in cliques for pair in itertools.permutations(clique, 2)]
    edges += [(0, 1), (1, 2), (2, 3), (3, 0)]
    old = gz.Dataset.create(tmp_path / "source", np.array(edges).T)
    new = gz.reorder(old, tmp_path / "out", by="community")
    found = new.ids.to_original(np.arange(40)) % 4
    assert sorted(found.reshape(4, 10).tolist()) == [[c] * 10 for c in range(4)]


def test_breadth_first_goes_level_by_level(tmp_path: Path) -> None:
    # A binary tree: every node points to its children and, so that it is hottest, at the root.
    names = np.random.default_rng(1).permutation(31)
    edges = [(names[i], names[c]) for i in range(15) for c in (2 * i + 1, 2 * i + 2)]
    edges += [(names[i], names[0]) for i in range(1, 31)]
    new = gz.reorder(gz.Dataset.create(tmp_path / "s", np.array(edges).T), tmp_path / "out", by="bfs")
    heap = np.empty(31, int)
    heap[names] = np.arange(31)
    places = heap[new.ids.to_original(np.arange(31))]
    assert [int(p + 1).bit_length() for p in places] == sorted((p + 1).bit_length() for p in range(31))


def test_without_a_split_the_default_is_by_degree(tmp_path: Path) -> None:
    old = gz.Dataset.create(tmp_path / "source", [(0, 1), (1, 2)])
    assert gz.reorder(old, tmp_path / "a").info["about"]["reordered"] == {"by": "degree"}
    split = gz.Dataset.create(tmp_path / "split", [(0, 1), (1, 2)], splits={"train": [0]})
    assert gz.reorder(split, tmp_path / "b").info["about"]["reordered"]["by"] == "presample"


def test_reordering_twice_keeps_the_first_ids(tmp_path: Path) -> None:
    old = make(tmp_path, 50, 200, edge_ids=True)
    once = gz.reorder(old, tmp_path / "once", by="degree")
    assert_same(old, gz.reorder(once, tmp_path / "twice", by="bfs"))


def test_edge_features_follow_by_edge_id(tmp_path: Path) -> None:
    # Without edge ids in the source the features go by position: the new file keeps those positions as its edge ids.
    old = make(tmp_path, 30, 100)
    rows = np.arange(100, dtype=np.float32).reshape(-1, 1)
    gz.compile_features(rows, Path(old.path) / "weight.gd")
    path = Path(old.path) / "dataset.json"
    text = json.loads(path.read_text())
    (edge,) = text["edges"].values()
    edge["features"] = {"w": {"file": "weight.gd", "array": "x"}}
    path.write_text(json.dumps(text))
    new = gz.reorder(old.path, tmp_path / "out", by="degree")
    indptr, indices = old.graph.csr()
    row = np.repeat(np.arange(30), np.diff(indptr.astype(np.int64)))
    expected = sorted(zip(row.tolist(), indices.tolist(), range(100), strict=True))
    assert edges_of(new.graph, "out", new.ids.to_original(np.arange(30))) == expected
    (linked,) = [file for file in new.files if file.endswith("weight.gd")]
    assert os.path.samefile(linked, Path(old.path) / "weight.gd")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "vector"])
@pytest.mark.parametrize("budget", [1, 1000, 10_000, 1 << 20])
def test_rows_in_any_order_within_any_budget(tmp_path: Path, dtype: str, budget: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2 if dtype == "bool" else 100, (300, 5))
    gz.compile_features(
        rows[:, 0] if dtype == "vector" else rows, tmp_path / "x.gd", dtype="int64" if dtype == "vector" else dtype
    )
    store = gz.FeatureStore(tmp_path / "x.gd")
    values = np.array(store.get_tensor())
    order = rng.permutation(300)
    done: list[int] = []
    blocks = list(permuted_rows(store, order, np.argsort(order), budget, str(tmp_path), done.append))
    assert (np.concatenate(blocks) == values[order]).all()
    assert sum(done) == 600
    assert os.listdir(tmp_path) == ["x.gd"]
    if budget == 1000:
        assert max(block.nbytes for block in blocks) <= 1000


def test_a_large_split_is_renamed_in_ranges() -> None:
    rng = np.random.default_rng(0)
    order, ids = rng.permutation(10_000), rng.integers(0, 10_000, 5000)
    blocks = list(renamed_split(ids, order, 64, "split", step=100))
    assert max(map(len, blocks)) <= 100
    assert np.concatenate(blocks).tolist() == np.sort(order[ids]).tolist()
    with pytest.raises(gz.FormatError, match=r"split\[1\] = 10000, expected a node id from 0 to 9999"):
        list(renamed_split(np.array([0, 10_000]), order, 64, "split"))


def test_the_engine_stays_within_its_budget(tmp_path: Path) -> None:
    old = gz.synthesize(tmp_path / "source", nodes=20_000, edges=400_000, dim=64)
    order = _core.order_nodes(old.graph._open(), "hot", None, None, None)
    names = np.argsort(order).astype(np.int32)
    report = _core.relabel_graph(
        old.graph._open(), names, str(tmp_path / "g.gl"), number_edges=False, memory=4_000_000, threads=1,
        spill_folder=str(tmp_path), progress=None,
    )  # fmt: skip
    assert report["spilled_bytes"] > 0
    assert report["peak_bytes"] <= 4_000_000
    assert edges_of(gz.Graph(tmp_path / "g.gl"), "in", order.astype(np.int64)) == edges_of(
        old.graph, "in", np.arange(20_000)
    )


def test_ids_of_a_dataset_that_was_not_reordered(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "source", [(0, 1), (1, 2)])
    assert not ds.ids.changed
    assert ds.ids.to_new([2, 0]).tolist() == ds.ids.to_original([2, 0]).tolist() == [2, 0]
    for wrong in ([3], [-1]):
        with pytest.raises(IndexError, match="out of range"):
            ds.ids.to_new(wrong)


def test_ids_are_checked_and_come_as_they_were_given(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    new = gz.reorder(make(tmp_path, 20, 60), tmp_path / "out", by="degree")
    assert new.ids.changed
    with pytest.raises(IndexError, match="20 is out of range"):
        new.ids.to_original([20])
    there = new.ids.to_new(torch.tensor([4, 5]))
    assert there.dtype == torch.int64
    assert new.ids.to_original(there).tolist() == [4, 5]


def test_the_command(tmp_path: Path) -> None:
    testing = pytest.importorskip("typer.testing")
    from graphzero.cli.app import app

    make(tmp_path, 40, 200)
    words = [
        "reorder",
        str(tmp_path / "source"),
        str(tmp_path / "out"),
        "--by",
        "presample",
        "--fanouts",
        "3,2",
        "--json",
    ]
    done = testing.CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    reordered = json.loads(done.stdout)["about"]["reordered"]
    assert (reordered["by"], reordered["fanouts"]) == ("presample", [3, 2])
    again = testing.CliRunner().invoke(app, words)
    assert again.exit_code == 1
    assert "dataset already exists" in again.stderr
    assert testing.CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0
    assert_same(gz.Dataset(tmp_path / "source"), gz.Dataset(tmp_path / "out"))


def test_tasks_follow_their_nodes(tmp_path):
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 50)
    ds = gz.Dataset.create(tmp_path / "ds", rng.integers(0, 50, (2, 400)), num_nodes=50)
    ids = rng.integers(0, 50, 200)
    ds.add_task("later", ids=ids, labels=labels[ids], time=np.arange(200), splits="70/15/15")
    new = gz.reorder(ds, tmp_path / "new", by="degree")
    for split in ("train", "valid", "test"):
        before, after = ds.tasks["later"].splits[split], new.tasks["later"].splits[split]
        np.testing.assert_array_equal(new.ids.to_original(after.ids), before.ids)
        np.testing.assert_array_equal(after.labels, before.labels)
        np.testing.assert_array_equal(after.times, before.times)
    assert new.tasks["later"].splits["train"].ids.tolist() != ds.tasks["later"].splits["train"].ids.tolist()
