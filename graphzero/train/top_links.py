"""The targets with the highest scores per source, exactly, by products of blocks of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..args.ids import IdArray
from ..load.seeds import positions_of
from ..stores.features import FeatureStore
from .held_out import edge_ends

__all__ = ["EXCLUDE", "top_links"]

EXCLUDE = ("train", "all", "none")
_SOURCES, _TARGETS = 1 << 10, 1 << 16  # in one product

Block = tuple[IdArray, IdArray, npt.NDArray[np.float32]]


def top_links(
    task: Any, left: FeatureStore, right: FeatureStore, top: int, exclude: str, device: torch.device
) -> Iterator[Block]:
    """Yield (source ids, their targets, best first, scores), -1 where there are fewer targets than `top`.

    `exclude` is "train" to exclude edges of the graph that were not held out, "all" for all edges, or "none". Among
    nodes of one type, a node is never its own target. Excluded edges take 8 bytes each.
    """
    if top < 1:
        raise ValueError(f"top is {top}, expected at least 1")
    if exclude not in EXCLUDE:
        raise ValueError(f"exclude is {exclude!r}, expected one of {', '.join(map(repr, EXCLUDE))}")
    within = task.edge_type is None or task.edge_type[0] == task.edge_type[2]
    known = _known(task, exclude)
    many = right.num_nodes
    for begin in range(0, left.num_nodes, _SOURCES):
        sources = np.arange(begin, min(begin + _SOURCES, left.num_nodes))
        own = torch.from_numpy(left.gather(sources)).to(device)
        first, last = np.searchsorted(known, [begin * many, (begin + len(sources)) * many])
        hidden = known[first:last] - begin * many
        best: tuple[Tensor, Tensor] | None = None
        for at in range(0, many, _TARGETS):
            targets = np.arange(at, min(at + _TARGETS, many))
            scores = own @ torch.from_numpy(right.gather(targets)).to(device).T
            rows, columns = hidden // many, hidden % many
            here = (columns >= at) & (columns < at + len(targets))
            scores[rows[here], columns[here] - at] = float("-inf")
            if within:
                same = np.flatnonzero((sources >= at) & (sources < at + len(targets)))
                scores[same, sources[same] - at] = float("-inf")
            best = _merged(best, scores, at, top)
        assert best is not None
        values, ids = (part.cpu().numpy() for part in best)
        ids = np.where(np.isneginf(values), -1, ids)
        yield sources, ids.astype(np.int64), np.where(ids < 0, 0, values).astype(np.float32)


def _merged(best: tuple[Tensor, Tensor] | None, scores: Tensor, at: int, top: int) -> tuple[Tensor, Tensor]:
    values, ids = scores.topk(min(top, scores.shape[1]), dim=1)
    ids = ids + at
    if best is not None:
        values, ids = torch.cat([best[0], values], dim=1), torch.cat([best[1], ids], dim=1)
        values, order = values.topk(min(top, values.shape[1]), dim=1)
        ids = ids.gather(1, order)
    return values, ids


def _known(task: Any, exclude: str) -> IdArray:
    """Return the excluded pairs, ascending, as source * targets + target."""
    if exclude == "none":
        return np.empty(0, np.int64)
    graph = task.graph
    side = "out" if graph.direction == "out" else "in"
    indptr, indices = graph.csr(direction=side)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr).astype(np.int64))
    others = np.asarray(indices, dtype=np.int64)
    sources, targets = (rows, others) if side == "out" else (others, rows)
    keys = np.unique(sources * graph.num_targets + targets)
    if exclude == "all":
        return keys
    held = [_keys(task, split) for split in ("valid", "test") if task.size(split)]
    if task.splits["train"] is not None and np.ndim(task.splits["train"]) == 2:
        keys = np.union1d(keys, _keys(task, "train"))
    return np.setdiff1d(keys, np.concatenate(held)) if held else keys


def _keys(task: Any, split: str) -> IdArray:
    edges, graph = np.asarray(task.splits[split]), task.graph
    if edges.ndim == 1:
        side = "in" if graph.direction in ("in", "both") else "out"
        edges = edge_ends(graph, positions_of(edges.astype(np.int64), graph, side), side)
    keys: IdArray = np.unique(edges[0].astype(np.int64) * graph.num_targets + edges[1])
    return keys
