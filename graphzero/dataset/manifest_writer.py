"""Writes the manifest of a dataset folder: checked as a reader checks it, and published by one rename."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..args.times import TIME_UNITS
from .folder_lock import sync_folder
from .manifest import (
    FORMAT,
    MANIFEST,
    ArrayRef,
    EdgeType,
    Manifest,
    NodeType,
    edge_key,
)
from .manifest_reader import parse_manifest
from .manifest_tasks import task_json


def check_about(value: Any, where: str = "about") -> None:
    """Raise unless `value` is JSON-serializable; the error names the location, as in about['made']['lr']."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}, a {type(key).__name__}, expected text")
            check_about(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            check_about(item, f"{where}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, which is not valid JSON")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"{where} is a {type(value).__name__}, expected Python's own str, int, float, list or dict")


def described(manifest: Manifest, columns: Any, time_unit: str) -> Manifest:
    """Return `manifest` with columns: a sequence for the default node type, or a dict by node or edge type."""
    if time_unit not in TIME_UNITS:
        raise ValueError(f"time_unit is {time_unit!r}, expected one of {', '.join(map(repr, TIME_UNITS))}")
    manifest = replace(manifest, time_unit=time_unit)
    if columns is None:
        return manifest
    by_type = columns if isinstance(columns, Mapping) else {manifest.default_node: columns}
    nodes, edges = dict(manifest.nodes), dict(manifest.edges)
    for name, of_type in by_type.items():
        key = name if isinstance(name, str) else edge_key(name)
        if key not in nodes and key not in edges:
            known = ", ".join(map(repr, (*nodes, *edges)))
            raise ValueError(f"table_columns: no type {name!r}; the dataset has {known}")
        if key in nodes:
            nodes[key] = replace(nodes[key], columns=tuple(of_type))
        else:
            edges[key] = replace(edges[key], columns=tuple(of_type))
    for edge in list(edges.values()):  # a reverse shares the rows of its edges
        other = edge_key((edge.target, f"rev_{edge.relation}", edge.source))
        if other in edges and not edges[other].columns and edges[other].features == edge.features:
            edges[other] = replace(edges[other], columns=edge.columns)
    return replace(manifest, nodes=nodes, edges=edges)


def manifest_bytes(folder: str, manifest: Manifest) -> bytes:
    """Return `manifest` as it is written to `folder`; raise FormatError if a reader would reject it there."""
    data = (json.dumps(_as_json(manifest), indent=2, allow_nan=False) + "\n").encode()
    parse_manifest(folder, data)
    return data


def write_manifest(folder: str, manifest: Manifest, stage: str | None = None) -> None:
    """Publish `manifest` in `folder` atomically.

    It is first written to a file in the folder `stage`, which is on the same disk.
    """
    data = manifest_bytes(folder, manifest)
    temporary = os.path.join(stage or folder, f".{MANIFEST}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, os.path.join(folder, MANIFEST))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def _as_json(manifest: Manifest) -> dict[str, Any]:
    def arrays(table: dict[str, ArrayRef]) -> dict[str, Any]:
        return {name: array(ref) for name, ref in table.items()}

    def array(ref: ArrayRef) -> dict[str, Any]:
        out: dict[str, Any] = {"file": ref.file, "array": ref.array}
        return out if ref.row_shape is None else {**out, "row_shape": list(ref.row_shape)}

    def node(entry: NodeType) -> dict[str, Any]:
        out: dict[str, Any] = {"count": entry.count, "features": arrays(entry.features)}
        if entry.labels is not None:
            out["labels"] = {
                "file": entry.labels.file,
                "array": entry.labels.array,
                "classes": entry.labels.classes,
            }
            if entry.labels.kind != "classification":
                out["labels"]["kind"] = entry.labels.kind
        if entry.ids is not None:
            out["ids"] = {"file": entry.ids}
        if entry.keys is not None:
            out["keys"] = {"file": entry.keys.file, **({"text": entry.keys.text} if entry.keys.text else {})}
        if entry.columns:
            out["columns"] = [column.to_dict() for column in entry.columns]
        return {**out, "splits": arrays(entry.splits)}

    def edge(entry: EdgeType) -> dict[str, Any]:
        out: dict[str, Any] = {
            "source": entry.source,
            "relation": entry.relation,
            "target": entry.target,
            "file": entry.file,
            "features": arrays(entry.features),
        }
        if entry.splits:
            out["splits"] = arrays(entry.splits)
        if entry.columns:
            out["columns"] = [column.to_dict() for column in entry.columns]
        return out if entry.count is None else {**out, "count": entry.count}

    more: dict[str, Any] = {"time_unit": manifest.time_unit} if manifest.time_unit != "s" else {}
    if manifest.tasks:
        more["tasks"] = {name: task_json(task) for name, task in manifest.tasks.items()}
    if manifest.deltas:
        more["deltas"] = {file: list(added) for file, added in manifest.deltas.items()}
    return {
        "format": FORMAT,
        "version": ".".join(map(str, manifest.version)),
        "name": manifest.name,
        "nodes": {name: node(entry) for name, entry in manifest.nodes.items()},
        "edges": {name: edge(entry) for name, entry in manifest.edges.items()},
        "default": {"node": manifest.default_node, "edge": manifest.default_edge},
        "about": manifest.about,
        **({"typed": True} if manifest.typed else {}),
        **more,
    }
