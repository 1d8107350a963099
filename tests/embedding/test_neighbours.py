"""`gz.neighbours` against all distances in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

X = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32)


def everything(x: np.ndarray, metric: str) -> np.ndarray:
    """All scores, larger is nearer."""
    x = x.astype(np.float64)
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    if metric != "euclidean":
        return x @ x.T
    return -np.linalg.norm(x[:, None] - x, axis=2)


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("memory", ["auto", 1_200_000])
def test_it_is_that_of_numpy(metric: str, exclude_self: bool, k: int, memory: Any) -> None:
    wanted = everything(X, metric)
    if exclude_self:
        np.fill_diagonal(wanted, -np.inf)
    sign = -1 if metric == "euclidean" else 1
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :k]
    found = gz.neighbours(X, k=k, metric=metric, exclude_self=exclude_self, memory=memory)
    np.testing.assert_allclose(sign * found.scores, np.take_along_axis(wanted, order, 1), atol=1e-5)
    np.testing.assert_allclose(sign * found.scores, np.take_along_axis(wanted, found.ids, 1), atol=1e-5)
    assert all(len(set(row)) == k for row in found.ids.tolist())
    some = gz.neighbours(X, [3, 499, 3], k, metric=metric, exclude_self=exclude_self, memory=memory)
    np.testing.assert_array_equal(some.ids, found.ids[[3, 499, 3]])


def test_a_file_is_read_in_blocks(tmp_path: Path) -> None:
    wanted = gz.neighbours(X, [5, 400], 9).ids
    for dtype in ("float32", "float16"):
        path = tmp_path / f"{dtype}.gd"
        gz.compile_features(X, path, dtype=dtype, progress=False)
        for vectors in (path, str(path), gz.FeatureStore(path)):
            found = gz.neighbours(vectors, [5, 400], 9, memory="1MB").ids
            assert (found == wanted).mean() > (0.999 if dtype == "float32" else 0.8)


@pytest.mark.parametrize("memory", ["auto", "200KB"])
def test_equal_scores_come_by_id(memory: Any) -> None:
    x = np.ones((3000, 2), np.float32)
    found = gz.neighbours(x, [0, 1, 2999], 4, memory=memory).ids
    assert found.tolist() == [[1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 2, 3]]


def test_all_others() -> None:
    found = gz.neighbours(X[:5], k=4)
    assert all(sorted([i, *row]) == list(range(5)) for i, row in enumerate(found.ids))
    assert gz.neighbours(X[:5], k=5, exclude_self=False).ids.shape == (5, 5)
    assert gz.neighbours(X, [], 3).ids.shape == (0, 3)


def test_tensors_and_zero_vectors() -> None:
    torch = pytest.importorskip("torch")
    found = gz.neighbours(torch.from_numpy(X), torch.tensor([1, 2]), 3)
    np.testing.assert_array_equal(found.ids, gz.neighbours(X, [1, 2], 3).ids)
    x = X.copy()
    x[7] = 0
    assert (gz.neighbours(x, [7], 3).scores == 0).all()


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    gz.neighbours(X, k=3, memory=1_200_000, progress=lambda *report: seen.append(report))
    assert seen[-1] == ("comparing", 500 * 500, 500 * 500)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_bad_arguments_are_refused() -> None:
    for arguments, message in (
        ((X, [0], 500), "k is 500, but there are 499 vectors to choose from"),
        ((X, [0], 0), "k is 0"),
        ((X[0], [0], 1), r"shape \(12,\), expected \(nodes, dim\)"),
        ((np.full((3, 2), np.nan), [0], 1), "the vector of node 0 is not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.neighbours(*arguments)
    with pytest.raises(ValueError, match="metric is 'l1', expected 'cosine', 'dot', 'euclidean'"):
        gz.neighbours(X, [0], 1, metric="l1")
    for bad in (-1, 500):
        with pytest.raises(IndexError, match=f"ids holds {bad}, which is out of range for 500 vectors"):
            gz.neighbours(X, [0, bad], 1)
    with pytest.raises(TypeError, match="expected numbers"):
        gz.neighbours(X.astype(str), [0], 1)
    with pytest.raises(gz.BudgetError, match="memory is 1 KB, but comparing vectors of 12 numbers needs") as e:
        gz.neighbours(X, [0], 1, memory="1KB")
    assert gz.neighbours(X, [0], 1, memory=e.value.needed_bytes).ids.shape == (1, 1)


@pytest.mark.parametrize(("shift", "factor"), [(0, 1), (1000, 1), (1e4, 1), (0, 1e-25), (0, 1e20), (3e20, 1e18)])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_places_and_sizes_of_vectors_do_not_matter(shift: float, factor: float, metric: str) -> None:
    if metric == "cosine" and shift:
        return  # the angles between such vectors are below the precision of float32
    vectors = (np.random.default_rng(0).standard_normal((200, 8)) * factor + shift).astype(np.float32)
    exact = vectors.astype(np.float64)
    if metric == "cosine":
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    distances = np.linalg.norm(exact[:, None] - exact[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    found = gz.neighbours(vectors, k=5, metric=metric)
    nearest = np.take_along_axis(distances, found.ids, 1)
    assert np.allclose(nearest, np.sort(distances, axis=1)[:, :5], rtol=1e-4)


def test_products_that_overflow_are_refused() -> None:
    vectors = np.full((4, 3), 1e20, np.float32)
    with pytest.raises(ValueError, match="too long for products in float32"):
        gz.neighbours(vectors, k=2, metric="dot")
