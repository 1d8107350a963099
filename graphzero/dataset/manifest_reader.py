"""Reads and checks the manifest of a dataset folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NoReturn, TypeVar

from ..args.times import TIME_UNITS
from ..errors import FormatError, StorageError
from .columns import Column, read_columns
from .manifest import (
    FORMAT,
    LABEL_KINDS,
    MANIFEST,
    MOST_BYTES,
    NAME_RULE,
    VERSION,
    WITH_DELTAS,
    ArrayRef,
    EdgeType,
    KeyFiles,
    Labels,
    Manifest,
    NodeType,
    edge_key,
    is_name,
)
from .manifest_tasks import read_task

__all__ = ["parse_manifest", "read_bytes", "read_manifest"]

_T = TypeVar("_T")
_EDGE_NAMES = ("source", "relation", "target")


class _Reader:
    """Checks parsed JSON; the error for the first fault names the path of its field."""

    def __init__(self, path: str, folder: str, present: bool) -> None:
        self.path = path
        self.present = present
        self.folder = os.path.realpath(folder)
        self.lenient = False  # whether unknown keys are allowed: the file's minor version is newer

    def fail(self, where: str, found: str, expected: str) -> NoReturn:
        raise FormatError(f"{self.path}: {where}: found {found}, expected {expected}")

    def object(self, value: Any, where: str, required: Iterable[str], optional: Iterable[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(where, _shown(value), "an object")
        for key in required:
            if key not in value:
                self.fail(_join(where, key), "nothing", "a value, since the field is required")
        known = {*required, *optional}
        for key in value:
            if key not in known and not self.lenient:
                self.fail(_join(where, key), "an unknown field", f"one of {', '.join(sorted(known))}")
        return value

    def table(self, value: Any, where: str, read: Callable[[Any, str], _T]) -> dict[str, _T]:
        if not isinstance(value, dict):
            self.fail(where, _shown(value), "an object of names")
        for key in value:
            if not is_name(key):
                self.fail(where, f"the name {key[:40]!r}", NAME_RULE)
        return {key: read(item, _join(where, key)) for key, item in value.items()}

    def text(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value:
            self.fail(where, _shown(value), "text")
        return value

    def whole(self, value: Any, where: str, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            self.fail(where, _shown(value), f"a whole number of at least {least}")
        return value

    def file(self, value: Any, where: str, suffix: str) -> str:
        name = self.text(value, where)
        parts = PurePosixPath(name).parts
        outside = name.startswith("/") or ".." in parts or "\\" in name or ":" in name or not name.isprintable()
        if outside or str(PurePosixPath(name)) != name:
            self.fail(where, _shown(name), "a plain relative path inside the folder, such as 'x.gd'")
        if not name.endswith(suffix):
            self.fail(where, _shown(name), f"a {suffix} file")
        full = os.path.join(self.folder, *parts)
        if os.path.commonpath([os.path.realpath(full), self.folder]) != self.folder:
            self.fail(where, f"{name!r}, a link that leaves the folder", "a file inside the folder")
        if self.present and not os.path.isfile(full):
            self.fail(where, f"no file {name!r}", "a file inside the folder (was the dataset copied completely?)")
        return name

    def array(self, value: Any, where: str) -> ArrayRef:
        entry = self.object(value, where, ("file", "array"), ("row_shape",))
        return ArrayRef(
            self.file(entry["file"], _join(where, "file"), ".gd"),
            self.text(entry["array"], _join(where, "array")),
            row_shape=self.row_shape(entry.get("row_shape"), _join(where, "row_shape")),
        )

    def row_shape(self, value: Any, where: str) -> tuple[int, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list) or not 2 <= len(value) < 32:
            self.fail(where, _shown(value), "a list of two or more numbers")
        return tuple(self.whole(size, where, 0) for size in value)

    def labels(self, value: Any, where: str) -> Labels:
        entry = self.object(value, where, ("file", "array", "classes"), ("kind",))
        kind = entry.get("kind", "classification")
        if kind not in LABEL_KINDS:
            self.fail(_join(where, "kind"), _shown(kind), _one_of(LABEL_KINDS))
        return Labels(
            self.file(entry["file"], _join(where, "file"), ".gd"),
            self.text(entry["array"], _join(where, "array")),
            self.whole(entry["classes"], _join(where, "classes"), 1),
            kind,
        )

    def node(self, value: Any, where: str) -> NodeType:
        entry = self.object(value, where, ("count",), ("features", "labels", "splits", "ids", "keys", "columns"))
        labels, ids, keys = entry.get("labels"), entry.get("ids"), entry.get("keys")
        return NodeType(
            self.whole(entry["count"], _join(where, "count"), 0),
            self.table(entry.get("features", {}), _join(where, "features"), self.array),
            None if labels is None else self.labels(labels, _join(where, "labels")),
            self.table(entry.get("splits", {}), _join(where, "splits"), self.array),
            None if ids is None else self.ids(ids, _join(where, "ids")),
            None if keys is None else self.keys(keys, _join(where, "keys")),
            self.columns(entry, where),
        )

    def columns(self, entry: dict[str, Any], where: str) -> tuple[Column, ...]:
        features = entry.get("features", {})
        return read_columns(entry.get("columns", []), _join(where, "columns"), features, self.fail, self.lenient)

    def ids(self, value: Any, where: str) -> str:
        return self.file(self.object(value, where, ("file",), ())["file"], _join(where, "file"), ".gd")

    def keys(self, value: Any, where: str) -> KeyFiles:
        entry = self.object(value, where, ("file",), ("text",))
        text = entry.get("text")
        return KeyFiles(
            self.file(entry["file"], _join(where, "file"), ".gd"),
            None if text is None else self.file(text, _join(where, "text"), ".gd"),
        )

    def edge(self, value: Any, where: str) -> EdgeType:
        entry = self.object(value, where, (*_EDGE_NAMES, "file"), ("features", "splits", "count", "columns"))
        source, relation, target = (self.text(entry[key], _join(where, key)) for key in _EDGE_NAMES)
        key, count = edge_key((source, relation, target)), entry.get("count")
        if where != _join("edges", key):
            self.fail(where, f"{key!r} in its fields", "source__relation__target as its name")
        return EdgeType(
            source,
            relation,
            target,
            self.file(entry["file"], _join(where, "file"), ".gl"),
            self.table(entry.get("features", {}), _join(where, "features"), self.array),
            self.table(entry.get("splits", {}), _join(where, "splits"), self.array),
            None if count is None else self.whole(count, _join(where, "count"), 0),
            self.columns(entry, where),
        )

    def manifest(self, value: Any) -> Manifest:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = _shown(value.get("format")) if isinstance(value, dict) else _shown(value)
            self.fail("format", found, repr(FORMAT))
        version = self.version(value.get("version"))
        with_deltas = version[0] == WITH_DELTAS[0]
        self.lenient = version > (WITH_DELTAS if with_deltas else VERSION)
        needed = ("format", "version", "name", "nodes", "edges")
        optional = ("default", "about", "typed", "tasks", "time_unit", *(["deltas"] if with_deltas else []))
        self.object(value, "", needed, optional)
        nodes = self.table(value["nodes"], "nodes", self.node)
        edges = self.table(value["edges"], "edges", self.edge)
        for key, edge in edges.items():
            for side in ("source", "target"):
                if getattr(edge, side) not in nodes:
                    self.fail(f"edges.{key}.{side}", repr(getattr(edge, side)), _one_of(nodes))
        tasks = self.table(value.get("tasks", {}), "tasks", lambda v, where: read_task(self, v, where, LABEL_KINDS))
        for key, task in tasks.items():
            if task.entity not in nodes:
                self.fail(f"tasks.{key}.entity", repr(task.entity), _one_of(nodes))
        unit = value.get("time_unit", "s")
        if unit not in TIME_UNITS:
            self.fail("time_unit", _shown(unit), _one_of(TIME_UNITS))
        default = self.object(value.get("default", {}), "default", (), ("node", "edge"))
        about = value.get("about", {})
        if not isinstance(about, dict):
            self.fail("about", _shown(about), "an object")
        typed = value.get("typed", False)
        if not isinstance(typed, bool):
            self.fail("typed", _shown(typed), "true or false")
        manifest = Manifest(
            self.text(value["name"], "name"),
            nodes,
            edges,
            self.default(default.get("node"), "node", nodes),
            self.default(default.get("edge"), "edge", edges),
            about,
            typed or len(nodes) > 1 or len(edges) > 1,
            tasks,
            unit,
        )
        return replace(manifest, deltas=self.deltas(value["deltas"], manifest)) if "deltas" in value else manifest

    def deltas(self, value: Any, manifest: Manifest) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            self.fail("deltas", _shown(value), "an object of base files")
        known, found, seen = set(manifest.base_files()), {}, set(manifest.base_files())
        for file, added in value.items():
            where = f"deltas.{file}"
            if file not in known:
                self.fail(where, "a file that no part has", "the base file of a part")
            if not isinstance(added, list) or not added:
                self.fail(where, _shown(added), "a list of files, oldest first")
            found[file] = tuple(self.file(name, where, file[-3:]) for name in added)
            for name in found[file]:
                if name in seen:
                    self.fail(where, f"{name!r} twice", "each file once")
                seen.add(name)
        return found

    def version(self, value: Any) -> tuple[int, int]:
        parts = value.split(".") if isinstance(value, str) else []
        if len(parts) != 2 or not all(p.isascii() and p.isdecimal() and len(p) < 6 for p in parts):
            self.fail("version", _shown(value), "text such as '1.0'")
        major, minor = int(parts[0]), int(parts[1])
        if major not in (VERSION[0], WITH_DELTAS[0]):
            ours = " and ".join(".".join(map(str, version)) for version in (VERSION, WITH_DELTAS))
            majors = f"'{VERSION[0]}.x' or '{WITH_DELTAS[0]}.x'"
            self.fail("version", repr(value), f"{majors} (this GraphZero reads {ours}; upgrade it)")
        return major, minor

    def default(self, value: Any, kind: str, table: dict[str, Any]) -> str:
        if not table:
            self.fail(f"{kind}s", "no type", "at least one type")
        if value is None:
            return next(iter(table))
        if not isinstance(value, str) or value not in table:
            self.fail(f"default.{kind}", _shown(value), _one_of(table))
        return value


def read_manifest(folder: str) -> Manifest:
    """Read and check `folder`/dataset.json. Raises FormatError at the first fault, MissingFileError without one."""
    return parse_manifest(folder, read_bytes(folder))


def read_bytes(folder: str) -> bytes:
    """Return the bytes of `folder`/dataset.json, at most one more than the size limit."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as f:
            return f.read(MOST_BYTES + 1)
    except NotADirectoryError as e:
        raise StorageError(
            e.errno, f"{folder}: is a file, expected a dataset folder (Graph and FeatureStore open files)", folder
        ) from None
    except OSError as e:
        if not isinstance(e, FileNotFoundError):
            raise StorageError(e.errno, f"{path}: cannot open: {e.strerror}", path) from None
        what = f"the folder has no {MANIFEST}, so it is not a dataset"
        if not os.path.isdir(folder):
            what = "no such folder, expected a dataset"
        made = "Dataset.create, graphzero import and graphzero synth create one"
        raise StorageError(e.errno, f"{folder}: {what}; {made}", path) from None


def parse_manifest(folder: str, raw: bytes, present: bool = True) -> Manifest:
    """Check the bytes of `folder`/dataset.json; raise FormatError at the first fault. `present`: files must exist."""
    path = os.path.join(folder, MANIFEST)
    reader = _Reader(path, folder, present)
    if len(raw) > MOST_BYTES:
        reader.fail("size", f"more than {MOST_BYTES} bytes", f"at most {MOST_BYTES} bytes")
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"{path}: not valid JSON: {e}") from None
    return reader.manifest(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate field {twice!r}")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value) if isinstance(value, (str, int, float, bool)) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _one_of(names: Iterable[str]) -> str:
    return "one of " + ", ".join(map(repr, names))
