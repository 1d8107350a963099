"""The node2vec example learns: walks alone separate the communities."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_node2vec_separates_communities() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "node2vec.py"))
    before, after = example["main"](nodes=200, epochs=2)
    assert before < 0.5  # four communities: guessing is right a quarter of the time
    assert after > 0.8
