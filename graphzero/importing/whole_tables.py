"""Tables that describe a whole dataset -> the plan of an import: ids joined, rows checked, edges under dense ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.suggest import did_you_mean
from ..compile.edge_log import kept_rows
from ..compile.id_space import IdSpace
from ..errors import InputError
from ..sources.categories import encoded
from ..sources.decoding import without_rows
from ..sources.edge_columns import named
from ..sources.keys import check_keys
from ..sources.numbered import ROW
from ..sources.rows import all_rows
from ..sources.tables import Table
from .column_rules import check_columns
from .edge_tables import EdgeTables, TableRows, described_table, note_of
from .node_tables import IDS, LABELS, SPLITS, _times, add_labels, features_of, node_table, pick
from .parts import safe_name
from .plan import NodePlan, Plan
from .spec import EdgeSpec, NodeSpec, TableSpec
from .spilled import STEP, spilled
from .table_columns import columns_of, training_rows
from .task_tables import add_tasks, check_tasks

__all__ = ["choose_label", "plan_tables"]


def choose_label(spec: TableSpec, label: str) -> None:
    """Set the column with the labels: "table.column", or a column that only one table has."""
    columns = {name: node_table(node.table).names for name, node in spec.nodes.items() if node.table is not None}
    known = [f"{name}.{column}" for name, names in columns.items() for column in names]
    found = [one for one in known if label in (one, one.partition(".")[2])]
    if len(found) != 1:
        several = f"is in several tables; choose one of {', '.join(map(repr, found))}"
        none = f"expected a column of a node table, as table.column{did_you_mean(label, known)}"
        raise InputError(f"label is {label!r}, {several if found else none}")
    name, _, column = found[0].partition(".")
    spec.nodes[name] = dataclasses.replace(spec.nodes[name], label=column)


def plan_tables(spec: TableSpec) -> Plan:
    """Return the plan of a description; tables are read when it is prepared, which needs a place for the maps."""
    plan = Plan(spec.kind, name=spec.name, time_unit=spec.time_unit, reverse=spec.reverse)
    described: list[tuple[str, NodeSpec | EdgeSpec]] = [(f"nodes.{name}", node) for name, node in spec.nodes.items()]
    described += [(f"edges[{at}]", edge) for at, edge in enumerate(spec.edges)]
    for where, one in described:
        if one.rules.named and one.table is not None:
            check_columns(one.rules.named, node_table(one.table).names, f"{spec.where}: {where}.columns")
    if spec.tasks:
        check_tasks(spec.tasks)
        plan.tasks = lambda dataset: plan.found.extend(add_tasks(dataset, spec.tasks))
    plan.reads = [*(node.table for node in spec.nodes.values()), *(edge.table for edge in spec.edges)]
    for name in spec.nodes:
        plan.node(name)
    edges = [(one, t) for one in spec.edges for t in _types_of(one)]
    for one, edge_type in edges:
        if edge_type in plan.edges:
            raise InputError(f"{spec.where}: two tables of edges are of type {edge_type}, expected one")
        plan.add_edges(edge_type, None, dedup=one.dedup, self_loops=one.self_loops)
    plan.typed = list(plan.edges) != [EdgeSpec.type]
    plan.prepare = lambda folder, memory, threads: _Tables(spec, plan, folder, memory, threads).prepare(edges)
    return plan


def _types_of(spec: EdgeSpec) -> list[tuple[str, str, str]]:
    """Return the edge types of a table: one, or one for each value of its relation column."""
    source, relation, target = spec.type
    if spec.relation is None:
        return [(source, relation, target)]
    table = node_table(spec.table)
    column = named(table.name, table.names, spec.relation)
    names: dict[str, None] = {}
    for (batch,) in table.batches([column]):
        found = encoded(batch, f"{table.name}: column {column!r}")[1]
        names |= dict.fromkeys(str(name) for name in found if name not in (None, ""))
    return [(source, safe_name(name), target) for name in sorted(names)]


class _Tables:
    """Reads the tables of a description, once each for ids and again for what rows hold."""

    def __init__(self, spec: TableSpec, plan: Plan, folder: str, memory: int, threads: int) -> None:
        self._spec, self._plan, self._folder = spec, plan, folder
        self._threads, self._ids = threads, memory // 2
        self._batches = memory // 4  # of the budget, for rows of tables on their way
        self._spaces = {name: self._space(name) for name in plan.nodes}
        self._rows: dict[str, TableRows] = {}  # of the node tables

    def _table(self, source: Any, text: Sequence[str] = ()) -> Table:
        return described_table(self._spec, source, text, self._batches)

    def _space(self, name: str) -> IdSpace:
        """Return an empty space. Those that edges add nodes to are open at the same time, and share the budget."""
        is_open = [n for n in self._plan.nodes if self._node(n).table is None or self._node(n).missing == "fill"]
        memory = self._ids // (len(is_open) + 1)
        return IdSpace(name, self._folder, max(1 << 20, memory), self._threads)

    def _node(self, name: str) -> NodeSpec:
        return self._spec.nodes.get(name, NodeSpec())

    def prepare(self, edges: list[tuple[EdgeSpec, tuple[str, str, str]]]) -> None:
        """Fill in the plan."""
        edges = [(one, edge_type) for one, edge_type in edges if edge_type in self._plan.edges]  # others are left out
        for name, node in self._spec.nodes.items():
            if node.table is not None and name in self._plan.nodes:
                self._rows[name] = self._declare(name, node)
        tables = EdgeTables(self._spec, self._plan, self._spaces, self._rows, self._folder, self._batches)
        logs = [tables.log(one, edge_type) for one, edge_type in edges]
        for space in self._spaces.values():
            space.finish()
        for (one, edge_type), log in zip(edges, logs, strict=True):
            ends = (self._spaces[edge_type[0]], self._spaces[edge_type[2]])
            log.finish(*(space.resolve if space.provisional else None for space in ends))
            tables.add(one, edge_type, log)
        for name in self._plan.nodes:
            self._add_nodes(name, self._node(name), self._rows.get(name))

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _declare(self, name: str, spec: NodeSpec) -> TableRows:
        """Take the ids of a node table."""
        table = self._table(spec.table)
        column = pick(table, spec.id, IDS) or table.names[0]
        table = self._table(spec.table, [column]) if spec.ids == "text" else table
        always, closed = spec.ids != "auto", spec.missing != "fill"
        where, space = f"{table.name}: column {column!r}", self._spaces[name]
        rows = space.declare(lambda: _checked(table, column), where, always, closed)
        again, keep = rows - space.count, None
        if again:
            keep = self._first_rows(table, column, spec, space, rows)
            self._plan.found.append(f"nodes {name}: {again} rows left out, whose ids appear twice")
            if spec.duplicates == "last":  # nodes are numbered by the rows that are kept
                self._spaces[name] = self._space(name)
                self._spaces[name].declare(lambda: _filtered(table, column, keep), where, always, closed)
        ids = "numbered" if column == ROW else f"ids in {column!r}"
        self._plan.found.append(f"nodes {name}: {table.name}, {rows - again} rows, {ids}")
        return TableRows(column, rows, keep)

    def _first_rows(self, table: Table, column: str, spec: NodeSpec, space: IdSpace, rows: int) -> npt.NDArray[Any]:
        """Return which rows of a table are the first of their id, or the last; InputError at the first that is not."""
        keep, seen, row = spilled(self._folder, np.bool_, rows), 0, 0
        last = spilled(self._folder, np.int64, space.count if spec.duplicates == "last" else 0)
        for (batch,) in table.batches([column]):
            ids, _ = space.map(batch, table.name, row, 0, True)
            values, first = np.unique(ids, return_index=True)
            first = first[values >= seen]  # nodes are numbered in the order of their first rows
            if len(first) < len(ids) and spec.duplicates == "error":
                at = row + int(np.setdiff1d(np.arange(len(ids)), first)[0])
                raise InputError(
                    f"{table.name}: column {column!r}: row {at}: id {_value(table, column, at)!r} appears twice, "
                    f"expected each id once ({rows - space.count} such rows); duplicates: first or last takes one of "
                    "them"
                )
            if spec.duplicates == "last":
                last[ids] = np.arange(row, row + len(ids))
            else:
                keep[row + first] = True
            seen, row = seen + len(first), row + len(ids)
        for at in range(0, len(last), STEP):
            keep[last[at : at + STEP]] = True
        return keep

    def _add_nodes(self, name: str, spec: NodeSpec, rows: TableRows | None) -> None:
        space, node = self._spaces[name], self._plan.nodes[name]
        node.num_nodes, node.id_map = space.count, space.map_file
        if spec.count is not None:
            if spec.count < space.count:
                raise InputError(f"nodes.{name}.count is {spec.count}, the tables have {space.count} nodes")
            node.num_nodes = spec.count
        if space.map_file is not None:
            self._plan.found.append(f"ids of {name}: mapped to 0, 1, 2, ...")
        if rows is None:
            return
        keep, table = rows.keep, self._table(spec.table, spec.rules.formatted)
        filled = (node.num_nodes or 0) - rows.kept
        if filled:
            self._plan.found.append(
                f"nodes {name}: {filled} of edges without a row, filled with missing values and no label"
            )
        others = spec.not_columns
        label, split = pick(table, spec.label, LABELS, others), pick(table, spec.split, SPLITS, others)
        add_labels(self._plan, node, table, label, split, name, keep)
        if spec.time is not None:
            column = named(table.name, table.names, spec.time)
            formats = spec.rules.of(column).format
            times = _times(table, column, "time", self._spec.time_unit, missing=True, formats=formats)
            node.features["time"] = kept_rows(times, keep, node.num_nodes)
            self._plan.found.append(f"features {name} time: column {column!r}")
            if formats or not table.is_numeric(column):
                self._plan.about.setdefault("dates", {})[name] = ["time"]
        taken = {rows.column, label, split, *spec.not_columns}
        wanted = [column for column in table.names if column not in taken]
        if spec.features is not None:
            self._add_features(name, node, table, spec.features, keep)
            wanted = [named(table.name, table.names, column) for column in spec.columns or ()]
        self._add_columns(name, node, table, wanted, rows)

    def _add_columns(self, name: str, node: NodePlan, table: Table, wanted: list[str], rows: TableRows) -> None:
        """Add columns by kind, with statistics of the training rows where these are known."""
        if not wanted:
            return
        spec = self._spec.nodes[name]
        rules = spec.rules
        if spec.time is not None and self._spec.time_unit == "s":
            rules = rules.with_kind(named(table.name, table.names, spec.time), "time")
        train, how = training_rows(node, self._plan.shares, rows.count, rows.keep, self._folder)
        found = columns_of(table, wanted, rules, keep=rows.keep, train=train, pad_to=node.num_nodes)
        node.features |= found.rows
        node.columns = found.columns
        self._plan.found += [note_of("column", name, note) for note in found.notes]
        if found.columns and how:
            self._plan.found.append(f"columns {name}: statistics of {how}")

    def _add_features(self, name: str, node: NodePlan, table: Table, wanted: Any, keep: Any) -> None:
        if isinstance(wanted, (list, tuple)):
            wanted = [named(table.name, table.names, column) for column in wanted]
        found = features_of(table, wanted, self._spec.time_unit)
        for key, source in found.rows.items():
            rows = all_rows(source, key)[0]
            node.features[safe_name(key)] = kept_rows(rows, keep, node.num_nodes)
        self._plan.found += [note.replace("features ", f"features {name} ", 1) for note in found.notes]
        if found.categories:
            self._plan.about.setdefault("categories", {})[name] = found.categories


def _checked(table: Table, column: str) -> Iterator[Any]:
    """Yield a column of ids; InputError at the first row that has none."""
    row = 0
    for (batch,) in table.batches([column]):
        check_keys(table, {column: batch}, row)
        yield batch
        row += len(batch)


def _filtered(table: Table, column: str, kept: npt.NDArray[np.bool_]) -> Iterator[Any]:
    row = 0
    for (batch,) in table.batches([column]):
        yield without_rows(batch, ~kept[row : row + len(batch)])
        row += len(batch)


def _value(table: Table, column: str, at: int) -> Any:
    """Return one value of a column, for a message."""
    for (batch,) in table.batches([column]):
        if at < len(batch):
            value = batch[at]
            return value.as_py() if hasattr(value, "as_py") else value.item() if hasattr(value, "item") else value
        at -= len(batch)
    return None
