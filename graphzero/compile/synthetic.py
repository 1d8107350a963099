"""A synthetic graph as a function of its seed: power-law degrees, communities, features that depend on the class."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_count
from ..sources.rows import Rows
from .permutation import Shuffle

__all__ = ["SyntheticGraph"]

_T = TypeVar("_T")
Block = tuple[npt.NDArray[Any], ...]

# Blocks have fixed sizes and each draws from its own stream, so the same seed gives the same data whatever the memory
# budget and the number of threads. An edge block's arrays stay within a core's second-level cache.
_EDGES = 1 << 16
_SOURCES = 1 << 17
_ROWS = 1 << 13
_IDS = 1 << 17
_STEPS = 1 << 16  # size of the table that maps uniform numbers to ranks
_STREAMS = ("shuffle", "splits", "centroids", "edges", "weights", "features")


@dataclasses.dataclass(frozen=True)
class SyntheticGraph:
    """A graph that is a function of its seed: blocks of edges, features, labels and splits, generated on demand.

    Nodes belong to communities, communities to classes. An edge stays within its community with probability
    `homophily`, otherwise it goes anywhere. In- and out-degrees follow a power law with exponent `power`. Features are
    the class's centroid (of length `signal`) plus noise of unit variance in each column, so that the mean over a
    node's neighbours predicts the class far better than the node's own row. Nodes outside all splits have no label.

    Real graphs are more uneven: most edges lead to few nodes, which are close to each other. With `core`
    below 1, the share `core_edges` of the edges leads to the first `core` of each community's nodes, with the exponent
    `core_power` among them, and the splits are drawn from these nodes first.

    >>> graph = SyntheticGraph(nodes=1000, edges=8000, dim=16, seed=7)
    >>> sum(len(src) for src, dst in graph.edge_blocks())
    8000
    """

    nodes: int
    edges: int
    dim: int = 128
    classes: int = 16
    communities: int | None = None  # default: one per class
    homophily: float = 0.7
    power: float = 2.7
    core: float = 1.0
    core_edges: float = 0.95
    core_power: float = 2.35
    signal: float = 1.0
    splits: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {"train": 0.6, "valid": 0.2, "test": 0.2}
    )  # shares of the nodes
    weights: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        for name, least, most in (
            ("nodes", 2, 2**48),
            ("edges", 0, 2**56),
            ("dim", 1, 2**20),
            ("classes", 1, self.nodes),
            ("seed", 0, 2**64 - 1),
        ):
            value = as_count(getattr(self, name), name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}, expected {least} to {most}")
        if not self.classes <= self.num_communities <= self.nodes:
            raise ValueError(
                f"communities is {self.num_communities}, expected {self.classes} (one per class) to {self.nodes}"
            )
        if not 0 <= self.homophily <= 1:
            raise ValueError(f"homophily is {self.homophily}, expected 0 to 1")
        for name in ("power", "core_power"):
            if not 2.05 <= getattr(self, name) <= 20:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 2.05 to 20 (2 to 3 are typical)")
        if not 0 < self.core <= 1:
            raise ValueError(f"core is {self.core}, expected a share of the nodes: more than 0, at most 1")
        if not 0 <= self.core_edges <= 1:
            raise ValueError(f"core_edges is {self.core_edges}, expected 0 to 1")
        if not 0 <= self.signal < math.inf:
            raise ValueError(f"signal is {self.signal}, expected 0 or more")
        if any(share < 0 for share in self.splits.values()) or sum(self.splits.values()) > 1 + 1e-9:
            raise ValueError(f"splits is {dict(self.splits)}, expected non-negative shares with a sum of at most 1")

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """The same as `nodes`: with this, `num_edges` and `edge_blocks` the graph is a source for `compile_graph`."""
        return self.nodes

    @property
    def num_edges(self) -> int:
        """The same as `edges`."""
        return self.edges

    @property
    def num_communities(self) -> int:
        """The number of communities."""
        return self.classes if self.communities is None else self.communities

    @property
    def split_sizes(self) -> dict[str, int]:
        """The number of nodes of each split."""
        sizes: dict[str, int] = {}
        for name, share in self.splits.items():
            sizes[name] = min(round(share * self.nodes), self.nodes - sum(sizes.values()))
        return sizes

    # -- blocks -------------------------------------------------------------------------------------------------------

    def edge_blocks(self) -> Iterator[Block]:
        """Yield (src, dst) blocks of int64 ids, or (src, dst, weight) with `weights`: `edges` in all, no self-loops."""
        return _in_order(partial(self._edge_block, *span) for span in self._edge_spans())

    def feature_blocks(self) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the rows of nodes 0, 1, 2, ... as float32 blocks."""
        return _in_order(partial(self._feature_block, begin) for begin in range(0, self.nodes, _ROWS))

    def feature_rows(self) -> Rows:
        """Return the same rows as a source that can be read several times."""

        def blocks(step: int) -> Iterator[npt.NDArray[np.float32]]:
            for block in self.feature_blocks():
                yield from (block[at : at + step] for at in range(0, len(block), step))

        return Rows("x", "float32", self.dim, self.nodes, blocks)

    def label_blocks(self) -> Iterator[IdArray]:
        """Yield the labels of nodes 0, 1, 2, ... as int64 blocks; -1 for nodes that are in no split."""
        labelled = sum(self.split_sizes.values())
        for begin in range(0, self.nodes, _IDS):
            ids = np.arange(begin, min(begin + _IDS, self.nodes))
            yield np.where(self.split_place(ids) < labelled, self.classes_of(ids), -1)

    def split_blocks(self, name: str) -> Iterator[IdArray]:
        """Yield the ids of a split, ascending, as int64 blocks."""
        sizes = self.split_sizes
        names = list(sizes)
        first = sum(sizes[other] for other in names[: names.index(name)])
        for begin in range(0, self.nodes, _IDS):
            ids = np.arange(begin, min(begin + _IDS, self.nodes))
            place = self.split_place(ids) - first
            yield ids[(place >= 0) & (place < sizes[name])]

    def classes_of(self, ids: IdArray) -> IdArray:
        """Return the class of each of `ids`, labelled or not."""
        community = np.searchsorted(self._starts, self._shuffle.backward(ids), side="right") - 1
        return community % self.classes

    # -- how it is made -----------------------------------------------------------------------------------------------
    # Communities are ranges of positions; in one, the position is the rank by popularity. A shuffle maps positions to
    # ids. Memory grows only with sqrt(nodes), for the shuffle, and with the number of communities.

    def _bits(self, stream: str, block: int = 0) -> np.random.Philox:
        return np.random.Philox(key=np.array([self.seed, (_STREAMS.index(stream) << 56) | block], dtype=np.uint64))

    def _random(self, stream: str, block: int = 0) -> np.random.Generator:
        return np.random.Generator(self._bits(stream, block))

    @cached_property
    def _shuffle(self) -> Shuffle:
        return Shuffle(self.nodes, self._random("shuffle"))

    @cached_property
    def _core_starts(self) -> IdArray:
        return np.concatenate([[0], np.cumsum(np.ceil(self.core * self._sizes).astype(np.int64))])

    @cached_property
    def _split_orders(self) -> list[Shuffle]:
        # Of the core, then of the other nodes; with core=1, of all ids.
        inside, random = int(self._core_starts[-1]), self._random("splits")
        return [Shuffle(size, random) for size in (inside, self.nodes - inside) if size]

    def split_place(self, ids: IdArray) -> IdArray:
        """Return the place of each of `ids` in a random order: those of the first split come first, and so on."""
        if self.core == 1:
            return self._split_orders[0].forward(ids)
        position = self._shuffle.backward(ids)
        community = np.searchsorted(self._starts, position, side="right") - 1
        place = self._core_starts[community] + position - self._starts[community]
        inside = place < self._core_starts[community + 1]
        place[inside] = self._split_orders[0].forward(place[inside])
        rest = (position - self._core_starts[community + 1])[~inside]
        if rest.size:
            place[~inside] = self._core_starts[-1] + self._split_orders[1].forward(rest)
        return place

    @cached_property
    def _starts(self) -> IdArray:
        # Sizes fall as 1 / sqrt(rank), similar to the classes of real datasets. Each has at least one node.
        count = self.num_communities
        shares = np.cumsum(1 / np.sqrt(np.arange(1, count + 1)))
        inner = (shares / shares[-1] * (self.nodes - count)).astype(np.int64)
        return np.concatenate([[0], inner + np.arange(1, count + 1)])

    @cached_property
    def _edge_starts(self) -> IdArray:
        return np.array([self.edges * int(start) // self.nodes for start in self._starts])

    @cached_property
    def _sizes(self) -> IdArray:
        return np.diff(self._starts)

    @property
    def _bend(self) -> float:
        return _bend_of(self.power)

    @cached_property
    def _ranks(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        # For each step of a uniform number: the least rank, as a share of the community, and the range per sub-step.
        inside = round(self.core_edges * _STEPS) if self.core < 1 else 0
        parts = ((self.core, _bend_of(self.core_power), inside), (1.0, self._bend, _STEPS - inside))
        values = [np.array([top * (i / n) ** bend for i in range(n + 1)]) for top, bend, n in parts if n]
        return np.concatenate([v[:-1] for v in values]), np.concatenate([np.diff(v) for v in values]) / _STEPS

    @cached_property
    def _any_community(self) -> IdArray:
        # A community drawn in proportion to its size: the one at a random position out of 2^16.
        places = (np.arange(_STEPS) + 0.5) / _STEPS * self.nodes
        return np.searchsorted(self._starts, places.astype(np.int64), side="right") - 1

    @cached_property
    def _centroids(self) -> npt.NDArray[np.float32]:
        centroids = self._random("centroids").standard_normal((self.classes, self.dim))
        centroids *= self.signal / np.linalg.norm(centroids, axis=1, keepdims=True)
        return centroids.astype(np.float32)

    def _edge_spans(self) -> Iterator[tuple[int, int, IdArray]]:
        # Sources take turns by rank, each with as many edges as the power law gives it. A span is at most _EDGES edges:
        # its number, the first source's turn, and how many edges each source has in it.
        number, done = 0, 0
        for turn in range(0, self.nodes, _SOURCES):
            last = min(turn + _SOURCES, self.nodes)
            ends = self._edges_before(np.arange(turn, last + 1))
            ends[0], ends[-1] = done, self.edges if last == self.nodes else ends[-1]
            np.maximum.accumulate(ends, out=ends)  # floating point is not strictly monotone
            done = int(ends[-1])
            for first in range(int(ends[0]), done, _EDGES):
                stop = min(first + _EDGES, done)
                a = int(np.searchsorted(ends, first, side="right")) - 1
                b = int(np.searchsorted(ends, stop, side="left"))
                within = np.clip(ends[a : b + 1], first, stop)
                yield number, turn + a, within[1:] - within[:-1]
                number += 1

    def _edges_before(self, turns: IdArray) -> IdArray:
        c = np.minimum(np.searchsorted(self._starts, turns, side="right") - 1, self.num_communities - 1)
        share = ((turns - self._starts[c]) / self._sizes[c]) ** (1 / self._bend)
        return self._edge_starts[c] + (share * np.diff(self._edge_starts)[c]).astype(np.int64)

    def _sources(self, turn: int, counts: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """Return the communities and positions of the sources of a span, and the source of each of its edges."""
        turns = np.arange(turn, turn + counts.size)
        community = np.searchsorted(self._starts, turns, side="right") - 1
        # A community's most active sources are half its size away from its most popular targets: if they were the same
        # nodes, a fifth of the edges would be duplicates from hub to hub.
        start, size = self._starts[community], self._sizes[community]
        places = start + (turns - start + size // 2) % size
        return community, places, np.repeat(self._shuffle.forward(places), counts)

    def _edge_block(self, number: int, turn: int, counts: IdArray) -> Block:
        community, places, src = self._sources(turn, counts)
        place = np.repeat(places, counts)
        bits = self._bits("edges", number).random_raw(place.size)
        target = self._targets(bits, np.repeat(community, counts), place)
        dst = self._shuffle.forward(target)
        if not self.weights:
            return src, dst
        weight = 1 - self._random("weights", number).random(src.size, dtype=np.float32)  # (0, 1]
        return src, dst, weight

    def _targets(self, bits: npt.NDArray[np.uint64], community: IdArray, place: IdArray | None) -> IdArray:
        """Return positions drawn from 64 `bits` each, in `community` or outside; never `place`, the source's."""
        stray = ((bits & 0xFFFF) >= round(self.homophily * 65536)).nonzero()[0]
        community[stray] = self._any_community[((bits[stray] >> np.uint64(16)) & np.uint64(0xFFFF)).view(np.int64)]
        start, size = self._starts[community], self._sizes[community]
        below, slope = self._ranks
        step = (bits >> np.uint64(48)).view(np.int64)
        share = slope.take(step)
        share *= (bits >> np.uint64(32)) & np.uint64(0xFFFF)
        share += below.take(step)
        share *= size
        target = share.astype(np.int64)
        target += start
        loop = (target == place).nonzero()[0] if place is not None else np.empty(0, np.int64)
        if loop.size:  # the next position of the community, or of the graph if the community has one node
            s, n = start[loop], size[loop]
            target[loop] = np.where(n > 1, s + (target[loop] - s + 1) % n, (target[loop] + 1) % self.nodes)
        return target

    def _feature_block(self, begin: int) -> npt.NDArray[np.float32]:
        ids = np.arange(begin, min(begin + _ROWS, self.nodes))
        rows = self._random("features", begin // _ROWS).standard_normal((ids.size, self.dim), dtype=np.float32)
        rows += self._centroids[self.classes_of(ids)]
        return rows


def _bend_of(power: float) -> float:
    # rank = size * u^bend for uniform u gives degrees a density with exponent 1 + bend / (bend - 1) = power.
    return (power - 1) / (power - 2)


def _in_order(jobs: Iterator[Callable[[], _T]]) -> Iterator[_T]:
    # NumPy releases the GIL, so generating a few blocks ahead keeps every core busy. Blocks are small.
    threads = _core.default_threads()
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[_T]] = deque()
        try:
            for job in jobs:
                ahead.append(pool.submit(job))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
