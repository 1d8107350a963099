"""Features, labels and splits from files or objects: the parts of a dataset other than its edges."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.dtypes import FLOATS, refuse_text
from ..args.ids import IdArray
from ..args.shares import as_shares, is_shares
from ..dataset import manifest as _manifest
from ..dataset.columns import CATEGORY, NUMBER, TIME
from ..dataset.split_overlap import shared_ids
from ..dataset.trainable import standard_split
from ..dataset.writer import as_labels, kind_of_labels
from ..errors import InputError
from ..sources import npz
from ..sources.number_text import NumberText
from ..sources.rows import Rows, all_rows, is_text
from ..sources.text import content_lines, sniff, split_line
from ..sources.torch_file import load_pt

__all__ = ["as_rows", "label_rows", "labelled_nodes", "named_splits", "safe_name", "stored_labels"]

_STEP = 1 << 20
_MOST_NOTES = _manifest.MOST_BYTES // 2  # of the manifest; the rest is for types and files
_SPLIT_SUFFIX = re.compile(r"(_mask|_idx|_ids?|_index|_nodes)$")


def is_path(source: Any) -> bool:
    """Return whether `source` names a file or folder."""
    return isinstance(source, (str, os.PathLike))


def as_rows(source: Any, name: str) -> Any:
    """Return a source of rows that `compile_features` takes: paths of other formats become streams of blocks."""
    if not is_path(source):
        return source
    path = os.fspath(source)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    if path.endswith(".npz"):
        return _only(npz.members(path), path, (name, "x", "feat", "features", "node_feat")).rows(name)
    if path.endswith((".pt", ".pth")):
        return load_pt(path)
    return path


def _only(found: Mapping[str, Any], path: str, likely: tuple[str, ...]) -> Any:
    names = [n for n in likely if n in found] if len(found) > 1 else list(found)
    if not names:
        raise InputError(
            f"{path}: holds {', '.join(map(repr, found)) or 'nothing'}; expected one array, or {likely[0]!r}"
        )
    return found[names[0]]


def check_dtype(dtype: Any, features: Iterable[str]) -> None:
    """Raise ValueError if a type is given for features and there are none; columns of tables keep their types."""
    if dtype is not None and all(name in (NUMBER, CATEGORY, TIME) for name in features):
        raise ValueError(f"dtype is {dtype!r}, the type to store features in, but there are no features; omit it")


def count_of(source: Any) -> int | None:
    """Return the number of rows of a source if it is known without reading the source, else None."""
    if isinstance(source, Rows):
        return source.count
    if is_path(source):
        return None if is_text(source) else all_rows(source, "x")[0].count
    return len(source) if hasattr(source, "__len__") else None


# -- labels -----------------------------------------------------------------------------------------------------------


def label_rows(source: Any, id_base: int = 0, complete: bool = False) -> Rows:
    """Return labels as rows: from `.npy`, `.npz`, `.gd`, `.pt`, text of one column or of `id,label`, or arrays.

    complete: there is one for each node; text of `id,label` may leave nodes out all the same.
    """
    if is_path(source):
        path = os.fspath(source)
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if path.endswith(".npz"):
            rows = _only(npz.members(path), path, ("labels", "label", "y", "node_label")).rows("y")
            return dataclasses.replace(_column(rows, path), complete=complete)
        if path.endswith((".pt", ".pth")):
            source = load_pt(path)
        elif is_text(path):
            source, by_id = _label_text(path, id_base)
            complete = complete and not by_id
    name = os.fspath(source) if is_path(source) else "labels"
    if isinstance(source, (list, tuple, np.ndarray)):
        refuse_text(np.asarray(source), name)
    return dataclasses.replace(_column(all_rows(source, "y")[0], name), complete=complete)


def _column(rows: Rows, name: str) -> Rows:
    if rows.columns not in (None, 1):
        raise InputError(f"{name}: {rows.columns} columns, expected one label per node")
    return rows


def _label_text(path: str, id_base: int) -> tuple[npt.NDArray[Any], bool]:
    """Return the labels by node, and whether the text named the nodes."""
    table = NumberText(path, "float64").table()
    if table.shape[1] == 1:
        return table[:, 0], False
    if table.shape[1] != 2:
        raise InputError(f"{path}: {table.shape[1]} columns, expected one label per line, or id and label")
    if np.isnan(table[:, 0]).any():
        raise InputError(f"{path}: no id in {_line_without_id(path)}, expected id and label in every line")
    ids = table[:, 0].astype(np.int64) - id_base
    if ids.size and (ids.min() < 0 or not np.array_equal(ids, table[:, 0] - id_base)):
        raise InputError(f"{path}: the first column is not a node id of at least {id_base}, expected id and label")
    out = np.full(int(ids.max(initial=-1)) + 1, np.nan)
    out[ids] = table[:, 1]
    if len(np.unique(ids)) != len(ids):
        values, counts = np.unique(ids, return_counts=True)
        raise InputError(f"{path}: node {values[np.argmax(counts > 1)] + id_base} has two labels, expected one")
    return out, True


def _line_without_id(path: str) -> str:
    """Return the first line whose first field is empty, for a message."""
    delimiter = sniff(path).delimiter
    lines = (line.number for line in content_lines(path) if not split_line(line.text, delimiter)[0])
    return f"line {next(lines, '?')}"


def stored_labels(source: Any, num_classes: int | None, pad_to: int) -> tuple[Any, int | None]:
    """Return labels as `Dataset.create` takes them, for `pad_to` nodes, and the number of classes.

    Fractions are the targets of a regression: float32, NaN for none. Whole numbers are classes.
    """
    rows = source if isinstance(source, Rows) else label_rows(source)
    if num_classes is not None or not _has_fractions(rows):
        return label_stream(rows, num_classes, pad_to)
    _check_complete(rows, pad_to)
    out, at = np.full(pad_to, np.nan, np.float32), 0
    for block in rows.blocks(_STEP):
        if at + len(block) > pad_to:
            raise InputError(f"labels: more than {pad_to} rows, expected one per node")
        out[at : at + len(block)] = block.reshape(-1)
        at += len(block)
    return out, None


def labelled_nodes(source: Any) -> IdArray:
    """Return the nodes that have a label."""
    rows = source if isinstance(source, Rows) else label_rows(source)
    fractions = _has_fractions(rows)
    known = [~np.isnan(b.reshape(-1)) if fractions else as_labels(b) >= 0 for b in rows.blocks(_STEP)]
    return np.flatnonzero(np.concatenate([np.empty(0, bool), *known]))


def _has_fractions(rows: Rows) -> bool:
    if rows.dtype not in FLOATS:
        return False
    return any(kind_of_labels(block.reshape(-1)) == "regression" for block in rows.blocks(_STEP))


def _check_complete(rows: Rows, pad_to: int) -> None:
    if rows.complete and rows.count is not None and rows.count < pad_to:
        raise InputError(
            f"labels: {rows.count} rows, expected {pad_to}, one per node; use -1 or NaN for a node without a label"
        )


def label_stream(rows: Rows, num_classes: int | None, pad_to: int) -> tuple[Iterator[IdArray], int]:
    """Return blocks of int64 labels, -1 for none and for nodes past the last row, and the number of classes."""
    _check_complete(rows, pad_to)
    if num_classes is None:
        largest = -1
        for block in rows.blocks(_STEP):
            largest = max(largest, int(as_labels(block).max(initial=-1)))
        num_classes = max(largest + 1, 1)
    classes = num_classes

    def blocks() -> Iterator[IdArray]:
        at = 0
        for block in rows.blocks(_STEP):
            out = as_labels(block)
            if out.size and int(out.max()) >= classes:
                bad = at + int(np.argmax(out))
                raise InputError(f"labels[{bad}] is {out.max()}, expected less than num_classes = {classes}")
            at += len(out)
            yield out
        while at < pad_to:
            more = min(_STEP, pad_to - at)
            yield np.full(more, -1, np.int64)
            at += more

    return blocks(), classes


# -- splits -----------------------------------------------------------------------------------------------------------


def named_splits(source: Any, id_base: int = 0) -> dict[str, Any]:
    """Return ids or masks by name: from a dict, `.npz`, `.pt`, `.json`, or a folder with a file each.

    The names "val" and "validation" become "valid"; "train_mask" and "train_idx" become "train".
    """
    if is_shares(source):
        check_shares(source)
        return {"": source}  # shares of the nodes: drawn when their number is known
    if isinstance(source, Mapping):
        return {split_name(key): _split_values(value, id_base) for key, value in source.items()}
    if not is_path(source):
        raise TypeError(f"splits is a {type(source).__name__}, expected a dict, a path, or shares such as '60/20/20'")
    path = os.fspath(source)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    if os.path.isdir(path):
        files = sorted(entry for entry in os.listdir(path) if not entry.startswith("."))
        named = {entry.split(".")[0]: os.path.join(path, entry) for entry in files}
        known = {split_name(k): v for k, v in named.items() if split_name(k) in ("train", "valid", "test")}
        if not known:
            raise InputError(
                f"{path}: no file for a split, expected train, valid, test (.npy, .csv, .csv.gz, .txt, .pt)"
            )
        return {key: _split_values(value, id_base) for key, value in known.items()}
    if path.endswith(".npz"):
        return {split_name(key): member.array() for key, member in npz.members(path).items()}
    if path.endswith((".pt", ".pth")):
        return named_splits(load_pt(path), id_base)
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            return named_splits(json.load(file), id_base)
    raise InputError(f"{path}: has no names for splits; expected .npz, .pt or .json with names, or a folder")


def safe_name(text: object) -> str:
    """Return a name for a type or a feature: characters that a dataset does not allow become underscores.

    >>> safe_name("has topic")
    'has_topic'
    """
    name = re.sub(r"[^\w.-]", "_", str(text))
    return name if name and _manifest.is_name(name) else f"_{name}"[:100]


def fitted(about: dict[str, Any]) -> dict[str, Any]:
    """Return notes that fit in a manifest: the longest lists of names are replaced by their number."""
    about = json.loads(json.dumps(about))
    while len(json.dumps(about, indent=2)) > _MOST_NOTES:
        lists = [(len(json.dumps(names)), table, key) for table, key, names in _name_lists(about)]
        if not lists:
            break
        _, table, key = max(lists, key=lambda one: one[0])
        table[key] = f"{len(table[key])} names, too many for the manifest"
    return about


def _name_lists(value: Any) -> Iterator[tuple[dict[str, Any], str, list[Any]]]:
    for key, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list) and key != "found":
            yield value, key, item
        yield from _name_lists(item)


def splits_of_codes(codes: npt.NDArray[Any], names: Iterable[str]) -> dict[str, IdArray]:
    """Return the rows of each split from codes of a column of names; a row of "train;valid" is in both."""
    members: dict[str, list[int]] = {}
    for code, one in enumerate(names):
        for part in filter(None, (part.strip() for part in one.split(_manifest.SPLIT_SEPARATOR))):
            members.setdefault(split_name(part), []).append(code)
    return {name: np.flatnonzero(np.isin(codes, known)) for name, known in members.items()}


def shared_notes(splits: Mapping[str, Any], what: str, of: str = "") -> list[str]:
    """Return a line for each two splits that have ids in common; `what` the ids are of: "node", "edge"."""
    return [
        f"splits{of}: {one!r} and {other!r} share {count:,} {what}{'s' * (count != 1)}"
        for one, other, count in shared_ids({name: ids for name, ids in splits.items() if name})
    ]


def split_name(key: object) -> str:
    """Return the name of a split in a dataset."""
    name = standard_split(_SPLIT_SUFFIX.sub("", str(key)))
    _manifest.check_name(name)
    return name


def _split_values(value: Any, id_base: int) -> Any:
    if not is_path(value):
        return value
    path = os.fspath(value)
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.endswith((".pt", ".pth")):
        return load_pt(path)
    table = NumberText(path, "float64").table()
    ids = table[:, 0].astype(np.int64)
    if table.shape[1] != 1 or not np.array_equal(ids, table[:, 0]):
        raise InputError(f"{path}: expected one whole number per line, the ids of the split")
    return ids - id_base


def check_shares(shares: str) -> None:
    """Raise ValueError for shares of splits that do not add up."""
    try:
        as_shares(shares)
    except ValueError as error:
        raise ValueError(f"splits is {error}") from None


def drawn_splits(shares: str, nodes: IdArray, seed: int = 0) -> dict[str, IdArray]:
    """Return a random split of the nodes, by shares such as '60/20/20'; two shares are those of train and valid."""
    parts = as_shares(shares)
    names = ("train", "valid", "test")[: 2 + (parts[2] > 0)]
    order = np.random.default_rng(seed).permutation(nodes)
    ends = np.rint(np.cumsum(parts[: len(names)]) * len(order)).astype(int)
    return {name: order[a:b] for name, a, b in zip(names, [0, *ends[:-1]], ends, strict=True)}
