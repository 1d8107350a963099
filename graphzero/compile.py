"""Compile edges into a `.gl` file, within a memory budget that you set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from . import _core
from ._ids import as_count, as_threads
from ._outputs import as_target
from ._progress import Callback, Reporting
from ._reports import GraphReport
from ._sizes import parse_size
from ._textfile import Dialect, is_compressed, sniff, text_blocks
from .sources import Block, EdgeSource, as_block, as_source

__all__ = ["GraphReport", "compile_graph", "convert_csv_to_gl"]

_WEIGHT_NAMES = ("weight", "weights", "w", "edge_weight")
_TIME_NAMES = ("time", "times", "timestamp", "timestamps", "t", "ts", "edge_time", "date", "year")
Path = str | os.PathLike[str]


def compile_graph(
    source: Any,
    out: Path,
    *,
    directed: bool = True,
    direction: str = "out",
    weights: Any = None,
    times: Any = None,
    edge_ids: bool = False,
    num_nodes: int | tuple[int | None, int | None] | None = None,
    num_sources: int | None = None,
    num_targets: int | None = None,
    dedup: bool = False,
    self_loops: bool = True,
    memory: int | float | str = "1GB",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    on_error: str = "raise",
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Sequence[int | str] | None = None,
    id_base: int = 0,
    spill_dir: Path | None = None,
    ids: str | None = None,
    node_ids: Any = None,
) -> GraphReport:
    """Compile edges from `source` into the `.gl` file `out`.

    The source is a text file of integers (CSV, TSV, blanks; gzip, bzip2 and xz too) or a list of them, a `.npy` file or
    array or tensor of shape (2, E) or (E, 2), a tuple `(src, dst[, weights[, times]])`, an iterator of such blocks, an
    existing `.gl` file (also of GraphZero 0.2), or anything with `edge_blocks()` (see `graphzero.sources`). Tables too:
    DataFrames (pandas, polars), Arrow and DuckDB objects, structured arrays, Parquet and Arrow IPC files and folders;
    and SciPy sparse matrices, NetworkX and igraph graphs. An undirected graph object is stored both ways.

    directed: False stores every edge both ways (a self-loop once), as one edge id.
    direction: which rows the file has: "out" (targets), "in" (sources) or "both".
    weights: None takes them where the source has them: the third array of a block; in text, the third column when there
        are exactly three (unless its header names a time); in tables, a column called weight too. False leaves them, a
        name or number picks a column, an array goes with an array source.
    times: None and False leave them in text; a name or number picks a column. Integers, for temporal sampling.
    edge_ids: keep the place of each edge in the source, to join edge features.
    num_nodes: checked when given; otherwise the largest id + 1. Two numbers, (sources, targets), are for edges between
        different kinds of nodes, such as from authors to papers: each side has ids of its own. None in place of either
        takes the largest id + 1 of that side.
    num_sources, num_targets: the same, by name.
    dedup: of equal edges the first in the source stays.
    memory: what the engine may hold; beyond it, edges are spilled to `spill_dir` (beside `out` unless given).
    on_error: "skip" leaves out lines that cannot be read, and counts them; "raise" names the first.
    id_base: what the source calls the first node (1 for KONECT).
    ids: "map" takes ids of any kind, strings or sparse integers, and numbers them 0, 1, 2, ... by first appearance; the
        map is written beside the graph as `<out>.ids.gd` (see `IdMap`). "text" and "integers" say which kind they are.
    node_ids: with `ids`, the original ids of nodes 0, 1, 2, ...: a list, an array, or a text file.

    The file is published in one step when it is complete; until then `out` is what it was. It is the same for any
    `memory` and `num_threads`.

    >>> import graphzero as gz
    >>> report = gz.compile_graph([(0, 1), (1, 2)], "tiny.gl")  # doctest: +SKIP
    >>> report.nodes, report.edges  # doctest: +SKIP
    (3, 2)
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}, expected 'raise' or 'skip'")
    if ids is not None or node_ids is not None:
        from .importing.mapped_graph import compile_mapped

        return compile_mapped({key: value for key, value in locals().items() if key != "compile_mapped"})
    as_count(id_base, "id_base", least=0)
    asked = _Nodes.of(num_nodes, num_sources, num_targets)
    path = as_target(out, "topology")
    folder = os.path.abspath(os.fspath(spill_dir)) if spill_dir is not None else os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder}: no such folder to spill to")

    from .importing.objects import edges_of  # it stands on this module's sources

    other = edges_of(source, columns, weights, times)
    if other is not None:  # it yields what was picked
        source, weights, times = other, None, None
        directed = directed and getattr(other, "directed", True)
    texts = _text_paths(source)
    reader: _TextReader | _BlockReader
    if texts is not None:
        reader = _TextReader(texts, weights, times, delimiter, header, columns, skip=on_error == "skip")
    else:
        reader = _BlockReader(as_source(source, weights, times), weights, times)
    nodes = asked or _Nodes.of(reader.num_nodes) or _Nodes()
    with Reporting(progress, reader.unit) as callback:
        builder = _core.GraphBuilder(
            directed=directed,
            direction=direction,
            weights=reader.weights,
            times=reader.times,
            edge_ids=edge_ids,
            num_nodes=nodes.sources,
            two_sided=nodes.two_sided,
            num_targets=nodes.targets,
            dedup=dedup,
            self_loops=self_loops,
            id_base=id_base,
            memory=parse_size(memory),
            threads=as_threads(num_threads),
            spill_folder=folder,
            progress=callback,
        )
        reader.feed(builder)
        done = builder.finish(path)
    seconds = {phase: float(done[phase]) for phase in ("reading", "sorting", "publishing")}
    seconds["total"] = sum(seconds.values())
    return GraphReport(
        path=path,
        nodes=done["nodes"],
        targets=done["targets"],
        edges=done["edges"],
        source_edges=done["source_edges"],
        bytes=done["bytes"],
        seconds=seconds,
        peak_memory=done["peak_bytes"],
        spilled_bytes=done["spilled_bytes"],
        lines_skipped=reader.skipped,
        duplicates_dropped=done["duplicates_dropped"],
        self_loops_dropped=done["self_loops_dropped"],
        skipped_examples=reader.examples,
    )


def convert_csv_to_gl(csv_path: Path, out_path: Path, directed: bool = False) -> None:
    """Compile a CSV of `src,dst[,weight]` lines, as in GraphZero 0.2; `compile_graph` can do more.

    >>> import graphzero as gz
    >>> gz.convert_csv_to_gl("edges.csv", "graph.gl", directed=True)  # doctest: +SKIP
    """
    compile_graph(csv_path, out_path, directed=directed)


@dataclass(frozen=True)
class _Nodes:
    """How many nodes were declared: one set of them, or sources and targets apart."""

    sources: int | None = None
    targets: int | None = None
    two_sided: bool = False

    @classmethod
    def of(cls, nodes: Any, sources: Any = None, targets: Any = None) -> _Nodes | None:
        """Return what the arguments declare, None when they declare nothing."""
        if sources is not None or targets is not None:
            if nodes is not None:
                raise ValueError("num_nodes is given together with num_sources or num_targets: give one or the other")
            nodes = (sources, targets)
        if nodes is None:
            return None
        if not isinstance(nodes, (tuple, list)):
            return cls(as_count(nodes, "num_nodes", least=0))
        if len(nodes) != 2:
            raise ValueError(f"num_nodes is {nodes!r}, expected one number, or two: (sources, targets)")
        first, second = (
            None if count is None else as_count(count, name, least=0)
            for name, count in zip(("num_sources", "num_targets"), nodes, strict=True)
        )
        return cls(first, second, two_sided=True)


def _text_paths(source: Any) -> list[str] | None:
    """Return the text files that `source` names, None when it is something else."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path}: is a folder, expected a file of edges")
        if path.endswith((".npy", ".gl")):
            return None
        return [path]
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        return list(chain.from_iterable(_text_paths(s) or _refuse(s) for s in source))
    return None


def _refuse(path: Any) -> list[str]:
    raise TypeError(f"{os.fspath(path)}: a list of sources may hold text files only")


class _BlockReader:
    """Feeds a builder from an edge source; what edges carry is told by the first block."""

    unit = "edges"
    skipped = 0

    def __init__(self, source: EdgeSource, weights: Any, times: Any) -> None:
        self.examples: list[str] = []
        self._total = int(getattr(source, "num_edges", 0) or 0)
        self.num_nodes = getattr(source, "num_nodes", None)
        self._blocks: Iterator[Any] = iter(source.edge_blocks())
        first = next(self._blocks, None)
        head = [] if first is None else [as_block(first)]
        self.weights = bool(head and head[0].weights is not None and weights is not False)
        self.times = bool(head and head[0].times is not None and times is not False)
        for name, asked, have in (("weights", weights, self.weights), ("times", times, self.times)):
            if isinstance(asked, (str, int)) and not isinstance(asked, bool):
                raise TypeError(f"{name}={asked!r} names a column of a text file; this source is no text file")
            if asked is not None and asked is not False and head and not have:
                raise ValueError(f"{name} were asked for, the source has none")
        self._all: Iterable[Any] = chain(head, self._blocks)

    def feed(self, builder: _core.GraphBuilder) -> None:
        builder.expect(self._total)
        for item in self._all:
            block: Block = as_block(item)
            builder.add(
                block.src,
                block.dst,
                block.weights if self.weights else None,
                block.times if self.times else None,
                len(block),
            )


class _TextReader:
    """Feeds a builder from text files, each with its own dialect."""

    unit = "B"
    num_nodes = None

    def __init__(
        self,
        paths: list[str],
        weights: Any,
        times: Any,
        delimiter: str | None,
        header: bool | None,
        columns: Sequence[int | str] | None,
        skip: bool,
    ) -> None:
        self.skipped = 0
        self.examples: list[str] = []
        self._skip = skip
        self._files = [(path, sniff(path, delimiter, header)) for path in paths]
        self._picked = [_pick(path, dialect, columns, weights, times) for path, dialect in self._files]
        full = [p for p, (_, dialect) in zip(self._picked, self._files, strict=True) if dialect.columns]
        self.weights = bool(full) and full[0].weight >= 0
        self.times = bool(full) and full[0].time >= 0
        if any((p.weight >= 0) != self.weights for p in full):
            raise ValueError("some of the files have weights and some have none: say weights=False, or name the column")

    def feed(self, builder: _core.GraphBuilder) -> None:
        builder.expect(sum(os.path.getsize(path) for path, _ in self._files))
        for (path, dialect), picked in zip(self._files, self._picked, strict=True):
            options = _core.EdgeTextOptions(
                name=path,
                delimiter=dialect.delimiter,
                src=picked.src,
                dst=picked.dst,
                weight=picked.weight,
                time=picked.time,
                begin=dialect.begin,
                lines_before=dialect.lines_before,
                skip_errors=self._skip,
            )
            if is_compressed(path):
                _, skipped, examples = _feed_stream(builder, path, options)
            else:
                _, skipped, examples = builder.read_text(path, options)
            self.skipped += skipped
            self.examples += examples[: max(0, 8 - len(self.examples))]


def _feed_stream(builder: _core.GraphBuilder, path: str, options: _core.EdgeTextOptions) -> tuple[int, int, list[str]]:
    stream = builder.text_stream(options)
    blocks = text_blocks(path)
    with ThreadPoolExecutor(1) as ahead:  # decompresses the next block while this one is parsed
        coming = ahead.submit(next, blocks, None)
        while (item := coming.result()) is not None:
            coming = ahead.submit(next, blocks, None)
            stream.feed(*item)
    lines, skipped, examples = stream.finish()
    return lines, skipped, examples


@dataclass(frozen=True)
class _Columns:
    src: int
    dst: int
    weight: int = -1
    time: int = -1


def _pick(path: str, dialect: Dialect, columns: Sequence[int | str] | None, weights: Any, times: Any) -> _Columns:
    """Return which columns hold what."""
    if columns is not None and (not isinstance(columns, (list, tuple)) or len(columns) != 2):
        raise ValueError(f"columns is {columns!r}, expected two names or numbers: (source, target)")
    src, dst = (_column(path, dialect, c) for c in (columns if columns is not None else (0, 1)))
    if src == dst:
        raise ValueError(f"columns is {columns!r}, expected two different ones: (source, target)")
    names = [name.lower() for name in dialect.header or []]
    taken = {src, dst}
    third = min({0, 1, 2} - taken)
    time = -1
    if times is True:
        named = [i for i, name in enumerate(names) if name in _TIME_NAMES]
        if not named:
            raise ValueError(f"{path}: no column is called a time: name it, times='column' or times=3")
        time = named[0]
    elif times is not None and times is not False:
        time = _column(path, dialect, times)
    weight = -1
    if weights is True:
        named = [i for i, name in enumerate(names) if name in _WEIGHT_NAMES]
        weight = named[0] if named else third
    elif weights is None:
        is_time = third == time or (third < len(names) and names[third] in _TIME_NAMES)
        weight = third if dialect.columns == 3 and not is_time else -1
    elif weights is not False:
        weight = _column(path, dialect, weights)
    return _Columns(src, dst, weight, time)


def _column(path: str, dialect: Dialect, column: Any) -> int:
    if isinstance(column, str):
        if dialect.header is None:
            raise ValueError(f"{path}: column {column!r} is asked for by name, the file has no header")
        if column not in dialect.header:
            raise ValueError(f"{path}: no column {column!r}, the header has {', '.join(map(repr, dialect.header))}")
        return dialect.header.index(column)
    if isinstance(column, bool) or not hasattr(column, "__index__"):
        raise TypeError(f"a column of a text file is a name or a number, got {type(column).__name__}")
    index = int(column.__index__())
    if not 0 <= index < 1 << 20:
        raise ValueError(f"column {index} of {path} cannot be, columns are counted from 0")
    return index
