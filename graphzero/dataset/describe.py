"""A dataset as text, and as a table for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..args.html_table import html_table
from ..args.sizes import format_size

if TYPE_CHECKING:
    from .dataset import Dataset
    from .node_data import NodeData

__all__ = ["as_dict", "as_html", "as_text"]


def as_dict(ds: Dataset) -> dict[str, Any]:
    """Return the contents of the manifest and the size on disk, as JSON values."""
    return {
        "path": ds.path,
        "name": ds.name,
        "version": ".".join(map(str, ds._manifest.version)),
        "bytes": ds.nbytes,
        "nodes": {
            name: {
                "count": data.num_nodes,
                "classes": data.num_classes,
                "features": list(data.features),
                "splits": list(data.splits),
                "columns": {key: column.kind for key, column in data.columns.items()},
            }
            for name, data in ds.nodes.items()
        },
        "edges": list(ds.graphs),
        "tasks": list(ds.tasks),
        "edge_types": {
            key: {"edges": data.num_edges, "features": list(data.features), "splits": list(data.splits)}
            for key, data in zip(ds.graphs, ds.edges.values(), strict=True)
        },
        "deltas": {file: list(added) for file, added in ds._manifest.deltas.items()},
        "about": dict(ds._manifest.about),
    }


def as_text(ds: Dataset) -> str:
    """Return `Dataset('papers', num_nodes=1,110,600, features=['x'], num_classes=172, 1.2 GB)`."""
    if ds.is_typed:
        return _typed_text(ds)
    classes = f", num_classes={ds.num_classes}" if ds.num_classes else ""
    splits = f", splits={list(ds.splits)}" if ds.splits else ""
    return (
        f"Dataset({ds.name!r}, num_nodes={ds.num_nodes:,}, features={list(ds.features)}{classes}{splits}"
        f", {format_size(ds.nbytes)})"
    )


def _typed_text(ds: Dataset) -> str:
    nodes = ", ".join(
        f"{name}: {data.num_nodes:,}" + (f" ({', '.join(data.features)})" if data.features else "")
        for name, data in ds.nodes.items()
    )
    edges = ", ".join(f"{key[0]}-{key[1]}-{key[2]}: {data.num_edges:,}" for key, data in ds.edges.items())
    labelled = next((name for name, data in ds.nodes.items() if data.num_classes), None)
    labels = f", labels={labelled!r}, num_classes={ds.num_classes}" if ds.num_classes else ""
    return f"Dataset({ds.name!r}, nodes {nodes}; edges {edges}{labels}, {format_size(ds.nbytes)})"


def as_html(ds: Dataset) -> str:
    """Return a table with one row per type; only headers of files are read."""
    rows = [(name, f"{data.num_nodes:,}", _contents(data)) for name, data in ds.nodes.items()]
    for (source, relation, target), edge in ds.edges.items():
        extras = [f"{name} {list(store.shape)}" for name, store in edge.features.items()]
        extras += [f"split {name}: {store.num_nodes:,}" for name, store in edge.split_stores.items()]
        rows.append((f"{source} {relation} {target}", f"{edge.num_edges:,}", "\n".join(extras)))
    rows += [(f"task {name}", "", f"{task.kind} of {task.entity}") for name, task in ds.tasks.items()]
    return html_table(f"Dataset {ds.name}", rows, ("type", ">count", "contents"), f"{format_size(ds.nbytes)} on disk")


def _contents(data: NodeData) -> str:
    of_columns = {column.array for column in data.columns.values()}
    shown = {name: store for name, store in data.features.items() if name not in of_columns}
    lines = [f"{name} {list(store.shape)} {store.dtype_name}" for name, store in shown.items()]
    if data.columns:
        named = [f"{name} ({column.kind})" for name, column in list(data.columns.items())[:8]]
        lines.append("columns " + ", ".join(named + ["..."] * (len(data.columns) > 8)))
    if data.label_kind is not None:
        lines.append(f"labels: {data.num_classes} classes" if data.num_classes > 1 else f"labels: {data.label_kind}")
    if data.split_stores:
        lines.append("splits: " + ", ".join(f"{name} {store.num_nodes:,}" for name, store in data.split_stores.items()))
    return "\n".join(lines)
