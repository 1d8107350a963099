"""Datasets: made from users' data, opened lazily, checked deeply, gone when making them fails."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

EDGES = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
X = np.arange(12, dtype=np.float32).reshape(4, 3)
LABELS = [0, -1, 2, 1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gz.Dataset.create(
        tmp_path / "toy",
        EDGES,
        features={"x": X, "time": np.arange(4)},
        labels=LABELS,
        splits={"train": [2, 0], "test": np.array([False, False, False, True])},
        about={"made_by": "a test"},
    )
    return tmp_path / "toy"


def edit(folder: Path, change: Any) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    change(manifest)
    (folder / "dataset.json").write_text(json.dumps(manifest))


def test_every_part_is_there(folder: Path) -> None:
    ds = gz.Dataset(folder)
    assert (ds.name, ds.num_nodes, ds.num_classes, ds.path) == ("toy", 4, 3, str(folder))
    assert ds.graph.num_edges == 5
    assert sorted(ds.graph.get_neighbours(0).tolist()) == [1, 2]
    assert np.array_equal(ds.features["x"].get_tensor(), X)
    assert ds.features["time"].get_tensor().tolist() == [0, 1, 2, 3]
    assert ds.labels.tolist() == LABELS
    assert ds.labels.dtype == ds.splits["train"].dtype == np.int64
    assert {name: ids.tolist() for name, ids in ds.splits.items()} == {"train": [0, 2], "test": [3]}
    assert ds.info["about"] == {"made_by": "a test"}
    assert ds.nbytes == sum(os.path.getsize(file) for file in ds.files)
    assert ds.verify()["files"] == 6


def test_the_manifest_itself_opens_it_too(folder: Path) -> None:
    assert gz.Dataset(folder / "dataset.json").path == str(folder)


def test_files_are_mounted_when_asked_for_and_once(folder: Path) -> None:
    ds = gz.Dataset(folder)
    before = open_files()
    assert ds.features["x"] is ds.features["x"]
    assert ds.graph is ds.graph
    assert list(ds.splits) == ["train", "test"]
    assert [name for name in open_files() - before if "splits" in name or "time" in name] == []


def open_files() -> set[str]:
    with open("/proc/self/maps") as f:
        return {line.split(maxsplit=5)[5].strip() for line in f if line.count(" ") > 5}


def test_repr_says_what_it_is(folder: Path) -> None:
    text = repr(gz.Dataset(folder))
    assert text.startswith(
        "Dataset('toy', num_nodes=4, features=['x', 'time'], num_classes=3, splits=['train', 'test'], "
    )


def test_pickles_as_its_path(folder: Path) -> None:
    ds = gz.Dataset(folder)
    ds.graph  # noqa: B018 - mounted things do not travel
    data = pickle.dumps(ds)
    assert len(data) < 500
    assert pickle.loads(data).labels.tolist() == LABELS


def test_unknown_names_are_told_with_those_there_are(folder: Path) -> None:
    ds = gz.Dataset(folder)
    with pytest.raises(KeyError, match="no split 'valid'; the dataset has 'train', 'test'"):
        ds.splits["valid"]
    with pytest.raises(KeyError, match="no feature 'z'"):
        ds.features["z"]


def test_without_labels(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "bare", EDGES)
    assert (ds.num_classes, len(ds.features), len(ds.splits)) == (0, 0, 0)
    with pytest.raises(ValueError, match="has no labels"):
        ds.labels  # noqa: B018
    assert "num_classes" not in repr(ds)


def test_a_single_matrix_is_x_and_graph_options_are_passed_on(tmp_path: Path) -> None:
    ds = gz.Dataset.create(tmp_path / "one", EDGES, features=X, dtype="float16", directed=False, num_nodes=4)
    assert ds.graph.num_edges == 10
    assert ds.features["x"].dtype == np.float16


def test_torch_tensors_and_nan_labels(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = gz.Dataset.create(
        tmp_path / "torch",
        torch.from_numpy(EDGES),
        features=torch.from_numpy(X),
        labels=torch.tensor([[1.0], [float("nan")], [0.0], [1.0]]),
        splits={"train": torch.tensor([True, False, True, True])},
    )
    assert ds.labels.tolist() == [1, -1, 0, 1]
    assert ds.splits["train"].tolist() == [0, 2, 3]


def test_compiled_files_are_linked_in(folder: Path, tmp_path: Path) -> None:
    old = gz.Dataset(folder)
    new = gz.Dataset.create(
        tmp_path / "linked", old.graph, features={"x": folder / "features" / "x.gd", "t": old.features["time"]}
    )
    assert os.path.samefile(new.graph.path, old.graph.path)
    assert np.array_equal(new.features["x"].get_tensor(), X)
    assert new.features["t"].get_tensor().tolist() == [0, 1, 2, 3]


def test_compiled_files_are_copied_where_links_are_not_possible(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    ds = gz.Dataset.create(tmp_path / "copied", folder / "graph.gl")
    assert not os.path.samefile(ds.graph.path, folder / "graph.gl")
    ds.verify()
    assert [name for name in os.listdir(ds.path) if ".tmp" in name] == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": X[:3]}, ValueError, "x: found 3 rows, expected 4"),
        ({"labels": [0, 1, 2]}, ValueError, "y: found 3 rows, expected 4"),
        ({"labels": [0, 1, 2, -2]}, ValueError, r"labels\[3\] is -2"),
        (
            {"labels": [[0, 2], [1, 1], [0, 0], [0, 1]]},
            ValueError,
            "labels has 2 columns, whose values must be 0, 1 or NaN",
        ),
        ({"splits": {"train": [0, 4]}}, IndexError, r"splits\['train'\]\[1\] = 4 is out of range for 4 nodes"),
        ({"splits": {"train": [-1]}}, IndexError, r"splits\['train'\]\[0\] = -1"),
        ({"splits": {"train": [0.5]}}, TypeError, "must be integers"),
        ({"splits": {"train": np.array([True])}}, ValueError, "a mask of shape"),
        ({"splits": {"../x": [0]}}, ValueError, "is not a valid name"),
        ({"features": {"a/b": X}}, ValueError, "is not a valid name"),
        ({"features": {1: X}}, ValueError, "is not a valid name"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_left(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gz.Dataset.create(tmp_path / "bad", EDGES, num_nodes=4, **options)
    assert os.listdir(tmp_path) == []


def test_a_dataset_is_not_replaced_unless_asked(folder: Path) -> None:
    with pytest.raises(FileExistsError, match="overwrite=True"):
        gz.Dataset.create(folder, EDGES)
    assert gz.Dataset(folder).labels.tolist() == LABELS
    assert gz.Dataset.create(folder, EDGES, overwrite=True).num_classes == 0


def test_a_failed_replacement_leaves_the_old_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "ds"
    edges = np.array([[0, 1, 2], [1, 2, 0]])
    gz.Dataset.create(folder, edges, labels=[0, 1, 1], features=np.eye(3, dtype=np.float32))
    (folder / ".replacing").mkdir()  # as a kill leaves it
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(gz.InputError, match="y: found 2 rows, expected 3"):
        gz.Dataset.create(folder, edges[:, :2], labels=[0, 1], num_nodes=3, overwrite=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not (folder / ".replacing").exists()
    replaced = gz.Dataset.create(folder, folder / "graph.gl", labels=[2, 0, 0], overwrite=True)
    assert replaced.graph.num_edges == 3
    assert replaced.labels.tolist() == [2, 0, 0]
    replaced.verify()
    assert not (folder / ".replacing").exists()


# -- faults that only the files can tell ------------------------------------------------------------------------------


def test_counts_that_disagree_with_the_files(folder: Path) -> None:
    edit(folder, lambda m: m["nodes"]["node"].update(count=5))
    ds = gz.Dataset(folder)
    with pytest.raises(gz.FormatError, match=r"edges.node__to__node: graph.gl has 4 nodes, expected 5"):
        ds.graph  # noqa: B018
    with pytest.raises(gz.FormatError, match=r"nodes.node.features.x: features/x.gd has 4 rows, expected 5"):
        ds.features["x"]
    with pytest.raises(gz.FormatError, match=r"nodes.node.labels: labels.gd has 4 rows, expected 5"):
        ds.labels  # noqa: B018
    with pytest.raises(gz.FormatError, match="expected 5"):
        ds.verify()


def test_an_array_that_is_not_in_the_file(folder: Path) -> None:
    edit(folder, lambda m: m["nodes"]["node"]["features"]["x"].update(array="y"))
    with pytest.raises(gz.FormatError, match=r"nodes.node.features.x.array: .*no feature 'y'"):
        gz.Dataset(folder).features["x"]


def test_labels_that_are_no_int64_vector(folder: Path) -> None:
    edit(folder, lambda m: m["nodes"]["node"]["labels"].update(file="features/x.gd", array="x"))
    with pytest.raises(gz.FormatError, match=r"nodes.node.labels: found float32 of shape \(4, 3\), expected a vector"):
        gz.Dataset(folder).labels  # noqa: B018


def test_verify_finds_labels_and_splits_out_of_range(folder: Path) -> None:
    edit(folder, lambda m: m["nodes"]["node"]["labels"].update(classes=2))
    with pytest.raises(gz.FormatError, match=r"nodes.node.labels\[2\] = 2, expected a class from -1 to 1"):
        gz.Dataset(folder).verify()
    edit(folder, lambda m: m["nodes"]["node"]["labels"].update(classes=3))
    edit(folder, lambda m: m["nodes"]["node"]["splits"]["test"].update(file="features/time.gd", array="time"))
    assert gz.Dataset(folder).verify()["files"] == 5
    gz.compile_features(np.array([0, 9]), folder / "splits" / "test.gd", name="ids")
    edit(folder, lambda m: m["nodes"]["node"]["splits"]["test"].update(file="splits/test.gd", array="ids"))
    with pytest.raises(gz.FormatError, match=r"nodes.node.splits.test\[1\] = 9, expected a node id from 0 to 3"):
        gz.Dataset(folder).verify()


def test_verify_finds_a_damaged_byte(folder: Path) -> None:
    path = folder / "features" / "x.gd"
    data = bytearray(path.read_bytes())
    data[4096 + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(gz.FormatError, match="array 'x': digest"):
        gz.Dataset(folder).verify()


# -- synthesis, whole -------------------------------------------------------------------------------------------------


def test_synthesize_writes_the_same_bytes_for_any_budget(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nodes": 3000, "edges": 40_000, "dim": 8, "classes": 4, "dtype": "float16", "seed": 9}
    a = gz.synthesize(tmp_path / "a", **options)
    b = gz.synthesize(tmp_path / "b", **options, memory="64MB", num_threads=1)
    for one, two in zip(a.files, b.files, strict=True):
        assert Path(one).read_bytes() == Path(two).read_bytes()
    assert (a.num_nodes, a.graph.num_edges, a.num_classes) == (3000, 40_000, 4)
    assert a.features["x"].dtype == np.float16
    assert {name: len(ids) for name, ids in a.splits.items()} == {"train": 1800, "valid": 600, "test": 600}
    assert a.info["about"]["seed"] == 9
    a.verify()


def test_synthesize_undirected_with_weights(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "u", nodes=200, edges=1000, dim=4, classes=4, undirected=True, weights=True)
    assert ds.graph.num_edges == 2000
    assert ds.graph.has_weights
    node = int(ds.graph.degrees().argmax())
    assert (ds.graph.get_weights(node) > 0).all()


def test_synthesize_a_preset(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "p", preset="arxiv", scale=0.01)
    assert (ds.num_nodes, ds.graph.num_edges, ds.num_classes) == (1693, 11_662, 40)
    assert {name: len(ids) for name, ids in ds.splits.items()} == {"train": 909, "valid": 298, "test": 486}
    assert (ds.labels >= 0).sum() == 909 + 298 + 486


def test_nodes_outside_the_splits_have_no_label(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "p", nodes=1000, edges=0, dim=2, classes=2, splits={"train": 0.1, "never": 0.0})
    assert (ds.labels >= 0).sum() == 100
    assert list(ds.splits) == ["train"]
