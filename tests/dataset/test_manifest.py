"""The manifest: what is written is read back, and every fault is told by its field."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from graphzero import FormatError, StorageError
from graphzero.dataset.manifest import MANIFEST, MOST_BYTES
from graphzero.dataset.manifest_reader import read_manifest
from graphzero.dataset.manifest_writer import write_manifest

GOOD: dict[str, Any] = {
    "format": "graphzero-dataset",
    "version": "1.0",
    "name": "toy",
    "nodes": {
        "paper": {
            "count": 3,
            "features": {"x": {"file": "features/x.gd", "array": "x"}},
            "labels": {"file": "labels.gd", "array": "y", "classes": 2},
            "splits": {"train": {"file": "splits/train.gd", "array": "ids"}},
        },
        "author": {"count": 5},
    },
    "edges": {
        "paper__cites__paper": {"source": "paper", "relation": "cites", "target": "paper", "file": "cites.gl"},
        "author__writes__paper": {
            "source": "author",
            "relation": "writes",
            "target": "paper",
            "file": "writes.gl",
            "features": {"year": {"file": "year.gd", "array": "year"}},
            "splits": {"train": {"file": "edges.gd", "array": "edges"}},
            "count": 9,
        },
    },
    "default": {"node": "paper", "edge": "paper__cites__paper"},
    "about": {"made_by": "hand", "numbers": [1, 2.5, None]},
}
FILES = ("features/x.gd", "labels.gd", "splits/train.gd", "cites.gl", "writes.gl", "year.gd", "edges.gd")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    put(tmp_path, GOOD)
    return tmp_path


def put(folder: Path, value: Any) -> None:
    (folder / MANIFEST).write_text(value if isinstance(value, str) else json.dumps(value))


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with the field at a dotted path set, or taken away when the value is `...`."""
    manifest = copy.deepcopy(GOOD)
    at = manifest
    *way, last = path.split(".")
    for key in way:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return manifest


def test_a_manifest_with_many_types_is_read(folder: Path) -> None:
    manifest = read_manifest(str(folder))
    assert list(manifest.nodes) == ["paper", "author"]
    assert manifest.edges["author__writes__paper"].features["year"].file == "year.gd"
    assert manifest.default_edge == "paper__cites__paper"
    assert sorted(manifest.files()) == sorted(FILES)


def test_what_is_written_is_read_back_and_leaves_no_temporary(folder: Path) -> None:
    manifest = read_manifest(str(folder))
    write_manifest(str(folder), manifest)
    assert read_manifest(str(folder)) == manifest
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_a_failed_write_leaves_the_old_manifest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = read_manifest(str(folder))

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_manifest(str(folder), manifest)
    assert read_manifest(str(folder)) == manifest
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_defaults_are_the_first_types(folder: Path) -> None:
    put(folder, changed("default", ...))
    assert read_manifest(str(folder)).default_node == "paper"


def test_a_newer_minor_version_may_say_more(folder: Path) -> None:
    newer = changed("nodes.paper.colour", "red")
    newer["version"] = "1.7"
    newer["licence"] = "MIT"
    put(folder, newer)
    assert read_manifest(str(folder)).name == "toy"


X, CITES = "nodes.paper.features.x", "edges.paper__cites__paper"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", ..., "format: found nothing, expected 'graphzero-dataset'"),
        ("format", "other", 'format: found "other"'),
        ("version", ..., "version: found nothing"),
        ("version", 1, "version: found 1, expected text such as '1.0'"),
        ("version", "1", "version: found"),
        ("version", "3.0", "version: found '3.0', expected '1.x' or '2.x' (this GraphZero reads 1.3 and 2.0"),
        ("version", "1.0.0", "version: found"),
        ("version", "1.²", "version: found"),
        ("name", ..., "name: found nothing"),
        ("name", "", "name: found"),
        ("name", 7, "name: found 7, expected text"),
        ("nodes", [], "nodes: found a list"),
        ("nodes", {}, "edges.paper__cites__paper.source: found 'paper'"),
        ("edges", {}, "edges: found no type, expected at least one"),
        ("extra", 1, "extra: found an unknown field"),
        ("nodes.paper.count", ..., "nodes.paper.count: found nothing"),
        ("nodes.paper.count", -1, "nodes.paper.count: found -1, expected a whole number of at least 0"),
        ("nodes.paper.count", 1.5, "nodes.paper.count: found 1.5"),
        ("nodes.paper.count", True, "nodes.paper.count: found true"),
        ("nodes.paper.count", 2**63, "nodes.paper.count: found 9223372036854775808"),
        ("nodes.paper.feature", {}, "nodes.paper.feature: found an unknown field, expected one of columns"),
        ("nodes.paper.features", [], "nodes.paper.features: found a list"),
        ("nodes.paper.features", {"a/b": 1}, "nodes.paper.features: found the name 'a/b'"),
        ("nodes.paper.features", {"..": 1}, "nodes.paper.features: found the name '..'"),
        ("nodes.paper.features", {"": 1}, "nodes.paper.features: found the name ''"),
        (X, "x.gd", f"{X}: found"),
        (f"{X}.array", ..., f"{X}.array: found nothing"),
        (f"{X}.array", 3, f"{X}.array: found 3"),
        (f"{X}.file", ..., f"{X}.file: found nothing"),
        (f"{X}.file", "cites.gl", f'{X}.file: found "cites.gl", expected a .gd file'),
        (f"{X}.file", "none.gd", f"{X}.file: found no file 'none.gd'"),
        (f"{X}.file", "/etc/x.gd", f"{X}.file: found"),
        (f"{X}.file", "../x.gd", f"{X}.file: found"),
        (f"{X}.file", "features/../../x.gd", f"{X}.file: found"),
        (f"{X}.file", "./labels.gd", f"{X}.file: found"),
        (f"{X}.file", "features//x.gd", f"{X}.file: found"),
        (f"{X}.file", "features\\x.gd", f"{X}.file: found"),
        (f"{X}.file", "C:x.gd", f"{X}.file: found"),
        (f"{X}.file", "x\0.gd", f"{X}.file: found"),
        (f"{X}.file", "features", f"{X}.file: found"),
        ("nodes.paper.labels.classes", 0, "nodes.paper.labels.classes: found 0"),
        ("nodes.paper.labels.classes", ..., "nodes.paper.labels.classes: found nothing"),
        ("nodes.paper.labels.file", "y.gd", "nodes.paper.labels.file: found no file"),
        ("nodes.paper.splits.train.file", "t.gd", "nodes.paper.splits.train.file: found no file"),
        ("nodes.paper.ids", {"file": "ids.gd"}, "nodes.paper.ids.file: found no file"),
        ("nodes.paper.ids", {"file": "labels.gd", "array": "x"}, "nodes.paper.ids.array: found an unknown field"),
        (f"{CITES}.file", "labels.gd", f"{CITES}.file: found"),
        (f"{CITES}.relation", "knows", f"{CITES}: found 'paper__knows__paper' in its fields"),
        (f"{CITES}.source", ..., f"{CITES}.source: found nothing"),
        ("edges.author__writes__paper.count", -1, "edges.author__writes__paper.count: found -1"),
        (
            "edges.author__writes__paper.splits.train.file",
            "t.gd",
            "edges.author__writes__paper.splits.train.file: found",
        ),
        ("default.node", "venue", "default.node: found"),
        ("default.edge", "paper", "default.edge: found"),
        ("default.nodes", "paper", "default.nodes: found an unknown field"),
        ("about", [], "about: found a list"),
    ],
)
def test_a_fault_is_told_by_its_field(folder: Path, path: str, value: Any, message: str) -> None:
    put(folder, changed(path, value))
    with pytest.raises(FormatError) as e:
        read_manifest(str(folder))
    assert f"{folder / MANIFEST}: {message}" in str(e.value)


WITH_DELTAS = {**GOOD, "version": "2.0", "deltas": {"cites.gl": ["v2-00000000/cites.gl", "v3-00000000/cites.gl"]}}


def test_deltas_are_read_and_written_with_their_own_version(folder: Path) -> None:
    for name in WITH_DELTAS["deltas"]["cites.gl"]:
        (folder / name).parent.mkdir()
        (folder / name).touch()
    put(folder, WITH_DELTAS)
    manifest = read_manifest(str(folder))
    assert manifest.files()[:3] == ["cites.gl", *WITH_DELTAS["deltas"]["cites.gl"]]
    assert manifest.paths("d", "cites.gl")[1] == tuple(f"d/{name}" for name in WITH_DELTAS["deltas"]["cites.gl"])
    write_manifest(str(folder), manifest)
    assert json.loads((folder / MANIFEST).read_text())["version"] == "2.0"
    assert read_manifest(str(folder)) == manifest
    write_manifest(str(folder), manifest.without_deltas())
    assert json.loads((folder / MANIFEST).read_text())["version"] == "1.3"


@pytest.mark.parametrize(
    ("version", "deltas", "message"),
    [
        ("1.3", {"cites.gl": ["edges.gl"]}, "deltas: found an unknown field"),  # as earlier versions would say of 1.3
        ("2.0", [], "deltas: found a list"),
        ("2.0", {"other.gl": ["cites.gl"]}, "deltas.other.gl: found a file that no part has"),
        ("2.0", {"cites.gl": []}, "deltas.cites.gl: found a list, expected a list of files, oldest first"),
        ("2.0", {"cites.gl": ["year.gd"]}, 'deltas.cites.gl: found "year.gd", expected a .gl file'),
        ("2.0", {"cites.gl": ["../x.gl"]}, 'deltas.cites.gl: found "../x.gl", expected a plain relative path'),
        ("2.0", {"cites.gl": ["none.gl"]}, "deltas.cites.gl: found no file 'none.gl'"),
        ("2.0", {"cites.gl": ["writes.gl"]}, "deltas.cites.gl: found 'writes.gl' twice, expected each file once"),
    ],
)
def test_a_fault_of_deltas_is_told_by_its_file(folder: Path, version: str, deltas: Any, message: str) -> None:
    put(folder, {**GOOD, "version": version, "deltas": deltas})
    with pytest.raises(FormatError) as e:
        read_manifest(str(folder))
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[]", "format: found a list"),
        ("null", "format: found nothing"),
        ('{"a": 1, "a": 2}', "duplicate field 'a'"),
        ('{"a": NaN}', "NaN is not a valid JSON number"),
        ("[" * 100_000, "not valid JSON"),
        (" " * (MOST_BYTES + 1), "size: found more than"),
    ],
)
def test_what_is_no_manifest_is_refused(folder: Path, text: str, message: str) -> None:
    put(folder, text)
    with pytest.raises(FormatError, match=message):
        read_manifest(str(folder))


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(b"\xff\xfe{}")
    with pytest.raises(FormatError, match="not valid JSON"):
        read_manifest(str(folder))


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_fine(folder: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x.gd"
    outside.touch()
    (folder / "labels.gd").unlink()
    (folder / "labels.gd").symlink_to(folder / "year.gd")
    read_manifest(str(folder))
    (folder / "labels.gd").unlink()
    (folder / "labels.gd").symlink_to(outside)
    with pytest.raises(FormatError, match="a link that leaves the folder"):
        read_manifest(str(folder))


def test_no_manifest_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a dataset"):
        read_manifest(str(tmp_path))


JSON_VALUES = [None, True, 7, 1.5, "text", [], ["a"], [[]], {}, {"a": 1}, {"a": {"file": []}}]


def test_a_wrong_type_anywhere_is_a_format_error(folder: Path) -> None:
    def paths(value: Any, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        inner = [p for key, item in value.items() for p in paths(item, (*way, key))] if isinstance(value, dict) else []
        return [way, *inner] if way else inner

    messages: list[str] = []
    for way in paths(GOOD):
        for value in JSON_VALUES:
            put(folder, changed(".".join(way), value))
            try:
                read_manifest(str(folder))
            except FormatError as error:
                messages.append(str(error))
    assert len(messages) > 200
    assert all(message.startswith(str(folder / MANIFEST)) for message in messages)


def test_a_default_that_is_no_name_is_told_by_its_field(folder: Path) -> None:
    put(folder, changed("default.node", ["paper"]))
    with pytest.raises(FormatError, match=r"default\.node: found a list, expected one of 'paper', 'author'"):
        read_manifest(str(folder))
