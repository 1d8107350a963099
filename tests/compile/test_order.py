"""`order=` of import_dataset and synthesize: the dataset that `reorder` gives, in one step, without a second copy."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.compile import permute_rows
from graphzero.compile.reorder import NEW_ORDERS


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "dataset.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("by", NEW_ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_synthetic_dataset_is_made_in_the_order_that_reorder_gives(tmp_path: Path, by: str, dtype: str) -> None:
    options: dict[str, Any] = {"nodes": 700, "edges": 5000, "dim": 33, "dtype": dtype, "seed": 3}
    gz.synthesize(tmp_path / "plain", **options)
    gz.reorder(tmp_path / "plain", tmp_path / "two", by=by)
    ds = gz.synthesize(tmp_path / "one", **options, order=by)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert ds.name == "one"
    ds.verify()
    assert not list(tmp_path.rglob("*unordered*"))


def test_rows_follow_their_nodes_within_a_small_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, rng = 20_000, np.random.default_rng(5)
    edges, x = rng.integers(0, nodes, (2, 60_000)), rng.standard_normal((nodes, 130), np.float32)
    released = []
    release = permute_rows._release
    monkeypatch.setattr(permute_rows, "_release", lambda *a: (released.append(a[2]), release(*a)))
    y, train = rng.integers(0, 7, nodes), rng.permutation(nodes)[:900]
    report = gz.import_dataset(
        edges, tmp_path / "ds", features=x, labels=y, splits={"train": train}, order="degree", memory="3MB",
        num_nodes=nodes,
    )  # fmt: skip
    ds = report.dataset
    assert sum(released) == 2 * x.nbytes  # from the file and from the scratch file
    original = np.asarray(ds.ids.to_original(np.arange(nodes)))
    assert not np.array_equal(original, np.arange(nodes))
    assert np.array_equal(ds.features["x"].gather(np.arange(nodes)), x[original])
    assert np.array_equal(np.asarray(ds.labels)[:], y[original])
    assert np.array_equal(np.sort(original[np.asarray(ds.splits["train"])]), np.sort(train))
    assert "ordering" in report.seconds
    assert os.listdir(tmp_path) == ["ds"]


def test_names_of_nodes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,hub\nb,hub\nc,hub\nhub,c\n")
    ds = gz.import_dataset(tmp_path / "edges.csv", tmp_path / "ds", order="degree").dataset
    names = ds.ids.to_original(range(4))
    assert sorted(names) == ["a", "b", "c", "hub"]
    hub = int(ds.ids.to_dense(["hub"])[0])
    assert sorted(ds.ids.to_original(ds.graph.get_neighbours(hub))) == ["a", "b", "c"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="parts of a file are freed on Linux only")
def test_space_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    before = path.stat().st_blocks
    with open(path, "r+b", buffering=0) as file:
        permute_rows._release(file, 5000, 60_000)
    assert path.stat().st_blocks < before
    assert path.stat().st_size == 100_000
    data = path.read_bytes()
    assert data[:5000] == b"x" * 5000  # whole pages only, never a byte outside
    assert data[65_000:] == b"x" * 35_000


@pytest.mark.parametrize(
    ("order", "message"), [("degre", "expected one of .* did you mean 'degree'"), ("presample", "use gz.reorder")]
)
def test_a_bad_order_is_refused_before_any_work(tmp_path: Path, order: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gz.synthesize(tmp_path / "ds", nodes=10, edges=10, order=order)
    with pytest.raises(ValueError, match=message):
        gz.import_dataset(np.zeros((2, 3), int), tmp_path / "ds", order=order)
    assert not os.listdir(tmp_path)


def test_several_node_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one node type"):
        gz.synthesize(tmp_path / "ds", preset="mag", scale=1e-5, order="degree")
    assert not os.listdir(tmp_path)


def test_a_failure_while_ordering_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(gz.BudgetError):
        gz.synthesize(tmp_path / "ds", nodes=400_000, edges=10, dim=1, order="degree", memory="4MB")
    assert not (tmp_path / "ds" / "dataset.json").exists()
    assert not list(tmp_path.rglob("*.gd"))
