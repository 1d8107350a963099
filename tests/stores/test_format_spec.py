"""FORMAT.md, the engine, and a reader and writer made from the page alone: three that must agree."""

from __future__ import annotations

import re
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "FORMAT.md").read_text()
ROWS = [[1, 2], [], [0, 1, 3], [3]]


def section(number: int) -> str:
    return re.split(r"^## \d+\. .*$", PAGE, flags=re.M)[number]


def positions(number: int) -> dict[str, int]:
    """Field name -> byte, as the table of a section prints it."""
    found = re.findall(r"^\| (\d+) \| [^|]+ \| `?([a-z_]+)`? \|", section(number), flags=re.M)
    return {name: int(byte) for byte, name in found}


def enum(name: str) -> dict[str, int]:
    """A C++ enum of byte positions: kAtNumNodes = 48 -> {"num_nodes": 48}."""
    source = (ROOT / "core" / "format" / "container.cpp").read_text()
    body = re.search(rf"enum {name} : size_t \{{(.*?)\}};", source, flags=re.S).group(1)
    pairs = re.findall(r"kAt(\w+) = (\d+)", body)
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", n).lower(): int(v) for n, v in pairs}


def test_the_pages_positions_are_the_codes():
    assert len(positions(2)) == 20
    assert positions(2) == enum("Field")
    entry = enum("EntryField")
    entry["reserved"] = entry.pop("entry_reserved")
    assert positions(3) == entry


def test_the_pages_dtypes_are_the_codes():
    page = re.findall(r"\| (\d+) \| (\w+)(?: \([^)]*\))? \| (\d)(?= \|)", section(3).split("Padding is zero.")[1])
    source = (ROOT / "core" / "format" / "dtype.h").read_text()
    code = {n.lower(): int(v) for n, v in re.findall(r"k(\w+) = (\d+)", source)}
    assert {name: int(number) for number, name, _ in page} == code == spec.CODES
    assert all(int(size) == (2 if name == "bfloat16" else np.dtype(name).itemsize) for _, name, size in page)


def test_the_pages_test_vectors():
    printed = [int(v, 16) for v in re.findall(r"\| (0x[0-9A-F]{16}) \|", section(4))]
    assert printed == [spec.digest(b""), spec.digest(b"123456789"), spec.digest(bytes(1048577))]
    assert f"0x{spec.crc32c(b'123456789'):X}" in section(4)


def test_every_section_that_the_code_cites_is_there():
    assert re.findall(r"^## (\d+)\.", PAGE, flags=re.M) == [str(i) for i in range(1, 11)]
    cited = set()
    for path in [*ROOT.glob("core/**/*.[ch]*"), *ROOT.glob("bindings/*")]:
        cited |= {int(n) for n in re.findall(r"FORMAT (\d+)", path.read_text())}
    assert cited
    assert cited <= set(range(1, 11))


def test_the_engine_reads_a_topology_written_from_the_page(tmp_path):
    weights = np.array([0.5, 1, 2, 3, 4, 5], np.float32)
    more = {
        "weights": weights,
        "cumulative": np.array([0.5, 1.5, 2, 5, 9, 5], np.float64),
        "edge_ids": np.array([5, 4, 3, 2, 1, 0], np.uint32),
        "times": np.array([9, 8, 7, -1, 7, 0], np.int64),
        "by_time": np.array([1, 0, 1, 0, 2, 0], np.uint32),
    }
    path = tmp_path / "g.gl"
    path.write_bytes(spec.topology(ROWS, direction=3, properties=1 | 4, **more))
    report = _core.verify(str(path))
    assert report["arrays"] == 14
    g = gz.Graph(path)
    assert (g.num_nodes, g.num_edges, g.direction) == (4, 6, "both")
    for u, row in enumerate(ROWS):
        assert g.get_neighbours(u).tolist() == g.get_neighbours(u, direction="in").tolist() == row
    assert g.get_weights(2).tolist() == [2, 3, 4]
    assert g.get_times(0).tolist() == [9, 8]
    assert g.get_edge_ids(3).tolist() == [0]
    assert g.info["deduplicated"]
    assert not g.info["undirected"]


@settings(max_examples=40)
@given(
    name=st.from_regex(r"[a-zA-Z0-9_.\-/]{1,31}", fullmatch=True).filter(lambda s: not s.endswith(".scale")),
    dtype=st.sampled_from([d for d in spec.CODES if d != "bfloat16"]),
    shape=st.tuples(st.integers(1, 40)) | st.tuples(st.integers(1, 40), st.integers(1, 9)),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_engine_reads_features_written_from_the_page(tmp_path_factory, name, dtype, shape, seed):
    values = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    path = tmp_path_factory.mktemp("spec") / "x.gd"
    path.write_bytes(spec.features(**{name: values}))
    assert _core.verify(str(path))["bytes"] == values.nbytes
    fs = gz.FeatureStore(path)
    assert (fs.names, fs.shape, fs.dtype) == ([name], shape, np.dtype(dtype))
    np.testing.assert_array_equal(fs.get_tensor(), values)


def test_scales_and_bfloat16(tmp_path):
    x, half = np.arange(12, dtype=np.int8).reshape(4, 3), np.full((4, 1), 0x3F80, np.uint16)
    scale = np.array([0.5, 1, 2], np.float32)
    path = tmp_path / "x.gd"
    path.write_bytes(spec.features({"half": "bfloat16"}, **{"x": x, "x.scale": scale, "half": half}))
    assert _core.verify(str(path))["arrays"] == 3
    fs = gz.FeatureStore(path)
    assert fs.names == ["x", "half"]
    assert fs["half"].dtype_name == "bfloat16"
    assert fs["half"].get_tensor().tolist() == half.tolist()


def test_the_spec_reader_reads_what_the_compiler_writes(tmp_path):
    rng = np.random.default_rng(4)
    edges = rng.integers(0, 50, (2, 400))
    weights, times = rng.random(400, dtype=np.float32), rng.integers(0, 9, 400)
    path = tmp_path / "g.gl"
    gz.compile_graph((*edges, weights, times), path, direction="both", edge_ids=True, num_nodes=60)
    data = path.read_bytes()
    header = spec.read_header(data)
    assert (header.kind, header.num_nodes, header.num_edges, header.direction) == (spec.TOPOLOGY, 60, 400, 3)
    assert header.properties & 1
    arrays = {a.name: np.frombuffer(data, a.dtype, a.shape[0], a.offset) for a in header.arrays}
    assert all(spec.digest(arrays[a.name].tobytes()) == a.digest for a in header.arrays)
    for side, (rows, neighbours) in {"out.": edges, "in.": edges[::-1]}.items():
        indptr, indices, ids = (arrays[side + name] for name in ("indptr", "indices", "edge_ids"))
        for u in range(60):
            row = slice(int(indptr[u]), int(indptr[u + 1]))
            assert indices[row].tolist() == sorted(neighbours[rows == u].tolist())
            assert (rows[ids[row]] == u).all()
            np.testing.assert_array_equal(neighbours[ids[row]], indices[row])
            np.testing.assert_array_equal(weights[ids[row]], arrays[side + "weights"][row])
            np.testing.assert_array_equal(times[ids[row]], arrays[side + "times"][row])
            by_time = arrays[side + "times"][row][arrays[side + "by_time"][row]]
            assert (np.diff(by_time) >= 0).all()


def test_the_spec_reader_reads_what_it_writes():
    data = spec.features(x=np.ones((3, 2), np.float32))
    header = spec.read_header(data)
    assert header.arrays == [spec.Entry("x", "float32", (3, 2), 4096, 24, spec.digest(data[4096:4120]))]
    assert header.file_bytes == len(data) == 8192


@pytest.mark.parametrize("byte", [0, 9, 13, 33, 41, 49, 70, 77, 90, 130, 165, 170, 190, 200, 4095])
def test_a_damaged_header_does_not_open(tmp_path, byte):
    data = bytearray(spec.topology(ROWS))
    data[byte] ^= 0x10
    (tmp_path / "g.gl").write_bytes(data)
    with pytest.raises(gz.FormatError, match=r"g\.gl"):
        gz.Graph(tmp_path / "g.gl")
