"""Exports to files: a dataset to Parquet or .npy files, rows of nodes to a table with their original ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..args.progress import Callback, Reporting
from ..dataset import manifest
from ..errors import InputError
from ..sources.edge_blocks import GraphFileSource
from ..sources.tables import require_pyarrow
from ..stores.features import FeatureStore
from .arrow_out import edge_stream, node_stream
from .columns_out import flat_lists
from .export_folder import SPEC, new_folder
from .exported_spec import exported_spec, task_columns
from .table_out import write_table

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset
    from ..dataset.edge_data import EdgeData
    from ..dataset.node_data import NodeData

__all__ = ["export_dataset", "export_rows"]

_STEP = 1 << 20
_ROWS = 1 << 14  # of a table of rows, which is text
FORMATS = ("parquet", "csv", "npy")


def export_dataset(
    dataset: Dataset | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str = "parquet",
    overwrite: bool = False,
    progress: bool | Callback | None = None,
) -> list[str]:
    """Export a dataset to Parquet, CSV or `.npy` files, and return their paths.

    The folder `out` gets its name when all files are complete. It must not exist, unless with `overwrite`, which
    replaces an older export: a folder whose `export.json`, which is not in the returned list, lists all of its files.

    format: "parquet" writes `edges.parquet` (src, dst, weight, time, edge features, split) and `nodes.parquet` (id,
    original id if ids were mapped, features as lists, label, split), in row groups of bounded size. Columns of
    tables get back their values, names of categories, times and nulls. For several types it writes
    `edges/a__r__b.parquet` and `nodes/a.parquet` under original ids, and `tables.json`, a description that
    `graphzero import` reads. Tasks are written to `tasks/NAME.parquet` (id, time, label, split). "csv" writes the
    same as CSV, with a column for each number of a list. Nodes and edges in several splits have all names, as
    "train;valid". "npy" writes `edge_index.npy` (2, E), `weights.npy`, `times.npy`, `x.npy` for each feature,
    `edge_attr.npy` for each edge feature in the order of `edge_index`, `labels.npy` and `splits.npz`; for several
    types, in one folder per type.

    >>> import graphzero as gz
    >>> gz.export_dataset("papers", "papers-npy", format="npy")  # doctest: +SKIP
    ['papers-npy/edge_index.npy', 'papers-npy/x.npy', 'papers-npy/labels.npy', 'papers-npy/splits.npz']
    """
    from ..dataset.dataset import Dataset

    if format not in FORMATS:
        raise ValueError(f"format is {format!r}, expected {', '.join(map(repr, FORMATS))}")
    if not isinstance(dataset, Dataset):
        dataset = Dataset(dataset)
    if format == "npy":
        _check_npy(dataset)
    else:
        require_pyarrow(format)
    folder = os.path.abspath(os.fspath(out))
    with Reporting(progress, "edges") as callback, new_folder(folder, overwrite) as part:
        writer: _Tables | _Npy = _Npy(part, dataset, callback)
        if format != "npy":
            writer = _Tables(part, dataset, callback, format)
        for edge in dataset.edges.values():
            writer.edges(edge)
        for name, node in dataset.nodes.items():
            writer.nodes(name, node)
        return [os.path.join(folder, os.path.relpath(path, part)) for path in writer.finish()]


def export_rows(
    data: Dataset, rows: str | os.PathLike[str], out: str | os.PathLike[str], *, node_type: str | None = None
) -> int:
    """Write a `.gd` file with one row per node to a `.csv` or `.parquet` file of ids and columns; return the row count.

    A `.gd` file of a temporal run has its own ids and times, which are written with its rows.
    """
    store = FeatureStore(rows)
    timed = {"x", "ids"} <= set(store.names)
    able = [name for name, node in data.nodes.items() if timed or node.num_nodes == store.num_nodes]
    if (node_type is not None and node_type not in able) or not able:
        sizes = ", ".join(f"{name!r}: {node.num_nodes}" for name, node in data.nodes.items())
        raise ValueError(f"{os.fspath(rows)} has {store.num_nodes} rows, the node types have {sizes}")
    if node_type is None and len(able) > 1:
        raise ValueError(f"rows may belong to {', '.join(map(repr, able))}; choose one with node_type=")
    ids = data.nodes[node_type or able[0]].ids

    def blocks() -> Iterator[dict[str, Any]]:
        for begin in range(0, store.num_nodes, _ROWS):
            at = np.arange(begin, min(begin + _ROWS, store.num_nodes))
            found: dict[str, Any] = {"id": ids.to_original(store.gather(at, name="ids") if timed else at)}
            if "times" in store.names:
                found["time"] = store.gather(at, name="times")
            values = store.gather(at, name="x" if timed else None).reshape(len(at), -1)
            yield found | {f"x{column}": values[:, column] for column in range(values.shape[1])}

    return write_table(out, blocks())


class _Writer:
    """Writes the files of one export."""

    def __init__(self, folder: str, dataset: Dataset, callback: Callback | None) -> None:
        self._folder, self._dataset, self._callback = folder, dataset, callback
        self._typed = dataset.is_typed or next(iter(dataset.edges)) != ("node", "to", "node")
        self._total, self._done = sum(edge.num_edges for edge in dataset.edges.values()), 0
        self.made: list[str] = []

    def path(self, name: str) -> str:
        path = os.path.join(self._folder, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.made.append(path)
        return path

    def report(self, edges: int) -> None:
        self._done += edges
        if self._callback is not None:
            self._callback("writing edges", self._done, self._total)

    def finish(self) -> list[str]:
        return self.made


class _Tables(_Writer):
    """Writes Parquet or CSV."""

    def __init__(self, folder: str, dataset: Dataset, callback: Callback | None, format: str) -> None:
        super().__init__(folder, dataset, callback)
        self._end = format

    def edges(self, edge: EdgeData) -> None:
        key, names = manifest.edge_key(edge.edge_type), self._dataset.nodes
        ends = [names[edge.edge_type[side]].ids if self._typed else None for side in (0, 2)]
        path = self.path(f"edges/{key}.{self._end}" if self._typed else f"edges.{self._end}")
        self._write(path, edge_stream(edge.graph, edge, ends[0], ends[1]), self.report)
        for name, pairs in edge.splits.items():
            if pairs.ndim == 2:
                self._write_one(f"splits/{key}/{name}", {"src": pairs[:, 0], "dst": pairs[:, 1]})

    def nodes(self, name: str, node: NodeData) -> None:
        path = self.path(f"nodes/{name}.{self._end}" if self._typed else f"nodes.{self._end}")
        self._write(path, node_stream(node, self._typed), lambda _: None)

    def _write(self, path: str, stream: Any, report: Any) -> None:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        if self._end == "csv":
            empty = pa.RecordBatch.from_pylist([], schema=stream.schema)
            writer = pyarrow.csv.CSVWriter(path, flat_lists(pa, empty).schema)
        else:
            writer = pyarrow.parquet.ParquetWriter(path, stream.schema)
        with writer:
            for batch in stream:
                writer.write_batch(flat_lists(pa, batch) if self._end == "csv" else batch)
                report(batch.num_rows)

    def _write_one(self, name: str, columns: dict[str, Any]) -> None:
        import pyarrow as pa

        self._write(self.path(f"{name}.{self._end}"), pa.table(columns).to_reader(), lambda _: None)

    def finish(self) -> list[str]:
        for name in self._dataset.tasks:
            self._write_one(f"tasks/{name}", task_columns(self._dataset, self._dataset.tasks[name]))
        if self._typed:
            with open(self.path(SPEC), "w", encoding="utf-8") as file:
                json.dump(exported_spec(self._dataset, self._end), file, indent=2)
        return self.made


class _Npy(_Writer):
    def edges(self, edge: EdgeData) -> None:
        graph, where = edge.graph, f"{manifest.edge_key(edge.edge_type)}/" if self._typed else ""
        out = {"edge_index": self._array(f"{where}edge_index", np.int64, (2, graph.num_edges))}
        if graph.has_weights:
            out["weights"] = self._array(f"{where}weights", np.float32, (graph.num_edges,))
        if graph.has_times:
            out["times"] = self._array(f"{where}times", np.int64, (graph.num_edges,))
        rows = {
            name: self._array(f"{where}{name}", _kept(store)[0], (graph.num_edges, *store.shape[1:]))
            for name, store in edge.features.items()
        }
        at = 0
        for block in GraphFileSource(graph).edge_blocks():
            part = slice(at, at + len(block))
            out["edge_index"][0, part], out["edge_index"][1, part] = block.src, block.dst
            for name, column in (("weights", block.weights), ("times", block.times)):
                if column is not None:
                    out[name][part] = column
            for name, array in rows.items():
                array[part] = edge.features[name].gather(block.edge_ids, dtype=_kept(edge.features[name])[1])
            at += len(block)
            self.report(len(block))
        if any(pairs.ndim == 2 for pairs in edge.splits.values()):
            held: dict[str, Any] = {name: pairs for name, pairs in edge.splits.items() if pairs.ndim == 2}
            np.savez(self.path(f"{where}edge_splits.npz"), **held)

    def nodes(self, name: str, node: NodeData) -> None:
        where = f"{name}/" if self._typed else ""
        for key, store in node.features.items():
            dtype, asked = _kept(store)
            out = self._array(f"{where}{key}", dtype, store.shape)
            for ids in _ranges(node.num_nodes):
                out[ids] = store.gather(ids, dtype=asked)
        if node.num_classes:
            self._array(f"{where}labels", node.label_store.dtype, node.label_store.shape)[:] = node.labels
        if node.splits:
            splits: dict[str, Any] = {key: np.asarray(ids) for key, ids in node.splits.items()}
            np.savez(self.path(f"{where}splits.npz"), **splits)

    def _array(self, name: str, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        path = self.path(f"{name}.npy")
        if 0 in shape:  # an empty file cannot be mapped
            np.save(path, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        return np.lib.format.open_memmap(path, "w+", dtype, shape)


def _kept(store: FeatureStore) -> tuple[Any, str | None]:
    """Return the dtype to write, and the one to gather: scaled int8 is written as floats."""
    return (np.float32, "float32") if store.scale is not None else (store.dtype, None)


def _check_npy(dataset: Dataset) -> None:
    """Raise ValueError for types that .npy files do not support, before anything is written."""
    stores: list[tuple[str, FeatureStore]] = []
    stores += [item for node in dataset.nodes.values() for item in node.features.items()]
    stores += [item for edge in dataset.edges.values() for item in edge.features.items()]
    for name, store in stores:
        if store.dtype_name == "bfloat16":
            raise InputError(
                f"features {name!r} are bfloat16, which .npy does not support; format='parquet' writes float32"
            )


def _ranges(count: int) -> Iterator[npt.NDArray[np.int64]]:
    for at in range(0, count, _STEP):
        yield np.arange(at, min(at + _STEP, count))
