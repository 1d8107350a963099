"""`import_dataset` and `graphzero import`: an edge list with features, labels and splits in files beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz
from graphzero.importing import work as importing_work

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [1, 3]])
X = np.arange(24, dtype=np.float32).reshape(6, 4)  # node 4 and 5 have no edge
Y = np.array([0, 1, 2, 1, -1, 0])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    np.savetxt(tmp_path / "edges.csv", EDGES, "%d", delimiter=",", header="src,dst", comments="")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "split.npz", train_mask=np.arange(6) < 3, val_idx=[3], test=np.array([5, 3]))
    return tmp_path


def in_edges(graph: gz.Graph) -> list[tuple[int, int]]:
    rows = range(graph.num_nodes)
    return sorted((int(u), v) for v in rows for u in graph.get_neighbours(v, direction="in"))


def check(ds: gz.Dataset) -> None:
    assert ds.graph.direction == "in"
    assert in_edges(ds.graph) == sorted(map(tuple, EDGES.tolist()))
    np.testing.assert_array_equal(ds.features["x"].get_tensor(), X)
    assert ds.labels.tolist() == Y.tolist()
    assert ds.num_classes == 3
    assert {k: v.tolist() for k, v in ds.splits.items()} == {"train": [0, 1, 2], "valid": [3], "test": [3, 5]}
    ds.verify()


def test_files_beside_an_edge_list_become_a_dataset(files):
    report = gz.import_dataset(
        files / "edges.csv",
        files / "out",
        features=files / "x.npy",
        labels=files / "y.npy",
        splits=files / "split.npz",
        memory="64MB",
    )
    check(report.dataset)
    assert (report.nodes, report.edges, report.kind) == (6, 5, "edge list")
    assert "x.npy" in str(report)
    assert sorted(os.listdir(files)) == ["edges.csv", "out", "split.npz", "x.npy", "y.npy"]


def test_the_command_does_the_same_and_train_takes_it(files):
    pytest.importorskip("typer")
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    words = [files / "edges.csv", files / "out", "--features", files / "x.npy", "--labels", files / "y.npy"]
    result = CliRunner().invoke(app, ["import", *map(str, words), "--splits", str(files / "split.npz")])
    assert result.exit_code == 0, result.output
    assert f"next: graphzero train {files / 'out'}" in result.output
    check(gz.Dataset(files / "out"))
    trained = CliRunner().invoke(
        app, ["train", str(files / "out"), "--epochs", "1", "--fanouts", "2,2", "--hidden", "4"]
    )
    assert trained.exit_code == 0, trained.output


def test_the_command_prints_json_and_names_features(files):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    words = ["import", files / "edges.csv", files / "out", "--features", f"emb={files / 'x.npy'}", "--json"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["nodes"] == 6
    assert list(gz.Dataset(files / "out").features) == ["emb"]


@pytest.mark.parametrize("form", ["npz", "pt", "gd", "csv", "array"])
def test_features_come_from_any_kind_of_file(files, form):
    path = files / f"rows.{form}"
    if form == "npz":
        np.savez_compressed(path, x=X)
    elif form == "pt":
        pytest.importorskip("torch").save(pytest.importorskip("torch").from_numpy(X), path)
    elif form == "gd":
        gz.compile_features(X, path)
    elif form == "csv":
        np.savetxt(path, np.column_stack([np.arange(6), X]), "%d", delimiter=",")
    source = X if form == "array" else path
    report = gz.import_dataset(files / "edges.csv", files / "out", features=source)
    np.testing.assert_array_equal(report.dataset.features["x"].get_tensor(), X)
    assert report.dataset.graph.num_nodes == 6


@pytest.mark.parametrize("form", ["column", "pairs", "npz", "floats"])
def test_labels_come_from_any_kind_of_file(files, form):
    path = files / ("labels.npz" if form == "npz" else "labels.npy" if form == "floats" else "labels.csv")
    values = np.where(Y < 0, np.nan, Y)
    if form == "column":
        np.savetxt(path, values)
    elif form == "pairs":
        path.write_text("node,label\n5,0\n0,0\n1,1\n2,2\n3,1\n")
    elif form == "npz":
        np.savez_compressed(path, node_label=values[:, None])
    else:
        np.save(path, values.astype(np.float32)[:, None])
    report = gz.import_dataset(files / "edges.csv", files / "out", labels=path)
    assert report.dataset.labels.tolist() == Y.tolist()


def test_splits_come_from_a_folder_json_or_shares(files):
    (files / "folder").mkdir()
    (files / "folder" / "train.csv").write_text("0\n2\n")
    np.save(files / "folder" / "valid.npy", np.array([1]))
    (files / "split.json").write_text('{"train": [0, 2], "validation": [1]}')
    for i, source in enumerate((files / "folder", files / "split.json")):
        ds = gz.import_dataset(files / "edges.csv", files / f"out{i}", splits=source).dataset
        assert {k: v.tolist() for k, v in ds.splits.items()} == {"train": [0, 2], "valid": [1]}
    ds = gz.import_dataset(files / "edges.csv", files / "out", labels=Y, splits="60/20/20").dataset
    drawn = {k: v.tolist() for k, v in ds.splits.items()}
    assert sorted(node for ids in drawn.values() for node in ids) == [0, 1, 2, 3, 5]  # node 4 has no label
    assert [len(drawn[k]) for k in ("train", "valid", "test")] == [3, 1, 1]


def test_ids_beyond_the_rows_are_told_with_where_the_number_comes_from(files):
    np.save(files / "short.npy", X[:3])
    with pytest.raises(gz.InputError, match=r"found id 3, expected below num_nodes = 3 \(the rows of x\)"):
        gz.import_dataset(files / "edges.csv", files / "out", features=files / "short.npy")
    assert not (files / "out").exists()
    assert not (files / "out.importing").exists()


def test_text_features_and_edges_may_each_reach_further(files):
    (files / "few.csv").write_text("0,1.5\n1,2.5\n")
    ds = gz.import_dataset(files / "edges.csv", files / "few", features=files / "few.csv").dataset
    assert ds.features["x"].get_tensor().tolist() == [[1.5], [2.5], [0], [0]]
    (files / "many.csv").write_text("0,1.5\n7,2.5\n")
    ds = gz.import_dataset(files / "edges.csv", files / "many", features=files / "many.csv").dataset
    assert ds.num_nodes == ds.graph.num_nodes == 8


def test_npz_archives_are_read_as_streams_in_both_layouts(files):
    for shape, array in (("pairs", EDGES), ("rows", EDGES.T.copy()), ("fortran", np.asfortranarray(EDGES.T))):
        np.savez_compressed(files / f"{shape}.npz", edge_index=array, node_feat=X)
        ds = gz.import_dataset(files / f"{shape}.npz", files / shape).dataset
        assert in_edges(ds.graph) == sorted(map(tuple, EDGES.tolist()))
        np.testing.assert_array_equal(ds.features["x"].get_tensor(), X)


def test_an_import_of_strings_that_was_stopped_keeps_its_map(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text("src,dst\nann,bob\nbob,eve\n")
    (tmp_path / "ids.txt").write_text("ann\nbob\neve\n")
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    given = {"features": tmp_path / "x.npy", "node_ids": str(tmp_path / "ids.txt")}

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(importing_work, "compile_features", stop)
        with pytest.raises(KeyboardInterrupt):
            gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", **given)
    report = gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", **given)
    assert report.resumed == ["graph.gl"]
    assert report.dataset.ids.to_dense(["eve"]).tolist() == [2]
    report.dataset.verify()


def test_an_import_that_was_stopped_goes_on_from_its_finished_files(files, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    arguments = {"features": files / "x.npy", "labels": files / "y.npy", "splits": files / "split.npz"}
    with monkeypatch.context() as patch:
        patch.setattr(importing_work, "compile_features", stop)
        with pytest.raises(KeyboardInterrupt):
            gz.import_dataset(files / "edges.csv", files / "out", **arguments)
    assert not (files / "out").exists()
    report = gz.import_dataset(files / "edges.csv", files / "out", **arguments)
    assert report.resumed == ["graph.gl"]
    check(report.dataset)


def test_finished_files_of_other_sources_are_not_taken(files, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(importing_work, "compile_features", stop)
        with pytest.raises(KeyboardInterrupt):
            gz.import_dataset(files / "edges.csv", files / "out", features=files / "x.npy")
    (files / "edges.csv").write_text("0,1\n")
    report = gz.import_dataset(files / "edges.csv", files / "out", features=files / "x.npy")
    assert report.resumed == []
    assert report.edges == 1


def test_a_dataset_that_is_there_is_kept_unless_told(files):
    gz.import_dataset(files / "edges.csv", files / "out")
    with pytest.raises(FileExistsError, match="overwrite"):
        gz.import_dataset([(0, 1)], files / "out")
    assert gz.import_dataset([(0, 1)], files / "out", overwrite=True).edges == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": "absent.npy"}, "no such file"),
        ({"labels": X}, "4 columns, expected one label"),
        ({"splits": 7}, "expected a dict, a path, or shares"),
        ({"num_classes": 2, "labels": Y}, r"labels\[2\] is 2, expected less than num_classes = 2"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(files, change, message):
    with pytest.raises((OSError, ValueError, TypeError), match=message):
        gz.import_dataset(files / "edges.csv", files / "out", **change)
    assert not (files / "out").exists()


def test_a_pickled_object_in_a_pt_file_is_never_loaded(files):
    torch = pytest.importorskip("torch")
    torch.save({"x": Path("home")}, files / "evil.pt")
    with pytest.raises(gz.InputError, match="not unpickled for safety"):
        gz.import_dataset(files / "edges.csv", files / "out", features=files / "evil.pt")
