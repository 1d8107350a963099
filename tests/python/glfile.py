"""A plain writer of `.gl` files for tests: FORMAT.md in forty lines, so that tests of readers need no compiler."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np

DTYPES = {"float64": 1, "float32": 2, "int64": 5, "uint32": 11, "uint64": 12}
DIRECTIONS = {"out": 1, "in": 2, "both": 3}
PAGE = 4096


def crc32c(data: bytes) -> int:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def write_container(path, num_nodes, num_edges, direction, arrays, properties=1):
    """Write named arrays as a topology; digests are left 0, which opening does not look at."""
    header = bytearray(PAGE)
    offset = PAGE
    for i, (name, array) in enumerate(arrays.items()):
        at = 128 + 96 * i
        header[at : at + len(name)] = name.encode()
        fields = (DTYPES[array.dtype.name], 1, len(array), 0, offset, array.nbytes, 0)
        struct.pack_into("<IIQQQQQ", header, at + 32, *fields)
        offset += -(-array.nbytes // PAGE) * PAGE
    header[0:8] = b"\x89GZF\r\n\x1a\n"
    fields = (1, 0, 1, 0, 0, offset, PAGE, num_nodes, num_edges, DIRECTIONS[direction], properties, len(arrays), 0)
    struct.pack_into("<HHIQQQQQQIIII", header, 8, *fields)
    struct.pack_into("<I", header, 76, crc32c(bytes(header)))
    with open(path, "wb") as f:
        f.write(header)
        for array in arrays.values():
            array.tofile(f)
            f.write(bytes(-array.nbytes % PAGE))
    return Path(path)


def write_graph(path, num_nodes, src, dst, *, weights=None, times=None, edge_ids=False, direction="out"):
    """Write the edges src -> dst, rows by source for "out" and by target for "in", each sorted by neighbour."""
    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    arrays = {}
    for side in ("out", "in") if direction == "both" else (direction,):
        row, neighbour = (src, dst) if side == "out" else (dst, src)
        order = np.lexsort((neighbour, row))
        indptr = np.zeros(num_nodes + 1, np.uint64)
        indptr[1:] = np.cumsum(np.bincount(row, minlength=num_nodes))
        starts = np.repeat(indptr[:-1].astype(np.int64), np.diff(indptr).astype(np.int64))
        arrays[f"{side}.indptr"] = indptr
        arrays[f"{side}.indices"] = neighbour[order].astype(np.uint32)
        if weights is not None:
            w = np.asarray(weights, np.float32)[order]
            arrays[f"{side}.weights"] = w
            parts = [np.cumsum(w[int(a) : int(b)].astype(np.float64)) for a, b in pairwise(indptr)]
            arrays[f"{side}.cumulative"] = np.concatenate([*parts, np.zeros(0)])
        if edge_ids:
            arrays[f"{side}.edge_ids"] = order.astype(np.uint32)
        if times is not None:
            t = np.asarray(times, np.int64)[order]
            arrays[f"{side}.times"] = t
            arrays[f"{side}.by_time"] = (np.lexsort((t, row[order])) - starts).astype(np.uint32)
    return write_container(path, num_nodes, len(src), direction, arrays)
