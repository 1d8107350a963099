"""The way back out: datasets to .npy or Parquet files, graphs to SciPy and NetworkX."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._progress import Callback, Reporting
from ..errors import InputError
from ..sources import Block, GraphFileSource
from .tables import require_pyarrow

if TYPE_CHECKING:
    from ..dataset import Dataset
    from ..graph import Graph

__all__ = ["export_dataset", "to_networkx", "to_scipy"]

_STEP = 1 << 20
_MOST_NODES = 1_000_000  # that become Python objects unless told otherwise


def export_dataset(
    dataset: Dataset | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str = "parquet",
    progress: bool | Callback | None = None,
) -> list[str]:
    """Write a dataset as files that others read, and return their paths.

    format: "parquet" writes `edges.parquet` (src, dst, weight and time where there are) and `nodes.parquet` (id,
    original id where ids were mapped, features as lists, label, split), in row groups of bounded size. "npy" writes
    `edge_index.npy` (2, E), `weights.npy`, `times.npy`, `x.npy` for each feature, `labels.npy` and `splits.npz`, which
    `graphzero import` takes back. The folder `out` must not exist.

    >>> import graphzero as gz
    >>> gz.export_dataset("papers", "papers-npy", format="npy")  # doctest: +SKIP
    ['papers-npy/edge_index.npy', 'papers-npy/x.npy', 'papers-npy/labels.npy', 'papers-npy/splits.npz']
    """
    from ..dataset import Dataset

    if format not in ("parquet", "npy"):
        raise ValueError(f"format is {format!r}, expected 'parquet' or 'npy'")
    if not isinstance(dataset, Dataset):
        dataset = Dataset(dataset)
    if format == "parquet":
        require_pyarrow("Parquet")
    folder = os.path.abspath(os.fspath(out))
    os.mkdir(folder)
    with Reporting(progress, "edges") as callback:
        blocks = _counted(GraphFileSource(dataset.graph.path), callback)
        return (_to_parquet if format == "parquet" else _to_npy)(dataset, folder, blocks)


def _counted(source: GraphFileSource, callback: Callback | None) -> Iterator[Block]:
    done = 0
    for block in source.edge_blocks():
        yield block
        done += len(block)
        if callback is not None:
            callback("writing edges", done, source.num_edges)


def _to_npy(dataset: Dataset, folder: str, blocks: Iterator[Block]) -> list[str]:
    made: list[str] = []

    def array(name: str, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        made.append(os.path.join(folder, f"{name}.npy"))
        return np.lib.format.open_memmap(made[-1], "w+", dtype, shape)

    graph = dataset.graph
    edges = array("edge_index", np.int64, (2, graph.num_edges))
    weights = array("weights", np.float32, (graph.num_edges,)) if graph.has_weights else None
    times = array("times", np.int64, (graph.num_edges,)) if graph.has_times else None
    at = 0
    for block in blocks:
        part = slice(at, at + len(block))
        edges[0, part], edges[1, part] = block.src, block.dst
        if weights is not None:
            weights[part] = block.weights
        if times is not None:
            times[part] = block.times
        at += len(block)
    for name, store in dataset.features.items():
        if store.dtype_name == "bfloat16":
            raise InputError(
                f"features {name!r} are bfloat16, which .npy does not have; format='parquet' writes float32"
            )
        out = array(name, store.dtype, store.shape)
        for ids in _ranges(dataset.num_nodes):
            out[ids] = store.gather(ids)
    if dataset.num_classes:
        array("labels", np.int64, (dataset.num_nodes,))[:] = dataset.labels
    if dataset.splits:
        made.append(os.path.join(folder, "splits.npz"))
        splits: dict[str, Any] = {name: np.asarray(ids) for name, ids in dataset.splits.items()}
        np.savez(made[-1], **splits)
    return made


def _to_parquet(dataset: Dataset, folder: str, blocks: Iterator[Block]) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    made = [os.path.join(folder, name) for name in ("edges.parquet", "nodes.parquet")]
    graph = dataset.graph
    fields = [("src", pa.int64()), ("dst", pa.int64())]
    fields += [("weight", pa.float32())] if graph.has_weights else []
    fields += [("time", pa.int64())] if graph.has_times else []
    with parquet.ParquetWriter(made[0], pa.schema(fields)) as writer:
        for block in blocks:
            columns: list[Any] = [block.src.astype(np.int64), block.dst.astype(np.int64)]
            columns += [c for c in (block.weights, block.times) if c is not None]
            writer.write_table(pa.table(dict(zip([f[0] for f in fields], columns, strict=True)), pa.schema(fields)))
    split = np.full(dataset.num_nodes, "", dtype=object) if dataset.splits else None
    for name, ids in dataset.splits.items():
        assert split is not None
        split[ids] = name
    nodes: parquet.ParquetWriter | None = None
    for ids in _ranges(dataset.num_nodes):
        table = pa.table(_node_columns(dataset, ids, split, pa))
        nodes = nodes or parquet.ParquetWriter(made[1], table.schema)
        nodes.write_table(table)
    if nodes is not None:
        nodes.close()
    return made if nodes is not None else made[:1]


def _node_columns(dataset: Dataset, ids: npt.NDArray[np.int64], split: Any, pa: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": pa.array(ids)}
    if dataset.ids.mapped or dataset.ids.changed:
        columns["original"] = pa.array(dataset.ids.to_original(ids))
    for name, store in dataset.features.items():
        rows = store.gather(ids, dtype="float32") if store.dtype_name == "bfloat16" else store.gather(ids)
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        columns[name] = flat if rows.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    if dataset.num_classes:
        columns["label"] = pa.array(dataset.label_store.gather(ids))
    if split is not None:
        columns["split"] = pa.array(split[ids], pa.string())
    return columns


def _ranges(count: int) -> Iterator[npt.NDArray[np.int64]]:
    for at in range(0, count, _STEP):
        yield np.arange(at, min(at + _STEP, count))


def to_scipy(graph: Graph, direction: str | None) -> Any:
    """Return the adjacency matrix; see `Graph.to_scipy`."""
    from scipy import sparse

    side = direction or ("out" if graph.direction in ("out", "both") else "in")
    indptr, indices = graph.csr(direction=side)
    narrow = indices.dtype == np.int32 and graph.num_edges < 2**31
    data = graph._open().array(f"{side}.weights") if graph.has_weights else np.ones(graph.num_edges, np.int8)
    matrix = (sparse.csr_matrix if side == "out" else sparse.csc_matrix)(graph.shape, dtype=data.dtype)
    # set, not passed: the constructor would copy the indices to look at them
    matrix.data = data
    matrix.indices = indices if narrow else indices.astype(np.int64)
    matrix.indptr = indptr.astype(np.int32 if narrow else np.int64)
    matrix.has_sorted_indices = True
    return matrix


def to_networkx(dataset: Dataset, most_nodes: int | None = None) -> Any:
    """Return a NetworkX graph; see `Dataset.to_networkx`."""
    import networkx

    limit = _MOST_NODES if most_nodes is None else most_nodes
    if dataset.num_nodes > limit:
        raise ValueError(
            f"the dataset has {dataset.num_nodes:,} nodes, more than {limit:,}: as Python objects they need gigabytes; "
            "most_nodes= allows more"
        )
    graph = networkx.MultiDiGraph() if dataset.graph.num_edges else networkx.DiGraph()
    names: list[Any] = list(range(dataset.num_nodes))
    if dataset.ids.mapped or dataset.ids.changed:
        original = dataset.ids.to_original(np.arange(dataset.num_nodes))
        names = original if isinstance(original, list) else original.tolist()
    labels = dataset.labels.tolist() if dataset.num_classes else None
    for i, name in enumerate(names):
        graph.add_node(name, **({} if labels is None or labels[i] < 0 else {"label": labels[i]}))
    for block in GraphFileSource(dataset.graph.path).edge_blocks():
        weights = [None] * len(block) if block.weights is None else block.weights.tolist()
        for u, v, weight in zip(block.src.tolist(), block.dst.tolist(), weights, strict=True):
            graph.add_edge(names[u], names[v], **({} if weight is None else {"weight": weight}))
    return graph
