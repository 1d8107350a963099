"""A dataset as it was before the links of a split: what embeddings may see when that split is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray
from ..compile.graph import compile_graph
from ..sources.edge_blocks import Block, GraphFileSource
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph

__all__ = ["Snapshot", "hidden_splits"]


def hidden_splits(split: str) -> tuple[str, ...]:
    """Return the splits whose links are unknown when `split` is evaluated: that one and the later ones.

    >>> hidden_splits("valid")
    ('valid', 'test')
    """
    order = ("train", "valid", "test")
    return order[order.index(split) :] if split in order else (split,)


class Snapshot:
    """A dataset without some links, in both directions, and without edges from a time on.

    The topologies are written to `folder`, block by block; everything else is the dataset's.
    """

    def __init__(self, data: Any, task: Any, hidden: IdArray, since: int | None, folder: str) -> None:
        """Leave out the links in `hidden`, as source * targets + target, ascending; and edges of `since` or later."""
        self._data = data
        many = task.graph.num_targets
        if task.edge_type is None:
            self.graph = _without(task.graph, hidden, many, since, Path(folder, "known.gl"), both=True)
            return
        source, relation, target = task.edge_type
        back = {(target, f"rev_{relation}", source), (target, relation.removeprefix("rev_"), source)}
        graphs = {}
        for number, (key, edge) in enumerate(data.edges.items()):
            own = hidden if key == task.edge_type or key in back else hidden[:0]
            both = key[0] == key[2]
            path = Path(folder, f"known{number}.gl")
            timed = edge.graph.has_times and since is not None
            skip = not len(own) and not timed
            flip = key != task.edge_type
            graphs[key] = edge.graph if skip else _without(edge.graph, own, many, since, path, both=both, flip=flip)
        self.hetero = HeteroGraph(graphs, {name: node.num_nodes for name, node in data.nodes.items()})

    def __getattr__(self, name: str) -> Any:
        """Return what the dataset has."""
        return getattr(self._data, name)


class _Filtered(GraphFileSource):
    """The edges of a graph file but for those that `hides(block)` marks; they keep their ids."""

    def __init__(self, graph: Graph, hides: Any) -> None:
        super().__init__(graph)
        self._hides = hides
        self.num_edges = 0  # not known before all blocks are read

    def edge_blocks(self) -> Iterator[Block]:
        for block in super().edge_blocks():
            kept = ~self._hides(block)
            others = (None if part is None else part[kept] for part in (block.weights, block.times, block.edge_ids))
            yield Block(block.src[kept], block.dst[kept], *others)


def _without(
    graph: Graph, hidden: IdArray, many: int, since: int | None, path: Path, *, both: bool, flip: bool = False
) -> Graph:
    def hides(block: Block) -> npt.NDArray[np.bool_]:
        source, target = (block.dst, block.src) if flip else (block.src, block.dst)
        found = _isin(source * many + target, hidden)
        if both:
            found |= _isin(target * many + source, hidden)
        if since is not None and block.times is not None:
            found |= block.times >= since
        return found

    source = _Filtered(graph, hides)
    shape = graph.num_nodes if graph.num_sources == graph.num_targets else graph.shape
    direction = "out" if graph.direction == "out" else "in"
    compile_graph(source, path, num_nodes=shape, direction=direction, edge_ids=None)
    return Graph(path)


def _isin(keys: IdArray, known: IdArray) -> npt.NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    place = np.searchsorted(known, keys).clip(max=len(known) - 1)
    return np.asarray(known[place] == keys)
