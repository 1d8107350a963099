"""Folders of arrays: MAG240M, IGB and IGBH, with the relations and node types that are there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources.edge_blocks import load_npy
from ..sources.rows import Rows
from ..sources.torch_file import load_pt
from .plan import Plan

__all__ = ["is_igb", "is_mag240m", "plan_igb", "plan_mag240m"]

_IGB_COLUMNS = 1024
_BLOCK = 1 << 20


def is_mag240m(folder: str) -> bool:
    """Return whether a folder is MAG240M's, or holds it."""
    return os.path.exists(os.path.join(_mag(folder), "processed", "paper___cites___paper", "edge_index.npy"))


def _mag(folder: str) -> str:
    inner = os.path.join(folder, "mag240m_kddcup2021")
    return inner if os.path.isdir(inner) else folder


def plan_mag240m(folder: str) -> Plan:
    """Return the plan for MAG240M: the relations that are there, counts from meta.pt, arrays of each node type."""
    root = _mag(folder)
    plan = Plan("MAG240M folder", name="mag240m")
    _add_relations(plan, os.path.join(root, "processed"), "___")
    _add_nodes(plan, os.path.join(root, "processed"), "node_label.npy", 0)
    meta, splits = os.path.join(root, "meta.pt"), os.path.join(root, "split_dict.pt")
    if os.path.exists(meta):
        for name, count in load_pt(meta).items():
            if name in plan.nodes:
                plan.nodes[name].num_nodes = int(count)
    if os.path.exists(splits):
        # test-dev and test-challenge have no public labels: names say so
        plan.nodes["paper"].splits = {key: np.asarray(ids) for key, ids in load_pt(splits).items()}
        plan.found.append(f"splits: {', '.join(plan.nodes['paper'].splits)}")
    return plan


def is_igb(folder: str) -> bool:
    """Return whether a folder is one size of IGB or IGBH."""
    return os.path.exists(os.path.join(folder, "processed", "paper__cites__paper", "edge_index.npy"))


def plan_igb(folder: str) -> Plan:
    """Return the plan for IGB or IGBH: labels of 19 classes, splits of 60, 20 and 20 percent in order."""
    name = f"igb-{os.path.basename(os.path.abspath(folder))}"
    plan = Plan("IGB folder", name=name)
    _add_relations(plan, os.path.join(folder, "processed"), "__")
    plan.typed = len(plan.edges) > 1
    plan.kind = "IGBH folder" if plan.typed else plan.kind
    _add_nodes(plan, os.path.join(folder, "processed"), "node_label_19.npy", _IGB_COLUMNS)
    paper = plan.nodes["paper"]
    count = paper.num_nodes or 0
    ends = [0, int(count * 0.6), int(count * 0.6) + int(count * 0.2), count]
    paper.splits = {s: _span(a, b) for s, a, b in zip(("train", "valid", "test"), ends, ends[1:], strict=False)}
    plan.found.append("splits: the first 60 %, the next 20 % and the rest, as IGB's loader makes them")
    return plan


def _span(begin: int, end: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the ids from `begin` on, in blocks: of the largest size they would fill gigabytes."""
    yield np.arange(begin, min(begin + _BLOCK, end))
    for at in range(begin + _BLOCK, end, _BLOCK):
        yield np.arange(at, min(at + _BLOCK, end))


def _add_relations(plan: Plan, folder: str, between: str) -> None:
    """Add a relation for each folder whose name is three names with `between` between them."""
    found = [entry.split(between) for entry in sorted(os.listdir(folder))]
    triples = [(w[0], w[1], w[2]) for w in found if len(w) == 3]
    triples.sort(key=lambda names: names != ("paper", "cites", "paper"))  # which ds.graph means
    for names in triples:
        path = os.path.join(folder, between.join(names), "edge_index.npy")
        if os.path.exists(path):
            edges = load_npy(path)
            plan.add_edges(names, edges)
            plan.found.append(f"edges: {between.join(names)}, shape {edges.shape}")


def _add_nodes(plan: Plan, folder: str, labels: str, columns: int) -> None:
    for name, node in plan.nodes.items():
        for feature, file in (("x", "node_feat.npy"), ("year", "node_year.npy")):
            path = os.path.join(folder, name, file)
            if os.path.exists(path):
                bare = _array(path, columns)
                node.features[feature] = path if bare is None else _rows(bare, feature)
                shape = (bare if bare is not None else load_npy(path)).shape
                node.num_nodes = node.num_nodes or int(shape[0])
                plan.found.append(f"features {name} {feature}: {file}, shape {shape}{_header(bare)}")
        path = os.path.join(folder, name, labels)
        if os.path.exists(path):
            bare = _array(path, 0)
            node.labels = _rows(load_npy(path) if bare is None else bare, "y")
            plan.found.append(f"labels {name}: {labels}{_header(bare)}")


def _header(bare: Any) -> str:
    return "" if bare is None else ", without a header"


def _array(path: str, columns: int) -> npt.NDArray[np.float32] | None:
    """Return a file that is called .npy and holds bare float32 numbers; None if it has a header."""
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return None
    size, row = os.path.getsize(path), 4 * max(columns, 1)
    if size % row:
        raise InputError(f"{path}: no .npy header, and {size} bytes are not whole float32 rows of {row} bytes")
    shape = (size // row, columns) if columns else (size // row,)
    return np.memmap(path, np.float32, "r", shape=shape)


def _rows(array: Any, name: str) -> Rows:
    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for at in range(0, len(array), step):
            yield array[at : at + step]

    raw = (str(array.filename), int(array.offset)) if isinstance(array, np.memmap) else None
    columns = array.shape[1] if array.ndim == 2 else None
    return Rows(name, array.dtype.name, columns, len(array), blocks, raw=raw if array.dtype.isnative else None)
