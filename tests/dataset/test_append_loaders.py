"""Batches of a dataset that was appended to are those of the same data compiled at once, for every way of loading."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from appended import CITES, WRITES, Grown, GrownTypes
from loader_kinds import arrays_of

import graphzero as gz

torch = pytest.importorskip("torch")

NODE: dict[str, dict[str, Any]] = {
    "plain": {},
    "all neighbours": {"fanouts": [-1, 4]},
    "replace": {"replace": True},
    "weighted": {"weighted": True},
    "disjoint": {"disjoint": True},
    "labor": {"method": "labor"},
    "timed": {"time": 600},
    "last": {"time": 700, "temporal": "last", "window": 400},
    "one thread": {"num_threads": 1, "prefetch": 1},
}
LINK: dict[str, dict[str, Any]] = {
    "all edges": {},
    "split": {"split": "held"},
    "binary": {"neg_sampling": "binary", "strict": True, "exclude": "self"},
    "triplet": {"neg_sampling": "triplet", "neg_method": "degree"},
    "timed": {"time": "edges"},
}
READS: dict[str, dict[str, Any]] = {
    "mmap": {"io": "mmap"},
    "pread": {"io": "pread"},
    "uring": {"io": "uring"},
    "sweep": {"cache": "on", "memory": "20MB"},
    "no cache": {"cache": "off", "io": "pread"},
}


def digests(loader: Any, epochs: int = 2) -> list[str]:
    """A digest for every batch."""
    found = []
    for _ in range(epochs):
        for batch in loader:
            arrays = {name: np.asarray(value) for name, value in arrays_of(batch).items() if hasattr(value, "shape")}
            joined = b"".join(f"{n}{a.dtype}{a.shape}".encode() + a.tobytes() for n, a in sorted(arrays.items()))
            found.append(hashlib.sha256(joined).hexdigest())
    return found


def same(make: Callable[[gz.Dataset], Any], grown: gz.Dataset, whole: gz.Dataset) -> None:
    assert (mine := digests(make(grown))) == digests(make(whole))
    assert mine


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[gz.Dataset, gz.Dataset]:
    source = Grown(tmp_path_factory.mktemp("grown"), "both")
    return source.grown(), source.whole()


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> tuple[gz.Dataset, gz.Dataset]:
    source = GrownTypes(tmp_path_factory.mktemp("types"))
    return source.grown(), source.whole()


@pytest.mark.parametrize("kind", NODE)
@pytest.mark.parametrize("direction", ["in", "out"])
def test_nodes(pair: Any, kind: str, direction: str) -> None:
    common = {"fanouts": [5, 4], "split": "train", "batch_size": 32, "shuffle": True, "seed": 3, "direction": direction}
    same(lambda ds: gz.NeighborLoader(ds, **(common | NODE[kind])), *pair)


@pytest.mark.parametrize("kind", LINK)
def test_links(pair: Any, kind: str) -> None:
    common = {"fanouts": [4, 3], "batch_size": 256, "shuffle": True, "seed": 4}
    same(lambda ds: gz.LinkNeighborLoader(ds, **(common | LINK[kind])), *pair)


@pytest.mark.parametrize("reads", READS)
def test_read_paths(pair: Any, reads: str) -> None:
    common = {"fanouts": [5, 4], "batch_size": 32, "shuffle": True, "seed": 3, "memory": "64MB"}
    same(lambda ds: gz.NeighborLoader(ds, **(common | READS[reads])), *pair)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_ranks(pair: Any, rank: int) -> None:
    common = {"fanouts": [5, 4], "split": "train", "batch_size": 16, "seed": 3, "world_size": 3, "rank": rank}
    same(lambda ds: gz.NeighborLoader(ds, local_world_size=1, **common), *pair)


def test_types(types: Any) -> None:
    common = {"fanouts": [4, 3], "batch_size": 16, "shuffle": True, "seed": 5}
    same(lambda ds: gz.NeighborLoader(ds, split="train", **common), *types)
    same(lambda ds: gz.NeighborLoader(ds, split="train", **common, io="pread", memory="32MB"), *types)
    same(lambda ds: gz.LinkNeighborLoader(ds, edge_type=CITES, neg_sampling="binary", **common), *types)
    same(lambda ds: gz.LinkNeighborLoader(ds, edge_type=WRITES, exclude="reverse", **common), *types)


def test_a_graph_without_edge_ids(tmp_path: Path) -> None:
    source = Grown(tmp_path, plain=True)
    pair = source.grown(), source.whole()
    same(lambda ds: gz.NeighborLoader(ds, fanouts=[5, 4], batch_size=32, seed=3), *pair)
    same(lambda ds: gz.LinkNeighborLoader(ds, fanouts=[4, 3], batch_size=256, shuffle=True, seed=4), *pair)


def test_walks_and_single_samples(pair: Any) -> None:
    grown, whole = pair
    seeds = np.arange(0, whole.num_nodes, 3)
    for options in (
        {"fanouts": [5, 5]},
        {"fanouts": [-1], "subgraph": "induced"},
        {"fanouts": [3], "subgraph": "bidirectional"},
    ):
        mine, theirs = (ds.graph.sample(seeds, seed=2, **options) for ds in (grown, whole))
        for name in ("node", "row", "col", "edge"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    for options in ({"walk_length": 9}, {"walk_length": 6, "p": 0.5, "q": 2.0}):
        mine, theirs = (ds.graph.batch_random_walk(seeds, seed=8, **options) for ds in (grown, whole))
        np.testing.assert_array_equal(mine, theirs)


def test_loaders_that_were_open_go_on(tmp_path: Path) -> None:
    source = Grown(tmp_path)
    ds = source.base()
    common = {"fanouts": [5, 4], "split": "train", "batch_size": 16, "seed": 3, "io": "pread", "memory": "32MB"}
    expected = digests(gz.NeighborLoader(source.base("copy"), **common), 1)
    loader = gz.NeighborLoader(ds, **common)
    batches = iter(loader)
    found = [next(batches)]
    grown = source.step(ds, 1)
    found.append(next(batches))
    grown.compact()
    found += list(batches)
    assert [digests([b], 1)[0] for b in found] == expected
