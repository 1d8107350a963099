"""Edge tables of a description: edges under dense ids, in temporary files, and what their rows hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compile.edge_log import BothWays, EdgeLog, alternating, kept_rows, repeated
from ..compile.id_space import IdSpace
from ..errors import InputError
from ..sources.categories import codes_of, encoded
from ..sources.date_formats import in_format
from ..sources.dates import FORMAT_FIX, as_time_column, times_or_missing
from ..sources.decoding import numbers, without_rows
from ..sources.edge_blocks import as_weights
from ..sources.edge_columns import TIMES, WEIGHTS, EdgeColumns, known_column, named
from ..sources.edge_tables import pick_columns
from ..sources.keys import check_keys, present_keys
from ..sources.numbered import WithRowNumbers
from ..sources.rows import all_rows
from ..sources.tables import Table
from .node_tables import features_of, node_table
from .parts import is_path, safe_name, splits_of_codes
from .plan import EdgePlan, Plan
from .spec import EdgeSpec, NodeSpec, TableSpec
from .spilled import spilled
from .table_columns import columns_of

__all__ = ["EdgeTables", "TableRows", "described_table", "note_of"]


def note_of(what: str, of: str, note: str) -> str:
    """Return a note about a column with the type that it belongs to."""
    left = "left out: column "
    return f"left out: {what} of {of} {note.removeprefix(left)}" if note.startswith(left) else f"{what} of {of} {note}"


def _texts(column: Any) -> list[str]:
    return [str(value) for value in (column.to_pylist() if hasattr(column, "to_pylist") else list(column))]


@dataclass
class TableRows:
    """The rows of a node table: the column of their ids, how many there are, and which are kept (None: all)."""

    column: str
    count: int
    keep: npt.NDArray[np.bool_] | None

    @property
    def kept(self) -> int:
        """The number of rows that are kept."""
        return self.count if self.keep is None else int(np.count_nonzero(self.keep))


def described_table(spec: TableSpec, source: Any, text: Sequence[str], memory: int) -> Table:
    """Return a table of a description; one in memory has the name of its node type, for messages."""
    table = node_table(source, text, memory)
    if not is_path(source.source if isinstance(source, WithRowNumbers) else source):
        table.name = next((name for name, node in spec.nodes.items() if node.table is source), table.name)
    return table


class EdgeTables:
    """Reads the edge tables of a description, once for the ends of edges and again for what rows hold."""

    def __init__(
        self,
        spec: TableSpec,
        plan: Plan,
        spaces: Mapping[str, IdSpace],
        rows: Mapping[str, TableRows],
        folder: str,
        memory: int,
    ) -> None:
        """Take the ids of all node types and the rows of node tables; batches of tables may take `memory`."""
        self._spec, self._plan, self._spaces, self._rows = spec, plan, spaces, rows
        self._folder, self._memory = folder, memory

    def _table(self, source: Any, text: Any = ()) -> Table:
        return described_table(self._spec, source, text, self._memory)

    def _node(self, name: str) -> NodeSpec:
        return self._spec.nodes.get(name, NodeSpec())

    def log(self, spec: EdgeSpec, edge_type: tuple[str, str, str]) -> EdgeLog:
        """Write the edges of one type under dense ids."""
        table = self._table(spec.table)
        columns = _edge_columns(table, spec)
        ends = ((columns.src, edge_type[0]), (columns.dst, edge_type[2]))
        text = [column for column, name in ends if self._node(name).ids == "text"] + spec.rules.formatted
        table = self._table(spec.table, text) if text else table
        narrow = all(self._spaces[name].closed and self._spaces[name].count < 2**31 for _, name in ends)
        carried = columns.weight is not None, columns.time is not None
        log = EdgeLog(self._folder, "__".join(edge_type), *carried, narrow)
        relation = None if spec.relation is None else named(table.name, table.names, spec.relation)
        own = self._is_own(spec, edge_type[0], columns)
        wanted = [*columns.all()[own:], *([relation] if relation is not None else [])]
        row = nulls = 0
        for batch in table.batches(wanted):
            parts = dict(zip(("src", "dst", *_carried(columns))[own:], batch, strict=False))
            chosen = np.ones(len(batch[0]), bool)
            if own:
                parts["src"] = np.arange(row, row + len(chosen))
            if relation is not None:
                codes, names = encoded(batch[-1], f"{table.name}: column {relation!r}")
                chosen = np.append([safe_name(name) == edge_type[1] for name in names], False)[codes].astype(bool)
            if spec.nulls == "drop":
                of_type = int(chosen.sum())
                for side in ("src", "dst")[own:]:
                    present, parts[side] = present_keys(parts[side])
                    chosen &= present
                nulls += of_type - int(chosen.sum())
            else:
                sides = {columns.dst: parts["dst"]} | ({} if own else {columns.src: parts["src"]})
                check_keys(table, sides, row, "; nulls: drop leaves the edge out", chosen)
            if chosen.any():
                dense, drop = self._dense(table, spec, edge_type, columns, parts, chosen, row, own)
                log.write(dense, chosen, drop)
            else:
                log.write({"src": np.empty(0, np.int64), "dst": np.empty(0, np.int64)}, chosen)
            row += len(chosen)
        if nulls:
            name, where = " ".join(edge_type), " or ".join(map(repr, (columns.src, columns.dst)[own:]))
            self._plan.found.append(
                f"edges {name}: skipped {nulls:,} row{'s' * (nulls != 1)} without a value in {where}"
            )
        return log

    def _is_own(self, spec: EdgeSpec, name: str, columns: EdgeColumns) -> bool:
        """Return whether the sources of a table's edges are its own rows, in order."""
        node, rows = self._node(name), self._rows.get(name)
        same = spec.table is node.table and rows is not None and rows.keep is None
        return same and rows is not None and columns.src == rows.column and not spec.base

    def _dense(
        self,
        table: Table,
        spec: EdgeSpec,
        edge_type: tuple[str, str, str],
        columns: EdgeColumns,
        parts: dict[str, Any],
        chosen: npt.NDArray[np.bool_],
        row: int,
        own: bool,
    ) -> tuple[dict[str, Any], bool]:
        """Return the chosen rows of a batch under dense ids; an end without a node is an error, or -1 to be dropped."""
        out: dict[str, Any] = {}
        drop = False
        picked = {name: without_rows(column, ~chosen) for name, column in parts.items()}
        for side, name, column in (("src", edge_type[0], columns.src), ("dst", edge_type[2], columns.dst)):
            where = f"{table.name}: column {column!r}"
            if side == "src" and own:
                out[side] = picked[side]
                continue
            node, space = self._node(name), self._spaces[name]
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
            formats = spec.rules.of(columns.time).format
            times = in_format(picked["time"], formats, where, row) if formats else picked["time"]
            out["time"] = read(times, where, row, self._spec.time_unit, FORMAT_FIX)
        return out, drop

    def add(self, spec: EdgeSpec, edge_type: tuple[str, str, str], log: EdgeLog) -> None:
        """Fill in the plan of an edge type."""
        edge, what = self._plan.edges[edge_type], " ".join(edge_type)
        edge.edges = BothWays(log) if spec.symmetrise else log
        self._plan.found.append(f"edges {what}: {log.kept}{', each with its reverse' if spec.symmetrise else ''}")
        if log.left_out:
            self._plan.found.append(f"edges {what}: {log.left_out} left out, whose ends have no row in a node table")
        table = self._table(spec.table, spec.rules.formatted)
        if spec.split is not None:
            edge.splits = self._edge_splits(table, spec, log)
        if spec.features is not None:
            self._add_edge_features(spec, edge_type, table, log)
        self._add_edge_columns(spec, edge, what, table, log)
        if spec.symmetrise:
            edge.features["reverse"] = alternating(log.kept)

    def _add_edge_columns(self, spec: EdgeSpec, edge: EdgePlan, what: str, table: Table, log: EdgeLog) -> None:
        used = {*_edge_columns(table, spec).all(), spec.relation, spec.split}
        wanted = [column for column in table.names if column not in used]
        if spec.features is not None:
            wanted = [named(table.name, table.names, column) for column in spec.columns or ()]
        keep, train = log.row_kept, None
        if "train" in edge.splits:
            train = spilled(self._folder, np.bool_, log.rows)
            step = 2 if spec.symmetrise else 1
            edges = edge.splits["train"][::step] // step
            train[edges if keep is None else np.flatnonzero(keep)[edges]] = True
        repeat = 2 if spec.symmetrise else 1
        found = columns_of(table, wanted, spec.rules, keep=keep, train=train, repeat=repeat)
        edge.features |= found.rows
        edge.columns = found.columns
        self._plan.found += [note_of("edge column", what, note) for note in found.notes]

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
        codes = codes if log.row_kept is None else codes[log.row_kept]
        if names is None:
            raise InputError(f"{table.name}: column {column!r} holds numbers, expected names such as 'train'")
        codes = np.repeat(codes, 2) if spec.symmetrise else codes
        return splits_of_codes(codes, names)


def _edge_columns(table: Table, spec: EdgeSpec) -> EdgeColumns:
    given = None if spec.source is None or spec.target is None else (spec.source, spec.target)
    if given is not None and given[0] == given[1]:  # a primary key that is a foreign key too
        both = named(table.name, table.names, given[0])
        picked = EdgeColumns(both, both)
    else:
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
