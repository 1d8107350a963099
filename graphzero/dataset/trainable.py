"""Checks that a dataset can be trained on, at import and again before a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..args.suggest import did_you_mean
from .dataset import Dataset
from .node_data import NodeData

__all__ = ["check_parts", "check_splits", "fault_of", "labelled_type", "standard_split", "standard_splits"]

T = TypeVar("T")
_SPLITS = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "validate", "dev"),
    "test": ("test", "testing"),
}
_STANDARD = {alias: name for name, aliases in _SPLITS.items() for alias in aliases}


def standard_split(name: str) -> str:
    """Return the standard name of a split: 'valid' for 'Validation'; unknown names are unchanged."""
    return _STANDARD.get(name.lower(), name)


def standard_splits(splits: Mapping[str, T]) -> dict[str, T]:
    """Return splits by their standard names. A split that already has its standard name takes precedence."""
    found: dict[str, T] = {}
    for name, ids in splits.items():
        standard = standard_split(name)
        if standard == name or standard not in splits:
            found[standard] = ids
    return found


def check_splits(sizes: Mapping[str, int], of: str = "") -> None:
    """Raise ValueError unless there are nodes to train on and to validate with."""
    for name in ("train", "valid"):
        if name in sizes and not sizes[name]:
            found = ", ".join(f"{split!r} ({size:,})" for split, size in sizes.items())
            raise ValueError(
                f"split {name!r}{of} is empty, but training needs nodes in it; found: {found}. Label more nodes, or "
                "choose other splits"
            )
        if not sizes.get(name):
            found = ", ".join(f"{split!r} ({size:,})" for split, size in sizes.items()) or "none"
            raise ValueError(
                f"no {name!r} split{of}, which training needs; found: {found}. Name the splits train, valid and test, "
                f"or import with splits='60/20/20'"
            )


def check_parts(data: Dataset, asked: str | None = None, *, splits: bool = True) -> None:
    """Raise ValueError that names all parts which learning labels of nodes needs and the dataset does not have."""
    nodes = list(data.nodes.values()) if asked is None else [data.nodes[asked]]
    missing = []
    if not any(node.label_kind for node in nodes):
        how = "label='TABLE.COLUMN'" if data.is_typed else "labels=, or nodes= and label='COLUMN'"
        missing.append(f"no labels (import with {how})")
    if splits and not any(node.splits for node in nodes):
        missing.append("no splits (import with splits='60/20/20')")
    if not missing:
        return
    if not any(node.features for node in data.nodes.values()):
        missing.append("no features (optional: features=, or columns of nodes=)")
    raise ValueError(f"{', '.join(missing)}; task='links' learns the edges and needs none of these")


def labelled_type(data: Dataset, asked: str | None = None, *, splits: bool = True) -> str:
    """Return the node type to learn: the requested one, or that with labels and (unless split by time) splits."""
    able = [name for name, node in data.nodes.items() if node.label_kind and (node.splits or not splits)]
    listed = ", ".join(map(repr, able)) or "none"
    if asked is not None and asked not in able:
        hint = did_you_mean(asked, data.nodes)
        raise ValueError(f"node_type is {asked!r}; node types with labels and splits: {listed}{hint}")
    if asked is None and not able:
        check_parts(data, splits=splits)
    if asked is None and len(able) != 1:
        raise ValueError(f"node types with labels and splits: {listed}; expected one, or node_type= to choose")
    return asked or able[0]


def check_messages(data: Dataset, node_type: str) -> None:
    """Raise ValueError if no edges end at the node type to learn, since its nodes would get no messages."""
    if any(key[2] == node_type and edge.num_edges for key, edge in data.edges.items()):
        return
    known = ", ".join(" ".join(key) for key in data.edges)
    raise ValueError(
        f"no edges end at {node_type!r}, the node type to learn, so its nodes would get no messages (edge types: "
        f"{known}); import with reverse=True, which adds the reverse of each edge type"
    )


def fault_of(data: Dataset) -> str | None:
    """Return why node classification with the default options is not possible; None if it is."""
    try:
        name = labelled_type(data) if data.is_typed else next(iter(data.nodes))
        node = data.nodes[name]
        check_parts(data, name)
        types = data.nodes.values() if data.is_typed else [node]
        known = ", ".join(repr(key) for of in types for key in of.features)
        if known and not any("x" in of.features or of.columns for of in types):
            return f"no feature 'x'; choose one with feature=: {known}"
        splits = standard_splits(node.splits)
        check_splits({split: len(ids) for split, ids in splits.items()})
        for split, ids in splits.items():
            missing = _without_label(node, ids) if split in _SPLITS else 0
            if missing:
                return f"split {split!r} has {missing:,} nodes without a label; remove them from the split"
        if data.is_typed:
            check_messages(data, name)
    except ValueError as error:
        return str(error)
    return None


def _without_label(node: NodeData, ids: Any) -> int:
    """Count the nodes of a split whose class is missing, in blocks."""
    if node.label_kind != "classification":
        return 0
    step = 1 << 20
    blocks = (node.label_store.gather(ids[i : i + step]) for i in range(0, len(ids), step))
    return sum(int((labels < 0).sum()) for labels in blocks)
