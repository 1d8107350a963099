"""Synthetic graphs of several types: shape, determinism, time, and classes that neighbours tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
SMALL: dict[str, Any] = {"preset": "mag", "scale": 0.003, "dim": 16, "classes": 8, "seed": 5}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    return gz.synthesize(tmp_path_factory.mktemp("mag") / "ds", signal=2.0, **SMALL)


def endpoints(graph: gz.Graph) -> tuple[Any, Any]:
    indptr, sources = graph.csr(direction="in")
    return np.asarray(sources), np.repeat(np.arange(graph.num_targets), np.diff(indptr))


def test_the_shape_is_that_of_the_public_dataset(small: gz.Dataset) -> None:
    assert {t: data.num_nodes for t, data in small.nodes.items()} == {
        "paper": 2209,
        "author": 3404,
        "institution": 26,
        "field_of_study": 180,
    }
    assert {key[1]: data.num_edges for key, data in small.edges.items()} == {
        "affiliated_with": 3132,
        "writes": 21_437,
        "cites": 16_249,
        "has_topic": 22_515,
        "rev_affiliated_with": 3132,
        "rev_writes": 21_437,
        "rev_cites": 16_249,
        "rev_has_topic": 22_515,
    }
    assert {t: list(data.features) for t, data in small.nodes.items() if data.features} == {"paper": ["x", "year"]}
    assert (small.num_classes, small.labels.min(), small.labels.max()) == (8, 0, 7)
    assert sum(len(ids) for ids in small.splits.values()) == 2209
    small.verify()


def test_the_same_options_give_the_same_bytes_for_any_budget(small: gz.Dataset, tmp_path: Path) -> None:
    again = gz.synthesize(tmp_path / "ds", signal=2.0, memory="16MB", num_threads=1, **SMALL)
    for one, two in zip(small.files, again.files, strict=True):
        assert Path(one).read_bytes() == Path(two).read_bytes()
    other = gz.synthesize(tmp_path / "other", **{**SMALL, "seed": 6})
    assert not np.array_equal(other.labels, small.labels)


def test_splits_go_by_year_and_later_papers_cite_earlier_ones(small: gz.Dataset) -> None:
    year = small.features["year"].get_tensor()
    assert year[small.splits["train"]].max() == 2017
    assert set(year[small.splits["valid"]]) == {2018}
    assert set(year[small.splits["test"]]) == {2019}
    assert set(range(2010, 2018)) == set(year[small.splits["train"]].tolist())
    source, target = endpoints(small.graphs[CITES])
    assert (year[source] >= year[target]).all()
    assert (source != target).all()


def test_neighbours_tell_the_class_far_better_than_the_row(small: gz.Dataset) -> None:
    x, y = small.features["x"].get_tensor(), small.labels
    centroids = np.stack([x[y == c].mean(0) for c in range(8)])
    alone = (np.argmax(x @ centroids.T, 1) == y).mean()
    source, target = endpoints(small.graphs[CITES])
    total = np.zeros_like(x)
    np.add.at(total, target, x[source])
    np.add.at(total, source, x[target])
    together = (np.argmax(total @ centroids.T, 1) == y).mean()
    assert together > alone + 0.15
    assert together > 0.7
    # an author's papers agree: what comes over two typed hops says more than chance, too
    author, paper = endpoints(small.graphs[WRITES])
    votes = np.zeros((small.nodes["author"].num_nodes, 8))
    np.add.at(votes, author, np.eye(8)[y[paper]])
    assert (votes.argmax(1)[author] == y[paper]).mean() > 0.6


def test_degrees_follow_a_power_law(small: gz.Dataset) -> None:
    degrees = np.sort(small.graphs[WRITES].degrees())
    assert degrees[-1] > 8 * degrees.mean()
    assert degrees[len(degrees) // 2] < degrees.mean()


def test_options(tmp_path: Path) -> None:
    given = {**SMALL, "feature_types": ("paper", "author"), "times": True, "reverse": False, "dtype": "bfloat16"}
    ds = gz.synthesize(tmp_path / "ds", **given)
    assert ds.nodes["author"].features["x"].dtype_name == "bfloat16"
    assert ds.features["year"].dtype == np.int32
    assert len(ds.edge_types) == 4
    year, graph = ds.features["year"].get_tensor(), ds.graphs[WRITES]
    assert graph.has_times
    assert not ds.graphs["author__affiliated_with__institution"].has_times
    busy = int(graph.degrees().argmax())
    assert set(graph.get_times(busy).tolist()) == {int(year[busy])}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 5}, "nodes cannot be combined with the preset 'mag'"),
        ({"scale": 0}, "scale is 0"),
        ({"feature_types": ("papr",)}, "feature_types has 'papr', expected one of paper, author"),
        ({"homophily": 2}, "homophily is 2"),
        ({"classes": 10_000_000}, "classes is 10000000"),
        ({"communities": 3}, "no option 'communities'"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        gz.synthesize(tmp_path / "ds", **{**SMALL, **options})
    assert not (tmp_path / "ds").exists()


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    words = ["synth", str(tmp_path / "ds"), "--preset", "mag", "--scale", "0.0005", "--dim", "4", "--classes", "3"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    assert "author writes paper" in made.output
    assert gz.Dataset(tmp_path / "ds").num_classes == 3
