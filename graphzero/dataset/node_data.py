"""The data of one node type: mounted when the dataset is opened, read when it is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np

from ..args.ids import IdArray
from ..args.suggest import did_you_mean
from ..errors import FormatError
from ..stores.features import FeatureStore
from .columns import Column
from .manifest import MANIFEST, ArrayRef, Manifest, NodeType, edge_key
from .node_ids import NodeIds, check_range

__all__ = ["Lazy", "Mounter", "NodeData", "key_files"]

_T = TypeVar("_T")


class Lazy(Mapping[str, _T], Generic[_T]):
    """A mapping with known names whose values are created on first access."""

    def __init__(self, what: str, names: list[str], mount: Callable[[str], _T]) -> None:
        """Take the names; `mount` creates the value of a name, once."""
        self._what = what
        self._names = names
        self._mount = mount
        self._mounted: dict[str, _T] = {}

    def __getitem__(self, name: str | tuple[str, ...]) -> _T:
        """Return the value of a name; a tuple of three names is an edge type."""
        if isinstance(name, tuple):
            name = edge_key(map(str, name))
        if name not in self._mounted:
            if name not in self._names:
                has = ", ".join(map(repr, self._names)) or "none"
                raise KeyError(f"no {self._what} {name!r}; the dataset has {has}{did_you_mean(name, self._names)}")
            self._mounted[name] = self._mount(name)
        return self._mounted[name]

    def pin(self) -> None:
        """Create all values now. A missing file raises here, any other fault on access."""
        for name in self._names:
            try:
                self[name]
            except FileNotFoundError:
                raise
            except (OSError, KeyError, ValueError):
                continue

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)

    def __repr__(self) -> str:
        """Return `<features: x, time>`."""
        return f"<{self._what}s: {', '.join(self._names) or 'none'}>"


class NodeData:
    """The data of one node type: `ds.nodes["paper"].features["x"]`."""

    def __init__(self, folder: str, name: str, manifest: Manifest) -> None:
        """Mount the files of node type `name`, of the manifest in `folder`; no row is read yet."""
        self._entry = entry = manifest.nodes[name]
        self._where = f"{os.path.join(folder, MANIFEST)}: nodes.{name}"
        # Does not refer to this object, so that the files are closed with its last reference.
        files = _Files(folder, manifest, self._where, entry)
        features = Lazy("feature", list(entry.features), files.feature)
        splits = Lazy("split", list(entry.splits), files.split)
        labels = Lazy("labels", ["labels"] if entry.labels else [], files.labels)
        for stores in (features, splits, labels):
            stores.pin()
        self.features: Mapping[str, FeatureStore] = features
        self.split_stores: Mapping[str, FeatureStore] = splits
        self.splits: Mapping[str, IdArray] = Lazy("split", list(splits), lambda name: read_whole(splits[name]))
        self._label_stores = labels
        self._labels = Lazy("labels", list(labels), lambda name: read_whole(labels[name]))
        self._ids = NodeIds(
            entry.count,
            None if entry.ids is None else manifest.paths(folder, entry.ids),
            key_files(folder, manifest, entry),
        )

    @property
    def num_nodes(self) -> int:
        """The number of nodes of this type."""
        return self._entry.count

    @property
    def num_classes(self) -> int:
        """The number of classes or labels; 1 for regression, 0 without labels."""
        return self._entry.labels.classes if self._entry.labels else 0

    @property
    def label_kind(self) -> str | None:
        """What the labels are: "classification", "multilabel" or "regression"; None without labels."""
        return self._entry.labels.kind if self._entry.labels else None

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns of the table that the nodes come from, by name; their values are in `features`."""
        return {column.name: column for column in self._entry.columns}

    @property
    def labels(self) -> IdArray:
        """The labels of all nodes: int64, -1 for none; multilabel and regression as stored. Read on first access."""
        self._need_labels()
        return self._labels["labels"]

    @property
    def label_store(self) -> FeatureStore:
        """The labels as a mounted file: `ds.label_store.gather(ids)` reads only those of `ids`."""
        self._need_labels()
        return self._label_stores["labels"]

    @property
    def ids(self) -> NodeIds:
        """Maps to and from the ids before the dataset was reordered."""
        return self._ids

    def verify(self) -> None:
        """Raise FormatError at the first label, split id or original id that is out of range."""
        check_columns(self._entry.columns, self.features, self._where)
        if self.label_kind == "classification":
            check_range(self.labels, -1, self.num_classes, f"{self._where}.labels", "class")
        for name, ids in self.splits.items():
            check_range(ids, 0, self.num_nodes, f"{self._where}.splits.{name}", "node id")
        self.ids.verify()

    def _need_labels(self) -> None:
        if self._entry.labels is None:
            raise ValueError(f"{self._where} has no labels")


class Mounter:
    """Mounts arrays that the manifest names, and checks that they fit."""

    def __init__(self, folder: str, manifest: Manifest, where: str, each: str) -> None:
        """Take the folder and its manifest; the field of the manifest and the unit of a row are for messages."""
        self._folder, self._manifest, self._where, self._each = folder, manifest, where, each

    def store(self, ref: ArrayRef, field: str, rows: int | None) -> FeatureStore:
        """Mount one array; raise FormatError unless it has `rows` rows."""
        path, deltas = self._manifest.paths(self._folder, ref.file)
        try:
            store = FeatureStore(path, ref.array, deltas=deltas)
        except KeyError as e:
            raise FormatError(f"{self._where}.{field}.array: {e.args[0]}") from None
        if rows is not None and store.num_nodes != rows:
            raise FormatError(
                f"{self._where}.{field}: {ref.file} has {store.num_nodes} rows, expected {rows}, one per {self._each}"
            )
        if ref.row_shape is None:
            return store
        try:
            return store._shaped(ref.row_shape)
        except ValueError as error:
            raise FormatError(f"{self._where}.{field}.row_shape: {ref.file}: {error}") from None

    def vector(self, ref: ArrayRef, field: str, rows: int | None) -> FeatureStore:
        """Mount a vector of int64."""
        store = self.store(ref, field, rows)
        if len(store.shape) != 1 or store.dtype != np.int64:
            found = f"{store.dtype} of shape {store.shape}"
            raise FormatError(f"{self._where}.{field}: found {found}, expected a vector of int64")
        return store


class _Files(Mounter):
    """Mounts the files of a node type."""

    def __init__(self, folder: str, manifest: Manifest, where: str, entry: NodeType) -> None:
        super().__init__(folder, manifest, where, "node")
        self._entry = entry

    def feature(self, name: str) -> FeatureStore:
        return self.store(self._entry.features[name], f"features.{name}", self._entry.count)

    def split(self, name: str) -> FeatureStore:
        return self.vector(self._entry.splits[name], f"splits.{name}", None)

    def labels(self, name: str) -> FeatureStore:
        labels = self._entry.labels
        assert labels is not None
        if labels.kind == "classification":
            return self.vector(labels, name, self._entry.count)
        store = self.store(labels, name, self._entry.count)
        if store.feature_dim != labels.classes:
            found, where = f"found {store.feature_dim} columns", f"{self._where}.{name}"
            raise FormatError(f"{where}: {found}, expected {labels.classes}, the number of classes")
        return store


def key_files(folder: str, manifest: Manifest, entry: NodeType) -> list[tuple[str, str]] | None:
    """Return the files of the map of ids and of its deltas, each with the file of its strings."""
    if entry.keys is None:
        return None
    path, deltas = manifest.paths(folder, entry.keys.file)
    text, more = manifest.paths(folder, entry.keys.text or "none")
    return [(path, text), *zip(deltas, more or (text,) * len(deltas), strict=True)]


_COLUMN_DTYPES = {
    "number": "float32",
    "bool": "float32",
    "time": "int64",
    "category": "int32",
    "multicategory": "int32",
}


def check_columns(columns: Iterable[Column], features: Mapping[str, FeatureStore], where: str) -> None:
    """Mount every feature; raise FormatError at the first column that its array does not have."""
    for name in features:
        features[name]
    for at, column in enumerate(columns):
        store = features[column.array]
        wanted = _COLUMN_DTYPES.get(column.kind)
        if wanted is not None and store.dtype_name != wanted:
            raise FormatError(
                f"{where}.columns[{at}].array: {column.array!r} is {store.dtype_name}, expected {wanted} for "
                f"kind {column.kind}"
            )
        if column.kind not in ("embedding", "multicategory") and not column.column < store.feature_dim:
            raise FormatError(
                f"{where}.columns[{at}].column: found {column.column}, {column.array!r} has {store.feature_dim} columns"
            )


def read_whole(store: FeatureStore) -> IdArray:
    """Return a copy of an array: in a view, pages that cannot be read would silently be zeros."""
    values: IdArray = np.array(store.get_tensor())
    store.get_tensor()  # raises if a page could not be read or the file was truncated
    return values
