"""A dataset: a folder with a graph, features, labels and splits, opened instantly by its manifest."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..args.ids import IdArray
from ..args.keywords import check_keywords
from ..args.progress import Callback
from ..compile.graph import compile_graph
from ..errors import FormatError, StorageError
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph
from ..stores.verify import verify
from .append import AppendMethods
from .describe import as_dict, as_html, as_text
from .edge_data import EdgeData, EdgeTypes, mount_graph
from .manifest import MANIFEST
from .manifest_reader import parse_manifest, read_bytes
from .manifest_writer import check_about, described
from .node_data import Lazy, NodeData
from .node_ids import NodeIds
from .parts import Parts, is_typed
from .task_table import TaskMethods
from .writer import DatasetWriter

__all__ = ["Dataset", "EdgeData", "NodeData"]


class Dataset(TaskMethods, AppendMethods):
    """A dataset folder, opened instantly regardless of size: its files are mounted, and read when they are used.

    >>> import graphzero as gz
    >>> ds = gz.Dataset("papers")  # doctest: +SKIP
    >>> ds.graph.num_edges, ds.features["x"].shape, ds.labels[:3], len(ds.splits["train"])  # doctest: +SKIP
    (16156859, (1110600, 128), array([ 3, -1, 87]), 12072)

    With several node or edge types, `ds.nodes["paper"]` and `ds.edges["author", "writes", "paper"]` access each;
    `ds.hetero` is the whole graph, and `ds.graph`, `ds.features`, `ds.labels` and `ds.splits` mean the default type.

    An object keeps the files it was opened with, also after the dataset was replaced, or after `append` and `compact`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open `folder`. Raises FormatError if its manifest is invalid, MissingFileError if there is none."""
        path = os.path.abspath(os.fspath(folder))
        self._path = os.path.dirname(path) if os.path.basename(path) == MANIFEST else path
        while True:
            self._raw = read_bytes(self._path)
            try:
                self._mount()
                break
            except (FormatError, FileNotFoundError):
                if read_bytes(self._path) == self._raw:  # otherwise it was replaced concurrently
                    raise

    def _mount(self) -> None:
        path, manifest = self._path, parse_manifest(self._path, self._raw)
        self._manifest = manifest
        graphs = Lazy("edge type", list(manifest.edges), lambda name: mount_graph(path, manifest, name))
        graphs.pin()
        self.graphs: Mapping[str, Graph] = graphs
        self.nodes: Mapping[str, NodeData] = {name: NodeData(path, name, manifest) for name in manifest.nodes}
        self.edges: Mapping[EdgeTypeName, EdgeData] = EdgeTypes(
            {
                edge.type: EdgeData(path, k, manifest, partial(graphs.__getitem__, k))
                for k, edge in manifest.edges.items()
            }
        )
        self._hetero: HeteroGraph | None = None
        self._bytes = sum(os.path.getsize(path) for path in self.files)

    def _reload(self) -> None:
        self._raw = read_bytes(self._path)
        self._mount()

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        graph: Any = None,
        *,
        graphs: Mapping[EdgeTypeName, Any] | None = None,
        features: Any = None,
        labels: Any = None,
        splits: Mapping[str, Any] | None = None,
        edge_features: Any = None,
        edge_splits: Mapping[Any, Any] | None = None,
        num_nodes: Any = None,
        ids: Any = None,
        reverse: bool = False,
        typed: bool = True,
        name: str | None = None,
        num_classes: Any = None,
        table_columns: Any = None,
        time_unit: str = "s",
        dtype: Any = None,
        about: Mapping[str, Any] | None = None,
        memory: int | str = "1GB",
        num_threads: int | None = None,
        progress: Callback | bool | None = None,
        overwrite: bool = False,
        **graph_options: Any,
    ) -> Dataset:
        """Create a dataset folder from your own data, and open it.

        `graph` is a `.gl` file, a Graph, or anything `compile_graph` takes (`graph_options` go there:
        `directed=False`). `features` is one matrix or a dict of names to matrices, each a `.gd` file, a FeatureStore or
        anything `compile_features` takes; a single one is named "x", and `dtype` may be a dict by name. Rows beyond the
        last id in the edges are isolated nodes. `labels` are whole numbers, -1 (or NaN) for none: classes; fractions:
        numbers; a matrix of 0 and 1: several labels. `splits` maps names to node ids or to boolean masks.
        `edge_features` has one row per edge of the source, in its order; edges then keep their ids. `edge_splits`
        maps names to edge ids, masks over the edges of the source, or (source, target) pairs. `ids` is a map of
        original ids, as `compile_graph` writes with `ids="map"`. `table_columns` describes columns of tables that are
        among the features, as `gz.pack_columns` returns them.

        Several types: `graphs` maps edge types to edges, and `features`, `labels`, `splits`, `edge_features`,
        `edge_splits`, `num_nodes`, `ids`, `num_classes` and `table_columns` are dicts by type; options of
        `compile_graph` apply to all, or are given in a dict by edge type. Rows are by target ("in") unless `direction`
        is given. The number of nodes of a type is `num_nodes`, else its number of rows, else the largest id + 1.
        `reverse=True` adds the reverse of each edge type, ("paper", "rev_writes", "author"). A single type in `graphs`
        is loaded as typed graphs are, with batches by type, unless `typed=False`.

        Compiled files are linked into the folder, or copied from another disk. The folder is unchanged until all files
        are complete; then one rename publishes them. A failure before that leaves the folder as it was. With
        `overwrite=True` the new files get new names and the old ones are removed at the end. Of two concurrent writers,
        the last to finish wins.

        >>> import numpy as np, graphzero as gz
        >>> ds = gz.Dataset.create("toy", np.array([[0, 1, 2], [1, 2, 0]]), features=np.eye(3, dtype="float32"),
        ...                        labels=[0, 1, 1], splits={"train": [0, 1], "test": [2]})  # doctest: +SKIP
        >>> ds = gz.Dataset.create("typed", graphs={("author", "writes", "paper"): np.array([[0, 0, 1], [0, 1, 1]])},
        ...                        features={"paper": np.eye(2)}, labels={"paper": [0, 1]})  # doctest: +SKIP
        """
        check_keywords(graph_options, "Dataset.create", Dataset.create, compile_graph)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be text, got {type(name).__name__}")
        check_about(notes := dict(about or {}))
        if graphs is None and is_typed(graph):
            graph, graphs = None, graph
        if (graph is None) == (graphs is None):
            raise TypeError("pass either graph, the edges of one type, or graphs, a dict by edge type")
        target = os.path.abspath(os.fspath(folder))
        by_type = {"features": features, "labels": labels, "splits": splits, "ids": ids, "num_classes": num_classes}
        by_type |= {"edge_features": edge_features, "edge_splits": edge_splits, "reverse": reverse, "typed": typed}
        parts = Parts.of(graph, graphs, num_nodes, by_type, graph_options)
        common = {"memory": memory, "num_threads": num_threads, "progress": progress}
        with DatasetWriter(target, overwrite) as writer:
            title = name or os.path.basename(target) or "dataset"
            manifest = described(parts.write(writer, common, dtype, title, notes), table_columns, time_unit)
            return writer.publish(manifest, lambda: cls(target))

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        folder: str | os.PathLike[str] | None = None,
        *,
        direction: str = "in",
        weight_attr: str | None = None,
        time_attr: str | None = None,
        **options: Any,
    ) -> Dataset:
        """Create a dataset from a PyG `Data` or `HeteroData`, and open it (needs `graphzero[pyg]`).

        Masks become splits (train_mask is "train", val_mask "valid"), integer `y` the labels, any other attribute of
        nodes or edges a named array. Rows are by target, as messages flow; `direction="both"` adds those by source.
        `weight_attr` (default: "edge_weight", if present) and `time_attr` name the edge attributes used for sampling.
        `options` are those of `create`. Without a folder, the files are temporary and are deleted with the dataset.

        >>> ds = gz.Dataset.from_pyg(data, "papers")  # doctest: +SKIP
        """
        from ..pyg.datasets import dataset_of

        options["direction"] = direction
        return dataset_of(data, folder, weight_attr=weight_attr, time_attr=time_attr, options=options)

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
        """The number of nodes of the default type."""
        return self._node.num_nodes

    @property
    def node_types(self) -> list[str]:
        """The node types, in the manifest's order; only "node" if there is one kind of node."""
        return list(self._manifest.nodes)

    @property
    def edge_types(self) -> list[EdgeTypeName]:
        """The edge types (source, relation, target), in the manifest's order."""
        return list(self.edges)

    def metadata(self) -> tuple[list[str], list[EdgeTypeName]]:
        """(node_types, edge_types), as PyG's `to_hetero` takes them."""
        return self.node_types, self.edge_types

    @property
    def is_typed(self) -> bool:
        """Whether there are several node types or several edge types, or one that was given as a type."""
        return self._manifest.typed

    @property
    def num_classes(self) -> int:
        """The number of classes of the labels; 0 without labels."""
        return self._node.num_classes

    @property
    def label_kind(self) -> str | None:
        """The kind of the labels: "classification", "multilabel" or "regression"; None without labels."""
        return self._node.label_kind

    @property
    def time_unit(self) -> str:
        """The unit of edge times, which count from 1970: "s", "ms", "us", "ns" or "D"; dates are converted to it."""
        return self._manifest.time_unit

    @property
    def files(self) -> list[str]:
        """Every file of the dataset except its manifest, as absolute paths."""
        return [os.path.join(self._path, *name.split("/")) for name in self._manifest.files()]

    @property
    def nbytes(self) -> int:
        """The bytes of all files."""
        return self._bytes

    @property
    def info(self) -> dict[str, Any]:
        """The contents of the manifest and the size on disk, as a JSON-serializable dict."""
        return as_dict(self)

    # -- the default type's parts -------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The topology."""
        return self.graphs[self._manifest.default_edge]

    @property
    def hetero(self) -> HeteroGraph:
        """The topologies of all edge types as one graph to sample from: `ds.hetero.sample(...)`."""
        if self._hetero is None:
            counts = {name: data.num_nodes for name, data in self.nodes.items()}
            self._hetero = HeteroGraph({key: data.graph for key, data in self.edges.items()}, counts)
        return self._hetero

    @property
    def edge_features(self) -> Mapping[str, FeatureStore]:
        """The features of edges by name, one row per edge id."""
        return self._edge.features

    @property
    def edge_splits(self) -> Mapping[str, IdArray]:
        """The edge splits by name: edge ids, or pairs of shape (n, 2); read on first access."""
        return self._edge.splits

    @property
    def features(self) -> Mapping[str, FeatureStore]:
        """The features by name: `ds.features["x"]`."""
        return self._node.features

    @property
    def labels(self) -> IdArray:
        """The labels of all nodes as int64, -1 for none: read on first access, 8 bytes per node."""
        return self._node.labels

    @property
    def label_store(self) -> FeatureStore:
        """The labels as a mounted file: `ds.label_store.gather(ids)` reads only those of `ids`."""
        return self._node.label_store

    @property
    def splits(self) -> Mapping[str, IdArray]:
        """The node ids of each split, ascending: `ds.splits["train"]`; read on first access."""
        return self._node.splits

    @property
    def ids(self) -> NodeIds:
        """Maps to and from the original ids: those of the source, if `ids` were mapped, and those before `gz.reorder`.

        `ds.ids.to_original(n_id)`, `ds.ids.to_dense(["bash"])`, `ds.ids.to_new(ids)`; `ds.ids["package"]` for one of
        several node types.
        """
        found = self._node.ids
        found.types = {name: node.ids for name, node in self.nodes.items()}
        return found

    def to_pyg(self) -> Any:
        """The dataset as a PyG `Data`, or a `HeteroData` if it has types (needs `graphzero[pyg]`).

        Features are views of the files, read on access. Edges are copied to RAM, in the order of their ids if the file
        has those; labels are `y`, splits become masks.
        """
        from ..pyg.datasets import to_data

        return to_data(self)

    def to_networkx(self, *, most_nodes: int | None = None) -> Any:
        """The graph as a NetworkX MultiDiGraph with original ids, labels and weights, for small graphs.

        most_nodes: raise ValueError beyond this number of nodes (default: a million).
        """
        from ..exporting.back_out import to_networkx

        return to_networkx(self, most_nodes)

    def verify(self, num_threads: int | None = None, progress: Callback | None = None) -> dict[str, Any]:
        """Check every byte of every file, then labels and splits; raise FormatError at the first fault.

        Returns counts: {"files": 6, "arrays": 7, "bytes": ..., "seconds": ...}.
        """
        report: dict[str, Any] = {"files": 0, "arrays": 0, "bytes": 0, "seconds": 0.0, "checksummed": True}
        for path, deltas in self._manifest.parts(self._path):
            one = verify(path, num_threads=num_threads, progress=progress, deltas=deltas)
            report["files"] += 1 + len(deltas)
            report["arrays"] += one.arrays
            report["bytes"] += one.bytes
            report["seconds"] += one.seconds
            report["checksummed"] &= one.checksummed
        for edge_type in self.graphs:
            self.graphs[edge_type]
        for data in self.nodes.values():
            data.verify()
        for edge in self.edges.values():
            edge.verify()
        for task in self.tasks.values():
            task.verify()
        return report

    # -- life ---------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        """Pickle as the path: a worker opens the same dataset; unpickling raises StorageError if it was replaced."""
        return (_reopened, (self._path, zlib.crc32(self._raw)))

    def __repr__(self) -> str:
        """Return `Dataset('papers', num_nodes=1,110,600, features=['x'], num_classes=172, 1.2 GB)`."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """Return a table of the types, for notebooks."""
        return as_html(self)

    @property
    def _node(self) -> NodeData:
        return self.nodes[self._manifest.default_node]

    @property
    def _edge(self) -> EdgeData:
        return self.edges[self._manifest.edges[self._manifest.default_edge].type]


def _reopened(path: str, checksum: int) -> Dataset:
    """Open the dataset that another process had open."""
    ds = Dataset(path)
    if zlib.crc32(ds._raw) != checksum:
        raise StorageError(errno.ESTALE, f"{path}: the dataset was replaced after it was opened; open it again", path)
    return ds
