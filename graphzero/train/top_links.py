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

__all__ = ["EXCLUDE", "count_of_sources", "edge_keys", "split_keys", "top_links"]

EXCLUDE = ("train", "all", "none")
_SOURCES, _TARGETS = 1 << 10, 1 << 16  # in one product

Block = tuple[IdArray, IdArray, npt.NDArray[np.float32]]


def top_links(
    left: FeatureStore,
    right: FeatureStore,
    excluded: IdArray,
    top: int,
    device: torch.device,
    *,
    within: bool,
    sources: IdArray | None = None,
) -> Iterator[Block]:
    """Yield (source ids, their targets, best first, scores), -1 where there are fewer targets than `top`.

    `excluded` has the edges that are not answers, as source * targets + target, ascending. `within` is true among nodes
    of one type, where a node is never its own target. `sources` are ids, ascending; None is all of them.
    """
    many = right.num_nodes
    whole = np.arange(left.num_nodes) if sources is None else sources
    for begin in range(0, len(whole), _SOURCES):
        block = whole[begin : begin + _SOURCES]
        own = torch.from_numpy(left.gather(block)).to(device)
        first, last = np.searchsorted(excluded, [block[0] * many, (block[-1] + 1) * many])
        rows, columns = np.divmod(excluded[first:last], many)
        place = np.searchsorted(block, rows)
        met = block[place] == rows
        rows, columns = place[met], columns[met]
        best: tuple[Tensor, Tensor] | None = None
        for at in range(0, many, _TARGETS):
            targets = np.arange(at, min(at + _TARGETS, many))
            scores = own @ torch.from_numpy(right.gather(targets)).to(device).T
            here = (columns >= at) & (columns < at + len(targets))
            scores[rows[here], columns[here] - at] = float("-inf")
            if within:
                same = np.flatnonzero((block >= at) & (block < at + len(targets)))
                scores[same, block[same] - at] = float("-inf")
            best = _merged(best, scores, at, top)
        assert best is not None
        values, ids = (part.cpu().numpy() for part in best)
        ids = np.where(np.isneginf(values), -1, ids)
        yield block, ids.astype(np.int64), np.where(ids < 0, 0, values).astype(np.float32)


def _merged(best: tuple[Tensor, Tensor] | None, scores: Tensor, at: int, top: int) -> tuple[Tensor, Tensor]:
    values, ids = scores.topk(min(top, scores.shape[1]), dim=1)
    ids = ids + at
    if best is not None:
        values, ids = torch.cat([best[0], values], dim=1), torch.cat([best[1], ids], dim=1)
        values, order = values.topk(min(top, values.shape[1]), dim=1)
        ids = ids.gather(1, order)
    return values, ids


def edge_keys(task: Any, exclude: str, hidden: tuple[str, ...] = ("valid", "test")) -> IdArray:
    """Return the edges to exclude, ascending, as source * targets + target; they take 8 bytes each.

    `exclude` is "train" for the edges that are in none of the `hidden` splits, "all" for all edges, or "none".
    """
    if exclude not in EXCLUDE:
        raise ValueError(f"exclude is {exclude!r}, expected one of {', '.join(map(repr, EXCLUDE))}")
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
    held = [split_keys(task, split) for split in hidden if task.size(split)]
    if task.splits["train"] is not None and np.ndim(task.splits["train"]) == 2:
        keys = np.union1d(keys, split_keys(task, "train"))
    return np.setdiff1d(keys, np.concatenate(held)) if held else keys


def split_keys(task: Any, split: str) -> IdArray:
    """Return the edges of a split, ascending, as source * targets + target."""
    edges, graph = np.asarray(task.splits[split]), task.graph
    if edges.ndim == 1:
        side = "in" if graph.direction in ("in", "both") else "out"
        edges = edge_ends(graph, positions_of(edges.astype(np.int64), graph, side), side)
    keys: IdArray = np.unique(edges[0].astype(np.int64) * graph.num_targets + edges[1])
    return keys


def count_of_sources(keys: IdArray, sources: IdArray, many: int) -> IdArray:
    """Return how many of the ascending keys each source has."""
    ends = np.searchsorted(keys, np.stack([sources, sources + 1]) * many)
    counts: IdArray = ends[1] - ends[0]
    return counts
