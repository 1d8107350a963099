"""A dataset: a folder with a graph, features, labels and splits, opened instantly by its manifest."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from . import _manifest
from ._dataset_writer import DatasetWriter
from ._ids import IdArray, as_count
from ._manifest_writer import check_about
from ._node_ids import NodeIds
from ._sizes import format_size
from .checks import verify
from .errors import FormatError, StorageError
from .features import FeatureStore
from .graph import Graph
from .node_data import Lazy, NodeData

__all__ = ["Dataset", "NodeData"]

Progress = Callable[[str, int, int], None]


class Dataset:
    """A dataset folder, opened in no time whatever its size: its files are mounted, and read when they are used.

    >>> import graphzero as gz
    >>> ds = gz.Dataset("papers")  # doctest: +SKIP
    >>> ds.graph.num_edges, ds.features["x"].shape, ds.labels[:3], len(ds.splits["train"])  # doctest: +SKIP
    (16156859, (1110600, 128), array([ 3, -1, 87]), 12072)

    With several node or edge types, `ds.nodes["paper"]` and `ds.graphs["author__writes__paper"]` reach each of them;
    `ds.graph`, `ds.features`, `ds.labels` and `ds.splits` mean the manifest's default type.

    An object keeps the files it was opened with, also after `create(overwrite=True)` has replaced the dataset.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open `folder`. Raises FormatError when its manifest is at fault, MissingFileError when there is none."""
        path = os.path.abspath(os.fspath(folder))
        self._path = os.path.dirname(path) if os.path.basename(path) == _manifest.MANIFEST else path
        self._raw = b""
        while True:
            self._raw = _manifest.read_bytes(self._path)
            try:
                self._mount()
                break
            except (FormatError, FileNotFoundError):
                if _manifest.read_bytes(self._path) == self._raw:  # else it was replaced meanwhile
                    raise

    def _mount(self) -> None:
        path, manifest = self._path, _manifest.parse_manifest(self._path, self._raw)
        self._manifest = manifest
        graphs = Lazy("edge type", list(manifest.edges), lambda name: _mount_graph(path, manifest, name))
        graphs.pin()
        self.graphs: Mapping[str, Graph] = graphs
        self.nodes: Mapping[str, NodeData] = {
            name: NodeData(self._path, name, entry) for name, entry in self._manifest.nodes.items()
        }
        self._bytes = sum(os.path.getsize(path) for path in self.files)

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        graph: Any,
        *,
        features: Any = None,
        labels: Any = None,
        splits: Mapping[str, Any] | None = None,
        ids: str | os.PathLike[str] | None = None,
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
        `splits` maps names to node ids or to boolean masks. `ids` is a map of original ids, as `compile_graph` makes
        with `ids="map"`. Compiled files are linked into the folder, or copied from
        another disk. Nothing that is in the folder is touched until all files are made; then one rename makes them the
        dataset. Whatever fails before leaves the folder as it was. With `overwrite=True` the new files get names of
        their own and the old ones are removed at the end. Of two writers at once the last to finish wins.

        >>> import numpy as np, graphzero as gz
        >>> ds = gz.Dataset.create("toy", np.array([[0, 1, 2], [1, 2, 0]]), features=np.eye(3, dtype="float32"),
        ...                        labels=[0, 1, 1], splits={"train": [0, 1], "test": [2]})  # doctest: +SKIP
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be text, got {type(name).__name__}")
        classes = None if num_classes is None else as_count(num_classes, "num_classes", least=1)
        notes = dict(about or {})
        check_about(notes)
        common = {"memory": memory, "num_threads": num_threads, "progress": progress}
        named = features if isinstance(features, Mapping) else {} if features is None else {"x": features}
        for key in (*named, *(splits or {})):
            _manifest.check_name(key)
        with DatasetWriter(os.path.abspath(os.fspath(folder)), overwrite) as writer:
            count = writer.graph(graph, {**common, **graph_options})
            node = _manifest.NodeType(
                count,
                {key: writer.features(key, source, count, {**common, "dtype": dtype}) for key, source in named.items()},
                None if labels is None else writer.labels(labels, classes, count, common),
                {key: writer.split(key, nodes, count, common) for key, nodes in (splits or {}).items()},
                keys=None if ids is None else writer.keys(os.fspath(ids), count),
            )
            title = name or os.path.basename(writer.folder) or "dataset"
            edge = _manifest.EdgeType("node", "to", "node", "graph.gl")
            made = _manifest.Manifest(title, {"node": node}, {"node__to__node": edge}, "node", "node__to__node", notes)
            return writer.publish(made, lambda: cls(writer.folder))

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
        return self._bytes

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
        """The labels of all nodes as int64, -1 for none: read when first asked for, 8 bytes a node."""
        return self._node.labels

    @property
    def label_store(self) -> FeatureStore:
        """The labels as a mounted file: `ds.label_store.gather(ids)` reads those of `ids` alone."""
        return self._node.label_store

    @property
    def splits(self) -> Mapping[str, IdArray]:
        """The node ids of each split, ascending: `ds.splits["train"]`; read when first asked for."""
        return self._node.splits

    @property
    def ids(self) -> NodeIds:
        """What nodes were called before, both ways: by the source, where `ids` were mapped, and before `gz.reorder`.

        `ds.ids.to_original(n_id)`, `ds.ids.to_dense(["bash"])`, `ds.ids.to_new(ids)`; `ds.ids["package"]` for one of
        several node types.
        """
        found = self._node.ids
        found.types = {name: node.ids for name, node in self.nodes.items()}
        return found

    def to_networkx(self, *, most_nodes: int | None = None) -> Any:
        """The graph as a NetworkX MultiDiGraph with original ids, labels and weights: for small ones.

        most_nodes: refused beyond this number, a million unless given.
        """
        from .importing.back_out import to_networkx

        return to_networkx(self, most_nodes)

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

    def __reduce__(self) -> Any:
        """Pickle as the path: a worker opens the same dataset, or is told that it was replaced since."""
        return (_reopened, (self._path, zlib.crc32(self._raw)))

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


def _mount_graph(path: str, manifest: _manifest.Manifest, name: str) -> Graph:
    edge = manifest.edges[name]
    graph = Graph(os.path.join(path, *edge.file.split("/")))
    count = manifest.nodes[edge.source].count
    if edge.source == edge.target and graph.num_nodes != count:
        where = f"{os.path.join(path, _manifest.MANIFEST)}: edges.{name}"
        raise FormatError(f"{where}: {edge.file} has {graph.num_nodes} nodes, expected {count}")
    return graph


def _reopened(path: str, checksum: int) -> Dataset:
    """Open the dataset that another process had open."""
    ds = Dataset(path)
    if zlib.crc32(ds._raw) != checksum:
        raise StorageError(errno.ESTALE, f"{path}: the dataset was replaced after it was opened: open it again", path)
    return ds
