"""The files of a dataset, from whatever the user has; they are published together, and nothing stays on failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from . import _manifest
from ._dataset_folder import Stage
from ._ids import IdArray, as_ids
from .compile import compile_graph
from .compile_rows import compile_features
from .features import FeatureStore
from .graph import Graph
from .idmap import IdMap, text_path

_T = TypeVar("_T")


class DatasetWriter:
    """Makes the files of a dataset in a folder of its own within the dataset's, and publishes them all at once.

    Until `publish` nothing that was in the folder is touched; when something fails, what was made is removed.
    """

    def __init__(self, folder: str, overwrite: bool) -> None:
        """Prepare for `folder`; nothing is touched until the writer is entered."""
        self.folder = folder
        self._stage = Stage(folder, overwrite)
        self._in_place: set[str] = set()

    def __enter__(self) -> DatasetWriter:
        """Make the folder. FileExistsError when there is a dataset and `overwrite` is False."""
        self._stage.open()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not published."""
        self._stage.close()

    def publish(self, manifest: _manifest.Manifest, opened: Callable[[], _T]) -> _T:
        """Write the manifest, which makes the files the folder's dataset; return what `opened` makes of that."""
        return self._stage.publish(manifest, self._in_place, opened)

    def path(self, file: str) -> str:
        """Return the full path of a file, made or about to be."""
        return os.path.join(self.folder if file in self._in_place else self._stage.path, *file.split("/"))

    def target(self, file: str) -> str:
        """Return the full path of a file that is about to be made."""
        path = self.path(file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def graph(self, source: Any, options: dict[str, Any]) -> int:
        """Put the topology in its place and return its number of nodes."""
        path = _compiled(source, Graph, ".gl")
        given = [name for name in options if name not in ("memory", "num_threads", "progress")]
        if path is not None and given:
            raise TypeError(f"{', '.join(given)}: options of compile_graph, but the graph is compiled already")
        if path is None:
            compile_graph(source, self.target("graph.gl"), **_announced(options, "graph.gl"))
        else:
            self.link(path, "graph.gl")
        with Graph(self.path("graph.gl")) as graph:
            return graph.num_nodes

    def features(self, name: str, source: Any, count: int, options: dict[str, Any]) -> _manifest.ArrayRef:
        """Put one matrix of features in its place."""
        return self._array(f"features/{name}.gd", name, source, count, options)

    def _array(
        self, file: str, array: str, source: Any, rows: int | None, options: dict[str, Any]
    ) -> _manifest.ArrayRef:
        path = _compiled(source, FeatureStore, ".gd")
        if path is None:
            compile_features(source, self.target(file), name=array, num_nodes=rows, **_announced(options, file))
        else:
            array = source.name if isinstance(source, FeatureStore) else FeatureStore(path).name
            self.link(path, file)
        with FeatureStore(self.path(file), array) as store:
            if rows is not None and store.num_nodes != rows:
                raise ValueError(f"{array!r} has {store.num_nodes} rows, expected {rows}, one per node of the graph")
        return _manifest.ArrayRef(file, array)

    def labels(self, source: Any, classes: int | None, count: int, options: dict[str, Any]) -> _manifest.Labels:
        """Put the labels in their place."""
        if not isinstance(source, Iterator):
            source = as_labels(source)
            largest = int(source.max(initial=-1))
            if classes is not None and largest >= classes:
                at = int(np.argmax(source))
                raise ValueError(f"labels[{at}] is {largest}, expected less than num_classes = {classes}")
            classes = classes if classes is not None else max(largest + 1, 1)
        if classes is None:
            raise ValueError("num_classes is None: labels that come in blocks need it")
        ref = self._array("labels.gd", "y", source, count, options)
        return _manifest.Labels(ref.file, ref.array, classes)

    def split(self, name: str, ids: Any, count: int, options: dict[str, Any]) -> _manifest.ArrayRef:
        """Put the ids of one split in their place."""
        if not isinstance(ids, Iterator):
            ids = as_split(ids, name, count)
        return self._array(f"splits/{name}.gd", "ids", ids, None, options)

    def keys(self, path: str, count: int) -> _manifest.KeyFiles:
        """Put a map of original ids in its place."""
        known = IdMap(path)
        if len(known) != count:
            raise ValueError(f"{path}: maps {len(known)} ids, expected {count}, one per node of the graph")
        self.link(path, "keys/node.gd")
        if not known.is_text:
            return _manifest.KeyFiles("keys/node.gd")
        self.link(text_path(path), "keys/node.text.gd")
        return _manifest.KeyFiles("keys/node.gd", "keys/node.text.gd")

    def link(self, path: str, file: str) -> None:
        """Give the file at `path` a second name in the folder, or copy it where that is not possible."""
        source = os.path.realpath(path)
        plain = os.path.realpath(os.path.join(self.folder, *file.split("/")))
        if self._stage.first and plain == source:  # where it belongs already
            self._in_place.add(file)
            return
        target = self.target(file)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
            with open(target, "rb+") as f:
                os.fsync(f.fileno())


def as_labels(labels: Any) -> IdArray:
    """Return labels as int64, -1 for none: whole floats are taken and NaN means none, as OGB has them.

    >>> as_labels([1.0, float("nan"), 0.0]).tolist()
    [1, -1, 0]
    """
    array = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), -1, array)
        if not (array == np.floor(array)).all():
            raise ValueError(f"labels[{int(np.argmax(array != np.floor(array)))}] is no whole number")
        array = array.astype(np.int64)
    out = as_ids(array, "labels")
    if out.size and out.min() < -1:
        raise ValueError(f"labels[{int(np.argmin(out))}] is {out.min()}, expected a class or -1 for none")
    return out


def as_split(ids: Any, name: str, count: int) -> IdArray:
    """Return the node ids of a split, ascending; a boolean mask over all nodes will do."""
    array = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise ValueError(f"splits[{name!r}] is a mask of shape {array.shape}, expected ({count},)")
        return np.flatnonzero(array)
    out = np.sort(as_ids(ids, f"splits[{name!r}]"))
    if out.size and not 0 <= out[0] <= out[-1] < count:
        bad = out[0] if out[0] < 0 else out[-1]
        raise IndexError(f"splits[{name!r}] holds node id {bad}, out of range for {count} nodes")
    return out


def _announced(options: dict[str, Any], file: str) -> dict[str, Any]:
    """Return `options` with a progress callback that names the file before the phase."""
    progress = options["progress"]
    if not callable(progress):
        return options
    return {**options, "progress": lambda phase, done, total: progress(f"{file}: {phase}", done, total)}


def _compiled(source: Any, kind: type[Graph] | type[FeatureStore], suffix: str) -> str | None:
    if isinstance(source, (Graph, FeatureStore)) and isinstance(source, kind):
        return source.path
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(suffix):
        return os.fspath(source)
    return None
