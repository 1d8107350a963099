"""Vectors of nodes by random walks and skip-gram, and the nearest neighbours among vectors."""

from __future__ import annotations

from .embed import embed
from .neighbours import Neighbours, neighbours

__all__ = ["Neighbours", "embed", "neighbours"]
