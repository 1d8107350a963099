"""Walks, one-hop fanouts, negative edges and skip-gram pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..args.ids import IdArray, as_id, as_ids, as_threads
from .subgraph import resolve_seed

__all__ = ["Pairs", "WalkMethods", "walk_pairs"]


class WalkMethods:
    """The methods of `gz.Graph` that sample neighbours, walks and pairs that are not edges.

    All of them take `seed`: an int, a `gz.Generator`, a NumPy or a torch generator, or None for fresh entropy. The
    draws for position i of a batch depend only on (seed, i) and the node there, so the same seed gives the same result
    for any number of threads, and draws for a repeated node are independent.

    Raises IndexError for ids out of range and ValueError for other invalid arguments, before any work is done. The GIL
    is released while the core runs.
    """

    def _open(self) -> _core.Topology:
        raise NotImplementedError

    def batch_random_fanout(
        self,
        start_nodes: Any,
        K: int,
        *,
        pad: int | None = None,
        weighted: bool = False,
        direction: str | None = None,
        seed: Any = None,
        num_threads: int | None = None,
        out: Any = None,
    ) -> IdArray:
        """Return K neighbours of each node, as a (B, K) int64 matrix.

        They are distinct edges if a node has at least K. For a node with fewer, all of them are returned in order, and
        the rest is drawn with replacement; a node with none returns itself. `pad` (such as -1) fills short rows
        instead. `weighted` draws by edge weights, and counts only those above zero. `out` is a matrix to fill instead
        of a new one.

        >>> g.batch_random_fanout([0, 5], 15, seed=7).shape  # doctest: +SKIP
        (2, 15)
        """
        ids, count = as_ids(start_nodes, "start_nodes"), as_id(K, "K")
        target = None if out is None else checked_out(out, (len(ids), count))
        filler = None if pad is None else as_id(pad, "pad")
        made = _core.fanout(
            self._open(),
            ids,
            count,
            filler,
            weighted,
            direction,
            resolve_seed(seed),
            as_threads(num_threads),
            False,
            target,
        )
        return out if made is None else made

    def sample_neighbours(
        self, start_node: int, K: int, *, weighted: bool = False, direction: str | None = None, seed: Any = None
    ) -> IdArray:
        """Return up to K distinct neighbours of one node, as int64: all of them, in order, if it has at most K.

        >>> g.sample_neighbours(0, 5, seed=7)  # doctest: +SKIP
        array([ 12, 731, 733, 940])
        """
        node, count = as_id(start_node, "start_node"), as_id(K, "K")
        return _core.neighbours(self._open(), node, count, weighted, direction, resolve_seed(seed))

    def batch_random_walk_uniform(
        self,
        start_nodes: Any,
        walk_length: int,
        *,
        restart: float = 0.0,
        direction: str | None = None,
        seed: Any = None,
        num_threads: int | None = None,
        out: Any = None,
    ) -> IdArray:
        """Return walks with uniform random steps: `batch_random_walk` with p = q = 1.

        >>> g.batch_random_walk_uniform([0, 5], 10, seed=7).shape  # doctest: +SKIP
        (2, 11)
        """
        return self.batch_random_walk(
            start_nodes,
            walk_length,
            restart=restart,
            direction=direction,
            seed=seed,
            num_threads=num_threads,
            out=out,
        )

    def batch_random_walk(
        self,
        start_nodes: Any,
        walk_length: int,
        p: float = 1.0,
        q: float = 1.0,
        *,
        weighted: bool = False,
        restart: float = 0.0,
        direction: str | None = None,
        seed: Any = None,
        num_threads: int | None = None,
        out: Any = None,
    ) -> IdArray:
        """Return one walk of `walk_length` steps from each node, as (B, walk_length + 1) int64, the start first.

        - `p`, `q`: node2vec. A step from v, reached from t, weighs neighbour x by 1/p when x is t, by 1 when t has an
          edge to x, and by 1/q otherwise. If both are 1, steps do not depend on the past.
        - `weighted`: steps are also weighted by edge weights.
        - `restart`: the probability that a step goes back to the start instead, and forgets the previous node.
        - `out`: a matrix to fill instead of a new one: int64, of the right shape, contiguous.

        A walk that reaches a dead end (no neighbours, or none with weight) stays there, unless it restarts. A longer
        walk with the same seed starts with the shorter one.

        >>> g.batch_random_walk([0, 5], 10, p=1.0, q=0.5, seed=7).shape  # doctest: +SKIP
        (2, 11)
        """
        ids, length = as_ids(start_nodes, "start_nodes"), as_id(walk_length, "walk_length")
        target = None if out is None or length < 0 else checked_out(out, (len(ids), length + 1))
        made = _core.walk(
            self._open(),
            ids,
            length,
            _number(p, "p"),
            _number(q, "q"),
            weighted,
            _number(restart, "restart"),
            direction,
            resolve_seed(seed),
            as_threads(num_threads),
            False,
            target,
        )
        return out if made is None else made

    def negative_edges(
        self,
        num_samples: int,
        *,
        src: Any = None,
        method: str = "uniform",
        exponent: float = 0.75,
        exclude_edges: bool = True,
        exclude_self: bool = True,
        seed: Any = None,
        num_threads: int | None = None,
    ) -> IdArray:
        """Return pairs of nodes that are not edges, as a (2, M) int64 `edge_index`, to train link prediction against.

        Without `src`, M is `num_samples` and both ends are drawn. With `src`, each source gets `num_samples` targets,
        consecutively, so M is `len(src) * num_samples`: pass the sources of the positive edges to corrupt their
        targets. Samples are independent: two may be the same pair.

        - `method="uniform"`: every pair that is not an edge is equally likely. `"degree"` draws nodes by
          degree**`exponent`, as word2vec does for words. Degrees are those of `degrees()`; if the file has both
          directions, in-degrees of targets and out-degrees of sources.
        - `exclude_edges`: exactly, by a search in the row. `exclude_self`: no (u, u), unless sources and targets are
          different nodes.

        It terminates on dense graphs too: if nearly every pair is an edge, the remaining ones are enumerated. Raises
        ValueError for a source with an edge to every other node, which has no negatives.

        >>> g.negative_edges(1000, seed=7).shape  # doctest: +SKIP
        (2, 1000)
        """
        if method not in ("uniform", "degree"):
            raise ValueError(f"method is {method!r}, expected 'uniform' or 'degree'")
        return _core.negative_edges(
            self._open(),
            as_id(num_samples, "num_samples"),
            None if src is None else as_ids(src, "src"),
            method == "degree",
            _number(exponent, "exponent"),
            exclude_edges,
            exclude_self,
            resolve_seed(seed),
            as_threads(num_threads),
        )


class Pairs(NamedTuple):
    """Training pairs for skip-gram: `context[i]` is near `center[i]`. Both are int64, of equal length."""

    center: IdArray
    context: IdArray


def walk_pairs(
    walks: Any,
    window: int,
    *,
    shuffle: bool = False,
    limit: int | None = None,
    seed: Any = None,
    num_threads: int | None = None,
) -> Pairs:
    """Return every (center, context) pair of nodes that are at most `window` steps apart in a walk.

    `walks` is the result of `Graph.batch_random_walk`, or any integer matrix with one walk per row. A walk ends before
    its first negative number, so it may be padded with -1; repeats of the last node at the end of a walk, as after a
    dead end, are dropped, since they would train a node to predict itself.

    Pairs are ordered by walk, then by center, contexts from left to right; with `shuffle`, randomly. `limit` draws that
    many of them at random, without replacement and without creating the others. Order and choice depend only on `seed`,
    not on the number of threads.

    >>> center, context = walk_pairs([[0, 1, 2]], window=1)
    >>> center.tolist(), context.tolist()
    ([0, 1, 1, 2], [1, 0, 2, 1])
    """
    if hasattr(walks, "detach"):  # a torch tensor, on any device
        walks = walks.detach().cpu().numpy()
    matrix = np.asarray(walks)
    if matrix.ndim != 2:
        raise ValueError(f"walks must have two dimensions, got shape {matrix.shape}")
    if matrix.dtype.kind not in "iu" and matrix.size:
        raise TypeError(f"walks must be integers, got dtype {matrix.dtype}")
    matrix = np.ascontiguousarray(matrix, dtype=np.int64)
    pairs = _core.walk_pairs(
        matrix,
        as_id(window, "window"),
        shuffle,
        None if limit is None else as_id(limit, "limit"),
        resolve_seed(seed) if shuffle or limit is not None else 0,
        as_threads(num_threads),
    )
    return Pairs(pairs[0], pairs[1])


def checked_out(out: Any, shape: tuple[int, int]) -> IdArray:
    """Return `out`, a NumPy array or a torch tensor, as the array to fill; raise unless shape and dtype match."""
    array = out.detach().numpy() if hasattr(out, "detach") else out
    if not isinstance(array, np.ndarray):
        raise TypeError(f"out must be a NumPy array or a torch tensor, got {type(out).__name__}")
    if array.dtype != np.int64:
        raise TypeError(f"out has dtype {array.dtype}, expected int64")
    if array.shape != shape:
        raise ValueError(f"out has shape {array.shape}, expected {shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("out must be contiguous and writable")
    return array


def _number(value: Any, name: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    return float(value)
