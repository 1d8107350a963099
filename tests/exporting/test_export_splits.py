"""Exports keep splits that overlap, replace only older exports, and name categories that an import joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app
from graphzero.exporting import arrow_out, export_folder

pytest.importorskip("pyarrow")

NODES = 400
SPLITS = {"train": np.arange(300), "valid": np.arange(200, 300), "test": np.arange(250, 400)}
RING = np.stack([np.arange(NODES), np.roll(np.arange(NODES), 1)])


def overlapping(folder: Path) -> gz.Dataset:
    table = {"id": [f"n{i}" for i in range(NODES)], "label": np.arange(NODES) % 2, "v": np.arange(NODES) / 2}
    ends = [[f"n{i}" for i in side] for side in RING]
    return gz.import_dataset({"src": ends[0], "dst": ends[1]}, folder, nodes=table, splits=SPLITS).dataset


def sizes(splits: Any) -> dict[str, list[int]]:
    return {name: np.sort(splits[name]).tolist() for name in sorted(splits)}


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_overlapping_splits_of_nodes_survive(tmp_path: Path, format: str) -> None:
    ds = overlapping(tmp_path / "ds")
    gz.export_dataset(ds, tmp_path / "files", format=format)
    nodes = tmp_path / "files" / f"nodes.{format}"
    edges = {"src": RING[0], "dst": RING[1]}
    columns = {"columns": {"original": "skip"}}
    back = gz.import_dataset(edges, tmp_path / "back", nodes=nodes, node_columns=columns, splits=None).dataset
    assert sizes(back.splits) == sizes(ds.splits)


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_overlapping_splits_of_types_and_edges_survive(tmp_path: Path, format: str) -> None:
    edge = ("user", "likes", "user")
    ds = gz.Dataset.create(
        tmp_path / "ds",
        graphs={edge: RING},
        num_nodes={"user": NODES},
        splits={"user": SPLITS},
        labels={"user": np.arange(NODES) % 2},
        edge_splits={edge: {"train": np.arange(10), "valid": np.arange(5, 20)}},
        typed=True,
    )
    gz.export_dataset(ds, tmp_path / "files", format=format)
    report = gz.import_dataset(tmp_path / "files" / "tables.json", tmp_path / "back")
    back = report.dataset
    assert sizes(back.nodes["user"].splits) == sizes(SPLITS)

    def pairs(data: gz.Dataset) -> dict[str, Any]:
        graph = data.edges[edge].graph
        rows, ids = graph.csr(direction="in")[0], graph._open().array("in.edge_ids")
        at = np.argsort(ids)
        ends = np.stack([graph.csr(direction="in")[1], np.repeat(np.arange(NODES), np.diff(rows))])[:, at]
        return {name: sorted(map(tuple, ends[:, one].T.tolist())) for name, one in data.edges[edge].splits.items()}

    assert pairs(back) == pairs(ds)
    assert "splits of user: 'train' and 'valid' share 100 nodes" in report.found
    assert "splits of user likes user: 'train' and 'valid' share 5 edges" in report.found


def test_imports_say_what_splits_share(tmp_path: Path) -> None:
    given = {"train": np.arange(NODES) < 300, "val_mask": np.arange(NODES) // 100 == 2, "test": np.arange(300, 400)}
    report = gz.import_dataset(RING, tmp_path / "out", splits=given)
    assert [line for line in report.found if "share" in line] == ["splits: 'train' and 'valid' share 100 nodes"]
    about = report.dataset.info["about"]["found"]
    assert "splits: 'train' and 'valid' share 100 nodes" in about
    given["train"] = np.arange(200)
    report = gz.import_dataset(RING, tmp_path / "apart", splits=given)
    assert not [line for line in report.found if "share" in line]


def test_an_export_is_replaced_only_if_asked_and_only_by_a_complete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gz.synthesize(tmp_path / "ds", nodes=20, edges=40, dim=2)
    files = tmp_path / "files"

    def run(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["export", str(tmp_path / "ds"), str(files), *map(str, words)])
        return done.exit_code, " ".join(done.output.split())

    assert run()[0] == 0
    code, said = run()
    assert code == 1
    assert "files: folder already exists; pass --overwrite to replace it" in said
    code, said = run("--overwrite", "--format", "npy")
    assert code == 0
    assert f"{files}/edge_index.npy" in said
    assert not (files / "edges.parquet").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "files"]

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("graphzero.exporting.export._Tables.nodes", fail)
        assert run("--overwrite")[0] == 1
    with monkeypatch.context() as patch:
        rename, calls = export_folder.os.rename, []

        def second_fails(source: str, target: str) -> None:
            calls.append(target)
            fail() if len(calls) == 2 else rename(source, target)

        patch.setattr(export_folder.os, "rename", second_fails)
        assert run("--overwrite")[0] == 1
    assert (files / "edge_index.npy").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "files"]
    (files / "notes.txt").write_text("mine")
    code, said = run("--overwrite")
    assert code == 1
    assert "is not an export (it holds 'notes.txt'); choose another name" in said
    assert (files / "notes.txt").exists()
    with pytest.raises(FileExistsError, match="is not an export"):
        gz.export_dataset(tmp_path / "ds", tmp_path / "ds", overwrite=True)


def test_rare_categories_are_counted(tmp_path: Path) -> None:
    names = ["no"] * 10 + ["fr"] * 6 + ["jp", "us", "de", None]
    table = {"id": np.arange(20), "country": names, "split": ["train"] * 17 + ["test"] * 3}
    rules = {"columns": {"country": {"min_count": 5}}}
    gz.import_dataset(RING[:, :3] % 20, tmp_path / "ds", nodes=table, node_columns=rules)
    done = CliRunner().invoke(app, ["export", str(tmp_path / "ds"), str(tmp_path / "files")])
    said = " ".join(done.output.split())
    assert "column 'country': 3 rare values, joined by the import, are written as (other)" in said


def test_names_of_splits_are_joined_at_once() -> None:
    names = np.array([None, "train", "train;valid", ""], object)
    arrow_out._add_name(names, np.array([0, 1, 2, 3]), "test")
    assert names.tolist() == ["test", "train;test", "train;valid;test", "test"]
    arrow_out._add_name(names, np.empty(0, np.int64), "more")
    assert "more" not in "".join(names)
