"""The node2vec example learns: walks alone separate the communities."""

from __future__ import annotations

import runpy
from pathlib import Path

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
