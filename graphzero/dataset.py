"""A dataset: a folder with a graph, features, labels and splits, opened instantly by its manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from . import _manifest
from ._dataset_writer import DatasetWriter
from ._ids import IdArray
from ._sizes import format_size
from .checks import verify
from .errors import FormatError
from .features import FeatureStore
from .graph import Graph

__all__ = ["Dataset", "NodeData"]

Progress = Callable[[str, int, int], None]
_T = TypeVar("_T")
_CHUNK = 1 << 20  # numbers looked at together by verify


class _Lazy(Mapping[str, _T], Generic[_T]):
    """Names that are known at once and things that are mounted when first asked for."""

    def __init__(self, what: str, names: list[str], mount: Callable[[str], _T]) -> None:
        self._what = what
        self._names = names
        self._mount = mount
        self._mounted: dict[str, _T] = {}

    def __getitem__(self, name: str) -> _T:
        if name not in self._mounted:
            if name not in self._names:
                has = ", ".join(map(repr, self._names)) or "none"
                raise KeyError(f"no {self._what} {name!r}, the dataset has {has}")
            self._mounted[name] = self._mount(name)
        return self._mounted[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self._what}s: {', '.join(self._names) or 'none'}>"


class NodeData:
    """What a dataset holds for one type of node: `ds.nodes["paper"].features["x"]`."""

    def __init__(self, folder: str, name: str, entry: _manifest.NodeType) -> None:
        """Stand for `entry` of the manifest in `folder`; nothing is opened yet."""
        self._folder = folder
        self._name = name
        self._entry = entry
        self._labels: IdArray | None = None
        self.features: Mapping[str, FeatureStore] = _Lazy("feature", list(entry.features), self._mount_feature)
        self.splits: Mapping[str, IdArray] = _Lazy("split", list(entry.splits), self._mount_split)

    @property
    def num_nodes(self) -> int:
        """How many nodes of this type there are."""
        return self._entry.count

    @property
    def num_classes(self) -> int:
        """How many classes the labels tell apart; 0 without labels."""
        return self._entry.labels.classes if self._entry.labels else 0

    @property
    def labels(self) -> IdArray:
        """The labels of all nodes as int64, -1 for none: a view of the file, read when touched."""
        if self._labels is None:
            if self._entry.labels is None:
                raise ValueError(f"{self._folder}: nodes.{self._name} has no labels")
            self._labels = self._vector(self._entry.labels, "labels", self.num_nodes)
        return self._labels

    def verify(self) -> None:
        """Raise FormatError at the first label or split id that is out of range."""
        where = f"{os.path.join(self._folder, _manifest.MANIFEST)}: nodes.{self._name}"
        for name in self.features:
            self.features[name]
        if self._entry.labels is not None:
            _check_range(self.labels, -1, self.num_classes, f"{where}.labels", "class")
        for name, ids in self.splits.items():
            _check_range(ids, 0, self.num_nodes, f"{where}.splits.{name}", "node id")

    def _mount_feature(self, name: str) -> FeatureStore:
        return self._store(self._entry.features[name], f"features.{name}", self.num_nodes)

    def _mount_split(self, name: str) -> IdArray:
        return self._vector(self._entry.splits[name], f"splits.{name}", None)

    def _store(self, ref: _manifest.ArrayRef, field: str, rows: int | None) -> FeatureStore:
        path = os.path.join(self._folder, *ref.file.split("/"))
        where = f"{os.path.join(self._folder, _manifest.MANIFEST)}: nodes.{self._name}.{field}"
        try:
            store = FeatureStore(path, ref.array)
        except KeyError as e:
            raise FormatError(f"{where}.array: {e.args[0]}") from None
        if rows is not None and store.num_nodes != rows:
            raise FormatError(f"{where}: {ref.file} has {store.num_nodes} rows, expected {rows}, one per node")
        return store

    def _vector(self, ref: _manifest.ArrayRef, field: str, rows: int | None) -> IdArray:
        store = self._store(ref, field, rows)
        if len(store.shape) != 1 or store.dtype != np.int64:
            where = f"{os.path.join(self._folder, _manifest.MANIFEST)}: nodes.{self._name}.{field}"
            raise FormatError(f"{where}: found {store.dtype} of shape {store.shape}, expected a vector of int64")
        return store.get_tensor()


class Dataset:
    """A dataset folder, opened in no time whatever its size: files are mounted when first asked for.

    >>> import graphzero as gz
    >>> ds = gz.Dataset("papers")  # doctest: +SKIP
    >>> ds.graph.num_edges, ds.features["x"].shape, ds.labels[:3], len(ds.splits["train"])  # doctest: +SKIP
    (16156859, (1110600, 128), array([ 3, -1, 87]), 12072)

    With several node or edge types, `ds.nodes["paper"]` and `ds.graphs["author__writes__paper"]` reach each of them;
    `ds.graph`, `ds.features`, `ds.labels` and `ds.splits` mean the manifest's default type.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open `folder`. Raises FormatError when its manifest is at fault, StorageError when there is none."""
        path = os.path.abspath(os.fspath(folder))
        self._path = os.path.dirname(path) if os.path.basename(path) == _manifest.MANIFEST else path
        self._manifest = _manifest.read_manifest(self._path)
        self.nodes: Mapping[str, NodeData] = {
            name: NodeData(self._path, name, entry) for name, entry in self._manifest.nodes.items()
        }
        self.graphs: Mapping[str, Graph] = _Lazy("edge type", list(self._manifest.edges), self._mount_graph)

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        graph: Any,
        *,
        features: Any = None,
        labels: Any = None,
        splits: Mapping[str, Any] | None = None,
        name: str | None = None,
        num_classes: int | None = None,
        dtype: Any = None,
        about: Mapping[str, Any] | None = None,
        memory: int | str = "1GB",
        num_threads: int | None = None,
        progress: Progress | bool | None = None,
        overwrite: bool = False,
        **graph_options: Any,
    ) -> Dataset:
        """Make a dataset folder of your own data, and open it.

        `graph` is a `.gl` file, a Graph, or anything `compile_graph` takes (`graph_options` go there:
        `directed=False`). `features` is one matrix or a dict of names to matrices, each a `.gd` file, a FeatureStore or
        anything `compile_features` takes; a single one is named "x". `labels` are whole numbers, -1 (or NaN) for none.
        `splits` maps names to node ids or to boolean masks. Compiled files are linked into the folder, or copied from
        another disk. The manifest is written last: a failure leaves no dataset, or the one that `overwrite=True` was to
        replace.

        >>> import numpy as np, graphzero as gz
        >>> ds = gz.Dataset.create("toy", np.array([[0, 1, 2], [1, 2, 0]]), features=np.eye(3, dtype="float32"),
        ...                        labels=[0, 1, 1], splits={"train": [0, 1], "test": [2]})  # doctest: +SKIP
        """
        common = {"memory": memory, "num_threads": num_threads, "progress": progress}
        named = features if isinstance(features, Mapping) else {} if features is None else {"x": features}
        for key in (*named, *(splits or {})):
            _manifest.check_name(key)
        with DatasetWriter(os.path.abspath(os.fspath(folder)), overwrite) as writer:
            count = writer.graph(graph, {**common, **graph_options})
            node = _manifest.NodeType(
                count,
                {key: writer.features(key, source, count, {**common, "dtype": dtype}) for key, source in named.items()},
                None if labels is None else writer.labels(labels, num_classes, count, common),
                {key: writer.split(key, ids, count, common) for key, ids in (splits or {}).items()},
            )
            title = name or os.path.basename(writer.folder) or "dataset"
            edge = _manifest.EdgeType("node", "to", "node", "graph.gl")
            made = _manifest.Manifest(
                title, {"node": node}, {"node__to__node": edge}, "node", "node__to__node", dict(about or {})
            )
            writer.publish(made)
        return cls(writer.folder)

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The folder, as an absolute path."""
        return self._path

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self._manifest.name

    @property
    def num_nodes(self) -> int:
        """How many nodes of the default type there are."""
        return self._node.num_nodes

    @property
    def num_classes(self) -> int:
        """How many classes the labels tell apart; 0 without labels."""
        return self._node.num_classes

    @property
    def files(self) -> list[str]:
        """Every file of the dataset beside its manifest, as absolute paths."""
        return [os.path.join(self._path, *name.split("/")) for name in self._manifest.files()]

    @property
    def nbytes(self) -> int:
        """The bytes of all files."""
        return sum(os.path.getsize(path) for path in self.files)

    @property
    def info(self) -> dict[str, Any]:
        """What the manifest says, with the size on disk, as a dict that JSON can hold."""
        return {
            "path": self._path,
            "name": self.name,
            "version": ".".join(map(str, _manifest.VERSION)),
            "bytes": self.nbytes,
            "nodes": {
                name: {
                    "count": data.num_nodes,
                    "classes": data.num_classes,
                    "features": list(data.features),
                    "splits": list(data.splits),
                }
                for name, data in self.nodes.items()
            },
            "edges": list(self.graphs),
            "about": dict(self._manifest.about),
        }

    # -- the default type's parts -------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The topology."""
        return self.graphs[self._manifest.default_edge]

    @property
    def features(self) -> Mapping[str, FeatureStore]:
        """The features by name: `ds.features["x"]`."""
        return self._node.features

    @property
    def labels(self) -> IdArray:
        """The labels of all nodes as int64, -1 for none: a view of the file, read when touched."""
        return self._node.labels

    @property
    def splits(self) -> Mapping[str, IdArray]:
        """The node ids of each split, ascending: `ds.splits["train"]`."""
        return self._node.splits

    def verify(self, num_threads: int | None = None, progress: Progress | None = None) -> dict[str, Any]:
        """Check every byte of every file, then labels and splits; FormatError tells the first fault.

        Returns what was checked: {"files": 6, "arrays": 7, "bytes": ..., "seconds": ...}.
        """
        report: dict[str, Any] = {"files": 0, "arrays": 0, "bytes": 0, "seconds": 0.0, "checksummed": True}
        for path in self.files:
            one = verify(path, num_threads=num_threads, progress=progress)
            report["files"] += 1
            report["arrays"] += one.arrays
            report["bytes"] += one.bytes
            report["seconds"] += one.seconds
            report["checksummed"] &= one.checksummed
        for edge_type in self.graphs:
            self.graphs[edge_type]
        for data in self.nodes.values():
            data.verify()
        return report

    # -- life ---------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[type[Dataset], tuple[str]]:
        """Pickle as the path: a worker opens the same folder."""
        return (Dataset, (self._path,))

    def __repr__(self) -> str:
        """Say what it is: `Dataset('papers', num_nodes=1,110,600, features=['x'], num_classes=172, 1.2 GB)`."""
        types = f", {len(self.nodes)} node types, {len(self.graphs)} edge types" if len(self.nodes) > 1 else ""
        classes = f", num_classes={self.num_classes}" if self.num_classes else ""
        splits = f", splits={list(self.splits)}" if self.splits else ""
        return (
            f"Dataset({self.name!r}, num_nodes={self.num_nodes:,}, features={list(self.features)}{classes}{splits}"
            f"{types}, {format_size(self.nbytes)})"
        )

    @property
    def _node(self) -> NodeData:
        return self.nodes[self._manifest.default_node]

    def _mount_graph(self, name: str) -> Graph:
        edge = self._manifest.edges[name]
        graph = Graph(os.path.join(self._path, *edge.file.split("/")))
        count = self._manifest.nodes[edge.source].count
        if edge.source == edge.target and graph.num_nodes != count:
            where = f"{os.path.join(self._path, _manifest.MANIFEST)}: edges.{name}"
            raise FormatError(f"{where}: {edge.file} has {graph.num_nodes} nodes, expected {count}")
        return graph


def _check_range(values: npt.NDArray[Any], least: int, past: int, where: str, what: str) -> None:
    for begin in range(0, len(values), _CHUNK):
        part = values[begin : begin + _CHUNK]
        bad = np.flatnonzero((part < least) | (part >= past))
        if bad.size:
            at = begin + int(bad[0])
            raise FormatError(f"{where}[{at}] = {values[at]}, expected a {what} from {least} to {past - 1}")
