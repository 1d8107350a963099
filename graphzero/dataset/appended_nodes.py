"""The nodes of an append, of one type: how many, their original ids, and a row of every array for each."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.dtypes import Converter, numpy_dtype
from ..args.ids import IdArray, as_count, as_ids
from ..args.suggest import did_you_mean
from ..errors import InputError
from ..sources.edge_blocks import to_numpy
from ..sources.number_text import NumberText
from ..sources.rows import all_rows, is_text
from ..stores.features import FeatureStore
from .node_data import NodeData
from .writer import labels_of

__all__ = ["NewNodes", "rows_for"]


class NewNodes:
    """The new nodes of one type; they get the next ids, in the order in which they were declared or first named."""

    def __init__(self, data: NodeData, where: str) -> None:
        """Take the type as it is; `where` follows the name of an argument in messages: "['paper']", or nothing."""
        self.data, self.where = data, where
        self.before, self.declared, self._is_declared = data.num_nodes, 0, False
        self.keys: list[Any] = []  # original ids of the new nodes, if ids are mapped
        self.rows: dict[str, npt.NDArray[Any]] = {}  # by feature, as stored
        self.labels: npt.NDArray[Any] | None = None
        self.splits: dict[str, IdArray] = {}
        self.num_classes = data.num_classes
        self._places: dict[Any, int] = {}
        self._largest = -1

    @property
    def count(self) -> int:
        """The number of new nodes."""
        if self.data.ids.mapped:
            return len(self.keys)
        return max(self.declared, self._largest + 1 - self.before)

    @property
    def total(self) -> int:
        """The number of nodes after the append."""
        return self.before + self.count

    @property
    def is_text(self) -> bool:
        """Whether nodes are named by strings."""
        keys = self.data.ids.keys
        return keys is not None and keys.is_text

    @property
    def needs_rows(self) -> bool:
        """Whether a new node needs a row of features."""
        return bool(self.data.features)

    @property
    def limit(self) -> int | None:
        """One more than the largest id that an edge may have; None if edges may name new nodes."""
        if self.data.ids.mapped or not (self.needs_rows or self._is_declared):
            return None
        return self.before + self.declared

    # -- ids ----------------------------------------------------------------------------------------------------------

    def declare(self, nodes: Any) -> None:
        """Take `nodes`: a number of new nodes, or their original ids."""
        what = f"nodes{self.where}"
        if not self.data.ids.mapped:
            if not _is_number(nodes):
                raise TypeError(
                    f"{what} is a {type(nodes).__name__}, expected a number of new nodes, since ids are not mapped here"
                )
            self.declared, self._is_declared = as_count(nodes, what, least=0), True
            return
        if _is_number(nodes) or isinstance(nodes, (str, bytes)):
            raise TypeError(f"{what} is {nodes!r}, expected a list of original ids, since the ids here are mapped")
        keys = self._listed(nodes, what)
        known = self.data.ids.to_dense(keys, missing="mark")
        if (known >= 0).any():
            at = int(np.argmax(known >= 0))
            raise ValueError(f"{what}[{at}] is {keys[at]!r}, which is node {int(known[at])} already; expected new ids")
        if len(set(keys)) < len(keys):
            twice = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise ValueError(f"duplicate id {twice!r} in {what}; ids must be unique")
        self._add(keys)
        self.declared = len(keys)

    def dense(self, ids: Any, where: str, grow: bool = True) -> IdArray:
        """Return the ids in this dataset of `ids`, which name nodes by their original ids if those are mapped.

        With `grow`, names that are not known yet become new nodes; otherwise they are an error.
        """
        if not self.data.ids.mapped:
            if isinstance(ids, list) and ids and isinstance(ids[0], (str, bytes)):
                raise TypeError(
                    f"{where}: found {ids[0]!r}, expected integers, since ids are not mapped in this dataset"
                )
            found = as_ids(ids, where)
            self._check_plain(found, where, grow)
            return found
        if len(ids) == 0:
            return np.empty(0, np.int64)
        plain = isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and not self.is_text
        keys = ids if plain else self._listed(ids, where)
        known = self.data.ids.to_dense(keys, missing="mark")
        new = np.flatnonzero(known < 0)
        if len(new):
            names = [keys[at] for at in new]
            fresh = [name for name in dict.fromkeys(names) if name not in self._places]
            if fresh and not grow:
                raise KeyError(f"{where}: {fresh[0]!r} is not a node of this dataset")
            self._add(fresh)
            known[new] = [self._places[name] for name in names]
        return known

    def _check_plain(self, found: IdArray, where: str, grow: bool) -> None:
        past = self.before + self.declared
        if grow and self.limit is None:
            past = max(past, 2**62)
        bad = (found < 0) | (found >= past)
        if bad.any():
            at = int(np.argmax(bad))
            more = f"; pass nodes{self.where}= and features= for more" if found[at] >= 0 and grow else ""
            raise IndexError(f"{where}[{at}] is {found[at]}, expected a node from 0 to {past - 1}{more}")
        self._largest = max(self._largest, int(found.max(initial=-1)))

    def _listed(self, ids: Any, where: str) -> list[Any]:
        """Return original ids as Python values of the kind that the map has."""
        values = ids.tolist() if hasattr(ids, "tolist") else list(ids)
        if self.is_text:
            bad = next((at for at, one in enumerate(values) if not isinstance(one, (str, bytes))), None)
            kind = "strings"
        else:
            values = [int(one) if isinstance(one, str) and one.lstrip("-").isdigit() else one for one in values]
            bad = next((at for at, one in enumerate(values) if not isinstance(one, int) or isinstance(one, bool)), None)
            kind = "integers"
        if bad is not None:
            raise TypeError(f"{where}[{bad}] is {values[bad]!r}, expected {kind}, as the ids of this dataset are")
        return [one.decode() if isinstance(one, bytes) else one for one in values]

    def _add(self, keys: list[Any]) -> None:
        for key in keys:
            self._places[key] = self.before + len(self.keys)
            self.keys.append(key)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def take_features(self, features: Mapping[str, Any]) -> None:
        """Take rows of features, converted to the stored type; without `nodes`, they say how many nodes there are."""
        what = f"features{self.where}"
        for name in features:
            if name not in self.data.features:
                hint = did_you_mean(name, self.data.features)
                known = ", ".join(map(repr, self.data.features)) or "none"
                raise ValueError(f"{what}: no feature {name!r}; the dataset has {known}{hint}")
        for name, source in features.items():
            self.rows[name] = rows_for(source, self.data.features[name], f"{what}[{name!r}]")
            self._suggest(len(self.rows[name]), what)

    def _suggest(self, count: int, what: str) -> None:
        """Take the number of new nodes from rows, if nothing else has said it."""
        if self.data.ids.mapped and count and not self.declared:
            raise ValueError(f"{what} has {count} rows, but no nodes{self.where}=, the original ids of the new nodes")
        self.declared = self.declared or count

    def check(self) -> None:
        """Raise ValueError unless every new node has a row of every array; fill in missing labels."""
        for name in self.data.features if self.count else ():
            if name not in self.rows:
                undeclared = self.keys[self.declared :]
                new = f"{undeclared[0]!r} is a new node" if undeclared else f"there are {self.count} new nodes"
                raise ValueError(
                    f"features{self.where}: {new}, so {name!r} needs a row for each; pass nodes= and features="
                )
        arrays = {f"features{self.where}[{name!r}]": rows for name, rows in self.rows.items()}
        if self.labels is not None:
            arrays[f"labels{self.where}"] = self.labels
        for what, rows in arrays.items():
            if len(rows) != self.count:
                raise ValueError(f"{what} has {len(rows)} rows, expected {self.count}, one per new node")
        kind = self.data.label_kind
        if self.labels is None and kind is not None and self.count:
            store = self.data.label_store
            if kind != "classification" and store.dtype.kind != "f":
                raise ValueError(f"labels{self.where} is required: {store.dtype} of {kind} has no value for missing")
            missing = -1 if kind == "classification" else np.nan
            self.labels = np.full((self.count, *store.shape[1:]), missing, store.dtype)

    def take_labels(self, labels: Any, num_classes: int | None) -> None:
        """Take the labels of the new nodes; those of all of them are missing if none are given."""
        what, kind = f"labels{self.where}", self.data.label_kind
        if kind is None:
            raise ValueError(f"{what}: the dataset has no labels, so none can be appended")
        store = self.data.label_store
        found, own = labels_of(_loaded(labels, what), what)
        if own != kind and not (kind == "regression" and own == "classification"):
            raise ValueError(f"{what}: found labels for {own}, the dataset has {kind}")
        self._suggest(len(found), what)
        if kind == "classification":
            self.num_classes = max(self.num_classes, num_classes or 0)
            largest = int(found.max(initial=-1))
            if largest >= self.num_classes:
                at = int(np.argmax(found))
                fix = f"pass num_classes={largest + 1} to add classes"
                raise ValueError(f"{what}[{at}] is {largest}, expected less than {self.num_classes}; {fix}")
        if found.shape[1:] != store.shape[1:]:
            raise ValueError(f"{what} has shape {found.shape}, expected rows of shape {store.shape[1:]}")
        convert = Converter(what, str(found.dtype), store.dtype_name)
        self.labels = convert(found, 0)

    def take_splits(self, splits: Mapping[str, Any]) -> None:
        """Check the ids to add to each split: node ids, original ids if those are mapped, or masks of the new nodes."""
        for name, given in splits.items():
            what = f"splits{self.where}[{name!r}]"
            if name not in self.data.splits:
                known = ", ".join(map(repr, self.data.splits)) or "none"
                raise ValueError(
                    f"{what}: no such split; the dataset has {known}{did_you_mean(name, self.data.splits)}"
                )
            mask = to_numpy(given) if not isinstance(given, (list, tuple)) else np.asarray(given)
            if mask.dtype == np.bool_:
                if mask.shape != (self.count,):
                    raise ValueError(f"{what} is a mask of shape {mask.shape}, expected ({self.count},), the new nodes")
                ids = self.before + np.flatnonzero(mask)
            elif self.data.ids.mapped and (mask.dtype.kind in "OUS" or not self.is_text):
                ids = self.dense(given, what, grow=False)
            else:
                ids = as_ids(given, what)
            _core.check_ids(ids, what, self.total, "nodes")
            ids = np.unique(ids)
            taken = np.isin(ids, self.data.splits[name])
            if taken.any():
                raise ValueError(f"{what}: node {int(ids[np.argmax(taken)])} is in the split already")
            self.splits[name] = ids


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def rows_for(source: Any, store: FeatureStore, what: str) -> npt.NDArray[Any]:
    """Return rows to append to `store`, in the type and shape that it stores."""
    tail = tuple(store.shape[1:])
    if isinstance(source, (str, os.PathLike)) and is_text(source):
        dtype = "int64" if store.dtype.kind in "iu" and store.scale is None else "float64"
        array, dtype_in = NumberText(os.fspath(source), dtype).table(), dtype
    elif hasattr(source, "reshape") and len(source.shape) > 2:
        return rows_for(source.reshape(len(source), math.prod(source.shape[1:])), store, what)
    else:
        found = all_rows(source, store.name)
        if len(found) != 1:
            raise ValueError(f"{what}: found {len(found)} arrays, expected one")
        rows = found[0] if store.scale is not None and found[0].dtype == "int8" else found[0].widened()
        dtype_in = rows.dtype
        parts = list(rows.blocks(1 << 20))
        array = np.concatenate(parts) if parts else np.empty((0, *([rows.columns] if rows.columns else [])))
    columns = math.prod(tail)
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, columns)
    if array.ndim == 1 and columns == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(
            f"{what} has shape {array.shape}, expected (n, {columns})" if tail else f"{what} must be a vector"
        )
    scale = store.scale if dtype_in != "int8" else None
    if scale is not None and len(array):
        beyond = np.abs(np.nan_to_num(array.astype(np.float64))) > 127.5 * np.asarray(scale, np.float64)
        if beyond.any():
            row, column = np.argwhere(beyond)[0]
            warnings.warn(
                f"{what}: {int(beyond.sum()):,} values are beyond what the dataset stores as int8 and are clipped, "
                f"such as {array[row, column]} in row {row}, column {column}, whose largest value is "
                f"{127 * scale[column]:g}; compile again for other factors",
                stacklevel=2,
            )
    try:
        stored = Converter(what, dtype_in, store.dtype_name, scale)(array, 0)
    except InputError as error:
        raise ValueError(str(error)) from None
    return np.ascontiguousarray(stored, dtype=numpy_dtype(store.dtype_name)).reshape(len(array), *_flat(store))


def _flat(store: FeatureStore) -> tuple[int, ...]:
    """Return the shape of a row in the file, which is a number or a vector."""
    return () if len(store.shape) == 1 else (store.feature_dim,)


def _loaded(labels: Any, what: str) -> Any:
    if not isinstance(labels, (str, os.PathLike)):
        return labels.get_tensor() if isinstance(labels, FeatureStore) else labels
    if is_text(labels):
        table = NumberText(os.fspath(labels), "float64").table()
        if table.shape[1] != 1:
            raise InputError(f"{os.fspath(labels)}: found {table.shape[1]} columns, expected one label per line")
        return table[:, 0]
    return np.concatenate(list(all_rows(labels, what)[0].blocks(1 << 20)))
