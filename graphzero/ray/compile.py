"""Compile edges into a `.gl` file on the workers of a Ray cluster, byte for byte as one machine would.

Workers partition the splits of the source into buckets by row, written to files in a folder next to the target. Then
the edges of every range of rows are known, so the file is laid out, and each worker sorts and writes ranges of rows
directly into it. The driver exchanges only small tables: offsets, checksums, a few bytes at the borders of ranges.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from inspect import signature
from typing import Any

from .. import _core
from ..args.ids import as_count
from ..args.progress import Callback, Reporting
from ..args.sizes import parse_size
from ..args.target import as_target
from ..compile.graph import Path, _Nodes
from ..compile.graph import compile_graph as compile_here
from ..compile.options import GraphOptions
from ..compile.reports import GraphReport
from ..errors import InputError
from ._cluster import Tasks, WorkFolder, put_together, require_ray
from ._compile_tasks import Part, WriteOptions, count_distinct, cut, write
from ._parts import plan_parts
from ._splits import Source, split_source

__all__ = ["compile_graph"]

_SPLIT_EDGES = 1 << 26  # bounds the work lost when a worker dies to seconds
_NARROW = 1 << 32
_SHAPED = ("two_sided", "directed", "direction", "weights", "times", "edge_ids", "self_loops")  # options of the layout


def compile_graph(
    source: Any,
    out: Path,
    *,
    directed: bool | None = None,
    direction: str = "out",
    weights: Any = None,
    times: Any = None,
    edge_ids: bool = False,
    num_nodes: int | tuple[int | None, int | None] | None = None,
    num_sources: int | None = None,
    num_targets: int | None = None,
    dedup: bool | str = False,
    self_loops: bool = True,
    memory: int | float | str = "1GB",
    columns: Sequence[int | str] | None = None,
    id_base: int | None = None,
    allow_empty: bool = False,
    num_cpus: float = 1,
    max_retries: int = 3,
    progress: bool | Callback | None = None,
    **others: Any,
) -> GraphReport:
    """Compile edges from `source` into the `.gl` file `out` on the Ray cluster that this program is connected to.

    The source is a Parquet file or folder (or a list of them, in order), a `.npy` file of shape (2, E) or (E, 2), or a
    Ray Dataset. `source` and `out` must be in folders that every node of the cluster sees under the same path; workers
    exchange temporary files next to `out`.

    The other arguments are those of `graphzero.compile_graph`, and the file is the same, byte for byte.

    memory: the budget of the engine in each worker. Reading adds a row group of a Parquet file, or a block of a Ray
        Dataset.
    dedup: True sorts twice, since the file can be laid out only after the duplicates of all ranges are counted.
    num_cpus: CPUs and threads per task. As many tasks run in parallel as the cluster has CPUs for.
    max_retries: how often Ray retries a task whose worker or node died. The result is the same.

    >>> import ray, graphzero.ray
    >>> ray.init("auto")  # doctest: +SKIP
    >>> graphzero.ray.compile_graph("/shared/edges/", "/shared/graph.gl", memory="4GB")  # doctest: +SKIP
    """
    _refuse(others, dedup)
    if directed is not None and not isinstance(directed, bool):
        raise TypeError(f"directed must be True, False or None, got {type(directed).__name__}")
    if direction not in ("out", "in", "both"):
        raise ValueError(f"direction is {direction!r}, expected 'out', 'in' or 'both'")
    if id_base is not None:
        as_count(id_base, "id_base", least=0)
    nodes = _Nodes.of(num_nodes, num_sources, num_targets)
    target = as_target(out, "topology")
    budget = parse_size(memory)
    tasks = Tasks.of(num_cpus, 0, max_retries)
    require_ray()
    slots = tasks.slots()
    begin = time.perf_counter()
    with Reporting(progress, "tasks") as callback:
        found = split_source(source, columns, weights, times, _split_edges(budget, direction), slots, tasks)
        if found.num_edges == 0 and not allow_empty and nodes is None:
            raise InputError(
                f"{found.name}: found no edges; allow_empty=True compiles a graph without edges, and so does num_nodes="
            )
        with WorkFolder(target) as folder:
            job = _Job(tasks, slots, target, folder, budget, callback)
            options = GraphOptions(  # duplicates are known only after all splits are read, so dedup comes later
                spill_folder=folder,
                directed=directed is not False,
                direction=direction,
                weights=found.has("weight"),
                times=found.has("time"),
                edge_ids=bool(edge_ids),
                given_edge_ids=bool(edge_ids),
                num_nodes=None if nodes is None else nodes.sources,
                two_sided=nodes is not None and nodes.two_sided,
                num_targets=None if nodes is None else nodes.targets,
                self_loops=self_loops,
                id_base=id_base or 0,
                memory=budget,
                threads=tasks.num_threads,
            )
            return job.compile(found, options, bool(dedup), begin)


def _refuse(others: dict[str, Any], dedup: bool | str) -> None:
    for name in others:
        if name not in signature(compile_here).parameters:
            raise TypeError(f"compile_graph() got an unexpected keyword argument {name!r}")
        raise ValueError(f"{name} is not supported on a cluster; use graphzero.compile_graph on one machine")
    if isinstance(dedup, str) and dedup != "first":
        raise ValueError(f"dedup is {dedup!r}, expected True, False or 'first' on a cluster")


def _split_edges(budget: int, direction: str) -> int:
    """Return how many edges of a split are buffered before they are written as one run: half of the builder's share."""
    sides = 2 if direction == "both" else 1
    return max(1024, min(_SPLIT_EDGES, budget * 5 // 16 // sides // 16))


class _Job:
    """The compilation of one graph on the cluster."""

    def __init__(
        self, tasks: Tasks, slots: int, target: str, folder: str, budget: int, progress: Callback | None
    ) -> None:
        self.tasks, self.slots, self.target, self.progress = tasks, slots, target, progress
        self.options = WriteOptions(folder, budget, tasks.num_threads)

    def compile(self, source: Source, options: GraphOptions, dedup: bool, begin: float) -> GraphReport:
        """Cut, plan, write, publish."""
        cuts = self.tasks.run(
            cut, [(split, options) for split in source.splits], "reading", self.progress, self.options.spill_folder
        )
        read = time.perf_counter()
        if not cuts:  # no edges: as an empty builder
            cuts = [cut(_NoEdges(), options)]
        sources, targets = (max(c[of] for c in cuts) for of in ("nodes", "targets"))
        parts = {
            side: plan_parts(
                f"{side}.",
                [c["sides"][i if options.directed and options.direction == "both" else 0] for c in cuts],
                sources if side == "out" else targets,
                16 + 4 * options.weights + 8 * options.times + 8 * options.edge_ids,
                self.slots,
            )
            for i, side in enumerate(("out", "in") if options.direction == "both" else (options.direction,))
        }
        stored = sum(c["edges"] for c in cuts)
        edges = {side: self._edges_of(of, dedup) for side, of in parts.items()}
        shape = {
            "nodes": sources,
            "targets": targets,
            "stored": stored,
            "edges": sum(next(iter(edges.values()))),
            "dedup": dedup,
            **{name: getattr(options, name) for name in _SHAPED},
            "wide_edge_ids": source.num_edges > _NARROW if options.edge_ids else False,
        }
        file = _core.SharedFile.graph(self.target, _core.GraphShape(**shape))
        try:
            done = self._write(file.temporary, shape, parts, edges)
            sorted_at = time.perf_counter()
            size = put_together(file, [d["written"] for d in done])
        finally:
            file.discard()
        seconds = {
            "reading": read - begin,
            "sorting": sorted_at - read,
            "publishing": time.perf_counter() - sorted_at,
        }
        one_side = done[: len(next(iter(parts.values())))]
        return GraphReport(
            path=self.target,
            nodes=sources,
            targets=targets,
            edges=shape["edges"],
            source_edges=source.num_edges,
            bytes=size,
            seconds={**seconds, "total": sum(seconds.values())},
            peak_memory=max(d["peak_bytes"] for d in (*cuts, *done)),
            spilled_bytes=sum(c["spilled_bytes"] for c in cuts),
            duplicates_dropped=sum(d["duplicates_dropped"] for d in one_side),
            self_loops_dropped=sum(c["self_loops_dropped"] for c in cuts),
            columns=[f"columns: {', '.join(source.columns.all())}"] if source.columns is not None else [],
        )

    def _edges_of(self, parts: list[Part], dedup: bool) -> list[int]:
        """Return how many edges each part will have."""
        if not dedup:
            return [part.records for part in parts]
        calls = [(part, self.options) for part in parts]
        return self.tasks.run(count_distinct, calls, "counting", self.progress, self.options.spill_folder)

    def _write(
        self, path: str, shape: dict[str, Any], parts: dict[str, list[Part]], edges: dict[str, list[int]]
    ) -> list[dict[str, Any]]:
        calls: list[tuple[Any, ...]] = []
        for side, of in parts.items():
            before = 0
            for part, own in zip(of, edges[side], strict=True):
                calls.append((part, path, shape, before, own, self.options))
                before += own
        return self.tasks.run(write, calls, "sorting", self.progress, self.options.spill_folder)


class _NoEdges:
    """The split of a source without edges."""

    first_edge = num_edges = 0

    def edge_blocks(self) -> Any:
        """Yield nothing."""
        return iter(())
