"""Tables that describe a whole dataset -> the plan of an import: ids joined, rows checked, edges under dense ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compile.edge_log import BothWays, EdgeLog, alternating, kept_rows, repeated
from ..compile.id_space import IdSpace
from ..errors import InputError
from ..sources.categories import codes_of, encoded, missing_note
from ..sources.dates import as_time_column, times_or_missing
from ..sources.decoding import numbers
from ..sources.edge_blocks import as_weights
from ..sources.edge_columns import TIMES, WEIGHTS, EdgeColumns, known_column, named
from ..sources.edge_tables import pick_columns
from ..sources.keys import present_keys
from ..sources.rows import all_rows
from ..sources.tables import Table
from .node_tables import IDS, LABELS, SPLITS, _times, features_of, node_table, pick
from .parts import label_rows, safe_name, split_name
from .plan import EdgePlan, NodePlan, TypedPlan
from .spec import EdgeSpec, NodeSpec, TableSpec
from .table_columns import columns_of, training_rows
from .task_tables import add_tasks

__all__ = ["plan_tables"]


def plan_tables(spec: TableSpec) -> TypedPlan:
    """Return the plan of a description; tables are read when it is prepared, which needs a place for the maps."""
    plan = TypedPlan(spec.kind, name=spec.name, time_unit=spec.time_unit, reverse=spec.reverse)
    if spec.tasks:
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


def _note(what: str, of: str, note: str) -> str:
    left = "left out: column "
    return f"left out: {what} of {of} {note.removeprefix(left)}" if note.startswith(left) else f"{what} of {of} {note}"


def _texts(column: Any) -> list[str]:
    return [str(value) for value in (column.to_pylist() if hasattr(column, "to_pylist") else list(column))]


class _Tables:
    """Reads the tables of a description, once each for ids and again for what rows hold."""

    def __init__(self, spec: TableSpec, plan: TypedPlan, folder: str, memory: int, threads: int) -> None:
        self._spec, self._plan, self._folder = spec, plan, folder
        self._share, self._threads = max(1 << 20, memory // (2 * max(1, len(plan.nodes)))), threads
        self._batches = memory // 4  # of the budget, for rows of tables on their way
        self._spaces = {name: self._space(name) for name in plan.nodes}

    def _table(self, source: Any, text: Sequence[str] = ()) -> Table:
        return node_table(source, text, self._batches)

    def _space(self, name: str) -> IdSpace:
        return IdSpace(name, self._folder, self._share, self._threads)

    def prepare(self, edges: list[tuple[EdgeSpec, tuple[str, str, str]]]) -> None:
        """Fill in the plan."""
        edges = [(one, edge_type) for one, edge_type in edges if edge_type in self._plan.edges]  # others are left out
        dense: dict[str, npt.NDArray[np.int64]] = {}
        for name, node in self._spec.nodes.items():
            if node.table is not None and name in self._plan.nodes:
                dense[name] = self._declare(name, node)
        logs = [self._log(one, edge_type) for one, edge_type in edges]
        for space in self._spaces.values():
            space.finish()
        for (one, edge_type), log in zip(edges, logs, strict=True):
            log.finish(self._spaces[edge_type[0]].resolve, self._spaces[edge_type[2]].resolve)
            self._add_edges(one, edge_type, log)
        for name in self._plan.nodes:
            self._add_nodes(name, self._spec.nodes.get(name, NodeSpec()), dense.get(name))

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _declare(self, name: str, spec: NodeSpec) -> npt.NDArray[np.int64]:
        """Take the ids of a node table; return for each row its node, -1 for rows that are left out."""
        table = self._table(spec.table)
        column = pick(table, spec.id, IDS) or table.names[0]
        table = self._table(spec.table, [column]) if spec.ids == "text" else table
        always, closed = spec.ids != "auto", spec.missing != "fill"
        found = self._spaces[name].declare((batch for (batch,) in table.batches([column])), always, closed)
        again = len(found) - self._spaces[name].count
        rows = np.arange(len(found))
        if again:
            _, first = np.unique(found, return_index=True)
            if spec.duplicates == "error":
                at = int(np.setdiff1d(rows, first)[0])
                raise InputError(
                    f"{table.name}: row {at}: id {_value(table, column, at)!r} appears twice, expected each id once "
                    f"({again} such rows); duplicates: first or last takes one of them"
                )
            if spec.duplicates == "last":
                _, back = np.unique(found[::-1], return_index=True)
                first = len(found) - 1 - back
            rows = np.sort(first)
            self._spaces[name] = self._space(name)
            kept = np.zeros(len(found), bool)
            kept[rows] = True
            self._spaces[name].declare(_filtered(table, column, kept), always, closed)
            self._plan.found.append(f"nodes {name}: {again} rows left out, whose ids appear twice")
        self._plan.found.append(f"nodes {name}: {table.name}, {len(rows)} rows, ids in {column!r}")
        dense = np.full(len(found), -1, np.int64)
        dense[rows] = np.arange(len(rows))
        return dense

    def _add_nodes(self, name: str, spec: NodeSpec, dense: npt.NDArray[np.int64] | None) -> None:
        space, node = self._spaces[name], self._plan.nodes[name]
        node.num_nodes, node.id_map = space.count, space.map_file
        if spec.count is not None:
            if spec.count < space.count:
                raise InputError(f"nodes.{name}.count is {spec.count}, the tables have {space.count} nodes")
            node.num_nodes = spec.count
        if space.map_file is not None:
            self._plan.found.append(f"ids of {name}: mapped to 0, 1, 2, ...")
        if dense is None:
            return
        keep, table = dense >= 0, self._table(spec.table)
        filled = (node.num_nodes or 0) - int(keep.sum())
        if filled:
            self._plan.found.append(
                f"nodes {name}: {filled} of edges without a row, filled with missing values and no label"
            )
        others = spec.not_columns
        roles = {"label": pick(table, spec.label, LABELS, others), "split": pick(table, spec.split, SPLITS, others)}
        self._add_labels(name, node, table, roles, keep)
        if spec.time is not None:
            column = named(table.name, table.names, spec.time)
            times = _times(table, column, "time", self._spec.time_unit, missing=True)
            node.features["time"] = kept_rows(times, keep, node.num_nodes)
            self._plan.found.append(f"features {name} time: column {column!r}")
        if spec.features is not None:
            self._add_features(name, node, table, spec.features, keep)
            return
        taken = {pick(table, spec.id, IDS) or table.names[0], *roles.values(), *spec.not_columns}
        self._add_columns(name, node, table, [column for column in table.names if column not in taken], keep)

    def _add_columns(self, name: str, node: NodePlan, table: Table, wanted: list[str], keep: Any) -> None:
        """Add columns by kind, with statistics of the training rows where these are known."""
        spec = self._spec.nodes[name]
        rules = spec.rules
        if spec.time is not None and self._spec.time_unit == "s":
            rules = rules.with_kind(named(table.name, table.names, spec.time), "time")
        train, how = training_rows(node, self._plan.shares, keep)
        found = columns_of(table, wanted, rules, keep=keep, train=train, pad_to=node.num_nodes)
        node.features |= found.rows
        node.columns = found.columns
        self._plan.found += [_note("column", name, note) for note in found.notes]
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

    def _add_labels(self, name: str, node: NodePlan, table: Table, roles: dict[str, Any], keep: Any) -> None:
        if roles["label"] is not None:
            values, names = codes_of(table, roles["label"])
            node.labels = label_rows(values[keep])
            if names is not None:
                self._plan.about.setdefault("classes", {})[name] = names
                node.num_classes = len(names)
            note = missing_note(values[keep])
            self._plan.found.append(f"labels {name}: column {roles['label']!r}{note}")
        if roles["split"] is not None:
            codes, names = codes_of(table, roles["split"])
            codes = codes[keep]
            if names is None:
                raise InputError(
                    f"{table.name}: column {roles['split']!r} holds numbers, expected names such as 'train'"
                )
            node.splits = {split_name(one): np.flatnonzero(codes == i) for i, one in enumerate(names)}
            note = f"{', '.join(node.splits)}{missing_note(codes)}"
            self._plan.found.append(f"splits {name}: column {roles['split']!r}, {note}")

    # -- edges --------------------------------------------------------------------------------------------------------

    def _log(self, spec: EdgeSpec, edge_type: tuple[str, str, str]) -> EdgeLog:
        """Write the edges of one type under dense ids."""
        table = self._table(spec.table)
        columns = _edge_columns(table, spec)
        ends = ((columns.src, edge_type[0]), (columns.dst, edge_type[2]))
        text = [column for column, name in ends if self._spec.nodes.get(name, NodeSpec()).ids == "text"]
        table = self._table(spec.table, text) if text else table
        log = EdgeLog(self._folder, "__".join(edge_type), columns.weight is not None, columns.time is not None)
        relation = None if spec.relation is None else named(table.name, table.names, spec.relation)
        wanted = [*columns.all(), *([relation] if relation is not None else [])]
        row = nulls = 0
        for batch in table.batches(wanted):
            parts = dict(zip(("src", "dst", *_carried(columns)), batch, strict=False))
            chosen = np.ones(len(batch[0]), bool)
            if relation is not None:
                codes, names = encoded(batch[-1], f"{table.name}: column {relation!r}")
                chosen = np.append([safe_name(name) == edge_type[1] for name in names], False)[codes].astype(bool)
            if spec.nulls == "drop":
                for side in ("src", "dst"):
                    present, parts[side] = present_keys(parts[side])
                    chosen &= present
                nulls += int(len(chosen) - chosen.sum())
            if chosen.any():
                dense, drop = self._dense(table, spec, edge_type, columns, parts, chosen, row)
                log.write(dense, chosen, drop)
            else:
                log.write({"src": np.empty(0, np.int64), "dst": np.empty(0, np.int64)}, chosen)
            row += len(chosen)
        if nulls:
            self._plan.found.append(f"edges {' '.join(edge_type)}: {nulls:,} rows have no {columns.dst!r}, so no edge")
        return log

    def _dense(
        self,
        table: Table,
        spec: EdgeSpec,
        edge_type: tuple[str, str, str],
        columns: EdgeColumns,
        parts: dict[str, Any],
        chosen: npt.NDArray[np.bool_],
        row: int,
    ) -> tuple[dict[str, Any], bool]:
        """Return the chosen rows of a batch under dense ids; an end without a node is an error, or -1 to be dropped."""
        out: dict[str, Any] = {}
        drop = False
        picked = {name: _chosen(column, chosen) for name, column in parts.items()}
        for side, name, column in (("src", edge_type[0], columns.src), ("dst", edge_type[2], columns.dst)):
            where = f"{table.name}: column {column!r}"
            node = self._spec.nodes.get(name, NodeSpec())
            space = self._spaces[name]
            out[side], _ = space.map(picked[side], where, row, spec.base, node.ids != "auto")
            unknown = np.flatnonzero(out[side] < 0) if space.closed else np.empty(0)
            if unknown.size and node.missing == "error":
                at = int(np.flatnonzero(chosen)[unknown[0]])
                found = f"{where}: row {row + at}: {_texts(picked[side])[unknown[0]]!r}"
                raise InputError(
                    f"{found} has no row in the node table of {name!r} ({unknown.size} such rows among {len(chosen)}); "
                    "missing: drop leaves the edge out, fill adds the node"
                )
            drop = drop or bool(unknown.size)
        if columns.weight is not None:
            out["weight"] = as_weights(numbers(picked["weight"], f"{table.name}: column {columns.weight!r}", row))
        if columns.time is not None:
            where = f"{table.name}: column {columns.time!r}"
            read = times_or_missing if spec.nulls == "drop" else as_time_column
            out["time"] = read(picked["time"], where, row, self._spec.time_unit)
        return out, drop

    def _add_edges(self, spec: EdgeSpec, edge_type: tuple[str, str, str], log: EdgeLog) -> None:
        edge, what = self._plan.edges[edge_type], " ".join(edge_type)
        edge.edges = BothWays(log) if spec.symmetrise else log
        self._plan.found.append(f"edges {what}: {log.kept}{', each with its reverse' if spec.symmetrise else ''}")
        if log.left_out:
            self._plan.found.append(f"edges {what}: {log.left_out} left out, whose ends have no row in a node table")
        table = self._table(spec.table)
        if spec.split is not None:
            edge.splits = self._edge_splits(table, spec, log)
        if spec.features is None:
            self._add_edge_columns(spec, edge, what, table, log)
        else:
            self._add_edge_features(spec, edge_type, table, log)
        if spec.symmetrise:
            edge.features["reverse"] = alternating(log.kept)

    def _add_edge_columns(self, spec: EdgeSpec, edge: EdgePlan, what: str, table: Table, log: EdgeLog) -> None:
        used = {*_edge_columns(table, spec).all(), spec.relation, spec.split}
        wanted = [column for column in table.names if column not in used]
        keep, train = np.asarray(log.row_kept), None
        if "train" in edge.splits:
            train = np.zeros(len(keep), bool)
            step = 2 if spec.symmetrise else 1
            train[np.flatnonzero(keep)[edge.splits["train"][::step] // step]] = True
        repeat = 2 if spec.symmetrise else 1
        found = columns_of(table, wanted, spec.rules, keep=keep, train=train, repeat=repeat)
        edge.features |= found.rows
        edge.columns = found.columns
        self._plan.found += [_note("edge column", what, note) for note in found.notes]

    def _add_edge_features(self, spec: EdgeSpec, edge_type: tuple[str, str, str], table: Table, log: EdgeLog) -> None:
        wanted, edge = spec.features, self._plan.edges[edge_type]
        if isinstance(wanted, (list, tuple)):  # each a feature of its own: attributes keep their types
            wanted = {safe_name(column): column for column in wanted}
        found = features_of(table, wanted, self._spec.time_unit)
        for key, source in found.rows.items():
            rows = kept_rows(all_rows(source, key)[0], log.row_kept)
            edge.features[safe_name(key)] = repeated(rows) if spec.symmetrise else rows
        what = f"edge features {' '.join(edge_type)} "
        self._plan.found += [note.replace("features ", what, 1) for note in found.notes]
        if found.categories:
            self._plan.about.setdefault("categories", {})["__".join(edge_type)] = found.categories

    def _edge_splits(self, table: Table, spec: EdgeSpec, log: EdgeLog) -> dict[str, npt.NDArray[np.int64]]:
        """Return the edge ids of each split that a column names; reverses are in the split of their edge."""
        column = named(table.name, table.names, spec.split)
        codes, names = codes_of(table, column)
        codes = codes[np.asarray(log.row_kept)]
        if names is None:
            raise InputError(f"{table.name}: column {column!r} holds numbers, expected names such as 'train'")
        codes = np.repeat(codes, 2) if spec.symmetrise else codes
        return {split_name(name): np.flatnonzero(codes == i) for i, name in enumerate(names)}


def _filtered(table: Table, column: str, kept: npt.NDArray[np.bool_]) -> Iterator[Any]:
    row = 0
    for (batch,) in table.batches([column]):
        yield _chosen(batch, kept[row : row + len(batch)])
        row += len(batch)


def _value(table: Table, column: str, at: int) -> Any:
    """Return one value of a column, for a message."""
    for (batch,) in table.batches([column]):
        if at < len(batch):
            value = batch[at]
            return value.as_py() if hasattr(value, "as_py") else value.item() if hasattr(value, "item") else value
        at -= len(batch)
    return None


def _edge_columns(table: Table, spec: EdgeSpec) -> EdgeColumns:
    given = None if spec.source is None or spec.target is None else (spec.source, spec.target)
    picked = EdgeColumns.of(table.names, pick_columns(table, given, False, None))
    used = {
        picked.src,
        picked.dst,
        spec.relation,
        spec.split,
        *(spec.features if isinstance(spec.features, (list, tuple)) else []),
    }
    rest = [name for name in table.names if name not in used]
    weight = known_column(rest, WEIGHTS) if spec.weight is None else spec.weight
    time = known_column(rest, TIMES) if spec.time is None else spec.time
    weight, time = (None if c in (None, False) else named(table.name, table.names, c) for c in (weight, time))
    return EdgeColumns(picked.src, picked.dst, weight, time)


def _carried(columns: EdgeColumns) -> list[str]:
    return [name for name, column in (("weight", columns.weight), ("time", columns.time)) if column is not None]


def _chosen(column: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    if chosen.all():
        return column
    if hasattr(column, "type") and hasattr(column, "filter"):
        import pyarrow as pa

        return column.filter(pa.array(chosen))
    return column[chosen]
