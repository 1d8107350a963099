"""`compile_graph(..., ids="map")`: a graph and, next to it, the map of its ids."""

from __future__ import annotations

import os
import time

from .. import _core
from ..args.ids import as_threads
from ..args.progress import Reporting
from ..args.sizes import parse_size
from ..args.target import as_target
from ..load.handoff import make_room
from ..sources.objects import edges_of
from ..stores.idmap import map_path, text_path
from .mapped import MappedReader, node_ids_from
from .options import GraphOptions, GraphRequest
from .reports import GraphReport

__all__ = ["compile_mapped"]

_SHARE = 2  # the map gets 1 / _SHARE of the budget


def compile_mapped(asked: GraphRequest) -> GraphReport:
    """Compile a request of `compile_graph` with ids of any kind."""
    if asked.num_nodes is not None or asked.id_base:
        raise ValueError("num_nodes and id_base cannot be combined with ids='map'")
    path = as_target(asked.out, "topology")
    ids_path = as_target(map_path(path), "features")
    folder = asked.spill_folder(path)
    budget, threads = parse_size(asked.memory), as_threads(asked.num_threads)
    other = edges_of(asked.source, asked.columns, asked.weights, asked.times, budget)
    source, weights, times = asked.source, asked.weights, asked.times
    if other is not None:
        source, weights, times = other, None, None
    text = {"delimiter": asked.delimiter, "header": asked.header, "skip": asked.on_error == "skip"}
    node_ids = None if asked.node_ids is None else node_ids_from(asked.node_ids)
    reader = MappedReader(source, asked.ids or "map", asked.columns, weights, times, text, node_ids)
    options = GraphOptions(
        directed=asked.directed is not False and getattr(other, "directed", True),
        direction=asked.direction,
        weights=reader.weights,
        times=reader.times,
        edge_ids=bool(asked.edge_ids),
        dedup=bool(asked.dedup),
        self_loops=asked.self_loops,
        memory=budget - budget // _SHARE,
        threads=threads,
        spill_folder=folder,
    )
    make_room(budget)
    _core.reset_bytes_held_peak()
    with Reporting(asked.progress, reader.unit) as callback:
        builder = options.builder(callback)
        begin = time.perf_counter()
        reader.feed(builder, budget // _SHARE, threads, folder)
        if not asked.allow_empty:
            reader.check_edges(builder)
        ids = reader.builder
        assert ids is not None
        start = time.perf_counter()
        reading = start - begin
        size = ids.write(ids_path, text_path(ids_path), callback)
        if not ids.is_text and os.path.exists(text_path(ids_path)):
            os.unlink(text_path(ids_path))  # of an older map of strings
        mapping = time.perf_counter() - start
        spilled = ids.spilled_bytes
        reader.builder = ids = None
        done = builder.finish(path)
    seconds = {phase: float(done[phase]) for phase in ("reading", "sorting", "publishing")}
    seconds["reading"] = reading  # including the mapping, which the builder does not measure
    seconds["publishing"] += mapping
    return GraphReport.of(
        path,
        done,
        reader,
        seconds,
        bytes=done["bytes"] + size,
        peak_memory=int(_core.bytes_held()["peak"]),
        spilled_bytes=done["spilled_bytes"] + spilled,
        id_map=ids_path,
    )
