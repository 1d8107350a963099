"""What is in a file or a dataset: degrees, components and faults of edges, ranges of features, labels, splits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.progress import Callback, named
from ..dataset.dataset import Dataset
from ..dataset.node_data import NodeData
from ..stores.edge_column import edge_column
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from .call import Call

__all__ = ["summary_of_dataset", "summary_of_features", "summary_of_graph"]

_SAMPLES = 100_000  # edges whose reverse is looked up where looking up all would read the disk at random
_CONFIDENCE = 0.99
_BLOCK = 32 << 20  # bytes of features that are read together
_MOST_CLASSES = 1000  # whose nodes are counted

_Isolated = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


def summary_of_graph(
    graph: Graph, *, memory: int | str = "auto", num_threads: int | None = None, progress: bool | Callback | None = None
) -> dict[str, Any]:
    """Return the figures of one topology."""
    return _edges(graph, memory, num_threads, progress)[0]


def summary_of_features(store: FeatureStore, progress: Callback | None = None) -> dict[str, Any]:
    """Return the dtype, shape, range and missing values of one array."""
    least, most, total, count, nan, infinite = math.inf, -math.inf, 0.0, 0, 0, 0
    rows = store.shape[0]
    step = max(1, _BLOCK // max(1, 4 * math.prod(store.shape[1:])))
    plain = store.dtype_name in ("float32", "float64", "int64", "int32", "int16", "uint8", "bool", "uint32", "uint64")
    for at in range(0, rows, step):
        ids = np.arange(at, min(at + step, rows))
        block = store.gather(ids) if plain else store.gather(ids, dtype="float32")
        missing = int(np.isnan(block).sum()) if block.dtype.kind == "f" else 0
        nan += missing
        endless = int(np.isinf(block).sum()) if block.dtype.kind == "f" else 0
        infinite += endless
        values = block[np.isfinite(block)] if missing or endless else block
        if values.size:
            least, most = min(least, float(values.min())), max(most, float(values.max()))
            total += float(values.sum(dtype=np.float64))
            count += values.size
        if progress is not None:
            progress("features", min(at + step, rows), rows)
    found = {"min": least, "max": most, "mean": total / count} if count else {"min": None, "max": None, "mean": None}
    return {"dtype": store.dtype_name, "shape": list(store.shape), **found, "nan": nan, "infinite": infinite}


def summary_of_dataset(
    dataset: Dataset, *, memory: int | str = "auto", num_threads: int | None = None, progress: Callback | None = None
) -> dict[str, Any]:
    """Return the figures of all node types and edge types."""
    touched = {name: np.zeros(data.num_nodes, np.bool_) for name, data in dataset.nodes.items()}
    edges = {}
    for (name, graph), kind in zip(dataset.graphs.items(), dataset.edges, strict=True):
        edges[name], (sources, targets) = _edges(graph, memory, num_threads, named(progress, name))
        touched[kind[0]] |= sources
        touched[kind[2]] |= targets
    nodes = {}
    for name, data in dataset.nodes.items():
        nodes[name] = {
            "count": data.num_nodes,
            "isolated": int((~touched[name]).sum()),
            "features": {key: summary_of_features(store, progress) for key, store in data.features.items()},
            "labels": _labels(data),
            "splits": _splits(data.splits, data.num_nodes),
        }
    deltas = max(map(len, dataset.info["deltas"].values()), default=0)
    return {"path": dataset.path, "kind": "dataset", "deltas": deltas, "nodes": nodes, "edges": edges}


def _edges(
    graph: Graph, memory: int | str, num_threads: int | None, progress: bool | Callback | None
) -> tuple[dict[str, Any], _Isolated]:
    call = Call(graph, memory, num_threads, progress, "auto")
    about, sources = graph.info, graph.num_sources
    with call.run() as native:
        out, into = native.degrees("out"), native.degrees("in")
        labels, components = native.weak_components()
        facts = native.edge_facts(_SAMPLES, 0)
    square = graph.num_sources == graph.num_targets
    touched = (out > 0) | (into > 0) if square else out > 0
    both: _Isolated = (touched, touched if square else into > 0)
    isolated = int((~touched).sum()) if square else int((~both[0]).sum() + (~both[1]).sum())
    largest = int(np.bincount(labels).max()) if len(labels) else 0
    sorted_rows = bool(about["sorted_rows"])  # duplicates are next to each other, and reverses can be looked up
    return {
        "path": graph.path,
        "kind": "graph",
        "sources": sources,
        "targets": graph.num_targets,
        "count": graph.num_edges,
        "stored": graph.direction,
        "undirected": bool(about["undirected"]),
        "isolated": isolated,
        "components": components,
        "largest_component": largest,
        "self_loops": facts["self_loops"] if square else None,
        "duplicates": facts["duplicates"] if sorted_rows else None,
        **_reciprocity(facts, square and sorted_rows),
        "degrees": {"out": _degrees(out)} if about["undirected"] else {"out": _degrees(out), "in": _degrees(into)},
        **{what: _range(graph, what) for what in ("weights", "times") if graph._has(what)},
    }, both


def _reciprocity(facts: Mapping[str, int], known: bool) -> dict[str, Any]:
    """Return the share of edges with a reverse, and its error if only some were looked up."""
    checked = facts["checked"]
    if not known or not checked:
        return {"reciprocity": None, "reciprocity_error": None}
    all_of_them = checked == facts["distinct"]
    error = 0.0 if all_of_them else math.sqrt(math.log(2 / (1 - _CONFIDENCE)) / (2 * checked))
    return {"reciprocity": facts["mutual"] / checked, "reciprocity_error": error}


def _degrees(degrees: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return quantiles, and a histogram by powers of two: 0, 1, 2 to 3, 4 to 7, ..."""
    if not len(degrees):
        return {"min": None, "median": None, "mean": None, "p99": None, "max": None, "histogram": []}
    bins = np.bincount(np.frexp(degrees.astype(np.float64))[1])
    ranges = [(0, 0), *((2 ** (i - 1), 2**i - 1) for i in range(1, len(bins)))]
    median, p99 = np.percentile(degrees, [50, 99])
    return {
        "min": int(degrees.min()),
        "median": float(median),
        "mean": float(degrees.mean()),
        "p99": float(p99),
        "max": int(degrees.max()),
        "histogram": [{"from": a, "to": b, "nodes": int(n)} for (a, b), n in zip(ranges, bins, strict=True)],
    }


def _range(graph: Graph, what: str) -> dict[str, Any]:
    topology: _core.Topology = graph._open()
    values = edge_column(graph, "in" if graph.direction == "in" else "out", what)
    blocks = (values[at : at + (1 << 22)] for at in range(0, len(values), 1 << 22))
    found = [(block.min().item(), block.max().item()) for block in blocks]
    topology.check()
    return {"min": min((a for a, _ in found), default=None), "max": max((b for _, b in found), default=None)}


def _labels(data: NodeData) -> dict[str, Any] | None:
    if data.label_kind is None:
        return None
    labels: npt.NDArray[Any] = data.labels
    if data.label_kind != "classification":
        missing = int(np.isnan(labels).any(axis=-1).sum()) if labels.dtype.kind == "f" else 0
        return {"kind": data.label_kind, "classes": data.num_classes, "missing": missing}
    known = labels[labels >= 0]
    counts = np.bincount(known, minlength=data.num_classes).tolist() if data.num_classes <= _MOST_CLASSES else None
    return {
        "kind": data.label_kind,
        "classes": data.num_classes,
        "missing": len(labels) - len(known),
        "counts": counts,
    }


def _splits(splits: Mapping[str, npt.NDArray[Any]], nodes: int) -> dict[str, Any]:
    seen = np.zeros(nodes, np.uint8)
    for ids in splits.values():
        seen[ids] += 1
    sizes: dict[str, Any] = {name: len(ids) for name, ids in splits.items()}
    return {"sizes": sizes, "in_several": int((seen > 1).sum())}
