"""Folders of exports: only an export is replaced, whoever else writes or was killed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import graphzero as gz

FORMATS = ["parquet", "csv", "npy"]


@pytest.fixture
def dataset(tmp_path: Path) -> gz.Dataset:
    return gz.synthesize(tmp_path / "ds", nodes=20, edges=40, dim=2)


def export(dataset: gz.Dataset, folder: Path, format: str = "npy", overwrite: bool = True) -> list[str]:
    return gz.export_dataset(dataset, folder, format=format, overwrite=overwrite)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_lists_its_files(tmp_path: Path, dataset: gz.Dataset, format: str) -> None:
    made = export(dataset, tmp_path / "files", format)
    listed = json.loads((tmp_path / "files" / "export.json").read_text())
    assert listed["files"] == sorted(os.path.basename(path) for path in made)
    for again in FORMATS:
        export(dataset, tmp_path / "files", again)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "files"]


def test_a_typed_export_is_replaced_and_read(tmp_path: Path) -> None:
    edge = {"type": ["u", "to", "v"], "table": {"src": ["a", "b"], "dst": ["x", "y"]}}
    nodes = {name: {"ids": "map"} for name in "uv"}
    dataset = gz.import_dataset({"nodes": nodes, "edges": [edge]}, tmp_path / "ds").dataset
    for _ in range(2):
        export(dataset, tmp_path / "files", "csv")
    assert gz.import_dataset(tmp_path / "files" / "tables.json", tmp_path / "again").edges == 2
    (tmp_path / "files" / "nodes" / "mine").mkdir()
    with pytest.raises(FileExistsError, match="not an export \\(it holds 'nodes/mine'\\)"):
        export(dataset, tmp_path / "files", "csv")


@pytest.mark.parametrize("overwrite", [True, False])
def test_folders_of_others_stay(tmp_path: Path, dataset: gz.Dataset, overwrite: bool) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("edges.csv", "customers.csv"):
        (raw / name).write_text("mine")
    with pytest.raises(FileExistsError, match=r"not an export \(it holds 'customers.csv', and no export.json"):
        export(dataset, raw, "csv", overwrite)
    export(dataset, tmp_path / "files")
    for name in ("more.csv", "empty", "a/b.npy"):
        path = tmp_path / "files" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine") if "." in name else path.mkdir()
        with pytest.raises(FileExistsError, match="not an export"):
            export(dataset, tmp_path / "files", "npy", overwrite)
        path.unlink() if path.is_file() else path.rmdir()
    assert tree(raw) == ["customers.csv", "edges.csv"]
    (tmp_path / "none").mkdir()
    if overwrite:
        export(dataset, tmp_path / "none")


def test_a_link_stays_a_link(tmp_path: Path, dataset: gz.Dataset) -> None:
    export(dataset, tmp_path / "files", "csv")
    (tmp_path / "link").symlink_to("files")
    export(dataset, tmp_path / "link", "npy")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "files" / "edge_index.npy").exists()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="is a link to nothing"):
        export(dataset, tmp_path / "dangling")


@pytest.mark.parametrize("overwrite", [True, False])
def test_many_exports_to_one_folder(tmp_path: Path, dataset: gz.Dataset, overwrite: bool) -> None:
    start, faults = threading.Barrier(8), list[BaseException]()

    def work(number: int) -> None:
        start.wait()
        for at in range(4):
            try:
                export(dataset, tmp_path / "files", FORMATS[(number + at) % 3], overwrite)
            except BaseException as fault:
                faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(faults) == (0 if overwrite else 31)
    assert all(isinstance(fault, FileExistsError) and "overwrite=True" in str(fault) for fault in faults)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "files"]
    listed = json.loads((tmp_path / "files" / "export.json").read_text())["files"]
    assert tree(tmp_path / "files") == sorted([*listed, "export.json"])


def test_what_a_killed_export_left_is_removed(tmp_path: Path, dataset: gz.Dataset) -> None:
    for name in ("files.exporting-0123abcd", "files.replaced-0123abcd", "files2.replaced-0123abcd"):
        export(dataset, tmp_path / name)
    mine = tmp_path / "files.replaced-00000000"  # not an export
    mine.mkdir()
    (mine / "edges.csv").write_text("mine")
    export(dataset, tmp_path / "files")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ds", "files", mine.name, "files2.replaced-0123abcd"]


def test_running_exports_are_no_leftovers(tmp_path: Path, dataset: gz.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphzero.exporting.export import _Npy

    finish, nested = _Npy.finish, []

    def other_first(self: _Npy) -> list[str]:
        if not nested:
            nested.append(True)
            export(dataset, tmp_path / "files", "csv")
        return finish(self)

    monkeypatch.setattr(_Npy, "finish", other_first)
    assert all(os.path.exists(path) for path in export(dataset, tmp_path / "files"))
