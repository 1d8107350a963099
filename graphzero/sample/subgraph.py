"""The result of sampling, and the generator of its random numbers."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..args.ids import IdArray

__all__ = ["Generator", "Subgraph", "resolve_seed"]

_SEEDS = 1 << 64


class Generator:
    """A sequence of seeds: each sampling call that is given a generator consumes its next seed.

    The same generator gives the same sequence of samples on every machine and for any number of threads. It consists of
    two numbers, `seed` and `position`, so it pickles, copies, and can be reset to an earlier `position`. It is
    thread-safe, but the order of calls decides which thread gets which seed.

    >>> import graphzero as gz
    >>> rng = gz.Generator(7)
    >>> first, second = rng.next_seed(), rng.next_seed()
    >>> first != second, rng.position
    (True, 2)
    >>> gz.Generator(7).next_seed() == first
    True
    """

    def __init__(self, seed: int | None = None, position: int = 0) -> None:
        """Start at `position` of the sequence of `seed`; None takes a fresh seed from the system."""
        self._seed = _checked(secrets.randbits(64) if seed is None else seed)
        self._position = _checked(position, "position")
        self._lock = threading.Lock()

    @property
    def seed(self) -> int:
        """The number that determines the whole sequence."""
        return self._seed

    @property
    def position(self) -> int:
        """The number of seeds consumed; assign to go back or ahead."""
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._position = _checked(value, "position")

    def next_seed(self) -> int:
        """Return the next seed, 0 to 2^64 - 1, and advance."""
        with self._lock:
            position = self._position
            self._position = (position + 1) % _SEEDS
        return int(_core.make_key(self._seed, [position]))

    def __reduce__(self) -> tuple[type[Generator], tuple[int, int]]:
        """Pickle and copy as the two numbers."""
        return (Generator, (self._seed, self._position))

    def __eq__(self, other: object) -> bool:
        """Compare the remaining sequences."""
        if not isinstance(other, Generator):
            return NotImplemented
        return (self._seed, self._position) == (other._seed, other._position)

    __hash__ = None  # type: ignore[assignment]  # it advances

    def __repr__(self) -> str:
        """Return `Generator(7, position=2)`."""
        return f"Generator({self._seed}, position={self._position})"


def resolve_seed(seed: Any) -> int:
    """Return the 64-bit seed for `seed`.

    None takes fresh entropy from the system; an int is used directly; a `gz.Generator`, a `numpy.random.Generator` or a
    `torch.Generator` yields its next number, so that repeated calls differ and the whole run is reproducible.

    >>> resolve_seed(7)
    7
    """
    if seed is None:
        return secrets.randbits(64)
    if isinstance(seed, Generator):
        return seed.next_seed()
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(0, _SEEDS, dtype=np.uint64))
    if type(seed).__module__.split(".")[0] == "torch" and hasattr(seed, "initial_seed"):
        import torch

        high, low = torch.randint(0, 1 << 32, (2,), generator=seed, device=seed.device).tolist()
        return int(high) << 32 | int(low)
    return _checked(seed)


def _checked(value: Any, name: str = "seed") -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, a Generator or None, got {type(value).__name__}")
    number = int(value.__index__())
    if not 0 <= number < _SEEDS:
        raise ValueError(f"{name} is {number}, expected 0 to 2^64 - 1")
    return number


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A sampled neighbourhood with PyG's conventions, as NumPy int64 arrays.

    `node` holds the ids of the subgraph's nodes: the seeds first, in the given order and with duplicates, so that
    `node[:len(seeds)]` equals the seeds, then every other node once, in the order in which it was sampled. Edges point
    from `row` (the neighbour) to `col` (the expanded node), both indices into `node`, grouped by hop; edges refer to
    the first copy of a repeated seed.

    `edge` is the edge id, the position of an edge in the source, if the file has edge ids, otherwise its position in
    the file's rows. `batch` is the index of the tree of each node, and is None unless disjoint.
    """

    node: IdArray
    row: IdArray
    col: IdArray
    edge: IdArray
    batch: IdArray | None
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    edge_index: IdArray
    """(2, E): `row` and `col` stacked, sharing their memory."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.node)

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return len(self.edge)

    @property
    def num_hops(self) -> int:
        """The number of hops."""
        return len(self.num_sampled_nodes) - 1

    def to_torch(self) -> dict[str, Any]:
        """The arrays as torch tensors that share their memory, with the names of PyG's batches.

        Keys: n_id, e_id, edge_index, batch (None unless disjoint), num_sampled_nodes, num_sampled_edges.
        """
        import torch

        return {
            "n_id": torch.from_numpy(self.node),
            "e_id": torch.from_numpy(self.edge),
            "edge_index": torch.from_numpy(self.edge_index),
            "batch": None if self.batch is None else torch.from_numpy(self.batch),
            "num_sampled_nodes": list(self.num_sampled_nodes),
            "num_sampled_edges": list(self.num_sampled_edges),
        }

    def __repr__(self) -> str:
        """Return `Subgraph(num_nodes=5, num_edges=4, num_hops=2)`."""
        disjoint = ", disjoint" if self.batch is not None else ""
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes:,}, num_edges={self.num_edges:,}, "
            f"num_hops={self.num_hops}{disjoint})"
        )
