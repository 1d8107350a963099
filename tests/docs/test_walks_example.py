"""The node2vec example learns: walks alone separate the communities."""

from __future__ import annotations

import resource
import runpy
from pathlib import Path

import numpy as np
import pytest


def test_node2vec_separates_communities():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny batches: more threads only wait for each other
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "node2vec.py"))
    try:
        before, after = example["main"](nodes=200, epochs=2)
    finally:
        torch.set_num_threads(threads)
    assert before < 0.5  # four communities: guessing is right a quarter of the time
    assert after > 0.9


def test_node2vec_is_bounded_for_larger_graphs() -> None:
    torch = pytest.importorskip("torch")
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "node2vec.py"))
    x = torch.zeros(100_000, 2)  # all pairs would take 40 GB
    x[::2, 0] = x[1::2, 1] = 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert example["agreement"](x, np.arange(100_000) % 2, most=200) > 0.95
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # KB
