"""A mounted topology: the graph as rows of neighbours, read from the file on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.html_table import html_table
from ..args.ids import IdArray, as_edges, as_fanouts, as_id, as_ids, as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size
from ..args.times import as_times
from ..sample.links import LinkMethods
from ..sample.subgraph import Subgraph, resolve_seed
from ..sample.subgraph_kinds import bidirectional, check_kind, induced, turned
from ..sample.walks import WalkMethods
from .base_files import warn_of_deltas
from .closing import Closing
from .paths import Paths, absolute

__all__ = ["Graph"]

_STEP = 1 << 22  # edge ids that are read together


class Graph(WalkMethods, LinkMethods, Closing):
    """A graph in a `.gl` file, mounted instantly regardless of size.

    Nothing is loaded: rows are read from the mapped file, and the operating system caches those in use. The object is
    thread-safe, survives fork, and pickles as its path.

    >>> import graphzero as gz
    >>> g = gz.Graph("graph.gl")  # doctest: +SKIP
    >>> g.num_nodes, g.num_edges  # doctest: +SKIP
    (2708, 10556)
    """

    __networkx_backend__ = "graphzero"  # NetworkX runs its functions on the file, see graphzero.networkx

    def __init__(self, filename: str | os.PathLike[str], *, deltas: Paths | None = None) -> None:
        """Mount `filename`. Raises FormatError if it is not a valid `.gl` file, StorageError if it cannot be read.

        `deltas` are the files that were appended to it, oldest first: a Dataset passes those of its manifest. Without
        them, a file of a dataset that has been appended to is opened alone, with a warning.
        """
        self._path, self._deltas = absolute(filename), tuple(map(absolute, deltas or ()))
        if deltas is None:
            warn_of_deltas(self._path)
        self._topology: _core.Topology | None = _core.Topology.open(self._path, list(self._deltas))
        self._info: dict[str, Any] = self._topology.info

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._path

    @property
    def deltas(self) -> tuple[str, ...]:
        """The files that were appended to it, oldest first, as absolute paths."""
        return self._deltas

    @property
    def num_nodes(self) -> int:
        """The number of nodes; ids are 0 to num_nodes - 1.

        Raises ValueError for a graph whose sources and targets are different nodes (see `num_sources`).
        """
        if self.num_sources != self.num_targets:
            raise ValueError(
                f"{self._path}: edges run from {self.num_sources} source nodes to {self.num_targets} target nodes, so "
                "num_nodes is not defined; use num_sources or num_targets"
            )
        return self.num_sources

    @property
    def num_sources(self) -> int:
        """The number of nodes that edges may start at: `num_nodes`, unless sources and targets are different nodes."""
        return int(self._info["num_sources"])

    @property
    def num_targets(self) -> int:
        """The number of nodes that edges may end at: `num_nodes`, unless sources and targets are different nodes."""
        return int(self._info["num_targets"])

    @property
    def num_edges(self) -> int:
        """The number of edges in each direction of the file (an undirected edge counts twice)."""
        return int(self._info["num_edges"])

    @property
    def direction(self) -> str:
        """Which rows the file has: 'out' (targets of a node's edges), 'in' (sources), or 'both'."""
        return str(self._info["direction"])

    @property
    def message_direction(self) -> str:
        """Which rows loaders and inference follow by default: "in" if the file has those, else "out".

        A GNN layer sends messages from source to target, so a node receives those of its incoming edges.
        """
        return "out" if self.direction == "out" else "in"

    @property
    def has_weights(self) -> bool:
        """Whether edges carry weights."""
        return self._has("weights")

    @property
    def has_edge_ids(self) -> bool:
        """Whether the file stores the position of each edge in the source."""
        return self._has("edge_ids")

    @property
    def has_times(self) -> bool:
        """Whether edges carry timestamps."""
        return self._has("times")

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the adjacency matrix: (num_sources, num_targets), equal unless the graph is rectangular."""
        return (self.num_sources, self.num_targets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the ids that `get_neighbours` returns: int32 if they fit, else int64."""
        wide = any(a["name"].endswith("indices") and a["dtype"] == "uint64" for a in self._info["arrays"])
        return np.dtype(np.int64 if wide else np.int32 if max(self.shape) <= 2**31 else np.uint32)

    @property
    def info(self) -> dict[str, Any]:
        """The contents of the header, as a dict."""
        return dict(self._info)

    def preload(self, *, num_threads: int | None = None, progress: bool | Callback | None = None) -> None:
        """Read the whole file into RAM now, sequentially, rather than page by page when it is first needed.

        Useful if the file fits and much of it will be sampled: it is read at the speed of the disk, into huge pages
        where the system has them, which makes sampling about 25 % faster and walks over 1.5 times as fast.
        `NeighborLoader` does this automatically. The pages are in the page cache, so the kernel may evict them. Raises
        BudgetError if the file is larger than the available memory.

        >>> import graphzero as gz
        >>> gz.Graph("graph.gl").preload()  # doctest: +SKIP
        """
        with Reporting(progress) as callback:
            self._open().preload(as_threads(num_threads), callback)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def get_degree(self, node: int, *, direction: str | None = None) -> int:
        """The number of neighbours of `node`."""
        return int(self._open().degree(as_id(node), direction))

    def degrees(self, ids: Any = None, *, direction: str | None = None) -> IdArray:
        """The degrees of `ids` (all nodes when None), as int64."""
        return self._open().degrees(None if ids is None else as_ids(ids), direction)

    def get_neighbours(self, node: int, *, direction: str | None = None) -> npt.NDArray[Any]:
        """The neighbours of `node`, ascending: a view of the file, no copy. Writing to it does not change the file.

        Ids are int32 if they fit, otherwise int64; NumPy and torch accept both as indices.
        """
        return self._open().row(as_id(node), direction, "indices")

    def get_weights(self, node: int, *, direction: str | None = None) -> npt.NDArray[np.float32]:
        """The weights of the edges to `get_neighbours(node)`, in the same order: a view, no copy."""
        return self._open().row(as_id(node), direction, "weights")

    def get_edge_ids(self, node: int, *, direction: str | None = None) -> npt.NDArray[Any]:
        """The ids of the edges to `get_neighbours(node)`, their positions in the source: a view, no copy."""
        return self._open().row(as_id(node), direction, "edge_ids")

    def get_times(self, node: int, *, direction: str | None = None) -> npt.NDArray[np.int64]:
        """The timestamps of the edges to `get_neighbours(node)`, in the same order: a view, no copy."""
        return self._open().row(as_id(node), direction, "times")

    def csr(self, *, direction: str | None = None) -> tuple[IdArray, npt.NDArray[Any]]:
        """The whole topology as (indptr, indices): row i is indices[indptr[i]:indptr[i + 1]].

        Views of the file, or copies if there are deltas.
        """
        if direction not in (None, "out", "in"):
            raise ValueError(f"direction is {direction!r}, expected 'out' or 'in'")
        side = direction or ("out" if self.direction in ("out", "both") else "in")
        return self._open().array(f"{side}.indptr"), self._open().array(f"{side}.indices")

    def has_edge(self, u: int, v: int) -> bool:
        """Whether there is an edge from `u` to `v`: a search in one row, or a scan of it if rows are not sorted."""
        source, target = as_id(u, "u"), as_id(v, "v")
        near, far, side = (target, source, "in") if self.direction == "in" else (source, target, "out")
        if not 0 <= far < (self.num_sources if side == "in" else self.num_targets):
            raise IndexError(f"{far} is out of range for {self._path}")
        row = self.get_neighbours(near, direction=side)
        if not self._info["sorted_rows"]:
            return bool((row == far).any())
        at = int(np.searchsorted(row, far))
        return at < len(row) and int(row[at]) == far

    def subgraph(self, ids: Any, *, num_threads: int | None = None) -> Subgraph:
        """The nodes `ids`, each once, and all edges between them, from `row` to `col`: indices into its `node`.

        >>> part = g.subgraph([3, 1, 7])  # doctest: +SKIP
        >>> part.node[part.edge_index]  # doctest: +SKIP
        """
        nodes = np.array(list(dict.fromkeys(as_ids(ids).tolist())), np.int64)
        side = self.message_direction
        found = self.sample(nodes, [0], subgraph="induced", direction=side, seed=0, num_threads=num_threads)
        return found if side == "in" else turned(found)

    def is_directed(self) -> bool:
        """Whether edges have a direction; False if the file was compiled with each edge in both."""
        return not self._info["undirected"]

    def is_multigraph(self) -> bool:
        """False, for NetworkX: parallel edges are one to algorithms that do not know them."""
        return False

    def to_networkx(self) -> Any:
        """A NetworkX graph: `Graph` if this one is undirected, else `DiGraph`. Each node becomes a Python object."""
        from ..exporting.back_out import graph_to_networkx

        return graph_to_networkx(self, list(range(self.num_nodes)), False, "weight" if self.has_weights else None)

    def to_scipy(self, *, direction: str | None = None) -> Any:
        """The adjacency matrix for SciPy: entry (u, v) is the edge from u to v, its weight or 1.

        A `csr_matrix` of the out-rows, or a `csc_matrix` of the in-rows. Indices and weights are views of the file;
        only row pointers are copied, and without weights one byte per edge is allocated.
        """
        from ..exporting.back_out import to_scipy

        return to_scipy(self, direction)

    def to_arrow(self) -> Any:
        """The edges as a `pyarrow.RecordBatchReader`: columns src, dst, and weight and time if the graph has them.

        Batches are created as they are read. Engines that read Arrow streams (polars, DuckDB, pyarrow) also accept the
        graph itself: `polars.from_arrow(graph)`.
        """
        from ..exporting.arrow_out import edge_stream

        return edge_stream(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the edges through Arrow's C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sample(
        self,
        seeds: Any,
        fanouts: Sequence[int],
        *,
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        time: Any = None,
        temporal: str = "uniform",
        direction: str | None = None,
        method: str = "uniform",
        exclude_edges: Any = None,
        exclude_reverse: bool = False,
        subgraph: str = "directional",
        seed: Any = None,
        num_threads: int | None = None,
    ) -> Subgraph:
        """Sample the neighbourhood of `seeds`, one hop for each number in `fanouts`, as one relabelled subgraph.

        A hop takes up to `fanouts[hop]` edges of every node that was first sampled by the previous hop; -1 takes all.
        Without `replace` they are distinct edges, and all edges of a node with fewer, in order. Each copy of a repeated
        seed is expanded: to the same edges, or with `disjoint` to independent draws.

        - `weighted`: edges are drawn by the file's weights; an edge of weight zero is never sampled, not even by -1.
        - `disjoint`: every seed gets its own tree, even if trees share nodes; `batch` identifies the tree of a node.
        - `time`: one number per seed (or one for all): only edges whose time is no later are sampled, on every hop;
          implies `disjoint`. Of those, `temporal="uniform"` draws any and `"last"` takes the latest, of positive weight
          if `weighted`.
        - `method="labor"`: layer-neighbour sampling. The distribution for each node is that of "uniform", but nodes of
          a hop prefer the same neighbours, so a batch has fewer nodes to fetch features for. It reads whole rows, so
          its time grows with the degree.
        - `exclude_edges`: (2, M), sources in the first row: edges that are never sampled, on any hop and in any tree,
          including parallel edges; samples are drawn from the others. `exclude_reverse` excludes (v, u) with (u, v); in
          an undirected graph both are one edge and are always excluded together. Pairs that are not edges are ignored.
        - `subgraph`: which edges the subgraph has. "directional": those that were drawn. "bidirectional": those and
          their reverses, each pair of nodes once. "induced": all edges between the sampled nodes. The latter two are
          ordered by target, belong to no hop (`num_sampled_edges` is empty), and a reverse has the id of its edge.
        - `seed`: an int, a `gz.Generator`, a NumPy or a torch generator; None is different every time. The same seed
          gives the same subgraph for any number of threads; what is drawn for a node does not depend on the other
          seeds of the batch, unless it is disjoint, where it depends on the seed's index.

        Raises IndexError for a seed that is out of range and ValueError for invalid arguments, before any work.

        >>> import graphzero as gz
        >>> g = gz.Graph("graph.gl")  # doctest: +SKIP
        >>> g.sample([0, 5], [15, 10, 5], seed=7)  # doctest: +SKIP
        Subgraph(num_nodes=531, num_edges=744, num_hops=3)
        """
        check_kind(subgraph, disjoint, time is not None)
        exclude = None if exclude_edges is None else as_edges(exclude_edges, "exclude_edges")
        ids = as_ids(seeds, "seeds")
        node, edge_index, edge, batch, num_nodes, num_edges = _core.sample_hood(
            self._open(),
            ids,
            as_fanouts(fanouts),
            replace,
            weighted,
            disjoint,
            None if time is None else as_times(time, count=len(ids)),
            temporal,
            method,
            direction,
            resolve_seed(seed),
            as_threads(num_threads),
            "auto",
            exclude,
            bool(exclude_reverse),
        )
        found = Subgraph(node, edge_index[0], edge_index[1], edge, batch, num_nodes, num_edges, edge_index)
        if subgraph == "induced":
            call = _core.TypedCall()
            call.add_node_type("", self.num_nodes, None)
            call.add_edge_type(self._open(), direction or ("in" if self.direction == "in" else "out"), 0, 0, [0])
            if exclude is not None:
                call.exclude(0, *exclude, bool(exclude_reverse))
            return induced(call, found, as_threads(num_threads))
        return bidirectional(found) if subgraph == "bidirectional" else found

    # -- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file. Arrays already returned stay valid; later calls raise ValueError."""
        self._topology = None

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[str]]:
        """Pickle as the path: a worker mounts the same file."""
        return (partial(Graph, deltas=self._deltas) if self._deltas else Graph, (self._path,))

    def __repr__(self) -> str:
        """Return `Graph('graph.gl', num_nodes=4, num_edges=3, direction='out')`."""
        extras = "".join(f", {n}" for n in ("weights", "times", "edge_ids") if self._has(n))
        state = "" if self._topology is not None else ", closed"
        nodes = f"num_nodes={self.num_sources:,}"
        if self.num_sources != self.num_targets:
            nodes = f"num_sources={self.num_sources:,}, num_targets={self.num_targets:,}"
        return (
            f"Graph({os.path.basename(self._path)!r}, {nodes}, num_edges={self.num_edges:,}, "
            f"direction={self.direction!r}{extras}, {format_size(self._info['file_bytes'])}{state})"
        )

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        nodes = [("nodes", f"{self.num_sources:,}")]
        if self.num_sources != self.num_targets:
            nodes = [("source nodes", f"{self.num_sources:,}"), ("target nodes", f"{self.num_targets:,}")]
        stored = [name.replace("_", " ") for name in ("weights", "times", "edge_ids") if self._has(name)]
        rows = [
            *nodes,
            ("edges", f"{self.num_edges:,}"),
            ("stored", {"out": "by source", "in": "by target", "both": "by source and by target"}[self.direction]),
            *([("edges have", ", ".join(stored))] if stored else []),
            ("on disk", format_size(self._info["file_bytes"])),
        ]
        return html_table(f"Graph {os.path.basename(self._path)}", rows)

    def _open(self) -> _core.Topology:
        if self._topology is None:
            raise ValueError(f"{self._path}: the graph is closed")
        return self._topology

    def _largest_edge_id(self) -> int:
        """Return the largest edge id of a file that has them, -1 without edges: one pass over the ids."""
        topology = self._open()
        ids = topology.array(f"{'in' if self.direction == 'in' else 'out'}.edge_ids")
        largest = max((int(ids[at : at + _STEP].max()) for at in range(0, len(ids), _STEP)), default=-1)
        topology.check()
        return largest

    def _has(self, what: str) -> bool:
        return any(a["name"] in (f"out.{what}", f"in.{what}") for a in self._info["arrays"])
