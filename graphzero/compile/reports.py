"""The reports that the compilers return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..args.dtypes import Loss
from ..args.html_table import HtmlReport
from ..args.sizes import format_size

__all__ = ["FeatureReport", "GraphReport"]


@dataclass(frozen=True)
class GraphReport(HtmlReport):
    """The result of `compile_graph`."""

    path: str
    nodes: int  # the sources, if sources and targets are different nodes
    edges: int  # stored, in each direction of the file
    source_edges: int  # read
    bytes: int  # of the file
    seconds: dict[str, float]  # "reading", "sorting", "publishing" (sync and rename) and their sum, "total"
    peak_memory: int  # peak size of the engine's buffers, without Python and the page cache
    spilled_bytes: int
    targets: int = 0  # same as `nodes`, unless sources and targets are different nodes
    lines_skipped: int = 0
    duplicates_dropped: int = 0
    self_loops_dropped: int = 0
    skipped_examples: list[str] = field(default_factory=list)  # the first few lines that were skipped, and why
    id_map: str | None = None  # the file that maps original ids, if they were mapped
    columns: list[str] = field(default_factory=list)  # the meaning of each column of the source

    @classmethod
    def of(cls, path: str, done: dict[str, Any], reader: Any, seconds: dict[str, float], **more: Any) -> GraphReport:
        """Report what a builder has written, and what its reader found; `more` fields take precedence."""
        written = ("nodes", "edges", "source_edges", "bytes", "spilled_bytes")
        fields = {name: done[name] for name in (*written, "duplicates_dropped", "self_loops_dropped")} | more
        fields |= {"lines_skipped": reader.skipped, "skipped_examples": reader.examples, "columns": reader.columns}
        return cls(path=path, seconds={**seconds, "total": sum(seconds.values())}, **fields)

    def _nodes(self) -> str:
        if self.targets in (0, self.nodes):
            return f"{self.nodes:,} nodes"
        return f"{self.nodes:,} source and {self.targets:,} target nodes"

    def __str__(self) -> str:
        """Return a short summary."""
        total = self.seconds["total"]
        lines = [
            f"{self.path}: {self._nodes()}, {self.edges:,} edges, {format_size(self.bytes)}",
            f"  {total:.2f} s ({self.source_edges / max(total, 1e-9):,.0f} edges/s): "
            + ", ".join(f"{phase} {s:.2f} s" for phase, s in self.seconds.items() if phase != "total"),
            f"  peak memory {format_size(self.peak_memory)}, spilled {format_size(self.spilled_bytes)}",
            *(f"  {line}" for line in self.columns),
        ]
        for count, what in (
            (self.lines_skipped, "line skipped" if self.lines_skipped == 1 else "lines skipped"),
            (self.duplicates_dropped, "duplicate edges dropped"),
            (self.self_loops_dropped, "self-loops dropped"),
        ):
            if count:
                lines.append(f"  {count:,} {what}")
        return "\n".join(lines + [f"    {example}" for example in self.skipped_examples])


@dataclass(frozen=True)
class FeatureReport(HtmlReport):
    """The result of `compile_features`."""

    path: str
    nodes: int
    arrays: dict[str, tuple[tuple[int, ...], str]]  # name: (shape, dtype)
    bytes: int
    seconds: dict[str, float]  # "writing", "publishing" (sync and rename) and their sum, "total"
    peak_memory: int  # peak size of the engine's buffers, without NumPy and the page cache
    lines_skipped: int = 0
    rows_missing: int = 0  # ids without a line in a text file: rows of zeros
    skipped_examples: list[str] = field(default_factory=list)
    losses: dict[str, Loss] = field(default_factory=dict)  # by array: the rounding error, if requested

    def __str__(self) -> str:
        """Return a short summary."""
        arrays = ", ".join(f"{name} {shape} {dtype}" for name, (shape, dtype) in self.arrays.items())
        total = self.seconds["total"]
        lines = [
            f"{self.path}: {self.nodes:,} nodes, {arrays}, {format_size(self.bytes)}",
            f"  {total:.2f} s ({format_size(self.bytes / max(total, 1e-9))}/s), publishing "
            f"{self.seconds['publishing']:.2f} s of it",
        ]
        lines += [f"  {name} {loss}" for name, loss in self.losses.items()]
        if self.lines_skipped:
            lines.append(f"  {self.lines_skipped:,} line{'s' * (self.lines_skipped != 1)} skipped")
        if self.rows_missing:
            lines.append(f"  {self.rows_missing:,} ids had no line; their rows are zeros")
        return "\n".join(lines + [f"    {example}" for example in self.skipped_examples])
