"""Writes the files of a dataset; they are published together, or removed on failure."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.dtypes import refuse_text
from ..args.ids import IdArray, as_ids
from ..args.progress import named
from ..compile.features import compile_features
from ..compile.graph import compile_graph
from ..sources.edge_blocks import load_npy
from ..sources.rows import Rows, all_rows
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.idmap import IdMap, text_path
from .compact import fold_file
from .edge_data import as_edge_split
from .manifest import ArrayRef, KeyFiles, Labels, Manifest
from .publish import Stage

_T = TypeVar("_T")
_NODE = "node of the graph"


@dataclass(frozen=True)
class MadeGraph:
    """A written topology; `count` is the number of edges of its source, None if unknown."""

    file: str
    shape: tuple[int, int]
    count: int | None
    has_edge_ids: bool


class DatasetWriter:
    """Creates the files of a dataset in a subfolder of the dataset's, and publishes them together.

    Until `publish`, existing files are unchanged; on failure, new files are removed.
    """

    def __init__(self, folder: str, overwrite: bool) -> None:
        """Prepare for `folder`; nothing is changed until the context is entered."""
        self.folder = folder
        self._stage = Stage(folder, overwrite)
        self._in_place: set[str] = set()

    def __enter__(self) -> DatasetWriter:
        """Create the folder. Raises FileExistsError if there is a dataset and `overwrite` is False."""
        self._stage.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not published."""
        self._stage.close()

    def publish(self, manifest: Manifest, opened: Callable[[], _T]) -> _T:
        """Write the manifest, which publishes the files; return the result of `opened`."""
        return self._stage.publish(manifest, self._in_place, opened)

    def path(self, file: str) -> str:
        """Return the full path of an existing or new file."""
        return os.path.join(self.folder if file in self._in_place else self._stage.path, *file.split("/"))

    def target(self, file: str) -> str:
        """Return the full path of a new file."""
        path = self.path(file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def graph(self, source: Any, options: dict[str, Any], file: str) -> MadeGraph:
        """Write or link a topology."""
        path = compiled_path(source, Graph, ".gl")
        given = [name for name in options if name not in ("memory", "num_threads", "progress")]
        if path is not None and given:
            raise TypeError(f"{', '.join(given)}: options of compile_graph cannot be used with a compiled graph")
        if path is None:
            options = {**options, "progress": named(options["progress"], file)}
            report = compile_graph(source, self.target(file), **options)
            return self.made(file, report.source_edges)
        self.link(path, file, deltas_of(source))
        return self.made(file, None)

    def made(self, file: str, count: int | None) -> MadeGraph:
        """Describe a written topology; `count`: the number of edges of its source, if known."""
        with Graph(self.path(file)) as graph:
            return MadeGraph(file, graph.shape, count, graph.has_edge_ids)

    def features(self, name: str, source: Any, count: int, options: dict[str, Any], folder: str) -> ArrayRef:
        """Write or link one matrix of features; `dtype` may be a dict by name."""
        if isinstance(options.get("dtype"), Mapping):
            options = {**options, "dtype": options["dtype"].get(name)}
        return self._array(f"{folder}/{name}.gd", name, source, count, options)

    def _array(
        self, file: str, array: str, source: Any, rows: int | None, options: dict[str, Any], each: str = _NODE
    ) -> ArrayRef:
        path = compiled_path(source, FeatureStore, ".gd")
        source, row_shape = _flat(source)
        if path is None:
            options = {**options, "progress": named(options["progress"], file)}
            compile_features(source, self.target(file), name=array, num_nodes=rows, **options)
        else:
            array = source.name if isinstance(source, FeatureStore) else FeatureStore(path).name
            self.link(path, file, deltas_of(source))
        with FeatureStore(self.path(file), array) as store:
            if rows is not None and store.num_nodes != rows:
                raise ValueError(f"{array!r} has {store.num_nodes} rows, expected {rows}, one per {each}")
        return ArrayRef(file, array, row_shape=row_shape)

    def labels(
        self, source: Any, classes: int | None, count: int, options: dict[str, Any], file: str, what: str
    ) -> Labels:
        """Write the labels."""
        kind = "classification"
        if not isinstance(source, Iterator):
            source, kind = labels_of(source, what)
        if kind != "classification":
            ref = self._array(file, "y", source, count, options)
            return Labels(ref.file, ref.array, 1 if source.ndim == 1 else source.shape[1], kind)
        if not isinstance(source, Iterator):
            largest = int(source.max(initial=-1))
            if classes is not None and largest >= classes:
                at = int(np.argmax(source))
                raise ValueError(f"{what}[{at}] is {largest}, expected less than num_classes = {classes}")
            classes = classes if classes is not None else max(largest + 1, 1)
        if classes is None:
            raise ValueError("num_classes is required for labels given in blocks")
        ref = self._array(file, "y", source, count, options)
        return Labels(ref.file, ref.array, classes)

    def split(self, name: str, ids: Any, count: int, options: dict[str, Any], folder: str, what: str) -> ArrayRef:
        """Write the ids of one split."""
        if not isinstance(ids, Iterator):
            ids = as_split(ids, name, count, what)
        return self._array(f"{folder}/{name}.gd", "ids", ids, None, options)

    def keys(self, path: str, count: int, name: str) -> KeyFiles:
        """Link a map of original ids."""
        known = IdMap(path)
        if len(known) != count:
            raise ValueError(f"{path}: maps {len(known)} ids, expected {count}, one per node of the graph")
        self.link(path, f"keys/{name}.gd")
        if not known.is_text:
            return KeyFiles(f"keys/{name}.gd")
        self.link(text_path(path), f"keys/{name}.text.gd")
        return KeyFiles(f"keys/{name}.gd", f"keys/{name}.text.gd")

    def edge_parts(
        self,
        made: MadeGraph,
        features: Mapping[str, Any],
        splits: Mapping[str, Any],
        options: dict[str, Any],
        where: str,
    ) -> tuple[dict[str, ArrayRef], dict[str, ArrayRef], int | None]:
        """Write the features and splits of a graph's edges; also return the number of edge ids.

        `where` names the edge type in messages and folders; it is empty if there is only one.
        """
        what = f"[{where!r}]" if where else ""
        if needs_edge_ids(features, splits) and not made.has_edge_ids:
            given = f"edge_{'features' if features else 'splits'}{what}"
            raise ValueError(
                f"{given}: {self.path(made.file)} has no edge ids, so rows cannot be matched to its edges; "
                "compile it with edge_ids=True"
            )
        folder, count = (f"/{where}" if where else ""), made.count if made.has_edge_ids else None
        least = Graph(self.path(made.file))._largest_edge_id() + 1 if count is None and made.has_edge_ids else 0
        rows: dict[str, ArrayRef] = {}
        for name, source in features.items():
            file, found = f"edge_features{folder}/{name}.gd", rows_known(source)
            if count is not None and found not in (None, count):
                given = f"edge_features{what}[{name!r}] has {found} rows"
                raise ValueError(f"{given}, expected {count}, one per edge of the source")
            dtype = options["dtype"].get(name) if isinstance(options.get("dtype"), Mapping) else options.get("dtype")
            rows[name] = self._array(file, name, source, count, {**options, "dtype": dtype}, "edge of the source")
            if count is None:
                with FeatureStore(self.path(file), rows[name].array) as store:
                    count = store.num_nodes
                if count < least:
                    raise ValueError(
                        f"edge_features{what}[{name!r}] has {count} rows, the graph has edge ids up to {least - 1}"
                    )
        if count is None and made.has_edge_ids:
            count = least
        plain = {key: value for key, value in options.items() if key != "dtype"}
        parts = {}
        for name, values in splits.items():
            if not isinstance(values, Iterator) and compiled_path(values, FeatureStore, ".gd") is None:
                values = as_edge_split(_loaded(values), f"edge_splits{what}[{name!r}]", count, made.shape)
            parts[name] = self._array(f"edge_splits{folder}/{name}.gd", "edges", values, None, plain)
        return rows, parts, count

    def link(self, path: str, file: str, deltas: Sequence[str] = ()) -> None:
        """Hard-link the file at `path` into the folder, or copy it if that is not possible or it has `deltas`."""
        if deltas:
            fold_file(path, deltas, self.target(file))
            return
        source = os.path.realpath(path)
        plain = os.path.realpath(os.path.join(self.folder, *file.split("/")))
        if self._stage.first and plain == source:  # already at its final location
            self._in_place.add(file)
            return
        target = self.target(file)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
            with open(target, "rb+") as f:
                os.fsync(f.fileno())


def deltas_of(source: Any) -> Sequence[str]:
    """Return the deltas that an opened source has."""
    return source.deltas if isinstance(source, (Graph, FeatureStore)) else ()


def needs_edge_ids(features: Mapping[str, Any], splits: Mapping[str, Any]) -> bool:
    """Return whether edge ids are needed: for features, and for splits that are not pairs."""
    return bool(features) or any(np.ndim(_loaded(s)) == 1 for s in splits.values() if not isinstance(s, Iterator))


def _loaded(values: Any) -> Any:
    if isinstance(values, FeatureStore):
        return values.get_tensor()
    if isinstance(values, (str, os.PathLike)):
        path = os.fspath(values)
        return FeatureStore(path).get_tensor() if path.endswith(".gd") else load_npy(path)
    return values


def _flat(source: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return rows flattened to vectors, as files store them, and their shape if they are not vectors."""
    if isinstance(source, FeatureStore):
        return source, source._row_shape
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(".npy"):
        array = load_npy(os.fspath(source))
        return (source, None) if array.ndim < 3 else _flat(array)
    if not hasattr(source, "reshape") or len(source.shape) < 3:
        return source, None
    tail = tuple(int(size) for size in source.shape[1:])
    return source.reshape(len(source), math.prod(tail)), tail


def rows_known(source: Any) -> int | None:
    """Return the number of rows of a source, if that is cheap to find out."""
    if isinstance(source, FeatureStore):
        return source.num_nodes
    if isinstance(source, Rows):
        return source.count
    if isinstance(source, (str, os.PathLike)):
        if os.fspath(source).endswith(".npy"):
            return len(load_npy(os.fspath(source)))
        if not os.fspath(source).endswith(".gd"):
            return None
        return all_rows(source, "x")[0].count
    return len(source) if hasattr(source, "__len__") else None


def kind_of_labels(labels: Any) -> str:
    """Return the kind of labels by shape and dtype: a matrix is multilabel, floats are regression.

    >>> kind_of_labels(np.array([0, 2])), kind_of_labels(np.array([0.5, 2])), kind_of_labels(np.eye(2))
    ('classification', 'regression', 'multilabel')
    """
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] > 1:
        return "multilabel"
    if array.dtype.kind != "f":
        return "classification"
    known = array[np.isfinite(array)]
    classes = (known == np.floor(known)) & (known >= -1) & (known < 2**31)
    return "classification" if bool(classes.all()) else "regression"


def labels_of(labels: Any, what: str = "labels") -> tuple[npt.NDArray[Any], str]:
    """Return labels as stored, and their kind: by shape, then by whether all are whole numbers."""
    array = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    kind = kind_of_labels(array)
    if kind == "multilabel":
        if array.dtype.kind not in "biuf" or not np.isin(array[np.isfinite(array)], (0, 1)).all():
            raise ValueError(f"{what} has {array.shape[1]} columns, whose values must be 0, 1 or NaN for unknown")
        return (array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.uint8)), kind
    return (array.reshape(-1) if kind == "regression" else as_labels(labels, what)), kind


def as_labels(labels: Any, what: str = "labels") -> IdArray:
    """Return labels as int64, -1 for none: whole floats are accepted and NaN means none, as in OGB.

    >>> as_labels([1.0, float("nan"), 0.0]).tolist()
    [1, -1, 0]
    """
    array = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    refuse_text(array, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), -1, array)
        if not (array == np.floor(array)).all():
            raise ValueError(f"{what}[{int(np.argmax(array != np.floor(array)))}] is not a whole number")
        array = array.astype(np.int64)
    out = as_ids(array, what)
    if out.size and out.min() < -1:
        raise ValueError(f"{what}[{int(np.argmin(out))}] is {out.min()}, expected a class or -1 for none")
    return out


def as_split(ids: Any, name: str, count: int, what: str = "splits") -> IdArray:
    """Return the node ids of a split, ascending; a boolean mask over all nodes is accepted too."""
    array = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise ValueError(f"{what}[{name!r}] is a mask of shape {array.shape}, expected ({count},)")
        return np.flatnonzero(array)
    array = as_ids(ids, f"{what}[{name!r}]")
    _core.check_ids(array, f"{what}[{name!r}]", count, "nodes")
    return np.sort(array)


def compiled_path(source: Any, kind: type[Graph] | type[FeatureStore], suffix: str) -> str | None:
    """Return the path of a source that is compiled already, None for any other."""
    if isinstance(source, (Graph, FeatureStore)) and isinstance(source, kind):
        return source.path
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(suffix):
        return os.fspath(source)
    return None
