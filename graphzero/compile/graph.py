"""Compile edges into a `.gl` file, within a memory budget that you set."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .. import _core
from ..args.ids import as_count, as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import parse_size
from ..args.target import as_target
from ..errors import InputError
from ..load.handoff import make_room
from ..sources.edge_blocks import Block, EdgeSource, GraphFileSource, as_block, as_source
from ..sources.edge_text import TextReader, text_paths
from ..sources.text import refuse_text_options
from .options import GraphOptions, GraphRequest
from .reports import GraphReport
from .sum_weights import MERGES, compile_merged

__all__ = ["GraphReport", "compile_graph", "convert_csv_to_gl"]

Path = str | os.PathLike[str]


def compile_graph(
    source: Any,
    out: Path,
    *,
    directed: bool | None = None,
    direction: str = "out",
    weights: Any = None,
    times: Any = None,
    edge_ids: bool | None = None,
    num_nodes: int | tuple[int | None, int | None] | None = None,
    num_sources: int | None = None,
    num_targets: int | None = None,
    dedup: bool | str = False,
    self_loops: bool = True,
    memory: int | float | str = "1GB",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    on_error: str = "raise",
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Sequence[int | str] | None = None,
    id_base: int | None = None,
    spill_dir: Path | None = None,
    ids: str | None = None,
    node_ids: Any = None,
    allow_empty: bool = False,
) -> GraphReport:
    """Compile edges from `source` into the `.gl` file `out`.

    The source is a text file of integers (CSV, TSV, blanks, Matrix Market; compressed too) or a list of them, a
    `.npy` file or array or tensor of shape (2, E) or (E, 2), a tuple `(src, dst[, weights[, times]])`, an iterator of
    such blocks, a Graph or a `.gl` file (also of GraphZero 0.2), or anything with `edge_blocks()` (see
    `graphzero.sources`). Tables too: DataFrames (pandas, polars), Arrow and DuckDB objects, structured arrays, Parquet
    and Arrow IPC files and folders; and SciPy sparse matrices, NetworkX and igraph graphs. Each edge of an undirected
    graph object is stored in both directions.

    directed: False stores every edge in both directions (a self-loop once) under one edge id. None means True, except
        for an undirected source: an undirected `.gl` file, whose edges are read once each, or a symmetric matrix.
    direction: which rows the file has: "out" (targets), "in" (sources) or "both".
    weights: None uses the weights of the source, if any: the third array of a block; in text and tables, a column named
        weight, else the third of exactly three columns (unless its name is that of a time or an index; in text,
        integers of 2^24 and more, such as timestamps, are an error unless you say what they are). False ignores them; a
        name or number selects a column; an array is used with edges in arrays and replaces their own weights.
    times: the same; in text, None ignores them. Integers, for temporal sampling.
    edge_ids: True keeps the position of each edge in the source, to join edge features; edges of a `.gl` file keep
        their ids. None means False, except for a `.gl` file with edge ids.
    num_nodes: checked if given (default: the largest id + 1). Two numbers, (sources, targets), are for edges between
        different kinds of nodes, such as from authors to papers, where each side has its own ids. None for either of
        them is the largest id + 1 of that side.
    num_sources, num_targets: the same, by name.
    dedup: True keeps the first of equal edges; "sum" and "max" give it the sum or the largest of the weights.
    memory: the budget of the engine; beyond it, edges are spilled to `spill_dir` (default: the folder of `out`). At
        least 1 MB per thread, otherwise BudgetError is raised.
    on_error: "skip" omits lines that cannot be parsed, and counts them; "raise" raises at the first.
    columns: which columns of text are (source, target), by name or number.
    id_base: the id of the first node in the source: 0 unless given (1 for KONECT; Matrix Market has 1).
    ids: "map" accepts ids of any kind, strings or sparse integers, and numbers them 0, 1, 2, ... by first appearance;
        the map is written next to the graph as `<out>.ids.gd` (see `IdMap`). "text" and "integers" set the kind.
    node_ids: with `ids`, the original ids of nodes 0, 1, 2, ...: a list, an array, or a text file.
    self_loops: False omits edges from a node to itself.
    delimiter, header: of text: the column separator, and whether the first line has the names of columns (default:
        detected).
    progress: None shows progress on a terminal and in a notebook, True always, False never; a callable receives
        (phase, done, total), where total is 0 if it is not known.
    allow_empty: a source without edges is an error, most likely a failed download or an exhausted iterator. True allows
        it; so does `num_nodes` if the source is not text.

    The file is published atomically when it is complete; until then `out` is unchanged. Its bytes do not depend on
    `memory` and `num_threads`.

    >>> import graphzero as gz
    >>> report = gz.compile_graph([(0, 1), (1, 2)], "tiny.gl")  # doctest: +SKIP
    >>> report.nodes, report.edges  # doctest: +SKIP
    (3, 2)
    """
    request = GraphRequest(
        source,
        out,
        directed=directed,
        direction=direction,
        weights=weights,
        times=times,
        edge_ids=edge_ids,
        num_nodes=num_nodes,
        num_sources=num_sources,
        num_targets=num_targets,
        dedup=dedup,
        self_loops=self_loops,
        memory=memory,
        num_threads=num_threads,
        progress=progress,
        on_error=on_error,
        delimiter=delimiter,
        header=header,
        columns=columns,
        id_base=id_base,
        spill_dir=spill_dir,
        ids=ids,
        node_ids=node_ids,
        allow_empty=allow_empty,
    )
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}, expected 'raise' or 'skip'")
    if isinstance(dedup, str) and dedup != "first":
        if dedup not in MERGES:
            raise ValueError(f"dedup is {dedup!r}, expected True, False, 'first', 'sum' or 'max'")
        return compile_merged(_compile, request)
    return _compile(request)


def _compile(asked: GraphRequest) -> GraphReport:
    """Compile a request; merging of equal edges is done by the caller."""
    if asked.ids is not None or asked.node_ids is not None:
        from .mapped_graph import compile_mapped

        return compile_mapped(asked)
    if asked.id_base is not None:
        as_count(asked.id_base, "id_base", least=0)
    path = as_target(asked.out, "topology")
    folder = asked.spill_folder(path)
    make_room(parse_size(asked.memory))
    begin = time.perf_counter()
    reader, declared, texts = _reader(asked)
    directed = _as_directed(reader, asked.directed, bool(asked.dedup))
    edge_ids = _as_edge_ids(reader, asked.edge_ids, directed)
    own = _Nodes.of(reader.own_nodes)
    if texts and own is not None and declared not in (None, own):
        raise ValueError(f"num_nodes is given, but {texts[0]} is a matrix of {own.sources} rows; omit num_nodes")
    nodes = declared or own or _Nodes()
    if reader.own_base is not None and asked.id_base not in (None, reader.own_base):
        raise ValueError(f"id_base is {asked.id_base}, but ids in a Matrix Market file start at 1; omit id_base")
    reader.given_edge_ids = edge_ids and reader.has_edge_ids
    options = GraphOptions(
        directed=directed,
        direction=asked.direction,
        weights=reader.weights,
        times=reader.times,
        edge_ids=edge_ids,
        given_edge_ids=reader.given_edge_ids,
        num_nodes=nodes.sources,
        two_sided=nodes.two_sided,
        num_targets=nodes.targets,
        dedup=bool(asked.dedup),
        self_loops=asked.self_loops,
        id_base=reader.own_base or asked.id_base or 0,
        memory=parse_size(asked.memory),
        threads=as_threads(asked.num_threads),
        spill_folder=folder,
    )
    with Reporting(asked.progress, reader.unit) as callback:
        builder = options.builder(callback)
        reader.feed(builder)
        reading = time.perf_counter() - begin  # includes the time of the source: decoding, a generator
        fine = asked.allow_empty or reader.says_empty or (not texts and (declared or own) is not None)
        if builder.edges_seen == 0 and not fine:
            raise InputError(
                f"{reader.why_empty()}; allow_empty=True compiles a graph without edges"
                + ("" if texts else ", and so does num_nodes=")
            )
        done = builder.finish(path)
    seconds = {"reading": reading, "sorting": float(done["sorting"]), "publishing": float(done["publishing"])}
    return GraphReport.of(path, done, reader, seconds, targets=done["targets"], peak_memory=done["peak_bytes"])


def _reader(asked: GraphRequest) -> tuple[TextReader | _BlockReader, _Nodes | None, list[str]]:
    """Return the reader, the declared nodes, and the text files if it reads any."""
    from ..sources.objects import edges_of  # avoids an import cycle
    from ..stores.graph import Graph

    declared = _Nodes.of(asked.num_nodes, asked.num_sources, asked.num_targets)
    source, weights, times = asked.source, asked.weights, asked.times
    if isinstance(source, Graph):
        source = GraphFileSource(source, once=asked.directed is not True)
    budget = parse_size(asked.memory)
    other = edges_of(source, asked.columns, weights, times, budget)
    if other is not None:  # it yields the selected columns
        source, weights, times = other, None, None
    texts = text_paths(source)
    if texts:
        skip, two_sided = asked.on_error == "skip", declared is not None and declared.two_sided
        reader = TextReader(
            texts, weights, times, asked.delimiter, asked.header, asked.columns, skip, two_sided, budget
        )
        return reader, declared, texts
    shown = os.fspath(asked.source) if isinstance(asked.source, (str, os.PathLike)) else type(source).__name__
    refuse_text_options(shown, asked.on_error, asked.delimiter, asked.header)
    blocks = as_source(source, weights, times, once=asked.directed is not True)
    return _BlockReader(blocks, weights, times), declared, []


def convert_csv_to_gl(csv_path: Path, out_path: Path, directed: bool = False) -> None:
    """Compile a CSV of `src,dst[,weight]` lines, as in GraphZero 0.2; `compile_graph` has more options.

    >>> import graphzero as gz
    >>> gz.convert_csv_to_gl("edges.csv", "graph.gl", directed=True)  # doctest: +SKIP
    """
    compile_graph(csv_path, out_path, directed=directed)


@dataclass(frozen=True)
class _Nodes:
    """The declared number of nodes, or of sources and targets separately."""

    sources: int | None = None
    targets: int | None = None
    two_sided: bool = False

    @classmethod
    def of(cls, nodes: Any, sources: Any = None, targets: Any = None) -> _Nodes | None:
        """Return what the arguments declare; None if they declare nothing."""
        if sources is not None or targets is not None:
            if nodes is not None:
                raise ValueError("num_nodes cannot be combined with num_sources or num_targets")
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


def _as_directed(reader: TextReader | _BlockReader, directed: bool | None, dedup: bool) -> bool:
    """Return whether edges are stored in one direction; raise if they would be stored twice."""
    if directed is not None and not isinstance(directed, bool):
        raise TypeError(f"directed must be True, False or None, got {type(directed).__name__}")
    if directed and isinstance(reader, TextReader) and reader.undirected:
        raise ValueError("a symmetric matrix is an undirected graph; omit directed, or pass directed=False")
    if directed is False and getattr(reader, "legacy", False) and not dedup:
        raise ValueError(
            "files of GraphZero 0.2 do not record whether edges are stored in both directions already; directed=True "
            "keeps the edges unchanged, dedup=True makes directed=False safe"
        )
    if not getattr(reader, "one_way", True):
        return False
    return not reader.undirected if directed is None else directed


def _as_edge_ids(reader: TextReader | _BlockReader, edge_ids: bool | None, directed: bool) -> bool:
    """Return whether edge ids are stored: those of the source, if it has any."""
    if edge_ids is None:
        return reader.has_edge_ids
    if not isinstance(edge_ids, bool):
        raise TypeError(f"edge_ids must be True, False or None, got {type(edge_ids).__name__}")
    if edge_ids and isinstance(reader, _BlockReader) and reader.undirected and not directed and not reader.has_edge_ids:
        raise ValueError(
            "the source is an undirected graph file without edge ids, so their order is unknown; compile it from its "
            "original source, or omit edge_ids"
        )
    return edge_ids


class _BlockReader:
    """Feeds a builder from an edge source, which declares what edges carry; otherwise its first block decides."""

    unit = "edges"
    skipped = 0
    own_base = None
    says_empty = False
    given_edge_ids = False  # whether the builder takes them

    def __init__(self, source: EdgeSource, weights: Any, times: Any) -> None:
        self.examples: list[str] = []
        self._name = str(getattr(source, "name", "edges"))
        self._total = int(getattr(source, "num_edges", 0) or 0)
        self.own_nodes = getattr(source, "num_nodes", None)
        self.undirected = isinstance(source, GraphFileSource) and source.undirected
        self.one_way = bool(getattr(source, "directed", True))  # False: store both directions
        self.legacy = isinstance(source, GraphFileSource) and source.legacy
        blocks = iter(source.edge_blocks())
        first = next(blocks, None)
        head = [] if first is None else [as_block(first)]

        def has(column: str, asked: Any) -> bool:
            if head:
                return getattr(head[0], column) is not None
            return bool(getattr(source, f"has_{column}", asked is True))  # no edges: as declared, or as requested

        self.has_edge_ids = has("edge_ids", None)
        self.weights = has("weights", weights) and weights is not False
        self.times = has("times", times) and times is not False
        for name, asked, have in (("weights", weights, self.weights), ("times", times, self.times)):
            if isinstance(asked, (str, int)) and not isinstance(asked, bool):
                raise TypeError(f"{name}={asked!r} names a column, but this source has no columns; pass an array")
            if asked is not None and asked is not False and not have:
                raise ValueError(f"{name} were requested, but the source has none")
        self._all: Iterable[Any] = chain(head, blocks)
        carried = ["source", "target"] + ["weight"] * self.weights + ["time"] * self.times
        self.columns = getattr(source, "described", None) or [f"arrays: {', '.join(carried)}"]

    def feed(self, builder: _core.GraphBuilder) -> None:
        """Pass every block to the builder."""
        builder.expect(self._total)
        for item in self._all:
            block: Block = as_block(item)
            builder.add(
                block.src,
                block.dst,
                block.weights if self.weights else None,
                block.times if self.times else None,
                len(block),
                block.edge_ids if self.given_edge_ids else None,
            )

    def why_empty(self) -> str:
        """Return the message for a source without edges."""
        return f"{self._name}: found no edges"
