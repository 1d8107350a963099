"""The manifest of a dataset folder, `dataset.json`, as types (docs/dataset.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .columns import Column
from .manifest_tasks import TaskEntry

MANIFEST = "dataset.json"
SPLIT_SEPARATOR = ";"  # of names in a column of splits; no name has one
FORMAT = "graphzero-dataset"
VERSION = (1, 3)  # of a manifest without deltas
WITH_DELTAS = (2, 0)  # readers of 1.x would ignore deltas and show an old graph, so they must reject the file
MOST_BYTES = 8 << 20  # a manifest holds names of files and categories, not data

LABEL_KINDS = ("classification", "regression", "multilabel")


@dataclass(frozen=True)
class ArrayRef:
    """One named array of a `.gd` file, the path relative to the folder."""

    file: str
    array: str
    row_shape: tuple[int, ...] | None = field(default=None, kw_only=True)  # the shape of a row that is not a vector


@dataclass(frozen=True)
class Labels(ArrayRef):
    """The labels of a node type: whole numbers from 0 to classes - 1, or -1 for none.

    Of kind "multilabel", a row of `classes` labels (0, 1, NaN for none); of "regression", numbers, NaN for none.
    """

    classes: int
    kind: str = "classification"


@dataclass(frozen=True)
class KeyFiles:
    """The map between the source's own ids and dense ones; `text` is None if they are integers."""

    file: str
    text: str | None = None


@dataclass(frozen=True)
class NodeType:
    """The entry of one node type."""

    count: int
    features: dict[str, ArrayRef] = field(default_factory=dict)
    labels: Labels | None = None
    splits: dict[str, ArrayRef] = field(default_factory=dict)
    ids: str | None = None  # the file of the original ids, if nodes were reordered
    keys: KeyFiles | None = None  # the ids of the source, if they were mapped
    columns: tuple[Column, ...] = ()  # of the source table of the nodes


@dataclass(frozen=True)
class EdgeType:
    """One kind of edge: a `.gl` file from one node type to another."""

    source: str
    relation: str
    target: str
    file: str
    features: dict[str, ArrayRef] = field(default_factory=dict)
    splits: dict[str, ArrayRef] = field(default_factory=dict)
    count: int | None = None  # number of edges of the source, an upper bound of edge ids
    columns: tuple[Column, ...] = ()

    @property
    def type(self) -> tuple[str, str, str]:
        """(source, relation, target)."""
        return self.source, self.relation, self.target

    @property
    def key(self) -> str:
        """The name in the manifest."""
        return edge_key(self.type)


@dataclass(frozen=True)
class Manifest:
    """A whole manifest; `default_node` and `default_edge` are the types of `ds.labels` and `ds.graph`."""

    name: str
    nodes: dict[str, NodeType]
    edges: dict[str, EdgeType]
    default_node: str
    default_edge: str
    about: dict[str, Any] = field(default_factory=dict)
    typed: bool = False  # loaders return batches by type even for a single type
    tasks: dict[str, TaskEntry] = field(default_factory=dict)
    time_unit: str = "s"
    deltas: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by base file: what was appended, oldest first

    @property
    def version(self) -> tuple[int, int]:
        """The format version that a file of this manifest has."""
        return WITH_DELTAS if self.deltas else VERSION

    def paths(self, folder: str, file: str) -> tuple[str, tuple[str, ...]]:
        """Return the full paths of a base file and of its deltas, oldest first."""
        path, *deltas = (os.path.join(folder, *name.split("/")) for name in (file, *self.deltas.get(file, ())))
        return path, tuple(deltas)

    def parts(self, folder: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the full paths of every file that is mounted on its own, with the deltas that are mounted with it."""
        keys = [node.keys for node in self.nodes.values() if node.keys is not None]
        alone = {file for one in keys for file in (one.file, one.text) if file}  # maps of ids are looked up in turn
        found: list[tuple[str, tuple[str, ...]]] = []
        for file in self.base_files():
            path, deltas = self.paths(folder, file)
            found += [(one, ()) for one in (path, *deltas)] if file in alone else [(path, deltas)]
        return found

    def base_files(self) -> list[str]:
        """Return every file but the deltas, each once, in order."""
        named: list[str] = [edge.file for edge in self.edges.values()]
        for edge in self.edges.values():
            named += [ref.file for ref in (*edge.features.values(), *edge.splits.values())]
        for node in self.nodes.values():
            named += [ref.file for ref in node.features.values()]
            named += [node.labels.file] if node.labels else []
            named += [ref.file for ref in node.splits.values()]
            named += [node.ids] if node.ids else []
            named += [file for file in (node.keys.file, node.keys.text) if file] if node.keys else []
        named += [file for task in self.tasks.values() for file in task.splits.values()]
        return list(dict.fromkeys(named))

    def array_refs(self) -> list[ArrayRef]:
        """Return every named array of nodes and edges."""
        refs: list[ArrayRef] = [node.labels for node in self.nodes.values() if node.labels is not None]
        parts: list[NodeType | EdgeType] = [*self.nodes.values(), *self.edges.values()]
        for part in parts:
            refs += [*part.features.values(), *part.splits.values()]
        return refs

    def without_deltas(self) -> Manifest:
        """Return the manifest of the base files alone."""
        return replace(self, deltas={})

    def files(self) -> list[str]:
        """Return every file that the manifest names: each base file, followed by its deltas."""
        return [name for file in self.base_files() for name in (file, *self.deltas.get(file, ()))]

    def renamed(self, names: Mapping[str, str]) -> Manifest:
        """Return the same manifest with every file under its new name."""

        def arrays(table: dict[str, ArrayRef]) -> dict[str, ArrayRef]:
            return {key: replace(ref, file=names[ref.file]) for key, ref in table.items()}

        nodes = {
            key: replace(
                node,
                features=arrays(node.features),
                labels=node.labels and replace(node.labels, file=names[node.labels.file]),
                splits=arrays(node.splits),
                ids=node.ids and names[node.ids],
                keys=node.keys and KeyFiles(names[node.keys.file], node.keys.text and names[node.keys.text]),
            )
            for key, node in self.nodes.items()
        }
        edges = {
            key: replace(edge, file=names[edge.file], features=arrays(edge.features), splits=arrays(edge.splits))
            for key, edge in self.edges.items()
        }
        tasks = {key: task.renamed(names) for key, task in self.tasks.items()}
        deltas = {names[file]: tuple(names[name] for name in added) for file, added in self.deltas.items()}
        return replace(self, nodes=nodes, edges=edges, tasks=tasks, deltas=deltas)


NAME_RULE = "at most 100 letters, digits, '_', '-' or '.', starting with a letter, a digit or '_'"


def is_name(name: str) -> bool:
    """Return whether `name` may name a feature, a split or a type; such a name is also safe as part of a path."""
    return len(name) <= 100 and re.fullmatch(r"\w[\w.-]*", name) is not None


def check_name(name: object) -> None:
    """Raise ValueError unless `name` may name a feature, a split or a type."""
    if not isinstance(name, str) or not is_name(name):
        raise ValueError(f"{str(name)[:40]!r} is not a valid name, expected {NAME_RULE}")


def edge_key(edge_type: Iterable[str]) -> str:
    """Return the name of an edge type in the manifest: the three names joined by two underscores."""
    return "__".join(edge_type)
