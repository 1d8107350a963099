"""Task tables in the manifest: rows of (node, time, label) to learn, by split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["TaskEntry", "read_task", "task_json"]


@dataclass(frozen=True)
class TaskEntry:
    """One task table: a `.gd` file for each split, with the arrays `ids`, `labels` and optionally `times`."""

    entity: str
    kind: str
    classes: int
    splits: dict[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of the classes
    dated: bool = True  # times are dates, in the unit of the dataset; otherwise plain numbers

    def renamed(self, names: Mapping[str, str]) -> TaskEntry:
        """Return the same task with its files under other names."""
        return replace(self, splits={split: names[file] for split, file in self.splits.items()})


def read_task(reader: Any, value: Any, where: str, kinds: tuple[str, ...]) -> TaskEntry:
    """Check a task, parsed from JSON, with the `reader` of the manifest."""
    entry = reader.object(value, where, ("entity", "kind", "classes", "splits"), ("names", "dated"))
    if entry["kind"] not in kinds:
        reader.fail(f"{where}.kind", repr(entry["kind"])[:80], f"one of {', '.join(kinds)}")
    names = entry.get("names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        reader.fail(f"{where}.names", repr(names)[:80], "a list of names")
    dated = entry.get("dated", True)
    if not isinstance(dated, bool):
        reader.fail(f"{where}.dated", repr(dated)[:80], "true or false")
    files = reader.table(entry["splits"], f"{where}.splits", lambda file, place: reader.file(file, place, ".gd"))
    entity = reader.text(entry["entity"], f"{where}.entity")
    classes = reader.whole(entry["classes"], f"{where}.classes", 1)
    return TaskEntry(entity, entry["kind"], classes, files, tuple(names), dated)


def task_json(task: TaskEntry) -> dict[str, Any]:
    """The task as JSON values."""
    out: dict[str, Any] = {"entity": task.entity, "kind": task.kind, "classes": task.classes}
    out["splits"] = dict(task.splits)
    out |= {"names": list(task.names)} if task.names else {}
    return out if task.dated else {**out, "dated": False}
