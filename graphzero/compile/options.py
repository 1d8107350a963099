"""The options of a graph: the arguments of `compile_graph`, and those of the native builder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..args.progress import Callback

__all__ = ["GraphOptions", "GraphRequest"]


@dataclass(frozen=True)
class GraphRequest:
    """The arguments of `compile_graph`, which documents them."""

    source: Any
    out: str | os.PathLike[str]
    directed: bool | None = None
    direction: str = "out"
    weights: Any = None
    times: Any = None
    edge_ids: bool | None = None
    num_nodes: int | tuple[int | None, int | None] | None = None
    num_sources: int | None = None
    num_targets: int | None = None
    dedup: bool | str = False
    self_loops: bool = True
    memory: int | float | str = "1GB"
    num_threads: int | None = None
    progress: bool | Callback | None = None
    on_error: str = "raise"
    delimiter: str | None = None
    header: bool | None = None
    columns: Sequence[int | str] | None = None
    id_base: int | None = None
    spill_dir: str | os.PathLike[str] | None = None
    ids: str | None = None
    node_ids: Any = None
    allow_empty: bool = False

    def spill_folder(self, target: str) -> str:
        """Return the folder for temporary files: that of the target unless `spill_dir` is given."""
        if self.spill_dir is None:
            return os.path.dirname(target)
        folder = os.path.abspath(os.fspath(self.spill_dir))
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"spill_dir: {folder}: no such folder")
        return folder


@dataclass(frozen=True)
class GraphOptions:
    """The options of the native builder."""

    directed: bool
    direction: str
    weights: bool
    times: bool
    edge_ids: bool
    memory: int
    threads: int
    spill_folder: str
    given_edge_ids: bool = False  # they come with the edges
    num_nodes: int | None = None
    two_sided: bool = False
    num_targets: int | None = None
    dedup: bool = False
    self_loops: bool = True
    id_base: int = 0

    def builder(self, progress: Callback | None, first_edge: int = 0, runs_path: str = "") -> _core.GraphBuilder:
        """Return a builder; with `runs_path` it writes sorted runs there, of edges numbered from `first_edge`."""
        return _core.GraphBuilder(**vars(self), progress=progress, first_edge=first_edge, runs_path=runs_path)
