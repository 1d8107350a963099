"""`graphzero stats`: what it counts, as text, as JSON and as a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app


def stats(*words: object) -> str:
    done = CliRunner().invoke(app, ["stats", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def as_json(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stats(*words, "--json"))
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """0 -> 1 twice, 1 -> 0, 1 -> 2, 3 -> 3; 4 and 5 are isolated."""
    path = tmp_path / "g.gl"
    weights = np.array([0.5, 1.0, 2.0, 3.0, 4.0], np.float32)
    gz.compile_graph(([0, 0, 1, 1, 3], [1, 1, 0, 2, 3], weights), path, num_nodes=6, progress=False)
    return path


def test_a_graph_is_counted(graph: Path) -> None:
    found = as_json(graph)
    assert found["isolated"] == 2
    assert (found["components"], found["largest_component"]) == (4, 3)
    assert (found["self_loops"], found["duplicates"]) == (1, 1)
    assert found["reciprocity"] == pytest.approx(2 / 3)  # of 0 -> 1, 1 -> 0 and 1 -> 2
    assert found["weights"] == {"min": 0.5, "max": 4.0}
    out = found["degrees"]["out"]
    assert (out["min"], out["max"], out["mean"]) == (0, 2, pytest.approx(5 / 6))
    assert out["histogram"] == [
        {"from": 0, "to": 0, "nodes": 3},
        {"from": 1, "to": 1, "nodes": 1},
        {"from": 2, "to": 3, "nodes": 2},
    ]


def test_a_graph_in_words_and_bars(graph: Path) -> None:
    text = stats(graph)
    for said in ("2 (33.3%)", "4, the largest with 3 (50.0%) of the nodes", "self-loops", "reciprocity", "66.7%"):
        assert said in text
    assert "in-degrees" in text
    assert "█ 3" in text  # of the longest bar


def test_shapes_at_the_edge(tmp_path: Path) -> None:
    gz.compile_graph(([], []), tmp_path / "none.gl", num_nodes=0, progress=False)
    assert as_json(tmp_path / "none.gl")["components"] == 0
    gz.compile_graph(([0, 0], [1, 2]), tmp_path / "two.gl", num_nodes=(2, 4), progress=False)
    found = as_json(tmp_path / "two.gl")
    assert (found["isolated"], found["components"], found["self_loops"], found["reciprocity"]) == (3, 4, None, None)
    assert "2 sources, 4 targets" in stats(tmp_path / "two.gl")


def test_features_are_counted(tmp_path: Path) -> None:
    x = np.array([[1.0, np.nan], [-2.0, np.inf], [4.0, 5.0]], np.float32)
    gz.compile_features(x, tmp_path / "x.gd", progress=False)
    found = as_json(tmp_path / "x.gd")["arrays"]["x"]
    assert found == {
        "dtype": "float32", "shape": [3, 2], "min": -2.0, "max": 5.0, "mean": 2.0, "nan": 1, "infinite": 1,
    }  # fmt: skip
    assert "3 x 2" in stats(tmp_path / "x.gd")
    gz.compile_features(x[:, :1], tmp_path / "half.gd", dtype="bfloat16", progress=False)
    assert as_json(tmp_path / "half.gd")["arrays"]["x"]["max"] == 4.0


def test_a_dataset_and_its_page(tmp_path: Path) -> None:
    gz.synthesize(tmp_path / "toy", nodes=300, edges=2000, dim=4, classes=3, progress=False)
    found = as_json(tmp_path / "toy", "--html", tmp_path / "stats.html")
    (nodes,) = found["nodes"].values()
    assert nodes["count"] == 300
    assert sum(nodes["labels"]["counts"]) + nodes["labels"]["missing"] == 300
    assert set(nodes["splits"]["sizes"]) == {"train", "valid", "test"}
    assert nodes["splits"]["in_several"] == 0
    assert nodes["features"]["x"]["nan"] == 0
    page = (tmp_path / "stats.html").read_text()
    for said in ("Out-degrees", "Classes", "self-loops", "float32", "<svg"):
        assert said in page
    assert "split train" in stats(tmp_path / "toy")


def test_axes_of_the_page_show_whole_classes_and_single_nodes() -> None:
    from matplotlib.figure import Figure

    from graphzero.cli.stats_page import _draw_classes, _draw_degrees

    classes, degrees = Figure().subplots(2)
    _draw_classes(classes, [30, 20])
    assert [tick for tick in classes.get_xticks() if -0.5 < tick < 1.5] == [0, 1]
    _draw_degrees(degrees, [{"from": 0, "to": 0, "nodes": 70}, {"from": 1, "to": 1, "nodes": 5000}])
    assert degrees.get_ylim()[0] < 1


def test_a_dataset_of_several_types(tmp_path: Path) -> None:
    gz.synthesize(tmp_path / "mag", preset="mag", scale=0.0001, progress=False)
    found = as_json(tmp_path / "mag")
    assert set(found["nodes"]) == {"paper", "author", "institution", "field_of_study"}
    assert all(edges["count"] > 0 for edges in found["edges"].values())
    assert "edges " in stats(tmp_path / "mag")


def test_a_page_must_be_html(graph: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["stats", str(graph), "--html", str(tmp_path / "x.gl")])
    assert done.exit_code == 2 or "the output is a .html file" in done.output
