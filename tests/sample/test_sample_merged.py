"""Many batches sampled together from a file that is not in RAM: each as it would be alone, bit for bit."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from glfile import write_container, write_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from walk_files import write_legacy

import graphzero as gz
from graphzero import _core

NODES, HUB_DEGREE = 3000, 200_000  # a hub's row is longer than any read


def alone(g: gz.Graph, seeds: Any, keys: Any, fanouts: list[int], **options: Any) -> list[Any]:
    """Sample each batch by itself, through the plain mapping."""
    return [
        _core.sample_hood(g._topology, s, fanouts, options.get("replace", False), options.get("weighted", False),
                                options.get("disjoint", False), None, "uniform", options.get("method", "uniform"),
                                options.get("direction"), k, 1, "mmap")
        for s, k in zip(seeds, keys, strict=True)
    ]  # fmt: skip


def check(g: gz.Graph, seeds: Any, fanouts: list[int], ways: Any = None, **options: Any) -> dict[str, Any]:
    """Compare with alone() by each of `ways`; return the facts of the last."""
    keys = [7 + 3 * i for i in range(len(seeds))]
    expected = alone(g, seeds, keys, fanouts, **options)
    facts: dict[str, Any] = {}
    for way in ways or [{"past_page_cache": True, "threads": 2}]:
        made, facts = _core.sample_merged(g._topology, seeds, keys, fanouts, **way, **options)
        assert len(made) == len(expected)
        for got, want in zip(made, expected, strict=True):
            for a, b in zip(got[:3], want[:3], strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
            assert (got[3] is None) == (want[3] is None)
            if want[3] is not None:
                np.testing.assert_array_equal(got[3], want[3])
            assert got[4:] == want[4:]
    return facts


def batches(num_nodes: int, sizes: list[int], seed: int = 0) -> list[Any]:
    """Make batches of nodes, with repeats."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, num_nodes, size) for size in sizes]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> gz.Graph:
    """Short rows, empty rows, and hubs of many pages; both directions, edge ids."""
    rng = np.random.default_rng(0)
    source = np.concatenate([rng.integers(0, NODES // 2, 8 * NODES), np.full(HUB_DEGREE, 17), np.full(600, 1400)])
    target = np.concatenate([rng.integers(0, NODES, 8 * NODES), rng.integers(0, NODES, HUB_DEGREE + 600)])
    path = tmp_path_factory.mktemp("merged") / "g.gl"
    return gz.Graph(write_graph(path, NODES, source, target, edge_ids=True, direction="both"))


WAYS = [
    {"threads": threads, "io": io, "past_page_cache": past}
    for threads, (io, past) in itertools.product(
        [1, 2, 8], [("auto", False), ("auto", True), ("pread", True), ("mmap", False)]
    )
]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_every_way_and_thread_count(graph, replace, disjoint):
    seeds = [*batches(NODES, [40, 1, 0, 64, 65]), np.array([17, 17, 1400, 5, 5])]
    check(graph, seeds, [4, 3], ways=WAYS, replace=replace, disjoint=disjoint)


@pytest.mark.parametrize("direction", ["out", "in"])
@pytest.mark.parametrize("fanouts", [[-1], [600, 2], [0, 5], [3, 0, 2], [1, 1, 1, 1], [2, -1]])
def test_fanouts_and_directions(graph, direction, fanouts):
    check(graph, [*batches(NODES, [20, 30]), np.array([17])], fanouts, direction=direction)


def test_positions_in_place_of_edge_ids(graph):
    seeds, keys = batches(NODES, [30, 30]), [1, 2]
    made, _ = _core.sample_merged(graph._topology, seeds, keys, [5, 5], edge_ids=False, past_page_cache=True)
    with_ids, _ = _core.sample_merged(graph._topology, seeds, keys, [5, 5], past_page_cache=True)
    for positions, ids in zip(made, with_ids, strict=True):
        np.testing.assert_array_equal(positions[0], ids[0])
        np.testing.assert_array_equal(positions[1], ids[1])
        assert (positions[2] != ids[2]).any()


@pytest.mark.parametrize("count", [1, 8, 130])
def test_any_group_size(graph, count):
    check(graph, batches(NODES, [16] * count), [6, 4])


def test_no_batches_and_no_seeds(graph):
    assert _core.sample_merged(graph._topology, [], [], [3])[0] == []
    check(graph, [np.zeros(0, np.int64)], [3, 3])


@settings(max_examples=40, deadline=None)
@given(
    nodes=st.sampled_from([1, 2, 511, 512, 513, 1023, 1024, 1025, 4097]),
    edges=st.sampled_from([0, 1, 1023, 1024, 1025, 5000]),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    fanouts=st.lists(st.sampled_from([-1, 0, 1, 2, 5, 70]), min_size=1, max_size=3),
    seed=st.integers(0, 100),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    threads=st.sampled_from([1, 2, 8]),
)
def test_random_graphs(tmp_path_factory, nodes, edges, sizes, fanouts, seed, flags, threads):
    """Sizes around what a page holds: 512 bounds, 1,024 ids."""
    rng = np.random.default_rng(seed)
    power = 1 + 3 * rng.random()
    source = (nodes * rng.random(edges) ** power).astype(np.int64)
    path = tmp_path_factory.mktemp("random") / "g.gl"
    g = gz.Graph(write_graph(path, nodes, source, rng.integers(0, nodes, edges), edge_ids=flags[2]))
    way = {"threads": threads, "past_page_cache": True, "io": "auto" if seed % 2 else "pread"}
    check(g, batches(nodes, sizes, seed), fanouts, ways=[way], replace=flags[0], disjoint=flags[1])


def test_wide_ids_of_old_files(tmp_path):
    """Arrays that begin anywhere, 64-bit ids, and a last page that is a short one."""
    rng = np.random.default_rng(3)
    edges = np.stack([rng.integers(0, 700, 9001), rng.integers(0, 700, 9001)])
    g = gz.Graph(write_legacy(tmp_path / "old.gl", 700, edges.T))
    ways = [{"threads": t, "past_page_cache": True, "io": io} for t in (1, 2) for io in ("auto", "pread")]
    check(g, [*batches(700, [50, 60]), np.arange(690, 700)], [5, -1], ways=ways)


def test_layer_neighbour_sampling_every_way_and_thread_count(graph):
    """Rows of many parts, which several threads read; neighbours that are in a row twice."""
    seeds = [*batches(NODES, [40, 1, 0, 64, 65]), np.array([17, 17, 1400, 5, 5])]
    check(graph, seeds, [4, 3], ways=WAYS, method="labor")


@pytest.mark.parametrize("direction", ["out", "in"])
@pytest.mark.parametrize("fanouts", [[-1], [600, 2], [1500, 2], [0, 5], [3, 0, 2], [1, 1, 1, 1], [2, -1]])
def test_layer_neighbour_sampling_fanouts_and_directions(graph, direction, fanouts):
    check(graph, [*batches(NODES, [20, 30]), np.array([17])], fanouts, direction=direction, method="labor")


@settings(max_examples=40, deadline=None)
@given(
    degrees=st.lists(st.sampled_from([0, 1, 4, 5, 6, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049]),
                     min_size=1, max_size=8),
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    fanouts=st.lists(st.sampled_from([-1, 0, 1, 5, 512, 1024]), min_size=1, max_size=2),
    others=st.sampled_from([1, 3, 5000]),
    seed=st.integers(0, 100),
    flags=st.tuples(st.booleans(), st.booleans()),
    threads=st.sampled_from([1, 2, 8]),
)  # fmt: skip
def test_layer_neighbour_sampling_of_rows_of_all_lengths(
    tmp_path_factory, degrees, sizes, fanouts, others, seed, flags, threads
):
    """Degrees around what is read as a whole (512) and in parts (1,024); few others: neighbours repeat."""
    rng = np.random.default_rng(seed)
    nodes = max(len(degrees), others)
    source = np.repeat(np.arange(len(degrees)), degrees)
    target = rng.integers(0, others, len(source))
    path = tmp_path_factory.mktemp("labor") / "g.gl"
    g = gz.Graph(write_graph(path, nodes, source, target, edge_ids=flags[0]))
    way = {"threads": threads, "past_page_cache": True, "io": "auto" if flags[1] else "pread"}
    check(g, batches(len(degrees), sizes, seed), fanouts, ways=[way], method="labor")


def test_weighted_draws_are_sampled_batch_by_batch(tmp_path):
    rng = np.random.default_rng(4)
    g = gz.Graph(write_graph(tmp_path / "w.gl", 100, rng.integers(0, 100, 900), rng.integers(0, 100, 900),
                             weights=rng.random(900)))  # fmt: skip
    assert check(g, batches(100, [9, 9, 9]), [3, 2], weighted=True)["reads"] == 0


def test_a_page_that_many_batches_want_is_read_once(graph):
    """The whole file is 2 MB: what all batches read together is no more than a few times that."""
    seeds = batches(NODES, [64] * 40)
    size = os.path.getsize(graph.path)
    together = check(graph, seeds, [5, 5])["bytes_read"]
    apart = sum(check(graph, [s], [5, 5])["bytes_read"] for s in seeds)
    assert 0 < together < 2 * size < apart


def test_what_is_in_ram_is_not_read(graph):
    Path(graph.path).read_bytes()
    if _core.resident_share(graph._topology) != 1.0:
        pytest.skip("the system does not keep, or does not tell, what is in RAM")
    assert check(graph, batches(NODES, [30] * 4), [5, 5], ways=[{}])["reads"] == 0


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to empty the page cache of a file")
def test_cold_and_partly_cold(tmp_path):
    rng = np.random.default_rng(5)
    path = write_graph(tmp_path / "c.gl", 20_000, rng.integers(0, 20_000, 90_000), rng.integers(0, 20_000, 90_000))
    g = gz.Graph(path)
    seeds = batches(20_000, [50] * 6)
    expected = alone(g, seeds, [0] * 6, [5, 5])
    for kept in (0, 40 * 4096):  # bytes of the file that are read back in
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            f.read(kept)
        made, _ = _core.sample_merged(g._topology, seeds, [0] * 6, [5, 5])
        for got, want in zip(made, expected, strict=True):
            for a, b in zip(got[:3], want[:3], strict=True):
                np.testing.assert_array_equal(a, b)


def damaged(path: Path, indptr: list[int], indices: list[int]) -> gz.Graph:
    arrays = {"out.indptr": np.array(indptr, np.uint64), "out.indices": np.array(indices, np.uint32)}
    return gz.Graph(write_container(path, len(indptr) - 1, len(indices), "out", arrays))


@pytest.mark.parametrize(
    ("indptr", "indices", "match"),
    [
        ([0, 9, 2], [0, 1], "row 0 spans 0 to 9"),
        ([0, 2, 1], [0, 1], "row 1 spans 2 to 1"),
        ([0, 1, 2], [0, 2], r"indices\[1\] = 2 is past num_nodes = 2"),
    ],
)
@pytest.mark.parametrize("way", [{"past_page_cache": True}, {"io": "mmap"}])
def test_damaged_rows(tmp_path, indptr, indices, match, way):
    g = damaged(tmp_path / "d.gl", indptr, indices)
    with pytest.raises(gz.FormatError, match=match):
        _core.sample_merged(g._topology, [np.array([0, 1])], [0], [5], **way)


@pytest.mark.parametrize("way", [{"past_page_cache": True}, {"io": "mmap"}])
def test_damaged_edge_ids_are_told_or_kept(tmp_path, way):
    """No id is changed in silence: 64 bits are as they are alone, or more than an edge id can have."""
    arrays = {"out.indptr": np.array([0, 2], np.uint64), "out.indices": np.array([0, 0], np.uint32)}
    for name, ids in (("beyond", [7, 2**62]), ("negative", [7, 2**63 + 5])):
        path = write_container(
            tmp_path / f"{name}.gl", 1, 2, "out", arrays | {"out.edge_ids": np.array(ids, np.uint64)}
        )
        g = gz.Graph(path)
        if name == "beyond":
            check(g, [np.array([0])], [-1], ways=[way])
        else:
            with pytest.raises(gz.FormatError, match=r"edge_ids\[1\] = 9223372036854775813 is past 2\^63"):
                _core.sample_merged(g._topology, [np.array([0])], [0], [-1], **way)


def test_a_truncated_file(tmp_path):
    rng = np.random.default_rng(6)
    path = write_graph(tmp_path / "t.gl", 5000, rng.integers(0, 5000, 20_000), rng.integers(0, 5000, 20_000))
    g = gz.Graph(path)
    os.truncate(path, 4096 * 12)
    found = r"t\.gl: the file ends at byte 49152, before the end of value \d+ of 'out\.ind"
    with pytest.raises(gz.StorageError, match=found):
        _core.sample_merged(g._topology, batches(5000, [100] * 3), [0] * 3, [5], past_page_cache=True)


def test_seeds_are_checked_before_any_work(graph):
    with pytest.raises(IndexError, match=str(NODES)):
        _core.sample_merged(graph._topology, [np.array([0]), np.array([NODES])], [0, 0], [3])
    with pytest.raises(ValueError, match="fanouts"):
        _core.sample_merged(graph._topology, [np.array([0])], [0], [])


def test_a_progress_that_throws_stops_the_work(graph):
    class StopError(Exception):
        pass

    def stop(phase: str, done: int, total: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        raise StopError(phase)

    with pytest.raises(StopError, match="sample"):
        _core.sample_merged(graph._topology, batches(NODES, [64] * 8), [0] * 8, [5, 5], past_page_cache=True,
                            progress=stop)  # fmt: skip
    check(graph, batches(NODES, [64] * 8), [5, 5])  # the readers are as good as new
