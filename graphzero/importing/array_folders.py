"""Folders of arrays: MAG240M and IGB, their graph of papers that cite papers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..row_sources import Rows
from ..sources import load_npy
from .plan import Plan
from .torchfile import load_pt

__all__ = ["is_igb", "is_mag240m", "plan_igb", "plan_mag240m"]

_IGB_COLUMNS = 1024


def is_mag240m(folder: str) -> bool:
    """Whether a folder is MAG240M's, or holds it."""
    return os.path.exists(os.path.join(_mag(folder), "processed", "paper___cites___paper", "edge_index.npy"))


def _mag(folder: str) -> str:
    inner = os.path.join(folder, "mag240m_kddcup2021")
    return inner if os.path.isdir(inner) else folder


def plan_mag240m(folder: str) -> Plan:
    """Return the plan for the papers of MAG240M; authors and institutions are left out."""
    root = _mag(folder)
    paper = os.path.join(root, "processed", "paper")
    edges = os.path.join(root, "processed", "paper___cites___paper", "edge_index.npy")
    plan = Plan("MAG240M folder (papers)", edges, name="mag240m", found=["edges: paper___cites___paper"])
    _add_arrays(plan, paper, {"x": "node_feat.npy", "year": "node_year.npy"}, "node_label.npy")
    splits = os.path.join(root, "split_dict.pt")
    if os.path.exists(splits):
        # test-dev and test-challenge have no public labels: names say so
        plan.splits = {key: np.asarray(ids) for key, ids in load_pt(splits).items()}
        plan.found.append(f"splits: {', '.join(plan.splits)}")
    plan.found.append("left out: authors, institutions (heterogeneous datasets are not imported yet)")
    return plan


def is_igb(folder: str) -> bool:
    """Whether a folder is one size of IGB."""
    return os.path.exists(os.path.join(folder, "processed", "paper__cites__paper", "edge_index.npy"))


def plan_igb(folder: str) -> Plan:
    """Return the plan for the papers of IGB or IGBH: labels of 19 classes, splits of 60, 20 and 20 percent in order."""
    paper = os.path.join(folder, "processed", "paper")
    edges = load_npy(os.path.join(folder, "processed", "paper__cites__paper", "edge_index.npy"))
    name = f"igb-{os.path.basename(os.path.abspath(folder))}"
    plan = Plan("IGB folder (papers)", edges, name=name, found=[f"edges: paper__cites__paper, shape {edges.shape}"])
    _add_arrays(plan, paper, {"x": "node_feat.npy"}, "node_label_19.npy", _IGB_COLUMNS)
    count = plan.num_nodes or 0
    ends = [0, int(count * 0.6), int(count * 0.6) + int(count * 0.2), count]
    plan.splits = {s: np.arange(a, b) for s, a, b in zip(("train", "valid", "test"), ends, ends[1:], strict=False)}
    plan.found.append("splits: the first 60 %, the next 20 % and the rest, as IGB's loader makes them")
    return plan


def _add_arrays(plan: Plan, folder: str, features: dict[str, str], labels: str, columns: int = 0) -> None:
    for name, file in features.items():
        path = os.path.join(folder, file)
        if os.path.exists(path):
            array = _array(path, columns)
            plan.features[name] = path if array is None else _rows(array, name)
            shape = (array if array is not None else load_npy(path)).shape
            plan.num_nodes = plan.num_nodes or int(shape[0])
            plan.found.append(f"features {name}: {file}, shape {shape}{'' if array is None else ', without a header'}")
    path = os.path.join(folder, labels)
    if os.path.exists(path):
        array = _array(path, 0)
        plan.labels = _rows(load_npy(path) if array is None else array, "y")
        plan.found.append(f"labels: {labels}{'' if array is None else ', without a header'}")


def _array(path: str, columns: int) -> npt.NDArray[np.float32] | None:
    """Return a file that is called .npy and holds bare float32 numbers; None where it has a header."""
    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return None
    size, row = os.path.getsize(path), 4 * max(columns, 1)
    if size % row:
        raise InputError(f"{path}: no .npy header, and {size} bytes are no whole rows of {row} bytes of float32")
    shape = (size // row, columns) if columns else (size // row,)
    return np.memmap(path, np.float32, "r", shape=shape)


def _rows(array: Any, name: str) -> Rows:
    def blocks(step: int) -> Iterator[npt.NDArray[Any]]:
        for at in range(0, len(array), step):
            yield array[at : at + step]

    raw = (str(array.filename), int(array.offset)) if isinstance(array, np.memmap) else None
    columns = array.shape[1] if array.ndim == 2 else None
    return Rows(name, array.dtype.name, columns, len(array), blocks, raw=raw if array.dtype.isnative else None)
