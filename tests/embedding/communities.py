"""A graph with planted communities, and how well vectors tell them apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import graphzero as gz

NODES, COMMUNITIES = 300, 5


def communities(path: Path, **options: object) -> gz.Graph:
    """Compile a graph whose edges stay inside a community nine times out of ten; node i is in i % COMMUNITIES."""
    rng = np.random.default_rng(0)
    src, dst = np.repeat(np.arange(NODES), 8), rng.integers(0, NODES, 8 * NODES)
    inside = rng.random(len(src)) < 0.9
    dst = (dst + np.where(inside, (src - dst) % COMMUNITIES, 0)) % NODES
    edges = (src, dst, np.ones(len(src), np.float32)) if options.pop("weighted", False) else (src, dst)
    gz.compile_graph(edges, path, **{"directed": False, "num_nodes": NODES, "progress": False, **options})
    return gz.Graph(path)


def auc(x: np.ndarray) -> float:
    """The chance that two nodes of one community have a larger cosine than two of different ones."""
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    a, b = np.triu_indices(len(x), 1)
    scores, same = np.einsum("nd,nd->n", x[a], x[b]), a % COMMUNITIES == b % COMMUNITIES
    below = np.searchsorted(np.sort(scores[~same]), scores[same])
    return float(below.mean() / (~same).sum())
