"""Topologies for tests, from edges in memory: a plain compiler, so that tests of readers need not trust ours."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import container_spec as spec
import numpy as np

DIRECTIONS = {"out": 1, "in": 2, "both": 3}


def write_container(path, num_nodes, num_edges, direction, arrays, properties=1):
    """Write named arrays as a topology; digests are left 0, which opening does not look at."""
    header = spec.Header(spec.TOPOLOGY, num_nodes, num_edges, DIRECTIONS[direction], properties)
    header.arrays = [spec.Entry(name, array.dtype.name, array.shape) for name, array in arrays.items()]
    spec.lay_out(header)
    with open(path, "wb") as f:
        f.write(spec.write_header(header))
        for array in arrays.values():
            array.tofile(f)
            f.write(bytes(-array.nbytes % spec.PAGE))
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
