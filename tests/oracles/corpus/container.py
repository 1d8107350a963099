"""Containers with any field as one likes it, sound or not: what no writer would write."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from container_spec import crc32c, digest

PAGE = 4096
MAGIC = b"\x89GZF\r\n\x1a\n"
TOPOLOGY, FEATURES = 1, 2
OUT, IN, BOTH = 1, 2, 3
SORTED = 1

# Where the fields of the header page stand (FORMAT 2), and those of a table entry (FORMAT 3).
HEADER = {
    "magic": (0, "8s"),
    "major": (8, "H"),
    "minor": (10, "H"),
    "kind": (12, "I"),
    "compatible": (16, "Q"),
    "incompatible": (24, "Q"),
    "file_bytes": (32, "Q"),
    "header_bytes": (40, "Q"),
    "num_nodes": (48, "Q"),
    "num_edges": (56, "Q"),
    "direction": (64, "I"),
    "properties": (68, "I"),
    "num_arrays": (72, "I"),
    "checksum": (76, "I"),
    "num_targets": (80, "Q"),
    "parent": (88, "Q"),
    "sequence": (96, "Q"),
    "next_edge_id": (104, "Q"),
}
RESERVED, TABLE, ENTRY_BYTES = 88, 128, 96
ENTRY = {
    "name": (0, "32s"),
    "dtype": (32, "I"),
    "rank": (36, "I"),
    "rows": (40, "Q"),
    "columns": (48, "Q"),
    "offset": (56, "Q"),
    "bytes": (64, "Q"),
    "digest": (72, "Q"),
}
DTYPES = {
    "float64": 1,
    "float32": 2,
    "float16": 3,
    "int64": 5,
    "int32": 6,
    "int16": 7,
    "int8": 8,
    "uint8": 9,
    "bool": 10,
    "uint32": 11,
    "uint64": 12,
}


@dataclass
class File:
    """A container in parts. `bytes()` lays it out and sums it; what a test sets by hand stays as it is."""

    kind: int
    num_nodes: int
    num_edges: int = 0
    direction: int = 0
    properties: int = 0
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)  # header fields that override the right ones
    entries: dict[int, dict[str, Any]] = field(default_factory=dict)  # the same for entries of the table
    raw: list[tuple[int, bytes]] = field(default_factory=list)  # bytes put over the header before it is summed
    tail: bytes = b""  # appended to the file
    cut: int | None = None  # the file is cut to this many bytes

    def bytes(self) -> bytes:
        """The whole file."""
        header_bytes = -(-(TABLE + ENTRY_BYTES * len(self.arrays)) // PAGE) * PAGE
        page = bytearray(header_bytes)
        offset, body = header_bytes, b""
        for i, (name, array) in enumerate(self.arrays.items()):
            data = np.ascontiguousarray(array).tobytes()
            entry = {
                "name": name.encode(),
                "dtype": DTYPES[array.dtype.name],
                "rank": array.ndim,
                "rows": array.shape[0],
                "columns": array.shape[1] if array.ndim == 2 else 0,
                "offset": offset,
                "bytes": len(data),
                "digest": digest(data),
            }
            put(page, TABLE + i * ENTRY_BYTES, ENTRY, entry | self.entries.get(i, {}))
            body += data + bytes(-len(data) % PAGE)
            offset += len(data) + -len(data) % PAGE
        fields = {
            "magic": MAGIC,
            "major": 1,
            "minor": 0,
            "kind": self.kind,
            "compatible": 0,
            "incompatible": 0,
            "file_bytes": offset,
            "header_bytes": header_bytes,
            "num_nodes": self.num_nodes,
            "num_edges": self.num_edges,
            "direction": self.direction,
            "properties": self.properties,
            "num_arrays": len(self.arrays),
        }
        put(page, 0, HEADER, fields | {k: v for k, v in self.header.items() if k != "checksum"})
        for at, raw in self.raw:
            page[at : at + len(raw)] = raw
        put(page, 0, HEADER, {"checksum": self.header.get("checksum", crc32c(page))})
        return (bytes(page) + body + self.tail)[: self.cut]


def put(page: bytearray, base: int, layout: Mapping[str, tuple[int, str]], values: Mapping[str, Any]) -> None:
    """Write named fields at their places."""
    for name, value in values.items():
        at, code = layout[name]
        struct.pack_into("<" + code, page, base + at, value)


def topology(
    indptr: Any,
    indices: Any,
    *,
    direction: int = OUT,
    properties: int = SORTED,
    num_nodes: int | None = None,
    **more: Any,
) -> File:
    """A topology with these rows, sound or not; `more` are further arrays by their short name (weights=)."""
    indptr, indices = np.asarray(indptr, np.uint64), np.asarray(indices, np.uint32)
    arrays = {}
    for side in ("out", "in"):
        if direction & (1 if side == "out" else 2):
            arrays |= {f"{side}.indptr": indptr, f"{side}.indices": indices}
            arrays |= {f"{side}.{name}": array for name, array in more.items()}
    nodes = len(indptr) - 1 if num_nodes is None else num_nodes
    return File(TOPOLOGY, nodes, len(indices), direction, properties, arrays)


def features(**arrays: Any) -> File:
    """A feature file with these arrays."""
    first = next(iter(arrays.values()))
    return File(FEATURES, len(first), arrays={k.replace("__", "."): np.asarray(v) for k, v in arrays.items()})


def legacy_topology(indptr: Any, indices: Any, weights: Any = None, **fields: int) -> bytes:
    """A `.gl` of GraphZero 0.2: eight words, then 64-bit arrays (FORMAT 8). `fields` override words of the header."""
    indptr, indices = np.asarray(indptr, np.uint64), np.asarray(indices, np.uint64)
    at = -(-(64 + indptr.nbytes) // 64) * 64
    words = {
        "magic": 8388354976772092519,
        "indptr_bytes": indptr.nbytes,
        "indices_bytes": indices.nbytes,
        "indptr_at": 64,
        "indices_at": at,
        "num_nodes": len(indptr) - 1,
        "num_edges": len(indices),
        "flags": int(weights is not None),
    }
    data = struct.pack("<8Q", *(words | fields).values()) + indptr.tobytes()
    data += bytes(at - len(data)) + indices.tobytes()
    if weights is not None:
        data += bytes(-len(data) % 64) + np.asarray(weights, np.float32).tobytes()
    return data


def legacy_features(rows: Any, **fields: int) -> bytes:
    """A `.gd` of GraphZero 0.2: 32 bytes of header, then the rows."""
    rows = np.asarray(rows)
    codes = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}
    values = {"flags": 0, "dtype": codes[rows.dtype.name], "num_nodes": rows.shape[0], "dim": rows.shape[1]} | fields
    return b"GZDATA26" + struct.pack("<IIQQ", *values.values()) + rows.tobytes()
