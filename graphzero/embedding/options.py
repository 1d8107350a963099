"""The options of training, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..args.ids import as_count
from ..sample.subgraph import resolve_seed

__all__ = ["METHODS", "SkipGram"]

METHODS = ("node2vec", "deepwalk")


@dataclass(frozen=True)
class SkipGram:
    """What is trained, whatever trains it. The core checks ranges."""

    dim: int
    walk_length: int
    walks_per_node: int
    epochs: int
    window: int
    negatives: int
    p: float
    q: float
    weighted: bool
    direction: str | None
    seed: int

    @classmethod
    def checked(
        cls, method: str, p: Any, q: Any, weighted: Any, direction: str | None, seed: Any, **counts: Any
    ) -> SkipGram:
        """Return the options; raise TypeError or ValueError for those that make no sense."""
        if method not in METHODS:
            raise ValueError(f"method is {method!r}, expected {' or '.join(map(repr, METHODS))}")
        if method == "deepwalk" and (p != 1 or q != 1):
            raise ValueError(f"p is {p} and q is {q}; DeepWalk has neither, use method='node2vec'")
        if direction not in (None, "out", "in"):
            raise ValueError(f"direction is {direction!r}, expected 'out' or 'in'")
        least: dict[str, Any] = {name: as_count(value, name, least=1) for name, value in counts.items()}
        walk: dict[str, Any] = {"p": as_number(p, "p"), "q": as_number(q, "q"), "direction": direction}
        return cls(**least, **walk, weighted=bool(weighted), seed=resolve_seed(seed))


def as_number(value: Any, name: str) -> float:
    """Return a float; raise TypeError for what is not a number."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    return float(value)
