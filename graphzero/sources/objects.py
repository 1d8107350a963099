"""Edges out of Python objects: tables, SciPy sparse matrices, NetworkX and igraph graphs, PyG data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .edge_blocks import Block, as_id_column, as_times, as_weights
from .edge_tables import TableEdges
from .tables import as_table

__all__ = ["GraphObject", "SparseEdges", "edges_of"]

_BLOCK = 1 << 20
_SHOWN = 16  # names of attributes in a report


def edges_of(
    source: Any, columns: Any = None, weights: Any = None, times: Any = None, memory: int | None = None
) -> Any:
    """Return a source of edges for objects and table files; None for what `compile_graph` reads itself.

    `weights` and `times` are names of columns here; the source yields the selected ones.
    """
    table = as_table(source, None if memory is None else memory // 4)
    if table is not None:
        for what, asked in (("weights", weights), ("times", times)):
            if asked is not None and not isinstance(asked, (bool, str, int)):
                raise TypeError(f"{what} of a table is the name of a column, got {type(asked).__name__}")
        return TableEdges.of(table, columns, weights, times)
    if hasattr(source, "tocoo") and hasattr(source, "shape"):
        if times not in (None, False):
            raise ValueError(f"{type(source).__name__}: a matrix has no times; pass a table with a column of times")
        return SparseEdges(source, weights)
    module = type(source).__module__.split(".")[0]
    if module == "igraph" and hasattr(source, "get_edgelist"):
        return _from_igraph(source, weights, times)
    if hasattr(source, "is_directed") and hasattr(source, "adj") and hasattr(source, "edges"):  # NetworkX and its like
        return _from_networkx(source, weights, times)
    return None


class SparseEdges:
    """A SciPy sparse matrix: entry (i, j) is an edge from i to j. Values are weights unless all of them are 1."""

    def __init__(self, matrix: Any, weights: Any = None) -> None:
        """Take a square matrix of any sparse format."""
        self.name = type(matrix).__name__
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"{self.name}: shape {matrix.shape}, expected a square matrix, one row per node")
        self.num_nodes, self.num_edges = int(matrix.shape[0]), int(matrix.nnz)
        self._matrix = matrix if matrix.format in ("csr", "csc", "coo") else matrix.tocoo()
        data = self._matrix.data
        plain = data.dtype.kind == "b" or not np.any(data != 1)
        self._weighted = weights is not False and (weights is True or not plain)

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the entries in the order the matrix holds them."""
        m = self._matrix
        for at in range(0, self.num_edges, _BLOCK):
            part = slice(at, min(at + _BLOCK, self.num_edges))
            data = as_weights(m.data[part]) if self._weighted else None
            if m.format == "coo":
                yield Block(as_id_column(m.row[part], "row"), as_id_column(m.col[part], "col"), data)
                continue
            # the row of each entry, for this block alone: tocoo() would make all of them
            rows = np.searchsorted(m.indptr, np.arange(part.start, part.stop), side="right") - 1
            near, far = as_id_column(rows, "row"), as_id_column(m.indices[part], "col")
            yield Block(near, far, data) if m.format == "csr" else Block(far, near, data)


class GraphObject:
    """A graph of another library: its nodes in their order, and its edges between places in that order."""

    directed: bool  # False: each edge is stored both ways

    def __init__(
        self,
        name: str,
        nodes: list[Any],
        directed: bool,
        blocks: Any,
        num_edges: int,
        numbered: bool = False,
        described: Callable[[], list[str]] = list,
    ) -> None:
        """Take nodes, and `blocks()` that yields edges between their places; `numbered`: those are ids there.

        described: returns lines for the report, about attributes.
        """
        self.numbered, self._described = numbered, described
        self.name, self.nodes, self.directed = name, nodes, directed
        self.num_nodes, self.num_edges, self._blocks = len(nodes), num_edges, blocks

    @property
    def named(self) -> bool:
        """Whether nodes are called something else than 0, 1, 2, ... in their order."""
        return any(type(node) is not int or node != i for i, node in enumerate(self.nodes))

    @property
    def described(self) -> list[str]:
        """Lines for the report: which attributes are used, and which are not."""
        return self._described()

    def edge_blocks(self) -> Iterator[Block]:
        """Yield the edges."""
        if self.named and not self.numbered:
            first = next(node for i, node in enumerate(self.nodes) if type(node) is not int or node != i)
            raise InputError(f"{self.name}: nodes are not 0, 1, 2, ... in order: found {first!r}; ids='map' maps them")
        return self.place_blocks()

    def place_blocks(self) -> Iterator[Block]:
        """Yield the edges between places in the order of `nodes`."""
        for src, dst, weights, times in self._blocks():
            yield Block(
                src,
                dst,
                None if weights is None else as_weights(np.array(weights)),
                None if times is None else as_times(np.array(times)),
            )


_Blocks = Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], Any, Any]]


def _attributes(graph: str, weights: Any, times: Any, total: int, have: Callable[[str], int]) -> list[str | None]:
    """Return the edge attributes to read for weights and times; `have(key)` is how many edges have one."""
    picked: list[str | None] = []
    timed = times is not None and times is not False
    for asked, usual, wanted in ((weights, "weight", weights is not False), (times, "time", timed)):
        key = asked if isinstance(asked, str) else usual
        found = have(key) if wanted else 0
        if found < total and (found or isinstance(asked, str) or asked is True):
            left_out = f"; {usual}s=False omits them" if asked is None else ""
            raise InputError(f"{graph}: {total - found} of {total} edges have no {key!r}{left_out}")
        picked.append(key if wanted and total and found else None)
    return picked


def _described(keys: Sequence[str | None], nodes: Iterable[str], edges: Iterable[str]) -> list[str]:
    """Return lines for the report about the attributes of a graph object: those that are used, and the others."""
    used = [f"{what} {key!r}" for what, key in zip(("weight", "time"), keys, strict=True) if key is not None]
    left = [("node attributes", "nodes=, a table with a row per node, keeps them", sorted(set(map(str, nodes))))]
    left += [("edge attributes", "edge_features= keeps them", sorted({*map(str, edges)} - {*keys}))]
    lines = [f"edge attributes: {', '.join(used)}"] if used else []
    for what, fix, names in left:
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"not imported: {what} {', '.join(map(repr, names[:_SHOWN]))}{more}; {fix}")
    return lines


def _from_networkx(graph: Any, weights: Any, times: Any) -> GraphObject:
    nodes, name, total = list(graph.nodes), type(graph).__name__, graph.number_of_edges()

    def have(key: str) -> int:
        return sum(1 for _, _, value in graph.edges(data=key) if value is not None)

    keys = _attributes(name, weights, times, total, have)

    def blocks() -> _Blocks:
        place = {node: i for i, node in enumerate(nodes)}
        edges = iter(graph.edges(data=True))
        while part := list(itertools.islice(edges, _BLOCK)):
            ends = np.array([(place[u], place[v]) for u, v, _ in part], np.int64)
            carried = (None if key is None else [data[key] for _, _, data in part] for key in keys)
            yield ends[:, 0], ends[:, 1], *carried  # type: ignore[misc]

    def described() -> list[str]:
        of_nodes = (key for _, data in graph.nodes(data=True) for key in data)
        return _described(keys, of_nodes, (key for _, _, data in graph.edges(data=True) for key in data))

    return GraphObject(name, nodes, bool(graph.is_directed()), blocks, total, described=described)


def _from_igraph(graph: Any, weights: Any, times: Any) -> GraphObject:
    names = list(graph.vs["name"]) if "name" in graph.vs.attributes() else list(range(graph.vcount()))
    total = graph.ecount()

    def have(key: str) -> int:
        return total - graph.es[key].count(None) if key in graph.es.attributes() else 0

    keys = _attributes("igraph.Graph", weights, times, total, have)

    def blocks() -> _Blocks:
        edges = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
        carried = (None if key is None else graph.es[key] for key in keys)
        yield edges[:, 0], edges[:, 1], *carried  # type: ignore[misc]

    def described() -> list[str]:
        return _described(keys, {*graph.vs.attributes()} - {"name"}, graph.es.attributes())

    name, directed = "igraph.Graph", bool(graph.is_directed())
    return GraphObject(name, names, directed, blocks, total, numbered=True, described=described)
