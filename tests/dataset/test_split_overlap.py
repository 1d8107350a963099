"""Ids that two splits share: counted as sets are, whatever the sizes, kinds and numbers of splits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from graphzero.dataset import split_overlap
from graphzero.dataset.split_overlap import shared_ids


@pytest.mark.parametrize("sparse", [False, True])
def test_counts_are_those_of_sets(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(split_overlap, "_STEP", 7)
    for _ in range(200):
        names = [f"s{i}" for i in range(rng.integers(1, 12))]
        most = int(rng.integers(1, 60)) * (10_000 if sparse else 1)
        splits = {name: rng.choice(most, int(rng.integers(0, min(most, 30))), replace=False) for name in names}
        expected = [
            (one, other, len(set(splits[one]) & set(splits[other])))
            for one, other in combinations([name for name in names if len(splits[name])], 2)
        ]
        assert list(shared_ids(splits)) == [found for found in expected if found[2]]


def test_masks_and_what_is_no_split() -> None:
    mask = np.zeros(10, bool)
    mask[[2, 9]] = True
    splits = {
        "train": mask,
        "valid": np.array([9, 9]),
        "none": None,
        "pairs": np.ones((2, 2), int),
        "bad": np.array([-9]),
    }
    assert list(shared_ids(splits)) == [("train", "valid", 1)]
    assert list(shared_ids({"one": np.array([2**60]), "two": np.array([2**60, 1])})) == [("one", "two", 1)]
    assert list(shared_ids({})) == []
