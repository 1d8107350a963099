"""Values that an append cannot store as a compile of everything would: they are refused or reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

EDGES = np.array([[0, 1, 2, 2], [1, 2, 0, 1]])


@pytest.mark.parametrize("dedup", ["sum", "max", True])
def test_weights_of_an_edge_that_exists_are_not_dropped(tmp_path: Path, dedup: str | bool) -> None:
    ds = gz.Dataset.create(tmp_path / "d", EDGES, dedup=dedup, weights=np.array([1.0, 2, 3, 4]))
    with pytest.raises(ValueError, match=r"1 edges of .* exist already"):
        ds.append(edges=np.array([[0], [1]]), weights=[5.0])
    pair = np.array([[0], [1]])
    new = ds.append(edges=pair, weights=[5.0], remove_edges=pair).dataset
    assert new.graph.get_weights(0).tolist() == [5.0]
    new.verify()


def test_values_beyond_the_range_of_int8_are_reported(tmp_path: Path) -> None:
    x = np.array([[-1, 0.5], [0.3, 1], [0.2, 0.1]], np.float32)
    ds = gz.Dataset.create(tmp_path / "d", EDGES, features=x, dtype="int8")
    with pytest.warns(UserWarning, match=r"2 values .* clipped, such as 5.0 in row 0, column 0, .* value is 1;"):
        ds.append(features=[[5.0, -100]])


@pytest.mark.filterwarnings("error")
def test_values_within_the_range_of_int8_are_not(tmp_path: Path) -> None:
    x = np.array([[-1, 0.5], [0.3, 1], [0.2, 0.1]], np.float32)
    ds = gz.Dataset.create(tmp_path / "d", EDGES, features=x, dtype="int8")
    new = ds.append(features=[[1.0, -0.25]]).dataset
    assert np.allclose(new.features["x"].gather([3], dtype="float32"), [[1, -0.25]], atol=0.01)


def test_edges_name_no_more_nodes_than_were_declared(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "d", EDGES)
    with pytest.raises(IndexError, match="expected a node from 0 to 3"):
        ds.append(edges=np.array([[7], [1]]), nodes=1)
    assert ds.append(edges=np.array([[3], [1]]), nodes=1).dataset.num_nodes == 4
