"""Merges equal edges into one with the sum or maximum of their weights: compile, merge row by row, compile again."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from ..sources.edge_blocks import Block, GraphFileSource
from .options import GraphRequest
from .reports import GraphReport

__all__ = ["MERGES", "compile_merged"]

MERGES = ("sum", "max")


def compile_merged(compile_one: Callable[[GraphRequest], GraphReport], asked: GraphRequest) -> GraphReport:
    """Compile a request of `compile_graph` with `dedup="sum"` or "max"."""
    how, out = str(asked.dedup), os.path.abspath(os.fspath(asked.out))
    if asked.ids is not None or asked.node_ids is not None:
        raise ValueError(f"dedup={how!r} cannot be combined with ids='map'; map the ids first, then compile again")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(out), prefix=".merging-") as folder:
        once = os.path.join(folder, "all.gl")
        first = compile_one(dataclasses.replace(asked, out=once, dedup=False))
        merged = _Merged(once, how)
        if not merged.has_weights:
            raise ValueError(f"dedup={how!r} needs edges with weights; without weights, use dedup=True")
        report = compile_one(
            GraphRequest(
                merged,
                out,
                directed=not merged.undirected,
                direction=asked.direction,
                num_nodes=merged.num_nodes,
                dedup=True,
                memory=asked.memory,
                num_threads=asked.num_threads,
                progress=asked.progress,
                spill_dir=asked.spill_dir,
            )
        )
    return dataclasses.replace(
        report,
        source_edges=first.source_edges,
        lines_skipped=first.lines_skipped,
        skipped_examples=first.skipped_examples,
        duplicates_dropped=merged.dropped,
        self_loops_dropped=first.self_loops_dropped,
        columns=first.columns,
        peak_memory=max(first.peak_memory, report.peak_memory),
        spilled_bytes=first.spilled_bytes + report.spilled_bytes,
        seconds={phase: first.seconds[phase] + report.seconds[phase] for phase in report.seconds},
    )


class _Merged(GraphFileSource):
    """The edges of a graph file, equal ones merged; id and time are those of the first in the source."""

    def __init__(self, path: str, how: str) -> None:
        super().__init__(path, once=True)
        self.num_edges = 0  # unknown until they are merged
        self._ufunc = np.add if how == "sum" else np.maximum
        self.dropped = 0

    def edge_blocks(self) -> Iterator[Block]:
        """Yield merged edges. Rows are sorted and blocks are whole rows, so equal edges are adjacent."""
        for block in super().edge_blocks():
            if not len(block):
                yield block
                continue
            fresh = np.empty(len(block), bool)
            fresh[0] = True
            np.not_equal(block.src[1:], block.src[:-1], out=fresh[1:])
            fresh[1:] |= block.dst[1:] != block.dst[:-1]
            first = np.flatnonzero(fresh)
            assert block.weights is not None
            self.dropped += len(block) - len(first)
            weights = self._ufunc.reduceat(block.weights.astype(np.float64), first).astype(np.float32)
            yield dataclasses.replace(block.part(first), weights=weights)
