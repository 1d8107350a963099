"""Columns of edges as model inputs: each relation with a table has an encoder, whose rows enter its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..dataset.columns import Column
from ..dataset.dataset import Dataset
from ..sample.hetero_subgraph import EdgeTypeName
from ..stores.features import FeatureStore
from .records import TrainOptions

__all__ = ["EdgeInputs", "table_spec"]


class EdgeInputs:
    """The columns of the edge types of a dataset. A reversed relation has those of the relation that it reverses."""

    def __init__(self, data: Any, options: TrainOptions) -> None:
        """Find the relations that have columns; no data is read."""
        self.stores: dict[EdgeTypeName, dict[str, FeatureStore]] = {}  # the arrays that a loader reads
        self.specs: dict[str, dict[str, Any]] = {}  # the arguments of encoders, by name of the relation
        self.notes: list[str] = []
        for key, edge in data.edges.items():
            columns = _columns(data, key)
            if not columns or not edge.num_edges:
                continue
            if not edge.graph.has_edge_ids:
                self.notes.append(f"columns of edges {' '.join(key)} are not used: {edge.graph.path} has no edge ids")
                continue
            arrays = dict.fromkeys(column.array for column in columns)
            aliases = {array: f"column_{number}" for number, array in enumerate(arrays)}
            self.stores[key] = {alias: edge.features[array] for array, alias in aliases.items()}
            self.specs[" ".join(key)] = table_spec(columns, edge.features, aliases, options.table_encoder)

    def rows(self, model: nn.Module, batch: Any, seed_times: Mapping[str, Tensor | None]) -> dict[EdgeTypeName, Tensor]:
        """Return the encoded rows of the edges of a batch; `seed_times` has the time of each node's seed by type."""
        encoders = getattr(model, "edge_encoders", None)
        found: dict[EdgeTypeName, Tensor] = {}
        for key in self.stores:
            edges = batch[key].edge_index
            if encoders is not None and edges.shape[1]:
                times = seed_times.get(key[2])
                found[key] = encoders(" ".join(key), batch[key], None if times is None else times[edges[1]])
        return found

    def describe(self) -> dict[str, str]:
        """Describe the columns of each relation."""
        return {name: f"{len(spec['columns'])} columns" for name, spec in self.specs.items()}


def table_spec(
    columns: list[Column], features: Mapping[str, Any], aliases: Mapping[str, str], combine: str
) -> dict[str, Any]:
    """Return the description of a TableEncoder as JSON values; `aliases` has the names that loaders use by array."""
    return {
        "kind": "table",
        "columns": [column.to_dict() for column in columns],
        "widths": {c.array: features[c.array].feature_dim for c in columns if c.kind == "embedding"},
        "combine": combine,
        "aliases": dict(aliases),
        "time_scale": 1.0,
    }


def _columns(data: Dataset, key: EdgeTypeName) -> list[Column]:
    own = data.edges[key]
    source, relation, target = key
    forward = (target, relation.removeprefix("rev_"), source)
    if not own.columns and relation.startswith("rev_") and forward in list(data.edges):
        shared = data.edges[forward]
        if set(shared.features) == set(own.features):
            return list(shared.columns.values())
    return list(own.columns.values())
