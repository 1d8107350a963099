"""Edges whose ids are strings or sparse integers: mapped to dense ids while they are read, within the budget."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..errors import InputError
from ..sources.edge_blocks import Block, as_block, as_source
from ..sources.edge_columns import SOURCES, TARGETS, TIMES, WEIGHTS, Picked, describe, is_number, known_column, pick
from ..sources.edge_tables import TableEdges
from ..sources.edge_text import text_paths, with_columns
from ..sources.keys import check_present, keys_of
from ..sources.objects import GraphObject, edges_of
from ..sources.read_ahead import ahead
from ..sources.tables import is_table_file
from ..sources.text import Dialect, open_text, sniff, split_line, utf8_blocks
from .edge_log import EdgeLog

__all__ = ["MODES", "DuplicateIdError", "MappedReader", "names_of", "needs_map", "node_ids_from", "place_of_id"]

MODES = ("map", "text", "integers")
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")
_FRACTION = re.compile(r"[-+]?\d+\.\d*([eE][-+]?\d+)?")
_NAMES = (*SOURCES, *TARGETS, *WEIGHTS, *TIMES, "id", "node")


class DuplicateIdError(InputError):
    """An id that several rows of `node_ids` have; `row` is the second of them."""

    def __init__(self, row: int, value: Any, where: str = "") -> None:
        """Take the row and the id; `where` replaces `node_ids[row]` in the message."""
        super().__init__(f"{where or f'node_ids[{row}]'}: id {value!r} is a duplicate; ids must be unique")
        self.row, self.value = row, value

    def __reduce__(self) -> Any:
        """Pickle as the error with the same message."""
        return InputError, self.args


class MappedReader:
    """Feeds a builder as `compile_graph`'s own readers do, through a map of ids.

    node_ids are mapped first: node i is the i-th of them. Others follow in the order they first appear in the edges.
    """

    num_nodes = None

    def __init__(
        self, source: Any, mode: str, columns: Any, weights: Any, times: Any, text: dict[str, Any], node_ids: Any = None
    ) -> None:
        """Inspect the source; ids are mapped by feed()."""
        if mode not in MODES:
            raise ValueError(f"ids is {mode!r}, expected None or one of {', '.join(MODES)}")
        self.skipped, self.examples = 0, list[str]()
        self._mode, self._node_ids, self._skip = mode, node_ids, bool(text.get("skip"))
        paths = text_paths(source)
        self._texts = [_Text.of(p, columns, weights, times, text) for p in paths] if paths else []
        for one in self._texts if mode == "map" else []:
            one.check_ids()
        self._source = None if paths else as_source(source, weights, times)
        self.unit = "B" if paths else "edges"
        self._total = sum(os.path.getsize(p) for p in paths) if paths else getattr(self._source, "num_edges", 0) or 0
        self._started: tuple[Any, Iterator[Any]] | None = None
        self.weights, self.times = self._carries(weights, times)
        self.builder: _core.IdMapBuilder | None = None
        self.columns: list[str] = getattr(self._source, "described", [])
        for one in self._texts[:1]:
            self.columns = describe(one.dialect.header, one.dialect.columns, one.columns)

    def _carries(self, weights: Any, times: Any) -> tuple[bool, bool]:
        if self._texts:
            return self._texts[0].columns.weight >= 0, self._texts[0].columns.time >= 0
        if isinstance(self._source, TableEdges):
            return self._source.columns.weight is not None, self._source.columns.time is not None
        first = self._first_block()
        return first is not None and first[2] is not None, first is not None and first[3] is not None

    def feed(self, builder: _core.GraphBuilder, memory: int, threads: int, folder: str) -> None:
        """Map all edges and pass them to `builder`, in the order of the source."""
        builder.expect(int(self._total))
        ids = _core.IdMapBuilder(text=self._is_text(), memory=memory, threads=threads, spill_folder=folder)
        self.builder = ids
        if self._node_ids is not None:
            self._declare(ids)
        log = EdgeLog(folder, "edges", self.weights, self.times)
        for src, dst, weights, times, units in self._mapped(ids):
            if ids.late:  # from here on ids are final only at the end, and edges keep their order
                log.write({"src": src, "dst": dst, "weight": weights, "time": times})
            else:
                builder.add(src, dst, weights, times, units)
        if isinstance(self._source, GraphObject) and len(self._source.nodes):
            ids.map(*keys_of(self._source.nodes, self._source.name))  # those without edges come last
        ids.close()
        if isinstance(self._source, GraphObject) and ids.count != self._source.num_nodes:
            raise InputError(
                f"{self._source.name}: {self._source.num_nodes} nodes have {ids.count} distinct names; names must be "
                "unique, or pass ids=None to number the nodes"
            )
        log.finish(ids.resolve, ids.resolve)
        for block in log.edge_blocks():
            builder.add(block.src, block.dst, block.weights, block.times, 0)
        log.close()
        builder.declare_nodes(ids.count)

    def check_edges(self, builder: _core.GraphBuilder) -> None:
        """Raise InputError for a source without edges, most likely a failed download, unless its nodes are known."""
        if builder.edges_seen or self._node_ids is not None or isinstance(self._source, GraphObject):
            return
        name = self._texts[0].path if self._texts else getattr(self._source, "name", "source")
        raise InputError(f"{name}: found no edges; allow_empty=True compiles a graph without edges")

    def _declare(self, ids: _core.IdMapBuilder) -> None:
        before, keys = ids.count, keys_of(self._node_ids, "node_ids")
        check_present(keys, "node_ids")
        mapped = ids.map(*keys)
        if ids.late:
            raise InputError("node_ids: the ids of all nodes do not fit in memory=; pass a larger budget")
        if ids.count - before != len(mapped):
            values, counts = np.unique(mapped, return_counts=True)
            at = int(np.flatnonzero(mapped == values[np.argmax(counts > 1)])[1])
            value = self._node_ids[at]
            raise DuplicateIdError(at, value.item() if hasattr(value, "item") else value)

    def _is_text(self) -> bool:
        if self._mode != "map":
            return self._mode == "text"
        if self._node_ids is not None:
            return keys_of(self._node_ids[:1])[0] is not None
        if self._texts:
            return any(text.is_text for text in self._texts)
        if isinstance(self._source, TableEdges):
            column = self._source.columns.src
            where = f"{self._source.name}: column {column!r}"
            return keys_of(self._source.table.sample(column), where)[0] is not None
        first = self._first_block()
        return first is not None and keys_of(first[0][:1])[0] is not None

    def _mapped(self, ids: _core.IdMapBuilder) -> Iterator[tuple[Any, Any, Any, Any, int]]:
        for text in self._texts:
            yield from self._mapped_text(ids, text)
        if self._source is not None:
            row, names = 0, ["sources", "targets"]
            if isinstance(self._source, TableEdges):
                names = [f"column {name!r}" for name in (self._source.columns.src, self._source.columns.dst)]
            for src, dst, weights, times in self._column_blocks():
                u, v = (keys_of(c, f"{self._source.name}: {n}", row) for c, n in zip((src, dst), names, strict=True))  # type: ignore[attr-defined]
                for keys, name in zip((u, v), names, strict=True):
                    if not isinstance(self._source, GraphObject):
                        check_present(keys, f"{self._source.name}: {name}", row)  # type: ignore[attr-defined]
                mapped = ids.map_edges(*u, *v)
                yield *mapped, weights, times, len(src)
                row += len(src)

    def _mapped_text(self, ids: _core.IdMapBuilder, text: _Text) -> Iterator[tuple[Any, Any, Any, Any, int]]:
        parser = _core.KeyText(
            ids,
            name=text.path,
            delimiter=text.dialect.delimiter,
            width=max(2, text.dialect.columns),
            src=text.columns.src,
            dst=text.columns.dst,
            weight=text.columns.weight,
            time=text.columns.time,
            lines_before=text.dialect.lines_before,
            skip_errors=self._skip,
            refuse_missing=self._mode != "text",
        )
        for block, taken in itertools.chain(ahead(utf8_blocks(text.path, text.dialect.begin)), [(b"", 0)]):
            try:
                src, dst, weights, times = parser.feed(block, not block)
            except InputError as error:
                raise InputError(*with_columns([str(error)], text.path, text.dialect, ())) from None
            yield src, dst, weights if self.weights else None, times if self.times else None, taken
        self.skipped += parser.skipped
        shown = parser.examples[: max(0, 8 - len(self.examples))]
        self.examples += with_columns(shown, text.path, text.dialect, ())

    def _first_block(self) -> Any:
        """Return the first block, None if there is none. It is kept, since a stream has only one pass."""
        if self._started is None:
            blocks = self._fresh_blocks()
            self._started = next(blocks, None), blocks
        return self._started[0]

    def _column_blocks(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        first, blocks = self._started or (None, self._fresh_blocks())
        self._started = None
        if first is not None:
            yield first
        yield from blocks

    def _fresh_blocks(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        source = self._source
        if isinstance(source, TableEdges):
            yield from source.raw_blocks()
        elif isinstance(source, GraphObject):
            for block in source.place_blocks():
                names = [[source.nodes[int(i)] for i in side] for side in (block.src, block.dst)]
                yield names[0], names[1], block.weights, block.times
        elif source is not None:
            for item in source.edge_blocks():
                b: Block = as_block(item)
                yield b.src, b.dst, b.weights, b.times


def needs_map(source: Any, options: dict[str, Any]) -> bool:
    """Return whether the ids of a source are strings, by its first lines or rows."""
    weights, times = options.get("weights"), options.get("times")
    if isinstance(source, str) and source.endswith((".gl", ".npy")):
        return False
    paths = text_paths(source) if not isinstance(source, list) or all(isinstance(s, str) for s in source) else []
    if paths and not is_table_file(paths[0]):
        return any(_Text.of(path, options.get("columns"), weights, times, options).is_text for path in paths)
    other = edges_of(source, options.get("columns"), weights, times)
    if isinstance(other, GraphObject):
        return other.named and not other.numbered
    return isinstance(other, TableEdges) and MappedReader(other, "map", None, None, None, {})._is_text()


def names_of(source: Any) -> list[str] | None:
    """Return the node names of an igraph graph, whose ids are integers; None if it has none, or duplicates."""
    if type(source).__module__.split(".")[0] != "igraph":
        return None
    graph = edges_of(source, None, False)
    named = isinstance(graph, GraphObject) and all(isinstance(name, str) for name in graph.nodes)
    return graph.nodes if named and graph.nodes and len(set(graph.nodes)) == len(graph.nodes) else None


@dataclass(frozen=True)
class _Text:
    """A text file of edges and its columns."""

    path: str
    dialect: Dialect
    columns: Picked
    ids: list[str]  # of the first lines

    @classmethod
    def of(cls, path: str, columns: Any, weights: Any, times: Any, options: dict[str, Any]) -> _Text:
        dialect, sample = _sniff(path, options.get("delimiter"), options.get("header"))

        def numeric(column: int) -> bool:
            return not sample or (column < len(sample[0]) and is_number(sample[0][column]))

        at = pick(path, dialect.header, dialect.columns, columns, weights, times, numeric)
        # a line that starts like a comment is one if ids are integers, but may be an id if they are strings
        plain = [row for row in sample if row and row[0][:1] not in ("#", "%")] or sample
        return cls(path, dialect, at, [row[i] for row in plain for i in (at.src, at.dst) if i < len(row)])

    @property
    def is_text(self) -> bool:
        return not all(_is_integer(field) for field in self.ids)

    def check_ids(self) -> None:
        """Raise InputError for fractional numbers, which pandas makes of integers if some are missing."""
        odd = next((field for field in self.ids if _FRACTION.fullmatch(field)), None)
        if odd is not None:
            raise InputError(
                f"{self.path}: found id {odd!r}, expected integers or strings; write the ids without a fraction, or "
                "pass ids='text' to take them as strings (--ids text)"
            )


def _is_integer(field: str) -> bool:
    return _INTEGER.fullmatch(field) is not None and -(2**63) <= int(field) < 2**63


def _is_header(path: str, first: list[str], rest: list[list[str]]) -> bool:
    """Return whether the first line is a header. 'alice,bob' may be an edge: raise if it is ambiguous."""
    if any(field[:1].isdigit() for field in first) or any(field in row for field in first if field for row in rest):
        return False  # a number, or an id that occurs again
    if any(known_column([field], _NAMES) for field in first):
        return True
    if rest and all(_is_integer(field) for row in rest for field in row[:2]):
        return True
    raise InputError(
        f"{path}: line 1 ({','.join(first)[:60]!r}) may be a header or an edge; pass header=True or header=False"
    )


def _sniff(path: str, delimiter: str | None, header: bool | None) -> tuple[Dialect, list[list[str]]]:
    """Return the dialect of a text and its first lines; the first line decides whether it is a header."""
    plain = sniff(path, delimiter, False)
    if plain.columns == 0:  # only comments
        return plain, []
    with open_text(path) as file:
        file.read(plain.begin)
        head = file.read(1 << 16)
    lines = [line.decode("utf-8", "replace").rstrip("\r") for line in head.split(b"\n")[:200]]
    whole = lines if len(head) < 1 << 16 or len(lines) < 3 else lines[:-1]  # of a very long line, a part is enough
    first, *rest = (_fields(line, plain.delimiter) for line in whole if line.strip())
    if header is None:
        header = _is_header(path, first, rest)
    if not header:
        return plain, [first, *rest]
    after = plain.begin + head.find(b"\n") + 1 if b"\n" in head else plain.begin + len(head)
    names = list(plain.first)
    return Dialect(plain.delimiter, names, len(names), after, plain.lines_before + 1), rest


def _fields(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line; an empty list if it cannot be parsed."""
    try:
        return split_line(line, delimiter)
    except InputError:
        return []


def node_ids_from(values: Any) -> Any:
    """Return the ids of nodes in the order of their rows: a list, an array, a column, or a text file, one per line."""
    if not isinstance(values, (str, os.PathLike)):
        return values
    path = os.fspath(values)
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)
    names = []
    for number, name in _lines_of_ids(path):
        if not name:
            raise InputError(f"{path}: line {number}: found no id, expected one in every line")
        names.append(name)
    return [int(n) for n in names] if all(_is_integer(n) for n in names) else names


def _lines_of_ids(path: str) -> Iterator[tuple[int, str]]:
    """Yield the first field of each line that is not blank, and the number of the line."""
    dialect, _ = _sniff(path, None, False)
    with open_text(path) as file:
        file.read(dialect.begin)
        lines: Sequence[str] = file.read().decode().splitlines()
    for number, line in enumerate(lines, dialect.lines_before + 1):
        if line.strip():
            yield number, split_line(line, dialect.delimiter)[0]


def place_of_id(node_ids: Any, row: int) -> str:
    """Return where the id of a row is, for messages: the line of a file, else its position."""
    if not isinstance(node_ids, (str, os.PathLike)):
        return f"node_ids[{row}]"
    path = os.fspath(node_ids)
    if path.endswith(".npy"):
        return f"{path}: row {row}"
    return f"{path}: line {next(itertools.islice(_lines_of_ids(path), row, None))[0]}"
