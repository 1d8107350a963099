"""Nodes or edges that are in two splits: scores of the later split are then too high."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..dataset.split_overlap import shared_ids

__all__ = ["overlap_notes"]


def overlap_notes(task: Any) -> Iterator[str]:
    """Yield a note for each two splits of a task that share seeds.

    Rows of a task table with times are not compared: a node may be a seed at several times. Nor are edges that are
    given by their ends.
    """
    if getattr(task, "table", None) is not None and any(seeds.times is not None for seeds in task.splits.values()):
        return
    found = {name: getattr(task.splits.get(name), "ids", task.splits.get(name)) for name in ("train", "valid", "test")}
    what = "edge" if task.options.task == "links" else "node"
    for one, other, count in shared_ids(found):
        shared = f"{count:,} {what}{'s' * (count != 1)}"
        yield f"splits {one!r} and {other!r} share {shared}, so scores of {other!r} are too high"
