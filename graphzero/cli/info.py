"""`graphzero info`: describe a file or a dataset from its header."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero import _core
from graphzero.dataset.columns import Column
from graphzero.dataset.dataset import Dataset
from graphzero.dataset.manifest import MANIFEST
from graphzero.dataset.node_data import NodeData
from graphzero.stores.base_files import warn_of_deltas

from . import terminal


def command(
    path: Annotated[Path, typer.Argument(help="A .gl file, a .gd file, or a dataset folder.", show_default=False)],
    json: terminal.Json = False,
) -> None:
    """Describe a file or dataset. Only headers are read."""
    if is_dataset(path):
        dataset = Dataset(path)
        report = {**dataset.info, "files": [_core.file_info(file) for file in dataset.files]}
        terminal.print_json(report) if json else _print_dataset(dataset, report["files"])
        return
    warn_of_deltas(os.path.abspath(path))
    about = _core.file_info(os.fspath(path))
    terminal.print_json(about) if json else _print_file(about)


def is_dataset(path: Path) -> bool:
    """Return whether `path` is a dataset rather than one file: a folder, or the manifest in it."""
    return path.is_dir() or path.name == MANIFEST


def _print_dataset(dataset: Dataset, files: list[dict[str, Any]]) -> None:
    facts: list[tuple[str, object]] = [("folder", dataset.path)]
    for name, data in dataset.nodes.items():
        facts.append((f"nodes {name}" if len(dataset.nodes) > 1 else "nodes", f"{data.num_nodes:,}{_labels(data)}"))
        facts += [(f"column {key}", f"{column.kind}{_names(column)}") for key, column in data.columns.items()]
        facts += [
            (f"feature {key}", f"{' x '.join(f'{n:,}' for n in store.shape)} {store.dtype_name}")
            for key, store in data.features.items()
        ]
        facts += [(f"split {key}", f"{len(ids):,}") for key, ids in data.splits.items()]
    for (name, graph), edge in zip(dataset.graphs.items(), dataset.edges.values(), strict=True):
        facts.append((f"edges {name}" if len(dataset.graphs) > 1 else "edges", _edges(graph.info)))
        facts += [
            (f"edge feature {key}", f"{' x '.join(f'{n:,}' for n in store.shape)} {store.dtype_name}")
            for key, store in edge.features.items()
        ]
        facts += [(f"edge split {key}", f"{store.shape[0]:,}") for key, store in edge.split_stores.items()]
    for name, task in dataset.tasks.items():
        facts.append((f"task {name}", f"{task.kind} of {task.entity}: {', '.join(task.splits)}"))
    facts.append(("on disk", terminal.size(dataset.nbytes)))
    deltas = dataset.info["deltas"].values()
    added = {os.path.join(dataset.path, *name.split("/")) for names in deltas for name in names}
    if added:
        facts.append(("appends", f"{max(map(len, deltas))}, in {len(added)} files; graphzero compact folds them"))
    made_by = dataset.info["about"].get("made_by")
    facts += [("made by", made_by)] if made_by else []
    terminal.print_facts(f"{dataset.name} (dataset)", facts)
    terminal.print_table(
        ("file", "kind", ">size"),
        [(os.path.relpath(f["path"], dataset.path), _kind(f, added), terminal.size(f["file_bytes"])) for f in files],
    )


def _kind(file: dict[str, Any], added: set[str]) -> str:
    kind = str(file["kind"])
    return f"{kind}, appended" if file["path"] in added else kind


def _labels(data: NodeData) -> str:
    said = {"classification": "classes", "multilabel": "labels"}.get(data.label_kind or "")
    return f", {data.num_classes} {said}" if said else ", numeric labels" if data.label_kind else ""


def _names(column: Column) -> str:
    few = ", ".join(column.names[:3])
    return f" ({len(column.names)}: {few}{', ...' if len(column.names) > 3 else ''})" if column.names else ""


def _print_file(about: dict[str, Any]) -> None:
    facts: list[tuple[str, object]] = [("nodes", _nodes(about))]
    if about["kind"] == "topology":
        facts.append(("edges", _edges(about)))
        facts.append(("rows", ", ".join(_row_properties(about))))
    facts.append(("on disk", terminal.size(about["file_bytes"])))
    old = ", made by GraphZero 0.2 or older" if about["legacy"] else ""
    facts.append(("format", f"{about['version']}{old}"))
    terminal.print_facts(f"{os.path.basename(about['path'])} ({about['kind']})", facts)
    terminal.print_table(
        ("array", "dtype", ">shape", ">size"),
        [
            (a["name"], a["dtype"], " x ".join(f"{n:,}" for n in a["shape"]), terminal.size(a["bytes"]))
            for a in about["arrays"]
        ],
    )


def _nodes(about: dict[str, Any]) -> str:
    if about["num_sources"] == about["num_targets"]:
        return f"{about['num_nodes']:,}"
    return f"{about['num_sources']:,} sources, {about['num_targets']:,} targets"


def _edges(about: dict[str, Any]) -> str:
    rows = about["num_targets" if about["direction"] == "in" else "num_sources"]
    mean = about["num_edges"] / rows if rows else 0
    return f"{about['num_edges']:,} ({about['direction']}, {mean:.1f} per node)"


def _row_properties(about: dict[str, Any]) -> list[str]:
    return [
        "sorted" if about["sorted_rows"] else "not sorted",
        "undirected (each edge both ways)" if about["undirected"] else "directed",
        "duplicates dropped" if about["deduplicated"] else "duplicates kept",
        "self-loops kept" if about["self_loops"] else "self-loops dropped",
    ]
