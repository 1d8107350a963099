"""A description of a whole dataset in tables: node tables and edge tables, from YAML, JSON or Python, checked."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dataset import manifest
from ..errors import InputError
from .column_rules import ColumnRules, read_rules
from .parts import is_path

__all__ = [
    "EdgeSpec",
    "NodeSpec",
    "TableSpec",
    "TaskSpec",
    "check_features",
    "check_known",
    "is_spec",
    "located",
    "one_of",
    "parsed_file",
    "read_spec",
    "read_tasks",
    "rules_of",
]

MISSING = ("error", "drop", "fill")
DUPLICATES = ("error", "first", "last")
DEDUP = (False, True, "first", "sum", "max")
UNITS = ("D", "s", "ms", "us", "ns")
_TASK_FIELDS = ("table", "entity", "id", "time", "label", "split", "splits")
_NEEDED = {"table": "a table with a row for each example", "entity": "the node type that rows are about"}


@dataclass(frozen=True)
class NodeSpec:
    """One node type: a table with a row for each node, and which columns are what."""

    table: Any = None  # a path or a table; None: the nodes are those that edges refer to
    id: str | None = None
    label: str | None = None
    split: str | None = None
    time: str | None = None
    features: Any = None  # a list of columns, or a dict of names to columns; None: all others, each by its kind
    duplicates: str = "error"  # a second row of an id
    missing: str = "error"  # an end of an edge that has no row
    ids: str = "auto"  # "map" maps integers too, "text" reads ids of CSV files as strings, such as 007
    count: int | None = None
    columns: Any = None  # rules for columns by name; with `features`, the only ones that are imported by kind
    missing_values: Any = None  # for all columns, as are the next two
    min_count: int | None = None
    max_categories: int | None = None
    rules: ColumnRules = field(default_factory=ColumnRules)  # the four above, checked
    not_columns: tuple[str, ...] = ()  # such as foreign keys, which are edges


@dataclass(frozen=True)
class EdgeSpec:
    """One table of edges: one edge type, or several, named by a column."""

    table: Any
    type: tuple[str, str, str] = ("node", "to", "node")
    source: str | None = None
    target: str | None = None
    weight: Any = None
    time: Any = None
    relation: str | None = None  # the column that names the relation, in the place of type[1]
    features: Any = None  # as of a node type
    split: str | None = None  # the column that names the split of an edge
    dedup: Any = False
    self_loops: bool = True
    symmetrise: bool = False  # both ways, as edges of their own, the second marked in the edge feature "reverse"
    base: int = 0
    nulls: str = "error"  # an end without a value; "drop" leaves the edge out
    columns: Any = None
    missing_values: Any = None
    min_count: int | None = None
    max_categories: int | None = None
    rules: ColumnRules = field(default_factory=ColumnRules)


@dataclass
class TaskSpec:
    """One task: a table, the node type that its rows are about, and which columns are what."""

    name: str
    table: Any
    entity: str
    id: str | None = None  # None: the first column
    time: str | None = None
    label: str | None = None  # None: found by its name
    split: str | None = None  # a column that names the split of each row
    splits: str | None = None  # or shares in order of time, or two dates


@dataclass
class TableSpec:
    """A whole dataset."""

    nodes: dict[str, NodeSpec]
    edges: list[EdgeSpec]
    name: str | None = None
    time_unit: str = "s"
    where: str = "spec"  # for messages
    reverse: bool = False  # whether each edge type is stored the other way round too
    tasks: list[TaskSpec] = field(default_factory=list)
    kind: str = "tables"


def is_spec(source: Any) -> bool:
    """Whether a dict describes a dataset: it has edges, and they are described."""
    return isinstance(source, Mapping) and isinstance(source.get("edges"), (list, Mapping)) and bool(source["edges"])


def read_spec(source: Any) -> TableSpec | None:
    """Return the description in a `.yaml`, `.yml` or `.json` file or in a dict; None where it is something else."""
    if not is_path(source):
        return _checked(source, "spec", "") if is_spec(source) else None
    path = os.fspath(source)
    if not path.endswith((".yaml", ".yml", ".json")):
        return None
    value = parsed_file(path)
    if not is_spec(value):
        raise InputError(f"{path}: found no 'edges', expected a description of tables (see the guide on importing)")
    return _checked(value, path, os.path.dirname(os.path.abspath(path)))


def parsed_file(path: str) -> Any:
    """Return the values of a YAML or JSON file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".json"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"{path}: not valid JSON: {error}") from None
    try:
        import yaml
    except ImportError as error:
        raise ImportError(f"{path}: PyYAML is needed for YAML; pip install 'graphzero[import]'") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def _checked(value: Mapping[str, Any], where: str, folder: str) -> TableSpec:
    check_known(value, ("name", "nodes", "edges", "time_unit", "tasks"), where)
    nodes = value.get("nodes") or {}
    if not isinstance(nodes, Mapping):
        raise InputError(f"{where}: nodes: found a {type(nodes).__name__}, expected node types by name")
    unit = value.get("time_unit", "s")
    one_of(unit, UNITS, f"{where}: time_unit")
    return TableSpec(
        {str(key): _node(entry, f"{where}: nodes.{key}", folder) for key, entry in nodes.items()},
        [_edge(entry, at, folder) for entry, at in _edge_entries(value["edges"], where)],
        value.get("name"),
        unit,
        where,
        tasks=read_tasks(value.get("tasks"), f"{where}: tasks", folder),
    )


def _node(entry: Any, where: str, folder: str) -> NodeSpec:
    given = dict(entry) if isinstance(entry, Mapping) and _is_entry(entry, NodeSpec) else {"table": entry}
    check_known(given, _fields(NodeSpec), where)
    spec = NodeSpec(**{**given, "table": located(given.get("table"), folder), "rules": rules_of(given, where)})
    one_of(spec.duplicates, DUPLICATES, f"{where}.duplicates")
    one_of(spec.missing, MISSING, f"{where}.missing")
    one_of(spec.ids, ("auto", "map", "text"), f"{where}.ids")
    check_features(spec.features, f"{where}.features")
    return spec


def read_tasks(value: Any, where: str, folder: str) -> list[TaskSpec]:
    """Check the tasks of a description."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: found a {type(value).__name__}, expected tasks by name")
    found = []
    for name, entry in value.items():
        at = f"{where}.{name}"
        if not isinstance(entry, Mapping):
            raise InputError(f"{at}: found {entry!r}, expected fields such as table, entity, time and label")
        check_known(entry, _TASK_FIELDS, at)
        for needed in ("table", "entity"):
            if entry.get(needed) is None:
                raise InputError(f"{at}.{needed}: found nothing, expected {_NEEDED[needed]}")
        found.append(TaskSpec(str(name), **{**entry, "table": located(entry["table"], folder)}))
    return found


def _fields(kind: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if f.name not in ("rules", "not_columns")]


def rules_of(entry: Mapping[str, Any], where: str) -> ColumnRules:
    """Return the rules for the columns of a table from its description."""
    common = {"missing": entry.get("missing_values"), **{k: entry.get(k) for k in ("min_count", "max_categories")}}
    return read_rules(entry.get("columns"), common, where)


def check_features(value: Any, where: str) -> None:
    """Refuse what does not name columns of features."""
    names = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else None
    if value is not None and names is None:
        raise InputError(
            f"{where}: found {value!r}, expected a list of columns, or columns by the name of a feature; an empty "
            "list imports none"
        )
    for name in names or ():
        if isinstance(name, bool) or not isinstance(name, (str, int, list, tuple)):
            raise InputError(f"{where}: found {name!r}, expected the name of a column")


def _is_entry(entry: Mapping[Any, Any], kind: Any) -> bool:
    """Whether a dict is a description, and not itself a table of columns."""
    fields = {f.name for f in dataclasses.fields(kind)}
    return "table" in entry or set(entry) <= fields - {"id", "label", "split", "time", "source", "target", "weight"}


def _edge_entries(edges: Any, where: str) -> list[tuple[dict[str, Any], str]]:
    if isinstance(edges, Mapping):
        entries = []
        for key, entry in edges.items():
            given = dict(entry) if isinstance(entry, Mapping) and "table" in entry else {"table": entry}
            entries.append(({"type": key, **given}, f"{where}: edges[{key!r}]"))
        return entries
    found = [(e if isinstance(e, Mapping) else {"table": e}, f"{where}: edges[{i}]") for i, e in enumerate(edges)]
    return [(dict(entry), at) for entry, at in found]


def _edge(entry: dict[str, Any], where: str, folder: str) -> EdgeSpec:
    check_known(entry, _fields(EdgeSpec), where)
    if entry.get("table") is None:
        raise InputError(f"{where}.table: found nothing, expected a table of edges")
    given = {**entry, "table": located(entry["table"], folder), "rules": rules_of(entry, where)}
    if "type" in given:
        given["type"] = _edge_type(given["type"], where)
    spec = EdgeSpec(**given)
    one_of(spec.dedup, DEDUP, f"{where}.dedup")
    one_of(spec.nulls, ("error", "drop"), f"{where}.nulls")
    check_features(spec.features, f"{where}.features")
    if spec.symmetrise and spec.type[0] != spec.type[2]:
        raise InputError(f"{where}.symmetrise: the type is {spec.type}, expected one within a node type")
    return spec


def _edge_type(value: Any, where: str) -> tuple[str, str, str]:
    words = value
    if isinstance(value, str):
        words = next((value.split(s) for s in ("__", ":", " ", ",") if value.count(s) == 2), [value])
    if not isinstance(words, Sequence) or len(words) != 3 or not all(isinstance(w, str) and w for w in words):
        raise InputError(f"{where}.type: found {value!r}, expected three names: source, relation, target")
    for word in words:
        manifest.check_name(word.strip())
    return words[0].strip(), words[1].strip(), words[2].strip()


def located(table: Any, folder: str) -> Any:
    """Return a path relative to the folder of the description."""
    if not is_path(table):
        return table
    path = os.path.join(folder, os.fspath(table)) if folder else os.fspath(table)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    return path


def check_known(entry: Mapping[Any, Any], fields: Sequence[str], where: str) -> None:
    """Refuse a field that is not one of `fields`."""
    for key in entry:
        if key not in fields:
            raise InputError(f"{where}: unknown field {key!r}, expected some of {', '.join(fields)}")


def one_of(value: Any, allowed: Sequence[Any], where: str) -> None:
    """Refuse a value that is not one of those allowed."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        raise InputError(f"{where}: found {value!r}, expected one of {', '.join(map(str, allowed))}")
