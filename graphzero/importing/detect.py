"""Which kind of source this is, and the plan for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..args.sizes import format_size
from ..errors import InputError
from ..sources import npz
from ..sources.tables import is_table_file
from ..sources.text import open_text, require_file
from .array_folders import is_igb, is_mag240m, plan_igb, plan_mag240m
from .debian import is_apt, is_package_index, plan_apt, plan_package_index
from .graphbolt import is_graphbolt, plan_graphbolt
from .keyed import read_keyed, table_files
from .ogb import is_ogb, plan_ogb
from .plan import Plan
from .pyg import is_pyg_data, is_pyg_folder, plan_pyg_data, plan_pyg_file, plan_pyg_folder
from .pyg_hetero import is_hetero_data, plan_hetero
from .spec import read_spec
from .whole_tables import choose_label, plan_tables

__all__ = ["plan_for"]


def plan_for(source: Any, label: str | None = None) -> Plan:
    """Return the plan for a file, a folder or an object. Raises InputError when a folder has no known layout.

    label: in a description of tables, the column with the labels.
    """
    if is_apt(source):
        return plan_apt()
    if isinstance(source, (str, os.PathLike)) and not os.path.exists(source):
        raise FileNotFoundError(f"{os.fspath(source)}: no such file or folder")
    spec = read_keyed(source) or read_spec(source)
    if spec is not None:
        if label is not None:
            choose_label(spec, label)
        return plan_tables(spec)
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not os.path.isdir(path):
            require_file(path)
        return _plan_for_folder(path) if os.path.isdir(path) else _plan_for_file(path)
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        paths = [os.fspath(s) for s in source]
        size = format_size(sum(os.path.getsize(p) for p in paths))
        return Plan.of("edge list", paths, found=[f"edges: {len(paths)} files, {size}"])
    if is_hetero_data(source):
        return plan_hetero(source.to_dict(), "PyG HeteroData object")
    if is_pyg_data(source):
        return plan_pyg_data(source)
    return Plan.of(f"{type(source).__name__} object", source, found=[f"edges: {type(source).__name__}"])


def _plan_for_file(path: str) -> Plan:
    name = os.path.basename(path).split(".")[0]
    size = format_size(os.path.getsize(path))
    if path.endswith(".npz"):
        return _plan_for_npz(path, name)
    if path.endswith((".pt", ".pth")):
        return plan_pyg_file(path, name)
    if is_table_file(path):
        return Plan.of("table file", path, name=name, found=[f"edges: {path}, {size}"])
    if is_package_index(path):
        return plan_package_index(path)
    if name == "out" and _is_konect(path):
        konect = os.path.basename(path).removeprefix("out.")
        both = _first_line(path).split()[1:2] == [b"sym"]
        options = {"id_base": 1, **({"directed": False} if both else {})}
        ways = ", undirected: each edge both ways" if both else ""
        return Plan.of("KONECT file", path, options, name=konect, found=[f"edges: {path}, {size}, ids from 1{ways}"])
    kind = "graph file" if path.endswith(".gl") else "edge array" if path.endswith(".npy") else "edge list"
    return Plan.of(kind, path, name=name, found=[f"edges: {path}, {size}"])


def _plan_for_npz(path: str, name: str) -> Plan:
    arrays = npz.members(path)
    edges = next((arrays[key] for key in ("edge_index", "edges") if key in arrays), None)
    if edges is None:
        raise InputError(f"{path}: holds {', '.join(map(repr, arrays)) or 'nothing'}; expected an array 'edge_index'")
    plan = Plan.of("npz archive", edges.edges(), name=name, found=[f"edges: {edges.name}, shape {edges.shape}"])
    for key in ("node_feat", "x", "features"):
        if key in arrays:
            plan.one.features["x"] = arrays[key].rows("x")
            plan.found.append(f"features x: {arrays[key].name}, shape {arrays[key].shape}, {arrays[key].dtype}")
            break
    for key in ("node_label", "y", "labels"):
        if key in arrays:
            plan.one.labels = arrays[key].rows("y")
            plan.found.append(f"labels: {arrays[key].name}, shape {arrays[key].shape}")
            break
    return plan


def _plan_for_folder(path: str) -> Plan:
    if os.path.exists(os.path.join(path, "dataset.json")):
        raise InputError(f"{path}: is already a GraphZero dataset; open it with gz.Dataset")
    for known, plan in _LAYOUTS:
        if known(path):
            return plan(path)
    konect = [f for f in sorted(os.listdir(path)) if f.startswith("out.") and _is_konect(os.path.join(path, f))]
    if konect:
        return _plan_for_file(os.path.join(path, konect[0]))
    if is_table_file(path):
        name = os.path.basename(os.path.abspath(path))
        return Plan.of("folder of tables", path, name=name, found=[f"edges: {path}"])
    if len(table_files(path)) > 1:
        keys = os.path.join(path, "keys.yaml")
        raise InputError(
            f"{path}: found {len(table_files(path))} tables and no keys.yaml; `graphzero inspect {path} --out {keys}` "
            "proposes one; several text files of edges are given as a list of their paths"
        )
    names = sorted(os.listdir(path))
    shown = ", ".join(names[:8]) or "nothing"
    text = any(name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")) for name in names)
    hint = "; several text files of edges are given as a list of their paths" if text else ""
    raise InputError(
        f"{path}: no known layout; found {shown}; expected a file of edges, or a folder that {_KNOWN}{hint}"
    )


def _is_konect(path: str) -> bool:
    return _first_line(path).startswith(b"%")


def _first_line(path: str) -> bytes:
    with open_text(path) as file:
        return file.readline(1 << 12)


_KNOWN = "is of OGB, MAG240M, IGB, IGBH, GraphBolt, KONECT, PyG (processed/*.pt), or holds Parquet or Arrow files"
_LAYOUTS: tuple[tuple[Callable[[str], bool], Callable[[str], Plan]], ...] = (
    (is_graphbolt, plan_graphbolt),
    (is_ogb, plan_ogb),
    (is_mag240m, plan_mag240m),
    (is_igb, plan_igb),
    (is_pyg_folder, plan_pyg_folder),
)
