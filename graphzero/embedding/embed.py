"""`gz.embed`: vectors of nodes, trained within a memory budget."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..analytics.call import Call, Source
from ..args.progress import Callback, Reporting
from ..args.target import as_target
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from .options import SkipGram, as_number

__all__ = ["embed"]

_RATE = 0.05  # of SGD; see benchmarks/embed.py
_RATE_ADAM = 0.01
_STEP = 1 << 20  # bytes of vectors that are written at once
_WRITER = 4 << 20  # bytes that this takes


def embed(
    graph: Source,
    *,
    dim: int = 128,
    method: str = "node2vec",
    walk_length: int = 20,
    walks_per_node: int = 10,
    window: int = 5,
    negatives: int = 5,
    p: float = 1.0,
    q: float = 1.0,
    weighted: bool = False,
    direction: str | None = None,
    epochs: int = 1,
    learning_rate: float | None = None,
    seed: Any = 0,
    num_threads: int | None = None,
    memory: int | float | str = "auto",
    device: Any = "cpu",
    out: str | os.PathLike[str] | None = None,
    progress: bool | Callback | None = None,
) -> Any:
    """A vector for each node, such that nodes that are near each other on random walks have similar ones.

    Skip-gram with negative sampling, as in word2vec, over random walks: node2vec, or DeepWalk, which is node2vec with
    p = q = 1. The result is a float32 array of shape (nodes, dim), or the mounted `.gd` file with `out`. Compare
    vectors by their cosine: see `gz.neighbours`.

    graph: a `Graph`, a `Dataset`, or the path of a `.gl` file; one relation of a typed graph if its ends have the same
        type. Walks follow the rows of `direction` (default: "out" if the file has them), by edge weights with
        `weighted`.
    walk_length, walks_per_node, epochs: steps of a walk, walks from each node in an epoch, and passes, each with new
        walks.
    window: a node is trained with those up to so many steps before and after it. As in word2vec, each draws its own
        window from 1 to this, so near ones count more.
    negatives: nodes drawn by degree^0.75 that each node is trained against; the contexts of a node share them.
    p, q: node2vec's return and in-out parameters, see `Graph.batch_random_walk`.
    learning_rate: at the start (default 0.05); it falls linearly to almost 0. ValueError if training diverges.
    seed: with `num_threads=1`, the result depends only on the graph and the arguments, on one kind of processor. With
        several threads, which update vectors without locks, it differs in details from run to run.
    memory: for vectors, tables and the rows of the graph. Training takes two vectors per node, 8 bytes per value of
        `dim`. If they do not fit, they are in partitions on disk, in a temporary file next to `out` (or the graph), two
        of them in RAM at a time; walks are drawn again for every two partitions. BudgetError if that does not fit.
    device: "cpu", or a CUDA device: torch trains there with Adam (`learning_rate` 0.01 by default), on the same walks
        and objective, with all vectors in device memory.

    The vector of a node that no walk visits (without edges) is 0. The file is written when training is complete.

    >>> import graphzero as gz
    >>> g = gz.synthesize("tiny", nodes=200, edges=2000, dim=4).graph  # doctest: +SKIP
    >>> gz.embed(g, dim=32, seed=7).shape  # doctest: +SKIP
    (200, 32)
    """
    how = SkipGram.checked(
        method,
        p,
        q,
        weighted,
        direction,
        seed,
        dim=dim,
        walk_length=walk_length,
        walks_per_node=walks_per_node,
        epochs=epochs,
        window=window,
        negatives=negatives,
    )
    call = Call(graph, memory, num_threads, progress, "auto")
    target = None if out is None else as_target(out, "features", [call.graph.path])
    nodes = _nodes(call.graph)
    rate = None if learning_rate is None else as_number(learning_rate, "learning_rate")
    if not _is_cpu(device):
        from .torch_training import train

        with Reporting(progress, "walks") as callback:
            found = train(call.graph, how, _RATE_ADAM if rate is None else rate, device, callback, call.threads)
        return found if target is None else _written(target, nodes, how.dim, iter([found]), call.threads)
    with Reporting(progress, "walks") as callback:
        native = _core.embed(
            call.graph._open(),
            **asdict(how),
            learning_rate=_RATE if rate is None else rate,
            threads=call.threads,
            memory=call.memory,
            beside=0 if target is None else _WRITER,
            folder=_scratch(target or call.graph.path),
            progress=callback,
        )
    if target is None:
        return native.take() if native.partitions == 1 else native.read(0, nodes)
    return _written(target, nodes, how.dim, _blocks(native, nodes, how.dim), call.threads)


def _nodes(graph: Graph) -> int:
    if graph.num_sources != graph.num_targets:
        sides = f"{graph.num_sources} source nodes to {graph.num_targets} target nodes"
        raise ValueError(f"{graph.path}: edges run from {sides}, expected a relation between nodes of one type")
    return graph.num_nodes


def _is_cpu(device: Any) -> bool:
    """Return whether the core trains: everything else is a torch device."""
    return str(device) == "cpu"


def _scratch(beside: str) -> str:
    """Return the folder for partitions: that of a file, or the system's if it is not writable."""
    folder = os.path.dirname(os.path.abspath(beside))
    return folder if os.access(folder, os.W_OK) else tempfile.gettempdir()


def _blocks(native: _core.Embedding, nodes: int, dim: int) -> Iterator[npt.NDArray[np.float32]]:
    if native.partitions == 1:
        yield native.take()
        return
    rows = max(1, _STEP // (4 * dim))
    for begin in range(0, nodes, rows):
        yield native.read(begin, min(rows, nodes - begin))


def _written(
    target: str, nodes: int, dim: int, blocks: Iterator[npt.NDArray[np.float32]], threads: int
) -> FeatureStore:
    writer = _core.FeatureWriter(target, nodes, [("x", "float32", [nodes, dim])], None)
    try:
        for block in blocks:
            writer.append(0, block)
        writer.finish(threads)
    finally:
        writer.discard()
    return FeatureStore(target, "x")
