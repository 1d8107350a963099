"""Training in torch, on the CPU: the objective that a GPU runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from communities import NODES, auc, communities

import graphzero as gz
from graphzero.embedding.options import SkipGram
from graphzero.embedding.torch_training import train

torch = pytest.importorskip("torch")

COUNTS = {"dim": 16, "walk_length": 10, "walks_per_node": 10, "epochs": 1, "window": 3, "negatives": 5}


def options(**change: object) -> SkipGram:
    given = {"method": "node2vec", "p": 1.0, "q": 1.0, "weighted": False, "direction": None, "seed": 1}
    return SkipGram.checked(**{**given, **COUNTS, **change})


def test_communities_are_told_apart(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    with communities(tmp_path / "g.gl") as g:
        x = train(g, options(), 0.02, "cpu", lambda *report: seen.append(report))
        np.testing.assert_array_equal(x, train(g, options(), 0.02, "cpu"))
    assert (x.shape, x.dtype) == ((NODES, 16), np.float32)
    assert auc(x) > 0.9
    assert seen[-1] == ("training", 10 * NODES, 10 * NODES)


def test_nodes_without_walks_are_zero(tmp_path: Path) -> None:
    gz.compile_graph(([0, 1], [1, 2]), tmp_path / "g.gl", num_nodes=5, progress=False)
    x = train(gz.Graph(tmp_path / "g.gl"), options(), 0.02, "cpu")
    assert np.flatnonzero(x.any(axis=1)).tolist() == [0, 1, 2]


def test_bad_devices_and_rates_are_refused(tmp_path: Path) -> None:
    with communities(tmp_path / "g.gl") as g:
        with pytest.raises(ValueError, match="device"):
            gz.embed(g, device="tpu9")
        with pytest.raises(ValueError, match="learning_rate is -1"):
            train(g, options(), -1.0, "cpu")
        if not torch.cuda.is_available():
            with pytest.raises(ValueError, match="cuda"):
                gz.embed(g, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_learns_too(tmp_path: Path) -> None:
    with communities(tmp_path / "g.gl") as g:
        assert auc(gz.embed(g, **COUNTS, learning_rate=0.02, device="cuda")) > 0.9
