"""What compiling may lose, on request: equal edges merged into one, floats stored in smaller types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(("how", "merged"), [("sum", 6.0), ("max", 4.0), ("first", 2.0)])
def test_equal_edges_merge_their_weights(tmp_path: Path, how: str, merged: float) -> None:
    edges = (np.array([0, 1, 0, 0]), np.array([1, 2, 1, 2]), np.array([2.0, 1.0, 4.0, 7.0]))
    report = gz.compile_graph(edges, tmp_path / "g.gl", dedup=how, edge_ids=True)
    graph = gz.Graph(tmp_path / "g.gl")
    assert graph.get_neighbours(0).tolist() == [1, 2]
    assert graph.get_weights(0).tolist() == [merged, 7.0]
    assert graph.get_edge_ids(0).tolist() == [0, 3]
    assert (report.duplicates_dropped, report.source_edges, report.edges) == (1, 4, 3)
    assert graph.info["deduplicated"]
    assert [path.name for path in tmp_path.iterdir()] == ["g.gl"]
    both = gz.compile_graph(
        (np.array([0, 1]), np.array([1, 0]), np.array([1.0, 3.0])), tmp_path / "u.gl", dedup=how, directed=False
    )
    assert both.edges == 2
    wanted = {"sum": 4.0, "max": 3.0, "first": 1.0}[how]
    assert gz.Graph(tmp_path / "u.gl").get_weights(0).tolist() == [wanted]
    assert gz.Graph(tmp_path / "u.gl").get_weights(1).tolist() == [wanted]


def test_losses_of_smaller_types_are_reported(tmp_path: Path) -> None:
    rows = np.array([[1.0, 1000.0], [0.1, -3.0]], np.float32)
    for dtype, largest in (
        ("float16", abs(float(np.float16(0.1)) - np.float32(0.1))),
        ("int8", 3.0),
        ("bfloat16", 0.0),
    ):
        report = gz.compile_features(rows, tmp_path / f"{dtype}.gd", dtype=dtype, report_error=True)
        seen = gz.FeatureStore(tmp_path / f"{dtype}.gd").gather([0, 1], dtype="float32").astype(np.float64)
        error = np.abs(seen - rows)
        assert report.losses["x"].largest == pytest.approx(error.max(), rel=1e-6)
        assert report.losses["x"].relative == pytest.approx(np.sqrt((error**2).sum() / (rows.astype(float) ** 2).sum()))
        assert f"stored as {dtype}: largest error" in str(report)
        assert largest <= error.max() + 1e-9
    assert gz.compile_features(rows, tmp_path / "y.gd", report_error=True).losses == {}
