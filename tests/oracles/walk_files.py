"""Graphs for tests of walks: from a list of edges, in the order of rows that a test asks for, or as 0.2 wrote them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from glfile import write_container, write_graph

SORTED, UNDIRECTED = 1, 2


def stream(name: str) -> int:
    """The word that keeps one kind of draw apart from the others: its name, read as a number."""
    return int.from_bytes(name.encode(), "little")


def write_edges(
    path: Any, num_nodes: int, edges: Iterable[tuple[int, int]], weights: Any = None, **options: Any
) -> str:
    """Write a graph from its (source, target) pairs; options are those of `write_graph`."""
    pairs = np.array(list(edges), np.int64).reshape(-1, 2)
    return os.fspath(write_graph(path, num_nodes, pairs[:, 0], pairs[:, 1], weights=weights, **options))


def _rows(num_nodes: int, edges: Iterable[tuple[int, int]]) -> tuple[Any, Any, Any]:
    pairs = np.array(list(edges), np.int64).reshape(-1, 2)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=num_nodes))]).astype(np.uint64)
    order = np.argsort(pairs[:, 0], kind="stable")
    return indptr, pairs[order, 1], order


def write_unsorted(path: Any, num_nodes: int, edges: Iterable[tuple[int, int]], weights: Any) -> str:
    """Write a graph whose rows keep the order of the source, and say so."""
    indptr, targets, order = _rows(num_nodes, edges)
    w = np.asarray(weights, np.float32)[order]
    sums = [np.cumsum(w[int(a) : int(b)], dtype=np.float64) for a, b in pairwise(indptr)]
    arrays = {
        "out.indptr": indptr,
        "out.indices": targets.astype(np.uint32),
        "out.weights": w,
        "out.cumulative": np.concatenate([*sums, np.zeros(0)]),
    }
    return os.fspath(write_container(path, num_nodes, len(targets), "out", arrays, properties=0))


def write_legacy(path: Any, num_nodes: int, edges: Iterable[tuple[int, int]], weights: Any = None) -> str:
    """Write a file as GraphZero 0.2 did: 64-bit ids, rows in the order of the source, no running sums."""
    indptr, targets, order = _rows(num_nodes, edges)
    indices = targets.astype(np.uint64)
    at = -(-(64 + indptr.nbytes) // 64) * 64
    header = [8388354976772092519, indptr.nbytes, indices.nbytes, 64, at, num_nodes, len(indices), weights is not None]
    body = bytearray(struct.pack("<8Q", *map(int, header)) + indptr.tobytes())
    body += bytes(at - len(body)) + indices.tobytes()
    if weights is not None:
        body += bytes(-len(body) % 64) + np.asarray(weights, np.float32)[order].tobytes()
    with open(path, "wb") as f:
        f.write(body)
    return os.fspath(path)
