"""The corpus: files that must be refused at open, one or more for each check, with what the refusal has to say.

Run it to look at the files: `PYTHONPATH=tests/oracles python -m corpus.malformed FOLDER` writes them all, with a
manifest.json.
"""

from __future__ import annotations

import copy
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpus.container import (
    BOTH,
    ENTRY_BYTES,
    FEATURES,
    PAGE,
    RESERVED,
    TABLE,
    TOPOLOGY,
    File,
    features,
    legacy_features,
    legacy_topology,
    topology,
)

# The edges of words, where a size that is added to or multiplied goes round.
EDGES = sorted({2**k + d for k in (31, 32, 62, 63, 64) for d in (-1, 0, 1) if 0 <= 2**k + d < 2**64})


@dataclass(frozen=True)
class Case:
    """A file that is to be refused. `message` is in the error; '' where any typed error will do."""

    name: str
    data: bytes
    message: str

    @property
    def suffix(self) -> str:
        """The extension says which class opens it."""
        return ".gd" if "features" in self.name else ".gl"


def sound_topology() -> File:
    """Five nodes, seven edges, both directions, weights, edge ids and times: every array the schema knows."""
    weights = np.ones(7, np.float32)
    cumulative = np.array([1, 2, 1, 2, 3, 1, 1], np.float64)
    by_time = np.array([0, 1, 0, 1, 2, 0, 0], np.uint32)
    return topology(
        [0, 2, 5, 5, 6, 7],
        [1, 4, 0, 2, 3, 0, 4],
        direction=BOTH,
        weights=weights,
        cumulative=cumulative,
        edge_ids=np.arange(7, dtype=np.uint32),
        times=np.zeros(7, np.int64),
        by_time=by_time,
    )


def sound_rectangle() -> File:
    """Three sources, five targets, four edges, both directions."""
    arrays = {
        "out.indptr": np.array([0, 2, 3, 4], np.uint64),
        "out.indices": np.array([0, 4, 1, 4], np.uint32),
        "in.indptr": np.array([0, 1, 2, 2, 2, 4], np.uint64),
        "in.indices": np.array([0, 1, 0, 2], np.uint32),
    }
    return File(TOPOLOGY, 3, 4, BOTH, 1, arrays, {"minor": 1, "incompatible": 1, "num_targets": 5})


def sound_delta() -> File:
    """A delta for a graph of five nodes with one more, whose row has two edges."""
    arrays = {
        "out.indices": np.array([0, 5], np.uint32),
        "out.rows.index": np.array([1 << 5, 0], np.uint64),
        "out.rows.table": np.array([1024, 1026, 7, 2], np.uint64),
    }
    return File(TOPOLOGY, 6, 9, 1, 1, arrays, {"minor": 2, "incompatible": 2, "parent": 77, "sequence": 1})


def sound_features() -> File:
    """Six rows: int8 with its scale, a matrix of floats, a vector of labels."""
    return features(
        x=np.arange(18, dtype=np.int8).reshape(6, 3),
        x__scale=np.ones(3, np.float32),
        wide=np.arange(24, dtype=np.float32).reshape(6, 4),
        label=np.arange(6, dtype=np.int64),
    )


def sound_legacy_topology(**fields: int) -> bytes:
    """Five nodes and seven edges as GraphZero 0.2 wrote them."""
    return legacy_topology([0, 2, 5, 5, 6, 7], [1, 4, 0, 2, 3, 0, 4], np.ones(7), **fields)


def sound_legacy_features(**fields: int) -> bytes:
    """Four rows of three floats as GraphZero 0.2 wrote them."""
    return legacy_features(np.arange(12, dtype=np.float32).reshape(4, 3), **fields)


def _changed(file: File, **parts: Any) -> File:
    other = copy.deepcopy(file)
    for name, value in parts.items():
        setattr(other, name, value)
    return other


def _entry(file: File, array: str, **fields: Any) -> File:
    return _changed(file, entries={list(file.arrays).index(array): fields})


def _with(file: File, array: str, value: np.ndarray[Any, Any] | None) -> File:
    arrays = dict(file.arrays)
    if value is None:
        del arrays[array]
    else:
        arrays[array] = value
    return _changed(file, arrays=arrays)


def header_cases() -> Iterator[tuple[str, File, str]]:
    """The header page (FORMAT 2)."""
    good = sound_topology()
    size = len(good.bytes())

    def header(**fields: Any) -> File:
        return _changed(good, header=fields)

    yield "empty", _changed(good, cut=0), "0 bytes, a GraphZero file has at least 4096"
    yield "cut-in-the-first-page", _changed(good, cut=PAGE - 1), "4095 bytes, a GraphZero file has at least 4096"
    yield "magic", header(magic=b"\x89GZF\n\n\x1a\n"), "not a GraphZero file"
    yield "older-major", header(major=0), "format version 0.0, this GraphZero reads version 1.x"
    yield "newer-major", header(major=2, minor=7), "format version 2.7, this GraphZero reads version 1.x"
    for value in (0, PAGE - 1, PAGE + 1, (1 << 20) + PAGE, *EDGES):
        yield f"header-bytes-{value}", header(header_bytes=value), f"header_bytes is {value}"
    yield "header-longer-than-the-file", header(header_bytes=1 << 20), "header_bytes is 1048576, the file has"
    yield "checksum", header(checksum=1), "header checksum is 1"
    yield "incompatible-flag", header(incompatible=4), "incompatible flags are 4 (version 1.0)"
    for value in (0, 3, 2**32 - 1):
        yield f"kind-{value}", header(kind=value), f"kind is {value}, expected 1"
    for value in EDGES:
        yield f"file-bytes-{value}", header(file_bytes=value), f"file_bytes is {value}, the file has {size}"
    yield "cut-short", _changed(good, cut=size - 1), "it was truncated"
    yield "cut-to-the-header", _changed(good, cut=PAGE), "it was truncated"
    yield "appended", _changed(good, tail=b"\0"), "data was appended"
    yield "direction-4", header(direction=4), "direction is 4, expected 0 to 3"
    yield "direction-none", header(direction=0), "direction is 0, a topology has 1 to 3"
    for at in (RESERVED, TABLE - 1):
        yield f"reserved-byte-{at}", _changed(good, raw=[(at, b"\1")]), "reserved header bytes are not zero"
    for value in (42, 2**31, 2**32 - 1):
        yield f"num-arrays-{value}", header(num_arrays=value), f"num_arrays is {value}, the header has room for 41"
    after = TABLE + ENTRY_BYTES * len(good.arrays)
    for at in (after, PAGE - 1):
        yield f"byte-{at}-after-the-table", _changed(good, raw=[(at, b"\1")]), "after the array table are not zero"
    fewer = header(num_arrays=len(good.arrays) - 1)
    yield "one-array-fewer", fewer, f"the arrays end at {size - PAGE}, the file at {size}"
    for value in EDGES:
        yield f"num-nodes-{value}", header(num_nodes=value), ""
        yield f"num-edges-{value}", header(num_edges=value), ""
    yield "num-nodes-past-2-62", header(num_nodes=2**62 + 1), "expected below 2^62"


def delta_cases() -> Iterator[tuple[str, File, str]]:
    """Deltas (FORMAT 9), which are refused by themselves even if they are sound."""
    good = sound_delta()
    yield "delta-alone", good, "is delta 1 of another file and cannot be opened by itself"
    yield "delta-reserved", _changed(good, raw=[(112, b"\1")]), "reserved header bytes are not zero"
    yield "delta-without-the-flag", _changed(good, header=good.header | {"incompatible": 0}), "reserved header bytes"
    for name, found in (("index", "a vector of 2"), ("table", "a vector of 0")):
        short = _with(good, f"out.rows.{name}", good.arrays[f"out.rows.{name}"][:1])
        yield f"delta-short-{name}", short, f"array 'out.rows.{name}' has 1 elements, expected {found}"
    matrix = File(FEATURES, 3, 0, 0, 0, {"x": np.zeros((3, 2), np.float32)}, {"minor": 2, "incompatible": 2})
    yield "features-delta-matrix", matrix, "array 'x' of a delta has two dimensions, expected one"


def rectangle_cases() -> Iterator[tuple[str, File, str]]:
    """Topologies whose sources and targets are different nodes (FORMAT 2 and 5)."""
    good = sound_rectangle()

    def header(**fields: Any) -> File:
        return _changed(good, header=good.header | fields)

    yield "targets-without-the-flag", header(incompatible=0), "num_targets is 5, expected 0 in a file that is not"
    yield "as-many-targets-as-sources", header(num_targets=3), "num_targets is 3 like num_nodes"
    yield "num-targets-past-2-62", header(num_targets=2**62 + 1), "expected at most 2^62"
    for value in (0, 4, 6, *EDGES):
        yield f"num-targets-{value}", header(num_targets=value), ""
    for value in (2, 8, 11):
        yield f"rectangle-properties-{value}", header(properties=value), f"properties are {value}, a rectangular file"
    yield "rectangle-incompatible-5", header(incompatible=5), "incompatible flags are 5 (version 1.1)"
    other = _with(good, "in.indptr", good.arrays["out.indptr"])
    yield "in-rows-by-source", other, "array 'in.indptr' has 4 elements, expected a vector of 6"
    flags = {"minor": 1, "incompatible": 1, "num_targets": 5}
    yield "features-rectangular", _changed(sound_features(), header=flags), "which only topologies may have"


def entry_cases() -> Iterator[tuple[str, File, str]]:
    """An entry of the table of arrays (FORMAT 3)."""
    good = sound_topology()
    name = "out.indices"
    bad_name = "array 1: name is not 1 to 31 letters"
    for label, raw in (("none", b""), ("space", b"out indices"), ("unended", b"a" * 32), ("high", b"\xff\xfe")):
        yield f"name-{label}", _entry(good, name, name=raw), bad_name
    yield "name-after-its-end", _entry(good, name, name=b"out.indices\0x"), bad_name
    for value in (0, 13, 2**32 - 1):
        yield f"dtype-{value}", _entry(good, name, dtype=value), f"array '{name}': dtype code is {value}"
    for value in (0, 3, 2**32 - 1):
        yield f"rank-{value}", _entry(good, name, rank=value), f"array '{name}': rank is {value}"
    yield "columns-of-a-vector", _entry(good, name, columns=1), "shape[1] is 1, expected 0 for a vector"
    for value in EDGES:
        yield f"rows-{value}", _entry(good, name, rows=value), f"array '{name}': "
        yield f"bytes-{value}", _entry(good, name, bytes=value), f"bytes is {value}, expected 28 from"
        yield f"offset-{value}", _entry(good, name, offset=value), f"offset is {value}, expected 8192"
        agreeing = _entry(good, name, rows=value, bytes=value * 4 % 2**64)
        yield f"rows-and-bytes-{value}", agreeing, f"array '{name}'"
    square = _entry(good, name, rank=2, rows=2**32, columns=2**32, bytes=0)
    yield "shape-overflows", square, f"array '{name}': the shape overflows 64 bits"
    yield "past-the-end", _entry(good, name, rows=2**20, bytes=2**22), f"array '{name}' ends past the file's"
    end = 2**64 - 4096
    yield "wraps-round", _entry(good, name, rows=end // 4, bytes=end), f"array '{name}' ends past the file's"
    yield "overlap", _entry(good, name, offset=PAGE), "offset is 4096, expected 8192"
    yield "hole", _entry(good, name, offset=3 * PAGE), "offset is 12288, expected 8192"
    yield "unaligned", _entry(good, name, offset=2 * PAGE + 64), "offset is 8256, expected 8192"
    yield "listed-twice", _entry(good, name, name=b"out.indptr"), "array 'out.indptr' is listed twice"
    at = TABLE + ENTRY_BYTES + 80
    yield "entry-reserved", _changed(good, raw=[(at, b"\1")]), f"array '{name}': reserved bytes are not zero"


def schema_cases() -> Iterator[tuple[str, File, str]]:
    """What the arrays of each kind must be (FORMAT 5 and 6)."""
    good = sound_topology()
    for name in ("out.indptr", "out.indices", "in.indptr", "in.indices"):
        yield f"no-{name}", _with(good, name, None), f"array '{name}' is missing"
    types = {"indptr": "uint64", "indices": "uint32", "weights": "float32", "cumulative": "float64"}
    types |= {"edge_ids": "uint32 or uint64", "times": "int64", "by_time": "uint32 or uint64"}
    for side in ("out", "in"):
        for short, expected in types.items():
            name = f"{side}.{short}"
            array = good.arrays[name]
            wrong = _with(good, name, array.astype(np.int16))
            yield f"{name}-dtype", wrong, f"array '{name}' has dtype int16, expected {expected}"
            longer = _with(good, name, np.concatenate([array, array[:1]]))
            yield f"{name}-long", longer, f"array '{name}' has {len(array) + 1} elements, expected a vector of"
            square = _with(good, name, array.reshape(-1, 1))
            yield f"{name}-matrix", square, f"array '{name}' has {len(array)} rows, expected a vector of"
        for derived, source in (("cumulative", "weights"), ("by_time", "times")):
            alone = _with(good, f"{side}.{source}", None)
            yield f"{side}-{derived}-alone", alone, f"'{side}.{derived}' is there without '{side}.{source}'"
    yield "features-as-topology", _changed(sound_features(), kind=TOPOLOGY, direction=1), "'out.indptr' is missing"

    rows = sound_features()
    yield "features-rows", _with(rows, "label", np.zeros(5, np.int64)), "array 'label' has 5 rows, num_nodes is 6"
    long = _with(rows, "x.scale", np.ones(4, np.float32))
    yield "features-scale-long", long, "'x.scale' has 4 elements, expected a vector of 3"
    wide = _with(rows, "x.scale", np.ones(3, np.float64))
    yield "features-scale-dtype", wide, "'x.scale' has dtype float64, expected float32"
    yield "features-direction", _changed(rows, direction=1), "direction is 1, features have 0"
    empty = File(FEATURES, 6, arrays={"x": np.zeros((0, 0), np.int8)}, header={"num_nodes": 2**62 + 1})
    yield "features-num-nodes", empty, "num_nodes is 4611686018427387905, expected below 2^62"
    for value in EDGES:
        yield f"features-num-nodes-{value}", _changed(rows, header={"num_nodes": value}), ""
        yield f"features-columns-{value}", _entry(rows, "wide", columns=value), "array 'wide': "


def legacy_cases() -> Iterator[tuple[str, bytes, str]]:
    """Headers of GraphZero 0.1 and 0.2 (FORMAT 8)."""
    for name in ("num_nodes", "indptr_bytes"):
        for value in (0, *EDGES):
            yield f"legacy-{name}-{value}", sound_legacy_topology(**{name: value}), "(GraphZero 0.2 file) indptr has"
    for name in ("num_edges", "indices_bytes"):
        for value in (0, *EDGES):
            yield f"legacy-{name}-{value}", sound_legacy_topology(**{name: value}), "(GraphZero 0.2 file) indices has"
    for value in (1, 2**20, *EDGES):
        for name in ("indptr", "indices"):
            data = sound_legacy_topology(**{f"{name}_at": value})
            yield f"legacy-{name}-at-{value}", data, f"out.{name} at byte {value} with"
    yield "legacy-cut", sound_legacy_topology()[:-1], "out.weights at byte"
    grown = sound_legacy_topology(num_nodes=2**40 - 1, indptr_bytes=2**43)
    yield "legacy-grown", grown, "out.indptr at byte 64 with 1099511627776 elements does not fit"
    for value in (4, 2**32 - 1):
        data = sound_legacy_features(dtype=value)
        yield f"legacy-features-dtype-{value}", data, f"(GraphZero 0.2 file) dtype is {value}, expected 0 to 3"
    for value in EDGES:
        yield f"legacy-features-num-nodes-{value}", sound_legacy_features(num_nodes=value), "(GraphZero 0.2 file)"
        yield f"legacy-features-dim-{value}", sound_legacy_features(dim=value), "(GraphZero 0.2 file)"
    both = sound_legacy_features(num_nodes=2**33, dim=2**33)
    yield "legacy-features-overflow", both, "8589934592 rows of 8589934592 overflow 64 bits"
    empty = sound_legacy_features(num_nodes=2**60 + 1, dim=0)
    yield "legacy-features-many-empty-rows", empty, "num_nodes is 1152921504606846977, expected below 2^60"
    yield "legacy-features-cut", sound_legacy_features()[:-1], "x at byte 32 with 12 elements does not fit"


def cases() -> list[Case]:
    """Every malformed file."""
    found = [
        Case(name, file.bytes(), message)
        for part in (header_cases, delta_cases, rectangle_cases, entry_cases, schema_cases)
        for name, file, message in part()
    ]
    found += [Case(name, data, message) for name, data, message in legacy_cases()]
    text = b"0,1\n1,2\n" * 1000
    found += [
        Case("text", text, "not a GraphZero file"),
        Case("a-zip", b"PK\3\4" + bytes(5000), "not a GraphZero file"),
        Case("zeros", bytes(3 * PAGE), "not a GraphZero file"),
        Case("legacy-magic-alone", struct.pack("<Q", 8388354976772092519), "8 bytes, a GraphZero file has at least"),
    ]
    return found


def write(folder: Path) -> None:
    """Write every file and a manifest of what each must be refused with; and the sound ones, for fuzzing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sound.gl").write_bytes(sound_topology().bytes())
    (folder / "sound-rectangle.gl").write_bytes(sound_rectangle().bytes())
    (folder / "sound.gd").write_bytes(sound_features().bytes())
    (folder / "sound-0.2.gl").write_bytes(sound_legacy_topology())
    (folder / "sound-0.2.gd").write_bytes(sound_legacy_features())
    manifest = {}
    for case in cases():
        (folder / f"{case.name}{case.suffix}").write_bytes(case.data)
        manifest[f"{case.name}{case.suffix}"] = case.message
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
