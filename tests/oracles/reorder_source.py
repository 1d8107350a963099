"""A dataset with features, labels and splits of all kinds, and whether a reordered one is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz


def make(folder: Path, nodes: int, edges: int, seed: int = 0, **options: Any) -> gz.Dataset:
    """A dataset with several features of all kinds; the last tenth of the nodes has no edges."""
    rng = np.random.default_rng(seed)
    busy = max(1, nodes - nodes // 10)
    columns: list[Any] = [rng.integers(0, busy, edges), rng.integers(0, busy, edges) ** 2 // busy]
    weights = rng.random(edges).astype(np.float32) if options.pop("weights", False) else None
    times = rng.integers(-50, 50, edges) if options.pop("times", False) else None
    rows = rng.standard_normal((nodes, 3)).astype(np.float32)
    gz.compile_features(
        {"half": rows, "year": rng.integers(0, 99, nodes)}, folder / "two.gd", dtype={"half": "bfloat16"}
    )
    return gz.Dataset.create(
        folder / "source",
        (*columns, weights, times),
        num_nodes=nodes,
        features={
            "x": rows,
            "scaled": _compiled(folder / "scaled.gd", rows, "int8"),
            "half": gz.FeatureStore(folder / "two.gd", "half"),
        },
        labels=rng.integers(-1, 4, nodes),
        num_classes=4,
        splits={"train": rng.permutation(nodes)[: nodes // 2], "none": []},
        **options,
    )


def _compiled(path: Path, rows: np.ndarray, dtype: str) -> gz.FeatureStore:
    gz.compile_features(rows, path, dtype=dtype)
    return gz.FeatureStore(path)


def edges_of(graph: gz.Graph, direction: str, names: np.ndarray) -> list[tuple[Any, ...]]:
    """Every stored edge of a direction with all that it carries, its ends under `names`, sorted."""
    file = graph._open()
    indptr, indices = graph.csr(direction=direction)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr.astype(np.int64)))
    columns = [names[rows], names[np.asarray(indices, np.int64)]]
    carried = [a["name"] for a in graph.info["arrays"]]
    for what in ("weights", "times", "edge_ids"):
        if f"{direction}.{what}" in carried:
            columns.append(np.asarray(file.array(f"{direction}.{what}")))
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def assert_same(old: gz.Dataset, new: gz.Dataset) -> None:
    """Everything that is in `old` is in `new`, by original id."""
    new.verify()
    count = old.num_nodes
    original = new.ids.to_original(np.arange(count))
    assert sorted(original) == list(range(count))
    assert (new.ids.to_new(original) == np.arange(count)).all()
    assert (new.num_nodes, new.num_classes, list(new.features), list(new.splits)) == (
        count,
        old.num_classes,
        list(old.features),
        list(old.splits),
    )
    for name in old.features:
        a, b = old.features[name], new.features[name]
        assert (a.dtype_name, a.shape, a.names) == (b.dtype_name, b.shape, b.names)
        for array in a.names:  # also those of the file that the dataset does not name
            assert (b[array].gather(np.arange(count)) == a[array].gather(original)).all(), (name, array)
        if name == "scaled":  # its factors came along
            rows = b.gather(np.arange(count), dtype="float32")
            assert (rows == a.gather(original, dtype="float32")).all()
    assert (new.labels == old.labels[original]).all()
    for name, ids in new.splits.items():
        assert (np.diff(ids) >= 0).all()
        assert sorted(new.ids.to_original(ids)) == sorted(old.splits[name])
    a, b = old.graph, new.graph
    assert {**a.info, "path": 0, "arrays": 0} == {**b.info, "path": 0, "arrays": 0}
    assert [(x["name"], x["dtype"], x["shape"]) for x in a.info["arrays"]] == [
        (x["name"], x["dtype"], x["shape"]) for x in b.info["arrays"]
    ]
    for direction in ("out", "in") if a.direction == "both" else (a.direction,):
        assert edges_of(a, direction, np.arange(count)) == edges_of(b, direction, original)
