"""What an import is going to do: where edges, features, labels and splits are, before any of them is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Plan"]


@dataclass
class Plan:
    """One dataset to make. Adapters for layouts fill it in; arguments of `import_dataset` override what they found."""

    kind: str  # for people: "edge list", "OGB folder"
    edges: Any  # anything compile_graph takes
    graph: dict[str, Any] = field(default_factory=dict)  # options of compile_graph
    features: dict[str, Any] = field(default_factory=dict)  # anything compile_features takes
    labels: Any = None  # one number a node
    splits: dict[str, Any] = field(default_factory=dict)  # ids or masks
    num_nodes: int | None = None  # as the layout declares it
    num_classes: int | None = None
    name: str | None = None
    about: dict[str, Any] = field(default_factory=dict)  # more for the manifest: names of classes
    found: list[str] = field(default_factory=list)  # what was seen in the source, a line each
