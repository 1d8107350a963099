"""verify finds every class of fault, and says where; opening and sampling an unverified file never leave its bounds."""

from __future__ import annotations

import itertools
import struct

import container_spec as spec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core

ROWS = [[1, 2], [], [0, 1, 3], [3]]
WEIGHTS = np.array([0.5, 1, 2, 3, 4, 5], np.float32)
CUMULATIVE = np.array([0.5, 1.5, 2, 5, 9, 5], np.float64)
TIMES = np.array([9, 8, 7, -1, 7, 0], np.int64)
BY_TIME = np.array([1, 0, 1, 0, 2, 0], np.uint32)


def verify(data: bytes, path, threads: int = 2):
    path.write_bytes(data)
    return _core.verify(str(path), threads)


def fault(data: bytes, tmp_path) -> str:
    """The message of verify, which must be the same whatever the thread count."""
    messages = set()
    for threads in (1, 2, 5):
        with pytest.raises(gz.FormatError) as caught:
            verify(data, tmp_path / "f.gl", threads)
        messages.add(str(caught.value))
    (message,) = messages
    assert message.startswith(str(tmp_path / "f.gl"))
    return message.removeprefix(str(tmp_path / "f.gl: "))


def raw_topology(indptr, indices, *, nodes=None, properties=1, **more) -> bytes:
    """A topology of any content, valid or not, with checksums that fit it."""
    arrays = {"out.indptr": np.array(indptr, np.uint64), "out.indices": np.array(indices, np.uint32)}
    arrays |= {f"out.{name}": a for name, a in more.items()}
    nodes = len(indptr) - 1 if nodes is None else nodes
    return spec.build(spec.Header(spec.TOPOLOGY, nodes, len(indices), 1, properties), arrays)


def test_the_report(tmp_path):
    (tmp_path / "x.gd").write_bytes(spec.features(x=np.ones((5, 2), np.float32)))
    phases = []
    report = gz.verify(tmp_path / "x.gd", num_threads=1, progress=lambda *told: phases.append(told))
    assert (report.path, report.bytes, report.arrays) == (str(tmp_path / "x.gd"), 40, 1)
    assert report.checksummed
    assert phases[0][0] == "checksums"
    with pytest.raises(ValueError, match="num_threads is -1"):
        gz.verify(tmp_path / "x.gd", num_threads=-1)


def test_good_files_pass(tmp_path):
    more = {"weights": WEIGHTS, "cumulative": CUMULATIVE, "times": TIMES, "by_time": BY_TIME}
    report = verify(spec.topology(ROWS, properties=1 | 4, direction=3, **more), tmp_path / "g.gl")
    assert report["checksummed"]
    assert report["arrays"] == 12
    assert not verify(spec.legacy_topology(ROWS), tmp_path / "old.gl")["checksummed"]
    assert verify(spec.features(x=np.zeros((0, 3), np.float32)), tmp_path / "x.gd")["bytes"] == 0
    verify(raw_topology([0, 0], []), tmp_path / "empty.gl")
    verify(raw_topology([0], []), tmp_path / "nothing.gl")


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([1, 2, 2], [0, 0], "out.indptr[0] = 1, expected 0"),
        ([0, 2, 1, 2], [0, 0], "out.indptr[2] = 1 is below indptr[1] = 2"),
        ([0, 3, 2], [0, 0], "out.indptr[1] = 3 is past num_edges = 2"),
        ([0, 1, 1], [0, 0], "out.indptr[2] = 1, expected num_edges = 2"),
        ([0, 2**63, 2], [0, 0], "out.indptr[1] = 9223372036854775808 is past num_edges = 2"),
        ([0, 1, 2], [0, 2], "out.indices[1] = 2 is past num_nodes = 2"),
        ([0, 1, 2], [2**32 - 1, 0], "out.indices[0] = 4294967295 is past num_nodes = 2"),
        ([0, 3, 3], [0, 1, 0], "out.indices[2] = 0 is below its predecessor 1: row 0 is not sorted"),
    ],
)
def test_bad_rows_are_found_by_field_and_position(tmp_path, indptr, indices, message):
    assert fault(raw_topology(indptr, indices), tmp_path) == message


def test_promises_are_checked(tmp_path):
    twice = raw_topology([0, 2, 2], [1, 1], properties=1 | 4)
    assert fault(twice, tmp_path) == "out.indices[1] = 1 occurs twice in row 0"
    loop = raw_topology([0, 1, 2], [1, 1], properties=1 | 8)
    assert fault(loop, tmp_path) == "out.indices[1] is a self-loop of node 1"
    verify(raw_topology([0, 2, 2], [1, 0], properties=0), tmp_path / "unsorted_is_fine.gl")
    verify(raw_topology([0, 2, 2], [1, 1]), tmp_path / "twice_is_fine.gl")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": (3, -1)}, "out.weights[3] = -1, expected finite and >= 0"),
        ({"weights": (3, np.nan)}, "out.weights[3] = nan, expected finite and >= 0"),
        ({"weights": (3, np.inf)}, "out.weights[3] = inf, expected finite and >= 0"),
        ({"cumulative": (4, 8.5)}, "out.cumulative[4] = 8.5, expected 9"),
        ({"by_time": (3, 1)}, "out.by_time[3] = 1 is not in a permutation of its row"),
        ({"by_time": (2, 3)}, "out.by_time[2] = 3 is not in a permutation of its row"),
        ({"times": (4, 6)}, "out.by_time[4]: time 6 comes after 7"),
    ],
)
def test_weights_and_times_are_checked(tmp_path, changed, message):
    more = {"weights": WEIGHTS, "cumulative": CUMULATIVE, "times": TIMES, "by_time": BY_TIME}
    for name, (i, value) in changed.items():
        more[name] = more[name].copy()
        more[name][i] = value
    assert fault(spec.topology(ROWS, **more), tmp_path) == message


def test_the_first_of_many_faults_is_told_for_any_thread_count(tmp_path):
    nodes = 200_000
    indices = np.zeros(nodes, np.uint32)
    indices[[3, 70_000, 150_000]] = nodes + 5
    header = spec.Header(spec.TOPOLOGY, nodes, nodes, 1, 1)
    arrays = {"out.indptr": np.arange(nodes + 1, dtype=np.uint64), "out.indices": indices}
    data = spec.build(header, arrays)
    assert fault(data, tmp_path) == f"out.indices[3] = {nodes + 5} is past num_nodes = {nodes}"


def test_bools_and_padding_are_checked(tmp_path):
    flags = spec.features(flag=np.array([0, 1, 2, 1], np.uint8))
    header = spec.read_header(flags)
    header.arrays[0].dtype = "bool"
    bad = spec.write_header(header) + flags[4096:]
    assert fault(bad, tmp_path) == "array 'flag': element 2 is 2, expected 0 or 1"
    padded = bytearray(spec.features(x=np.ones((3, 2), np.float32)))
    padded[4096 + 24] = 1
    assert fault(bytes(padded), tmp_path) == "byte 4120 after array 'x' is not zero"


def test_every_flipped_bit_of_a_header_is_refused_at_open(tmp_path):
    good = spec.topology(ROWS)
    path = tmp_path / "g.gl"
    path.write_bytes(good)
    used = 128 + 96 * 2
    with path.open("r+b", buffering=0) as file:
        for bit in [*range(used * 8), *range(used * 8, 4096 * 8, 97)]:  # every bit: tests/core/format_test.cpp
            byte = good[bit // 8] ^ (1 << bit % 8)
            file.seek(bit // 8)
            file.write(bytes([byte]))
            with pytest.raises(gz.FormatError):
                _core.file_info(str(path))
            file.seek(bit // 8)
            file.write(good[bit // 8 : bit // 8 + 1])
    assert gz.Graph(path).num_nodes == 4


def test_every_sampled_flipped_bit_of_the_data_is_found(tmp_path):
    rng = np.random.default_rng(11)
    rows = [sorted(rng.integers(0, 500, 6).tolist()) for _ in range(500)]
    for data in (
        spec.topology(rows, weights=rng.random(3000, dtype=np.float32)),
        spec.features(x=rng.random((300, 7), dtype=np.float32), y=rng.integers(0, 5, 300)),
    ):
        path = tmp_path / "f"
        path.write_bytes(data)
        _core.verify(str(path), 1)
        with path.open("r+b", buffering=0) as file:
            for bit in rng.integers(4096 * 8, len(data) * 8, 1500).tolist():
                file.seek(bit // 8)
                file.write(bytes([data[bit // 8] ^ (1 << bit % 8)]))
                with pytest.raises(gz.FormatError):
                    _core.verify(str(path), 1)
                file.seek(bit // 8)
                file.write(data[bit // 8 : bit // 8 + 1])
        _core.verify(str(path), 1)


def plain_fault(indptr, indices, nodes, properties) -> bool:
    """Whether a topology is at fault, as FORMAT.md 5 says it in words."""
    edges = len(indices)
    if indptr[0] != 0 or indptr[-1] != edges or any(b < a for a, b in itertools.pairwise(indptr)):
        return True
    for u, (a, b) in enumerate(itertools.pairwise(indptr)):
        row = list(indices[a:b])
        if any(v >= nodes for v in row):
            return True
        if properties & 1 and row != sorted(row):
            return True
        if properties & 4 and any(v == w for v, w in itertools.pairwise(row)):
            return True
        if properties & 8 and u in row:
            return True
    return False


@settings(max_examples=150)
@given(
    data=st.data(),
    nodes=st.integers(1, 6),
    edges=st.integers(0, 12),
    properties=st.sampled_from([0, 1, 4, 5, 8, 9, 12, 13]),
)
def test_verify_agrees_with_the_words_of_the_page(tmp_path_factory, data, nodes, edges, properties):
    cuts = data.draw(st.lists(st.integers(0, edges), min_size=nodes - 1, max_size=nodes - 1))
    indptr = [0, *(sorted(cuts) if data.draw(st.booleans()) else cuts), edges]
    indices = data.draw(st.lists(st.integers(0, nodes - 1 + (nodes == 1)), min_size=edges, max_size=edges))
    if data.draw(st.booleans()):
        for a, b in itertools.pairwise(indptr):
            indices[a:b] = sorted(indices[a:b])
    path = tmp_path_factory.mktemp("v") / "g.gl"
    content = raw_topology(indptr, indices, properties=properties)
    if plain_fault(indptr, indices, nodes, properties):
        with pytest.raises(gz.FormatError):
            verify(content, path)
    else:
        verify(content, path)


@settings(max_examples=150)
@given(data=st.data(), nodes=st.integers(1, 5), edges=st.integers(0, 8))
def test_an_unverified_file_raises_or_answers_within_bounds(tmp_path_factory, data, nodes, edges):
    anything = st.integers(0, 2 * edges + 2) | st.sampled_from([2**31, 2**32, 2**63, 2**64 - 1])
    indptr = data.draw(st.lists(anything, min_size=nodes + 1, max_size=nodes + 1))
    indices = data.draw(st.lists(st.integers(0, nodes + 1) | st.just(2**32 - 1), min_size=edges, max_size=edges))
    path = tmp_path_factory.mktemp("u") / "g.gl"
    path.write_bytes(raw_topology(indptr, indices))
    g, told = gz.Graph(path), []
    for u in range(nodes):
        try:
            row = g.get_neighbours(u)
            assert len(row) == g.get_degree(u) <= edges
        except gz.FormatError as error:
            told.append(str(error))
    try:
        found = g.sample(np.arange(nodes), [-1, 2], seed=1)
        assert found.node.max() < nodes
    except gz.FormatError as error:
        told.append(str(error))
    assert all("graphzero verify" in message for message in told)


def test_a_corrupt_size_asks_for_no_memory(tmp_path):
    for field in (48, 56, 128 + 40, 128 + 96 + 40):
        for value in (2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1):
            data = bytearray(spec.topology(ROWS))
            struct.pack_into("<Q", data, field, value)
            struct.pack_into("<I", data, 76, spec.header_checksum(bytes(data[:4096])))
            (tmp_path / "g.gl").write_bytes(data)
            with pytest.raises(gz.FormatError):
                gz.Graph(tmp_path / "g.gl")
